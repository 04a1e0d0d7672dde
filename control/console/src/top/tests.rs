use std::sync::Arc;

use ratatui::Frame;
use ratatui::crossterm::event::{
    KeyCode, KeyEvent, KeyModifiers, MouseButton, MouseEvent, MouseEventKind,
};

use super::app::View;
use super::choice::{Chart, Sort};
use super::source::{Request, Update};
use super::*;
use contract::config::{Config, Device};
use records::answers::{CourseQuery, FlowOrder, FlowPage, FlowScope, FlowState, Width};
use records::history::{Bucket, Course};
use records::snapshot::{AnsweredFlow, FlowAnswer, Snapshot};

const URL: &str = "http://x";

fn screen_of(app: &App, width: u16, height: u16) -> Vec<String> {
    drawn(width, height, |frame| {
        draw::draw(frame, std::slice::from_ref(app), 0, false);
    })
}

fn drawn(width: u16, height: u16, draw: impl FnOnce(&mut Frame)) -> Vec<String> {
    let mut terminal = Terminal::new(TestBackend::new(width, height)).unwrap();
    terminal.draw(draw).unwrap();
    let buffer = terminal.backend().buffer().clone();
    let row = |y| {
        (0..width)
            .map(|x| buffer[(x, y)].symbol().to_owned())
            .collect::<String>()
    };
    (0..height).map(|y| row(y).trim_end().to_owned()).collect()
}

fn screen(app: &App) -> Vec<String> {
    screen_of(app, 100, 30)
}

fn assert_shows(screen: &[String], text: &str) {
    assert!(
        screen.iter().any(|line| line.contains(text)),
        "{text:?} in\n{}",
        screen.join("\n")
    );
}

fn app() -> App {
    App::new(URL.to_owned(), Arc::new(Snapshot::example()))
}

fn press(app: &mut App, code: KeyCode) -> KeyEffect {
    app.press(KeyEvent::new(code, KeyModifiers::NONE))
}

/// The source answers the app's request.
fn answer(app: &mut App, snapshot: Snapshot) {
    app.take(Ok(update(app, snapshot)));
}

/// The source's response to the app's request.
fn update(app: &App, snapshot: Snapshot) -> Update {
    let request = app.request();
    let course = |width_s| Course {
        width_s,
        buckets: vec![Bucket {
            start_unix_s: 1_699_999_990.0,
            packets: 10,
            mean_ns: 400_000.0,
            estimated_mean_ns: Some(401_000.0),
            ..Bucket::default()
        }],
    };
    Update {
        course: (request.course.as_ref()).map(|query| course(query.width_s.unwrap().seconds())),
        flows: request.flows.as_ref().map(|_| page(&[80, 443])),
        flow: request.flow.map(|name| FlowAnswer {
            flow: name.to_string(),
            tracked: vec![AnsweredFlow {
                flow: page(&[80]).flows.remove(0),
                courses: Vec::new(),
            }],
            ..FlowAnswer::default()
        }),
        request,
        snapshot: Arc::new(snapshot),
    }
}

/// Flows to these ports.
fn page(ports: &[u16]) -> FlowPage {
    let example = Snapshot::example().flows.unwrap().top[0].flow.clone();
    let flows = ports.iter().map(|port| {
        let mut flow = example.clone();
        flow.flow = format!("10.0.0.1:1024>10.0.0.2:{port}/tcp");
        flow
    });
    FlowPage {
        epoch: Some(81),
        epoch_end_unix_s: Some(1_700_000_000.25),
        scope: FlowScope::All,
        state: FlowState::Active,
        matching: 50_000,
        offset: 0,
        flows: flows.collect(),
    }
}

fn unreachable() -> ClientError {
    ClientError::Unreachable {
        url: URL.to_owned(),
        reason: "gone".to_owned(),
    }
}

#[test]
fn the_screen_holds_headline_tabs_segments_chart_ports_and_keys() {
    let mut app = app();
    answer(&mut app, Snapshot::example());
    let screen = screen(&app);
    assert_eq!(
        screen[0],
        " vernier | 0.1.0 | demo | running | epoch 81 of 250 ms | up 20s | worker 0 25% busy"
    );
    assert_eq!(
        screen[1],
        "  1 segments   2 flows   3 classes   4 ports   5 wires"
    );
    for text in [
        "segment    packets/s  lost/s     loss    mean  stddev      p99    p99.9   p99.99      max",
        "80.0 k    48.0  0.060 %  412 us",
        "delay of east>west, last minute: mean 400 us  LDA 401 us",
        "-60 s",
        "west  80.1 k",
        " q quit  ? keys  / filter  s as configured  c delay  w last minute  p pause",
    ] {
        assert_shows(&screen, text);
    }
}

