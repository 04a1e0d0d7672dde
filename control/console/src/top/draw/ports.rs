//! Ports, and all that one of them counts.

use ratatui::Frame;
use ratatui::layout::{Constraint, Layout, Rect};
use ratatui::style::Style;
use ratatui::widgets::{Paragraph, Wrap};

use super::table::Columns;
use super::{BAD, FRAME, draw_table, framed, remark, title};
use crate::top::app::App;
use crate::view::{PORT_HEADINGS, dropped, port_row};
use contract::units::count;
use records::snapshot::{Port, QueueCounts};

/// The table of ports; one is marked if it is to be.
pub(super) fn draw(frame: &mut Frame, area: Rect, ports: &[&Port], selected: Option<usize>) {
    let rows = ports.iter().map(|port| {
        let style = move |heading: &str| match heading {
            "port" if !port.facts.is_up => Style::new().fg(BAD),
            "dropped" if port.dropped_packets() > 0 => Style::new().fg(BAD),
            _ => Style::new(),
        };
        (port_row(port), style)
    });
    let mut table = Columns::new(PORT_HEADINGS, rows.collect());
    table.fit(area, &["sent", "received", "queued"]);
    draw_table(frame, area, table.widget(), "ports", selected);
}

pub(super) fn tab(frame: &mut Frame, area: Rect, app: &App) {
    let ports = app.ports();
    let index = app.port_index(&ports);
    let Some(port) = ports.get(index) else {
        return remark(frame, area, "ports", "no port of this name");
    };
    let rows = u16::try_from(ports.len() + FRAME).unwrap_or(u16::MAX);
    let [list, detail] =
        Layout::vertical([Constraint::Max(rows), Constraint::Min(area.height / 2)]).areas(area);
    draw(frame, list, &ports, Some(index));
    let text = Paragraph::new(words(port)).wrap(Wrap { trim: false });
    frame.render_widget(text.block(framed(title(port.name.clone()))), detail);
}

/// Its device, its drops, its queues and its neighbours.
fn words(port: &Port) -> String {
    let facts = &port.facts;
    let link = if facts.is_up { "up" } else { "down" };
    let mut lines = vec![format!(
        " {}, link {link}, went down {} times",
        facts.driver,
        count(facts.link_flaps)
    )];
    if let Some(device) = &facts.device {
        lines.push(format!(
            " device: {} missed, {} without a buffer, {} receive errors, {} transmit errors",
            count(device.missed_packets),
            count(device.no_buffer_packets),
            count(device.rx_error_packets),
            count(device.tx_error_packets)
        ));
    }
    lines.push(format!(" dropped: {}", dropped(&port.drops)));
    lines.extend(port.queues.iter().map(queue_words));
    lines.extend(
        port.neighbours
            .iter()
            .map(|neighbour| format!(" neighbour: {}, port {}", neighbour.system, neighbour.port)),
    );
    lines.join("\n")
}

fn queue_words(queue: &QueueCounts) -> String {
    let QueueCounts {
        queue,
        counts,
        drops,
    } = queue;
    format!(
        " queue {queue}: {} packets now, dropped {}",
        count(counts.packets),
        dropped(drops)
    )
}
