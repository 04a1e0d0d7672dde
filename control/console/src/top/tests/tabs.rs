use super::super::fleet::Fleet;
use super::super::tab::Tab;
use super::*;

#[test]
fn seventy_columns_and_twenty_rows_hold_the_tail_and_the_chart() {
    let mut app = app();
    let latest = update(&app, Snapshot::example());
    app.take(Ok(latest));
    let lines = screen_of(&app, 70, 20);
    for text in [
        "segment    packets/s  lost  true mean      p99    p99.9      max",
        "mean delay of east>west, last minute",
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
    assert_shows(&screen(&app), "mean delay of west>east");
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
    let latest = update(&app, Snapshot::example());
    app.take(Ok(latest));
    press(&mut app, KeyCode::Enter);
    assert!(matches!(&app.view, View::Flow { name, .. } if name.ends_with(":80/tcp")));
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
    fleet.app(1).take(Err(unreachable()));
    let press = |fleet: &mut Fleet, code| fleet.press(KeyEvent::new(code, KeyModifiers::NONE));
    let show = |fleet: &Fleet| drawn(90, 20, |frame| fleet.draw(frame));
    let lines = show(&fleet);
    assert_shows(&lines, " 0 switches   1 segments");
    let row = |name: &str| {
        lines
            .iter()
            .find(|line| line.contains(name))
            .unwrap()
            .clone()
    };
    let (demo, y) = (row("east>west"), row("http://y"));
    assert!(
        demo.contains("demo") && demo.contains("running") && demo.contains("2.79 ms"),
        "{demo}"
    );
    assert!(y.contains("NO ANSWER for"), "{y}");
    assert_eq!(press(&mut fleet, KeyCode::Enter), KeyEffect::Stay);
    assert_shows(&show(&fleet), "mean delay of east>west");
    press(&mut fleet, KeyCode::Char('4'));
    press(&mut fleet, KeyCode::Right);
    assert_eq!((fleet.current(), fleet.shown().tab), (1, Tab::Ports));
    assert_shows(&show(&fleet), "no switch answers at http://x");
    assert_eq!(press(&mut fleet, KeyCode::Esc), KeyEffect::Stay);
    assert!(fleet.is_listed);
    press(&mut fleet, KeyCode::Home);
    assert_eq!(fleet.current(), 0);
    assert_eq!(press(&mut fleet, KeyCode::Char('q')), KeyEffect::Quit);
}
