use super::*;
use ratatui::Terminal;
use ratatui::backend::TestBackend;

fn screen(app: &App) -> Vec<String> {
    let mut terminal = Terminal::new(TestBackend::new(100, 30)).unwrap();
    terminal.draw(|frame| draw::draw(frame, app)).unwrap();
    let buffer = terminal.backend().buffer().clone();
    let row = |y| {
        (0..100)
            .map(|x| buffer[(x, y)].symbol().to_owned())
            .collect::<String>()
    };
    (0..30).map(|y| row(y).trim_end().to_owned()).collect()
}

fn app() -> App {
    App::new(Arc::new(Snapshot::example()))
}

fn press(app: &mut App, code: KeyCode) -> Answer {
    app.press(KeyEvent::new(code, KeyModifiers::NONE))
}

#[test]
fn the_screen_holds_headline_segments_chart_ports_and_keys() {
    let screen = screen(&app());
    assert_eq!(
        screen[0],
        " vernier 0.1.0  |  demo  |  running  |  epoch 81 of 250 ms  |  up 20s  |  worker 0 25% busy"
    );
    let has = |text: &str| {
        assert!(
            screen.iter().any(|line| line.contains(text)),
            "{text:?} in\n{}",
            screen.join("\n")
        );
    };
    has("segment    packets/s  lost  true mean  LDA mean    +-98%  stddev      p99  samples");
    has("east>west     80.0 k    12     412 us    410 us  7.40 us  310 us  1.40 ms   10.9 k");
    has("mean delay of east>west, last minute");
    has("west  80.1 k  80.0 k    1.64 M  1.64 M      37  12 queue_full");
    has("q quit  up/down select  s sort: as configured");
}

#[test]
fn any_size_of_terminal_will_do() {
    for (width, height) in [(1, 1), (20, 5), (60, 12), (300, 100)] {
        let mut terminal = Terminal::new(TestBackend::new(width, height)).unwrap();
        for snapshot in [Snapshot::example(), Snapshot::default()] {
            let app = App::new(Arc::new(snapshot));
            terminal.draw(|frame| draw::draw(frame, &app)).unwrap();
        }
    }
}

#[test]
fn the_selection_moves_within_the_order_shown() {
    let mut app = app();
    assert_eq!(press(&mut app, KeyCode::Up), Answer::Stay);
    assert_eq!(app.selected, 0);
    press(&mut app, KeyCode::Down);
    press(&mut app, KeyCode::Down);
    assert_eq!(app.selected, 1);
    assert!(
        screen(&app)
            .iter()
            .any(|line| line.contains("mean delay of west>east"))
    );
    press(&mut app, KeyCode::Home);
    assert_eq!(app.selected, 0);
    press(&mut app, KeyCode::End);
    assert_eq!(app.selected, 1);
}

#[test]
fn sorting_puts_the_greatest_first_and_keeps_the_selection() {
    let mut snapshot = Snapshot::example();
    snapshot.segments.swap(0, 1);
    let mut app = App::new(Arc::new(snapshot));
    assert_eq!(app.order(), [0, 1]);
    press(&mut app, KeyCode::Char('s'));
    assert_eq!((app.sort, app.order()), (Sort::Packets, vec![1, 0]));
    assert_eq!(app.selected, 0, "the silent segment, now in the second row");
    for _ in 0..4 {
        press(&mut app, KeyCode::Char('s'));
    }
    assert_eq!(app.sort, Sort::Configuration);
}

#[test]
fn q_escape_and_control_c_quit() {
    let mut app = app();
    assert_eq!(press(&mut app, KeyCode::Char('q')), Answer::Quit);
    assert_eq!(press(&mut app, KeyCode::Esc), Answer::Quit);
    assert_eq!(press(&mut app, KeyCode::Char('c')), Answer::Stay);
    let control_c = KeyEvent::new(KeyCode::Char('c'), KeyModifiers::CONTROL);
    assert_eq!(app.press(control_c), Answer::Quit);
}

#[test]
fn history_keeps_each_epoch_once_and_a_minute_of_them() {
    let mut app = app();
    let mut snapshot = Snapshot::example();
    for epoch in 81..481 {
        snapshot.epoch = Some(epoch);
        snapshot.segments[0].last.as_mut().unwrap().epoch = epoch;
        app.take(Ok(Arc::new(snapshot.clone())));
        app.take(Ok(Arc::new(snapshot.clone())));
    }
    let points = &app.history[0];
    assert_eq!(points.len(), 241, "60 s of 250 ms, both ends");
    assert_eq!((points[0].epoch, points[240].epoch), (240, 480));
    assert!(app.history[1].is_empty());
}

#[test]
fn trouble_is_shown_until_it_is_over() {
    let mut app = app();
    let error = SourceError::Unreachable {
        url: "http://x".to_owned(),
        reason: "gone".to_owned(),
    };
    app.take(Err(error));
    assert!(screen(&app)[29].contains("no switch answers at http://x: gone"));
    assert!(
        screen(&app).iter().any(|line| line.contains("east>west")),
        "the last known stays"
    );
    app.take(Ok(Arc::new(Snapshot::example())));
    assert!(screen(&app)[29].contains("quit"));
}

#[test]
fn a_restarted_switch_starts_a_new_history() {
    let mut app = app();
    assert_eq!(app.history[0].len(), 1);
    let mut snapshot = Snapshot {
        uptime_s: 0.5,
        ..Snapshot::example()
    };
    snapshot.segments[0].last.as_mut().unwrap().epoch = 1;
    snapshot.epoch = Some(1);
    app.take(Ok(Arc::new(snapshot)));
    assert_eq!(
        app.history[0]
            .iter()
            .map(|point| point.epoch)
            .collect::<Vec<_>>(),
        [1]
    );
}