#[test]
fn eighty_columns_hold_whole_columns_and_the_chart() {
    let mut app = app();
    let mut many = Snapshot::example();
    for n in 0..20 {
        let mut segment = many.segments[0].clone();
        segment.ingress = format!("p{n}");
        many.segments.push(segment);
        many.ports.push(many.ports[0].clone());
    }
    answer(&mut app, many);
    let screen = screen_of(&app, 80, 24);
    let headline = &screen[0];
    assert!(
        headline.ends_with("worker 0 25% busy") && !headline.contains("up 20s"),
        "{headline}"
    );
    for text in [
        "segment    packets/s  lost/s     loss    mean      p99    p99.9      max",
        "delay of east>west, last minute",
        "now",
        "port    rx/s  rx dropped    tx/s  tx dropped  queued  dropped/s",
        "w last minute  p pause",
    ] {
        assert_shows(&screen, text);
    }
    assert!(screen.iter().all(|line| !line.contains("samples")));
}

#[test]
fn any_size_of_terminal_will_do() {
    for (width, height) in [(1, 1), (20, 5), (60, 12), (70, 20), (300, 100)] {
        for snapshot in [Snapshot::example(), Snapshot::default()] {
            let mut app = App::new(URL.to_owned(), Arc::new(snapshot.clone()));
            for key in ['1', '2', '3', '4', '5', '?'] {
                press(&mut app, KeyCode::Char(key));
                screen_of(&app, width, height);
                answer(&mut app, snapshot.clone());
                screen_of(&app, width, height);
            }
        }
    }
}

#[test]
fn the_selection_moves_within_the_order_shown() {
    let mut app = app();
    assert_eq!(press(&mut app, KeyCode::Up), KeyEffect::Stay);
    assert_eq!(app.selected, 0);
    press(&mut app, KeyCode::Down);
    press(&mut app, KeyCode::Down);
    assert_eq!(app.selected, 1);
    assert_shows(&screen(&app), "delay of west>east");
    press(&mut app, KeyCode::Home);
    assert_eq!(app.selected, 0);
    press(&mut app, KeyCode::End);
    assert_eq!(app.selected, 1);
}

#[test]
fn the_selection_stays_with_its_segment_when_others_come_and_go() {
    let mut app = app();
    press(&mut app, KeyCode::End);
    let mut snapshot = Snapshot::example();
    snapshot.segments.insert(0, snapshot.segments[0].clone());
    answer(&mut app, snapshot);
    assert_eq!(app.selected, 2);
    let mut without = Snapshot::example();
    without.segments.truncate(1);
    answer(&mut app, without);
    assert_eq!(app.selected, 0);
}

#[test]
fn sorting_puts_the_greatest_first_and_keeps_the_selection() {
    let mut snapshot = Snapshot::example();
    snapshot.segments.swap(0, 1);
    let mut app = App::new(URL.to_owned(), Arc::new(snapshot));
    assert_eq!(app.order(), [0, 1]);
    let mut seen = vec![app.sort()];
    for _ in 0..7 {
        press(&mut app, KeyCode::Char('s'));
        seen.push(app.sort());
        assert_eq!(app.order(), [1, 0], "{:?}", app.sort());
        assert_eq!(app.selected, 0, "the silent segment, now in the second row");
    }
    assert!(seen.contains(&Sort::Stddev) && seen.contains(&Sort::P99));
    press(&mut app, KeyCode::Char('s'));
    assert_eq!(app.sort(), Sort::Configuration);
}

#[test]
fn the_least_comes_first_on_request_and_what_has_no_figure_last() {
    let mut snapshot = Snapshot::example();
    let mut slower = snapshot.segments[0].clone();
    slower.ingress = "south".to_owned();
    slower
        .last
        .as_mut()
        .unwrap()
        .stamped
        .as_mut()
        .unwrap()
        .mean_ns *= 2.0;
    snapshot.segments.push(slower);
    let mut app = App::new(URL.to_owned(), Arc::new(snapshot));
    press(&mut app, KeyCode::Char('r'));
    assert_eq!(app.order(), [2, 1, 0]);
    for _ in 0..3 {
        press(&mut app, KeyCode::Char('s'));
    }
    assert_eq!((app.sort(), app.order()), (Sort::Mean, vec![2, 0, 1]));
    assert_shows(&screen(&app), "mean\u{25bc}");
    press(&mut app, KeyCode::Char('r'));
    assert_eq!(app.order(), [0, 2, 1]);
    assert_shows(&screen(&app), "mean\u{25b2}");
}

