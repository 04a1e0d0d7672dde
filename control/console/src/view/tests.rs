use super::*;
use crate::view::page::width;

/// A view as it is printed without shortening.
fn text<T>(view: fn(&mut Page, &T), answer: &T) -> String {
    Page::plain(false, |page| view(page, answer))
}

const NODES: Table = Table::new("node | hops", &[]);

fn page(columns: usize) -> Page {
    Page::new(Look {
        columns: Some(columns),
        ..Look::default()
    })
}

#[test]
fn tables_are_aligned_by_what_terminals_show() {
    let row = |name: &str| [name.to_owned(), "1".to_owned()];
    let names = ["\u{6771}\u{4eac}", "e\u{301}cole", "B"];
    let text = Page::plain(false, |page| page.table(&NODES, names.map(row)));
    assert_eq!(
        text,
        "node   hops\n\u{6771}\u{4eac}      1\ne\u{301}cole     1\nB         1\n"
    );
}

#[test]
fn a_cell_may_have_any_length() {
    let row = ["x".repeat(70_000), "1".to_owned()];
    let text = Page::plain(false, |page| page.table(&NODES, [row]));
    assert_eq!(text.lines().nth(1).map(str::len), Some(70_006));
}

#[test]
fn columns_go_in_their_order_and_long_names_are_shortened() {
    const FLOWS: Table = Table {
        headings: "flow | lost | mean | max | why",
        wide: &["max"],
        expendable: &["mean", "lost"],
    };
    let row = || {
        [
            "a-flow-with-a-long-name",
            "12",
            "1.00 us",
            "2.00 us",
            "it is far away from here",
        ]
        .map(str::to_owned)
    };
    let shown = |columns| {
        let mut page = page(columns);
        page.table(&FLOWS, [row()]);
        page.finish()
    };
    for (columns, expected) in [
        (
            64,
            "a-flow-with-a-long-name    12  1.00 us  it is far away from here",
        ),
        (56, "a-flow-with-a-lo\u{2026}"),
        (30, "a-flow-with-\u{2026}"),
    ] {
        let text = shown(columns);
        assert!(
            text.lines().all(|line| width(line) <= columns),
            "{columns}: {text}"
        );
        assert!(
            columns != 64 || text.ends_with(&format!("\n{expected}\n")),
            "{text}"
        );
    }
    assert_eq!(
        shown(40),
        "flow              lost               why\na-flow-w\u{2026}ng-name    12  it is far away \u{2026}\n"
    );
    let wide = Page::plain(true, |page| page.table(&FLOWS, [row()]));
    assert!(
        wide.contains("2.00 us") && wide.contains("a-flow-with-a-long-name"),
        "{wide}"
    );
}

#[test]
fn sentences_are_broken_between_words_and_hang() {
    let mut page = page(30);
    page.say(
        "ready      NO: port east: link is down\n    a line that is indented already\nshort\n",
    );
    let expected = "\
ready      NO: port east: link
           is down
    a line that is indented
      already
short
";
    assert_eq!(page.finish(), expected);
}

#[test]
fn names_do_not_control_the_terminal() {
    let mut page = Page::new(Look {
        is_coloured: true,
        ..Look::default()
    });
    page.table(&NODES, [["\u{1b}[2Jx".to_owned(), "1".to_owned()]]);
    page.say("\u{9b}31my\r\n");
    let text = page.finish();
    assert!(
        text.contains("[2Jx") && !text.contains("\u{1b}[2J"),
        "{text:?}"
    );
    assert!(text.ends_with("\n31my\n"), "{text:?}");
}

#[test]
fn the_live_table_is_aligned_and_in_human_units() {
    let expected = "\
vernier 0.1.0  switch demo  running  up 20s  epoch 81 of 250 ms  worker 0 25% busy
segment    packets/s     loss    mean  stddev
east>west     80.0 k  0.060 %  412 us  310 us
west>east          -        -       -       -

segment    of last  packets     p50     p90      p99    p99.9   p99.99      max
east>west    epoch   20.0 k  340 us  850 us  1.40 ms  2.10 ms  2.70 ms  2.79 ms
east>west   minute   1.20 M  340 us  850 us  1.50 ms  2.30 ms  3.90 ms  4.81 ms

port    rx/s    tx/s  received    sent  queued        dropped
east  80.1 k  80.0 k    1.64 M  1.64 M      37  12 queue_full
west  80.1 k  80.0 k    1.64 M  1.64 M      37  12 queue_full
";
    assert_eq!(text(live, &Snapshot::example()), expected);
}

#[test]
fn classes_and_stalled_workers_are_named() {
    let mut snapshot = Snapshot::example();
    snapshot.segments[0].class = "gold".to_owned();
    snapshot.workers[0].is_stalled = true;
    let text = text(live, &snapshot);
    assert!(text.contains("\neast>west gold  "), "{text}");
    assert!(text.contains("worker 0 STALLED"), "{text}");
}

#[test]
fn classes_are_summed_over_all_ports_and_segments() {
    let text = text(classes, &Classes::from(&Snapshot::example()));
    let mut lines = text.lines();
    let headings = "class  segments    sent     bytes  measured  lost    mean";
    assert!(lines.next().unwrap().starts_with(headings), "{text}");
    let row = lines.next().unwrap();
    assert!(
        row.starts_with("all           2  3.28 M  1.10 GiB    20.0 k    24  412 us"),
        "{text}"
    );
}

#[test]
fn the_summary_shows_how_good_the_estimates_were() {
    let text = text(summary, &Snapshot::example());
    let verdict = "east>west: the true mean was inside LDA's 98% interval in 78 of 79 epochs \
                       (98.7%)\nwest>east: no epoch with an estimate\n";
    assert!(text.contains(verdict), "{text}");
    assert!(
        text.contains("1 missed_shard, 3 generation, 4 link, 2 too_few_cells"),
        "{text}"
    );
    assert!(text.lines().all(|line| !line.ends_with(' ')));
}

#[test]
fn what_is_long_ago_is_not_shown_as_if_it_were_now() {
    let mut snapshot = Snapshot::example();
    snapshot.epoch = Some(81 + 40);
    let shown = text(live, &snapshot);
    assert!(
        shown.contains("east>west     80.0 k  0.060 %  412 us"),
        "{shown}"
    );
    snapshot.epoch = Some(81 + 41);
    let shown = text(live, &snapshot);
    assert!(
        shown.contains("east>west          -     -     -       -\n"),
        "{shown}"
    );
}

#[test]
fn without_measurement_there_are_ports_only() {
    let mut off = Snapshot::example();
    off.measuring = false;
    off.segments.clear();
    let text = text(live, &off);
    assert!(
        text.contains("measurement off") && !text.contains("segment"),
        "{text}"
    );
}
