use super::*;

#[test]
fn tables_are_aligned_by_what_terminals_show() {
    let row = |name: &str| [name.to_owned(), "1".to_owned()];
    let names = ["\u{6771}\u{4eac}", "e\u{301}cole", "B"];
    let text = table("node | hops", names.map(row));
    assert_eq!(
        text,
        "node   hops\n\u{6771}\u{4eac}      1\ne\u{301}cole     1\nB         1\n"
    );
}

#[test]
fn a_cell_may_have_any_length() {
    let row = ["x".repeat(70_000), "1".to_owned()];
    let text = table("node | hops", [row]);
    assert_eq!(text.lines().nth(1).map(str::len), Some(70_006));
}

#[test]
fn the_live_table_is_aligned_and_in_human_units() {
    let expected = "\
vernier 0.1.0  switch demo  running  up 20s  epoch 81 of 250 ms  worker 0 25% busy
segment    packets/s  lost  true mean  LDA mean    +-98%  stddev  samples
east>west     80.0 k    12     412 us    410 us  7.40 us  310 us   10.9 k
west>east          -     0          -         -        -       -        -

segment    of last  packets     p50     p90      p99    p99.9   p99.99      max
east>west    epoch   20.0 k  340 us  850 us  1.40 ms  2.10 ms  2.70 ms  2.79 ms
east>west   minute   1.20 M  340 us  850 us  1.50 ms  2.30 ms  3.90 ms  4.81 ms

port    rx/s    tx/s  received    sent  queued        dropped
east  80.1 k  80.0 k    1.64 M  1.64 M      37  12 queue_full
west  80.1 k  80.0 k    1.64 M  1.64 M      37  12 queue_full
";
    assert_eq!(live(&Snapshot::example()), expected);
}

#[test]
fn classes_and_stalled_workers_are_named() {
    let mut snapshot = Snapshot::example();
    snapshot.segments[0].class = "gold".to_owned();
    snapshot.workers[0].is_stalled = true;
    let text = live(&snapshot);
    assert!(text.contains("\neast>west gold  "), "{text}");
    assert!(text.contains("worker 0 STALLED"), "{text}");
}

#[test]
fn classes_are_summed_over_all_ports_and_segments() {
    let text = classes(&Classes::from(&Snapshot::example()));
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
    let text = summary(&Snapshot::example());
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
    assert!(live(&snapshot).contains("80.0 k    12     412 us"));
    snapshot.epoch = Some(81 + 41);
    assert!(
        live(&snapshot).contains("-    12          -"),
        "{}",
        live(&snapshot)
    );
}

#[test]
fn without_measurement_there_are_ports_only() {
    let mut off = Snapshot::example();
    off.measuring = false;
    off.segments.clear();
    let text = live(&off);
    assert!(
        text.contains("measurement off") && !text.contains("segment"),
        "{text}"
    );
}