#[test]
fn tabs_are_reached_by_number_and_by_the_tab_key() {
    let mut app = app();
    for (key, tab) in [
        (KeyCode::Char('4'), Tab::Ports),
        (KeyCode::Tab, Tab::Wires),
        (KeyCode::Tab, Tab::Segments),
        (KeyCode::BackTab, Tab::Wires),
        (KeyCode::Char('3'), Tab::Classes),
        (KeyCode::Char('2'), Tab::Flows),
        (KeyCode::Char('1'), Tab::Segments),
    ] {
        press(&mut app, key);
        assert_eq!(app.tab, tab);
    }
}

#[test]
fn only_what_is_shown_is_asked_for() {
    let mut app = app();
    let course = |width| Request {
        course: Some(CourseQuery {
            ingress: Some("east".to_owned()),
            egress: Some("west".to_owned()),
            class: Some("all".to_owned()),
            width_s: Some(width),
            offset: 0,
            limit: 1,
        }),
        ..Request::default()
    };
    for width in Width::ALL.into_iter().chain([Width::Second]) {
        assert_eq!(app.request(), course(width));
        press(&mut app, KeyCode::Char('w'));
    }
    press(&mut app, KeyCode::Char('2'));
    let orders = [
        FlowOrder::Packets,
        FlowOrder::Lost,
        FlowOrder::Mean,
        FlowOrder::Stddev,
    ];
    for order in orders {
        let request = app.request();
        assert_eq!((request.course, request.flows.unwrap().sort), (None, order));
        press(&mut app, KeyCode::Char('s'));
    }
    press(&mut app, KeyCode::Char('3'));
    assert_eq!(app.request(), Request::default());
}

#[test]
fn a_course_is_shown_for_what_it_is_of() {
    let mut app = app();
    assert_shows(&screen(&app), "asking ...");
    answer(&mut app, Snapshot::example());
    assert!(app.course().is_some());
    assert_shows(&screen(&app), "461 us");
    press(&mut app, KeyCode::Char('w'));
    assert_eq!(app.width, Width::TenSeconds);
    assert!(app.course().is_none(), "that of the last minute");
    assert_shows(&screen(&app), "delay of east>west, last ten minutes");
    press(&mut app, KeyCode::Char('w'));
    press(&mut app, KeyCode::Char('w'));
    assert!(app.course().is_some());
    press(&mut app, KeyCode::Down);
    assert!(app.course().is_none(), "that of the other segment");
}

#[test]
fn flows_are_listed_and_the_selected_one_is_shown_in_full() {
    let mut app = app();
    press(&mut app, KeyCode::Char('2'));
    assert_shows(&screen(&app), "asking ...");
    answer(&mut app, Snapshot::example());
    let lines = screen(&app);
    assert_shows(&lines, "flows: the first 2 of 50000 by packets/s");
    let row = "10.0.0.1:1024>10.0.0.2:443/tcp  east>west      3.60 k       0  0.000 %  401 us";
    assert_shows(&lines, row);
    assert_shows(&lines, "since epoch 2   70.0 k");
    assert_shows(&lines, "jointly with all flows");
    press(&mut app, KeyCode::Down);
    assert_eq!(app.selected_flow, 1);
    // The selection stays with the flow, now the third.
    let mut latest = update(&app, Snapshot::example());
    latest.flows = Some(page(&[22, 80, 443]));
    app.take(Ok(latest));
    assert_eq!(app.selected_flow, 2);
    press(&mut app, KeyCode::Home);
    let mut latest = update(&app, Snapshot::example());
    latest.flows = Some(page(&[443, 22, 80]));
    app.take(Ok(latest));
    assert_eq!(app.selected_flow, 0, "the one that leads");
    press(&mut app, KeyCode::PageDown);
    assert_eq!(app.selected_flow, 2);
    press(&mut app, KeyCode::Char('s'));
    assert_eq!(app.selected_flow, 0);
    // Without flows there are none to ask for.
    let off = Snapshot {
        flows: None,
        wires: Vec::new(),
        ..Snapshot::example()
    };
    answer(&mut app, off);
    assert_eq!(app.request(), Request::default());
    let none = "this switch tracks no flows (measurement.flows)";
    assert_shows(&screen(&app), none);
}

