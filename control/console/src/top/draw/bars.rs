//! The lines above and below the tables: the switch, the tabs and the keys.

use ratatui::Frame;
use ratatui::crossterm::event::KeyCode;
use ratatui::layout::Rect;
use ratatui::style::Stylize;
use ratatui::text::{Line, Span};

use super::{ACCENT, BAD, DIM, ESTIMATE, GOOD, SELECTED};
use crate::top::app::{App, View};
use crate::top::choice::{Tab, span};
use contract::units::uptime;
use records::snapshot::State;

/// Switch, state and epoch; on a narrow screen only the most important parts.
pub(super) fn headline(app: &App, width: u16) -> Line<'static> {
    let snapshot = &app.snapshot;
    let epoch = match snapshot.epoch {
        _ if !snapshot.measuring => "measurement off".to_owned(),
        Some(epoch) => format!("epoch {epoch} of {} ms", snapshot.interval_ms),
        None => "first epoch".to_owned(),
    };
    // Parts with ranks: the part with the highest rank is left out first, of equal ranks the last.
    let mut parts = vec![
        (2, Span::styled(snapshot.version.clone(), DIM)),
        (0, Span::from(name(app).to_owned()).bold()),
        (0, state(app)),
        (1, Span::from(epoch)),
        (3, Span::from(format!("up {}", uptime(snapshot.uptime_s)))),
    ];
    if let Some(paused) = app.paused {
        let words = format!(" PAUSED since {} ", paused.clock());
        parts.insert(3, (0, Span::from(words).fg(ESTIMATE).reversed()));
    }
    for (index, worker) in snapshot.workers.iter().enumerate() {
        let busy = worker.busy_ratio * 100.0;
        parts.push(if worker.is_stalled {
            let words = format!("worker {index} STALLED");
            (0, Span::from(words).fg(BAD).bold())
        } else {
            (1, Span::from(format!("worker {index} {busy:.0}% busy")))
        });
    }
    let program = Span::from(" vernier").fg(ACCENT).bold();
    let separator = Span::styled(" | ", DIM);
    let length = |parts: &[(u8, Span<'static>)]| -> usize {
        let widths = parts.iter().map(|(_, part)| part.width());
        program.width() + parts.len() * separator.width() + widths.sum::<usize>()
    };
    while length(&parts) > usize::from(width) {
        let first = parts.iter().enumerate().max_by_key(|(_, (rank, _))| *rank);
        match first {
            Some((index, (rank, _))) if *rank > 0 => drop(parts.remove(index)),
            _ => break,
        }
    }
    let mut line = Line::from(program);
    line.extend(
        parts
            .into_iter()
            .flat_map(|(_, part)| [separator.clone(), part]),
    );
    line
}

/// The switch's name, or its address as long as it has not answered.
pub(super) fn name(app: &App) -> &str {
    if app.snapshot.switch.is_empty() {
        &app.address
    } else {
        &app.snapshot.switch
    }
}

/// Whether the switch runs, or for how long it has been silent.
pub(super) fn state(app: &App) -> Span<'static> {
    let silent = app.silent_for().map(|silent| silent.as_secs_f64());
    match (silent, app.snapshot.state) {
        (Some(seconds), _) => Span::from(format!("NO ANSWER for {}", uptime(seconds)))
            .fg(BAD)
            .bold(),
        (None, State::Running) => Span::from("running").fg(GOOD),
        (None, state) => Span::from(state.label()).fg(ESTIMATE),
    }
}

/// Returns where a click on a tab is the press of a key.
pub(super) fn draw_tabs(
    frame: &mut Frame,
    area: Rect,
    app: &App,
    switches: usize,
    is_listed: bool,
) -> Vec<(Rect, KeyCode)> {
    let list = (switches > 1).then_some(('0', "switches", is_listed));
    let tabs = Tab::ALL.into_iter().zip('1'..);
    let tabs = tabs.map(|(tab, key)| (key, tab.label(), !is_listed && tab == app.tab));
    let mut x = area.x;
    let draw = |(key, label, is_shown)| {
        let text = format!(" {key} {label} ");
        let place = Rect {
            x: x + 1,
            width: u16::try_from(text.len()).unwrap_or(0),
            ..area
        };
        let place = place.intersection(area);
        x = place.right();
        let style = if is_shown { SELECTED } else { DIM };
        frame.render_widget(Span::styled(text, style), place);
        (place, KeyCode::Char(key))
    };
    list.into_iter().chain(tabs).map(draw).collect()
}

/// An error, the text being typed, or the keys.
pub(super) fn footline(app: &App, is_listed: bool) -> Line<'_> {
    if app.is_typing {
        let typed = Span::from(format!(" /{}", app.filter)).fg(ACCENT).bold();
        return Line::from(vec![typed, "_  Enter keeps it, Escape drops it".into()]);
    }
    if let Some(trouble) = &app.trouble {
        return Line::from(format!(" {trouble}")).fg(BAD).bold();
    }
    let filter = format!("filter: {}", app.filter);
    let filter = if app.filter.is_empty() {
        "filter"
    } else {
        filter.as_str()
    };
    let mut keys = match (&app.view, is_listed) {
        (_, true) => vec![("q", "quit"), ("up/down", "select"), ("Enter", "show it")],
        (View::Flow(_) | View::Help, _) => {
            vec![("Esc", "back"), ("up/down", "scroll"), ("q", "quit")]
        }
        (View::Table, _) => vec![
            ("q", "quit"),
            ("?", "keys"),
            ("/", filter),
            ("s", app.sort().label()),
            ("c", app.chart().label()),
            ("w", span(app.width).0),
        ],
    };
    keys.push((
        "p",
        if app.paused.is_some() {
            "go on"
        } else {
            "pause"
        },
    ));
    if app.is_table() && !is_listed && app.tab == Tab::Flows {
        keys.push(("Enter", "one flow"));
    }
    let spans = keys.into_iter().flat_map(|(key, what)| {
        let key = Span::from(format!(" {key}")).fg(ACCENT).bold();
        [key, Span::from(format!(" {what} "))]
    });
    spans.collect()
}