#[test]
fn classes_are_listed_with_the_segments_of_the_selected_one() {
    let mut snapshot = Snapshot::example();
    snapshot.segments[1].class = "gold".to_owned();
    let mut app = App::new(URL.to_owned(), Arc::new(snapshot));
    press(&mut app, KeyCode::Char('3'));
    let lines = screen(&app);
    for text in [
        "class  segments  packets/s  lost/s     loss    mean  stddev      p99    p99.9      max",
        "all           1     80.0 k    48.0  0.060 %  412 us  310 us  1.40 ms",
        "east>west",
    ] {
        assert_shows(&lines, text);
    }
    assert!(lines.iter().all(|line| !line.contains("west>east")));
    press(&mut app, KeyCode::Down);
    let lines = screen(&app);
    assert_shows(&lines, "west>east gold");
    assert!(lines.iter().all(|line| !line.contains("east>west ")));
}

const CONTROL_C: KeyEvent = KeyEvent::new(KeyCode::Char('c'), KeyModifiers::CONTROL);

#[test]
fn q_and_control_c_quit_and_escape_goes_back_only() {
    let mut app = app();
    assert_eq!(press(&mut app, KeyCode::Char('q')), KeyEffect::Quit);
    assert_eq!(app.press(CONTROL_C), KeyEffect::Quit);
    press(&mut app, KeyCode::Char('?'));
    for _ in 0..3 {
        assert_eq!(press(&mut app, KeyCode::Esc), KeyEffect::Stay);
        assert!(app.is_at_top());
    }
}

/// The switch of this process, whose first port has this device.
fn own(device: Device) -> Fleet {
    let mut config = Config::demo().unwrap();
    config.ports[0].device = device;
    let snapshot = Snapshot {
        config: Some(Arc::new(config)),
        ..Snapshot::example()
    };
    Fleet::new(vec![App::new(String::new(), Arc::new(snapshot))])
}

fn key(code: KeyCode) -> KeyEvent {
    KeyEvent::new(code, KeyModifiers::NONE)
}

#[test]
fn a_switch_that_forwards_is_not_stopped_without_a_question() {
    let mut fleet = own(Device::Dpdk("0000:03:00.0".to_owned()));
    assert_eq!(fleet.press(key(KeyCode::Esc)), KeyEffect::Stay);
    assert!(!fleet.is_asking);
    let quitting = [key(KeyCode::Char('q')), CONTROL_C];
    let refusing = ['n', 'N', 'q'].map(KeyCode::Char).into_iter();
    for (first, refusal) in quitting.into_iter().flat_map(|first| {
        let refusing = refusing.clone().chain([KeyCode::Esc, KeyCode::Enter]);
        refusing.map(move |refusal| (first, refusal))
    }) {
        assert_eq!(fleet.press(first), KeyEffect::Stay);
        let lines = drawn(80, 24, |frame| fleet.draw(frame));
        for text in ["Stop the switch?", "Its 2 ports forward", "y stop it"] {
            assert_shows(&lines, text);
        }
        // These neither answer nor reach the table.
        for other in ['x', '2', 'Q'] {
            assert_eq!(fleet.press(key(KeyCode::Char(other))), KeyEffect::Stay);
        }
        assert!(fleet.is_asking && fleet.shown().tab == Tab::Segments);
        assert_eq!(fleet.press(key(refusal)), KeyEffect::Stay);
        assert!(!fleet.is_asking, "{refusal:?}");
    }
    for (first, second) in [
        (key(KeyCode::Char('q')), key(KeyCode::Char('y'))),
        (CONTROL_C, CONTROL_C),
    ] {
        assert_eq!(fleet.press(first), KeyEffect::Stay);
        assert_eq!(fleet.press(second), KeyEffect::Quit);
        fleet.is_asking = false;
    }
}

#[test]
fn generated_traffic_and_a_switch_elsewhere_need_no_question() {
    for mut fleet in [own(Device::Sink), Fleet::new(vec![app()])] {
        assert_eq!(fleet.press(key(KeyCode::Char('q'))), KeyEffect::Quit);
        assert_eq!(fleet.press(CONTROL_C), KeyEffect::Quit);
    }
}

#[test]
fn a_paused_table_keeps_what_it_shows_and_fetches_what_is_new_to_it() {
    let mut fleet = Fleet::new(vec![app()]);
    answer(&mut fleet.apps[0], Snapshot::example());
    fleet.press(key(KeyCode::Char('p')));
    let later = || {
        let mut later = Snapshot::example();
        later.epoch = Some(85);
        later
    };
    let app = &mut fleet.apps[0];
    answer(app, later());
    let lines = screen_of(app, 120, 30);
    assert!(
        lines[0].contains("epoch 81") && lines[0].contains("PAUSED since"),
        "{lines:?}"
    );
    press(app, KeyCode::Down);
    assert!(app.course().is_none());
    answer(app, later());
    assert!(app.course().is_some());
    press(app, KeyCode::Char('2'));
    answer(app, later());
    let page = app.flows.clone().unwrap();
    let mut latest = update(app, later());
    latest.flows.as_mut().unwrap().flows.clear();
    app.take(Ok(latest));
    assert_eq!(app.flows, Some(page));
    fleet.press(key(KeyCode::Char('p')));
    let app = &mut fleet.apps[0];
    answer(app, later());
    let lines = screen_of(app, 120, 30);
    assert!(
        lines[0].contains("epoch 85") && !lines[0].contains("PAUSED"),
        "{lines:?}"
    );
}

/// Where a text is on the screen.
fn find(lines: &[String], text: &str) -> (u16, u16) {
    let place = lines.iter().enumerate().find_map(|(row, line)| {
        let column = line.split(text).next().filter(|before| *before != line)?;
        Some((column.chars().count(), row))
    });
    let (column, row) = place.unwrap();
    (column.try_into().unwrap(), row.try_into().unwrap())
}

fn point(fleet: &mut Fleet, kind: MouseEventKind, text: &str) {
    let lines = drawn(100, 30, |frame| fleet.draw(frame));
    let (column, row) = find(&lines, text);
    let modifiers = KeyModifiers::NONE;
    fleet.point(MouseEvent {
        kind,
        column,
        row,
        modifiers,
    });
}

#[test]
fn the_mouse_selects_tabs_and_rows_and_the_wheel_scrolls() {
    let mut fleet = Fleet::new(vec![app(), app()]);
    let click = MouseEventKind::Down(MouseButton::Left);
    point(&mut fleet, click, "2 flows");
    assert_eq!(fleet.shown().tab, Tab::Flows);
    answer(&mut fleet.apps[0], Snapshot::example());
    point(&mut fleet, click, "10.0.0.2:443/tcp");
    assert_eq!(fleet.shown().selected_flow, 1);
    point(&mut fleet, MouseEventKind::ScrollUp, "10.0.0.2:443/tcp");
    assert_eq!(fleet.shown().selected_flow, 0);
    point(&mut fleet, click, "10.0.0.2:80/tcp");
    assert!(
        matches!(fleet.shown().view, View::Flow(_)),
        "a second click opens it"
    );
    point(&mut fleet, click, "3 classes");
    point(&mut fleet, click, "class  ");
    assert_eq!(fleet.shown().row(), 0, "a heading is no row");
    point(&mut fleet, click, "4 ports");
    point(&mut fleet, click, "west ");
    assert_eq!(fleet.shown().row(), 1);
    point(&mut fleet, click, "0 switches");
    assert!(fleet.is_listed);
    assert!(fleet.has_mouse);
    fleet.press(key(KeyCode::Char('m')));
    assert!(!fleet.has_mouse);
}

#[test]
fn a_row_that_is_clicked_stays_where_it_is() {
    let mut fleet = Fleet::new(vec![app()]);
    let mut many = Snapshot::example();
    for n in 10..60 {
        let mut segment = many.segments[0].clone();
        segment.ingress = format!("p{n}");
        many.segments.push(segment);
    }
    answer(&mut fleet.apps[0], many);
    fleet.press(key(KeyCode::End));
    let place = |fleet: &mut Fleet| {
        let lines = drawn(100, 30, |frame| fleet.draw(frame));
        find(&lines, "p55>west")
    };
    let before = place(&mut fleet);
    point(
        &mut fleet,
        MouseEventKind::Down(MouseButton::Left),
        "p55>west",
    );
    assert_eq!(fleet.shown().segment().unwrap().ingress, "p55");
    assert_eq!(place(&mut fleet), before);
}

/// The switch answers each second, and its port west drops a fifth of what it has to send.
fn app_for_seconds(tab: char, seconds: u32) -> App {
    let mut snapshot = Snapshot::example();
    let mut app = App::new(URL.to_owned(), Arc::new(snapshot.clone()));
    press(&mut app, KeyCode::Char(tab));
    for _ in 0..seconds {
        snapshot.uptime_s += 1.0;
        snapshot.workers[0].busy_s += 0.75;
        let west = &mut snapshot.ports[1];
        west.counts.rx_packets += 1_000;
        west.counts.tx_packets += 800;
        let mut drops = west.drops.iter_mut();
        drops
            .find(|drop| drop.label == "queue_full")
            .unwrap()
            .packets += 200;
        for segment in &mut snapshot.segments {
            segment.total.counts.sent_packets += 500;
            segment.total.counts.dropped_packets += 5;
        }
        answer(&mut app, snapshot.clone());
    }
    app
}

#[test]
fn ports_show_drops_of_the_last_second_and_charts_of_what_was_seen() {
    let mut app = app_for_seconds('4', 3);
    press(&mut app, KeyCode::Char('j'));
    let lines = screen(&app);
    for text in [
        "20.000 %      37  200 queue_full",
        "packets/s of west, last minute: rx/s 1.00 k  tx/s 800  dropped/s 200",
        "west, since the switch started",
    ] {
        assert_shows(&lines, text);
    }
    press(&mut app, KeyCode::Char('c'));
    assert_shows(
        &screen(&app),
        "loss of west, last minute: of received 0.000 %  of sent 20.000 %",
    );
    press(&mut app, KeyCode::Char('c'));
    assert_shows(
        &screen(&app),
        "busy workers, last minute: worker 0 75.000 %",
    );
    press(&mut app, KeyCode::Char('s'));
    press(&mut app, KeyCode::Char('s'));
    assert_eq!(app.ports()[0].name, "west");
    assert_shows(&screen(&app), "dropped/s\u{25bc}");
}

#[test]
fn a_segment_has_charts_of_delay_loss_and_rate() {
    let mut app = app();
    answer(&mut app, Snapshot::example());
    let expected = [
        (
            Chart::Delay,
            "delay of east>west, last minute: mean 400 us  LDA 401 us",
        ),
        (Chart::Loss, "loss of east>west, last minute: lost 0.000 %"),
        (
            Chart::Rate,
            "packets/s of east>west, last minute: packets/s 10.0",
        ),
        (Chart::Busy, "busy workers, last minute"),
    ];
    for (chart, text) in expected {
        assert_eq!(app.chart(), chart);
        assert_shows(&screen(&app), text);
        press(&mut app, KeyCode::Char('c'));
    }
    assert_eq!(app.chart(), Chart::Delay);
}

#[test]
fn classes_and_wires_have_courses_too() {
    let mut app = app_for_seconds('3', 3);
    press(&mut app, KeyCode::Char('c'));
    assert_shows(&screen(&app), "loss of all, last minute: lost 1.000 %");
    let mut app = app_for_seconds('5', 3);
    press(&mut app, KeyCode::Down);
    assert_eq!(app.row(), 1);
    assert_shows(&screen(&app), "delay of west:peer>west, last minute: mean");
}

#[test]
fn trouble_is_shown_until_it_is_over() {
    let mut app = app();
    app.take(Err(unreachable()));
    let lines = screen(&app);
    assert!(lines[29].contains("no switch answers at http://x: gone"));
    assert!(
        lines[0].contains("NO ANSWER for 0s") && !lines[0].contains("running"),
        "{lines:?}"
    );
    assert_shows(&lines, "east>west");
    answer(&mut app, Snapshot::example());
    let lines = screen(&app);
    assert!(lines[29].contains("quit") && lines[0].contains("running"));
}

#[test]
fn seventy_columns_and_twenty_rows_hold_the_tail_and_the_chart() {
    let mut app = app();
    answer(&mut app, Snapshot::example());
    let lines = screen_of(&app, 70, 20);
    for text in [
        "segment    packets/s     loss    mean      p99    p99.9      max",
        "delay of east>west, last minute",
        "-60 s",
        "q quit  ? keys  / filter",
    ] {
        assert_shows(&lines, text);
    }
}

#[test]
fn a_filter_hides_rows_and_is_asked_of_flows() {
    let mut app = app();
    press(&mut app, KeyCode::Char('/'));
    for letter in "west>q".chars() {
        assert_eq!(press(&mut app, KeyCode::Char(letter)), KeyEffect::Stay);
    }
    assert_shows(&screen(&app), "/west>q_");
    assert!(app.order().is_empty() && app.segment().is_none());
    press(&mut app, KeyCode::Backspace);
    assert_eq!(app.order(), [1]);
    assert_eq!(app.segment().unwrap().ingress, "west");
    press(&mut app, KeyCode::Enter);
    assert_shows(&screen(&app), "/ filter: west>");
    assert_shows(&screen(&app), "delay of west>east");
    press(&mut app, KeyCode::Char('2'));
    let contains = app.request().flows.unwrap().contains;
    assert_eq!(contains.as_deref(), Some("west>"));
    assert_eq!(press(&mut app, KeyCode::Esc), KeyEffect::Stay);
    assert_eq!(app.order(), [0, 1]);
    press(&mut app, KeyCode::Char('/'));
    press(&mut app, KeyCode::Char('q'));
    press(&mut app, KeyCode::Esc);
    assert!(app.is_at_top());
}

#[test]
fn one_flow_is_told_whole_and_left_again() {
    let mut app = app();
    press(&mut app, KeyCode::Char('2'));
    answer(&mut app, Snapshot::example());
    press(&mut app, KeyCode::Enter);
    assert!(matches!(&app.view, View::Flow(flow) if flow.name.ends_with(":80/tcp")));
    assert_shows(&screen(&app), "asking ...");
    let latest = update(&app, Snapshot::example());
    assert!(latest.flow.is_some() && latest.flows.is_none());
    app.take(Ok(latest));
    for (width, height) in [(100, 30), (70, 20)] {
        let lines = screen_of(&app, width, height);
        assert_shows(&lines, "tracked, its last packet");
        assert_shows(&lines, "exact");
    }
    press(&mut app, KeyCode::End);
    press(&mut app, KeyCode::Esc);
    assert_shows(&screen(&app), "flows: the first 2");
}

#[test]
fn ports_and_wires_have_tabs() {
    let mut app = app();
    press(&mut app, KeyCode::Char('4'));
    press(&mut app, KeyCode::Down);
    let lines = screen(&app);
    assert_shows(&lines, "dropped: 12 queue_full");
    assert_shows(&lines, "queue all:");
    press(&mut app, KeyCode::Char('5'));
    let lines = screen_of(&app, 70, 20);
    assert_shows(&lines, "established");
    assert_shows(&lines, "west:peer>west");
    assert_shows(&lines, "clock locked");
}

#[test]
fn several_switches_are_listed_and_one_is_opened() {
    let silent = App::new("http://y".to_owned(), Arc::default());
    let mut fleet = Fleet::new(vec![app(), silent]);
    fleet.apps[1].take(Err(unreachable()));
    let press = |fleet: &mut Fleet, code| fleet.press(KeyEvent::new(code, KeyModifiers::NONE));
    let show = |fleet: &mut Fleet| drawn(90, 20, |frame| fleet.draw(frame));
    let lines = show(&mut fleet);
    assert_shows(&lines, " 0 switches   1 segments");
    let row = |name: &str| {
        let row = lines.iter().find(|line| line.contains(name));
        row.unwrap().clone()
    };
    for words in ["demo", "running", "2.79 ms"] {
        assert!(row("east>west").contains(words), "{words}");
    }
    assert!(row("http://y").contains("NO ANSWER for"));
    assert_eq!(press(&mut fleet, KeyCode::Enter), KeyEffect::Stay);
    assert_shows(&show(&mut fleet), "delay of east>west");
    press(&mut fleet, KeyCode::Char('4'));
    press(&mut fleet, KeyCode::Right);
    assert_eq!((fleet.current, fleet.shown().tab), (1, Tab::Ports));
    assert_shows(&show(&mut fleet), "no switch answers at http://x");
    assert_eq!(press(&mut fleet, KeyCode::Esc), KeyEffect::Stay);
    assert!(fleet.is_listed);
    press(&mut fleet, KeyCode::Home);
    assert_eq!(fleet.current, 0);
    assert_eq!(press(&mut fleet, KeyCode::Char('q')), KeyEffect::Quit);
}
