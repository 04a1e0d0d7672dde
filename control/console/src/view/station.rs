//! A station's answers as tables: paths, segments, silent switches, and slow segments.

use std::fmt::Write;
use std::time::{SystemTime, UNIX_EPOCH};

use contract::units::{count, duration_ns};
use records::snapshot::title;
use records::station::{
    Blame, BlamedHop, Failure, FlowPath, Level, MeasuringFault, PathBlame, PathBlames,
};
use records::station::{Missing, Paths, SegmentFigures, StationFlows, StationSegments};

use super::flows::more;
use super::{Page, Table, bounded, known, percent};

const CHAIN: Table = Table::new(
    "segment | kind | mean +-98% | stddev | p99 | lost | age",
    &["age", "kind", "stddev", "p99"],
);

const SWITCHES: Table = Table::new(
    "switch | silent | last epoch | missed | last gap | restarts | problems",
    &["restarts", "last gap", "missed", "last epoch"],
);

const RISEN: Table = Table::new(
    "segment | of | usual | now | rise | sure | since",
    &["sure", "usual", "since"],
);

const PATH: Table = Table::new(
    "segment | mean +-98% | usual | stddev | p99 | lost | usual | age",
    &["age", "stddev", "p99"],
);

const FLOWS: Table = Table::new(
    "flow | segments | packets | lost | mean inside",
    &["segments", "lost"],
);

const HOPS: Table = Table::new(
    "hop | of | packets | lost | mean | stddev | p99 | age | ",
    &["age", "stddev", "packets", "p99"],
);

/// The chain of every path.
pub fn paths(page: &mut Page, answer: &Paths) {
    let now_s = now_s();
    for (n, path) in (1..).zip(&answer.paths) {
        page.say(&route(n, answer.paths.len(), &path.switches));
        page.say(&failures(&path.failed, now_s));
        let hops = path.chain.iter().map(|hop| {
            let figures = hop.figures.as_ref();
            let row = row(hop.title.clone(), &hop.kind, figures, hop.age_s);
            marked(row, hop.stale_since_unix_s)
        });
        let of = if path.is_covered {
            "sum"
        } else {
            "sum, incomplete"
        };
        let mut sum = row(of.to_owned(), "", Some(&path.sum), None);
        sum[5] = percent(path.loss_ratio);
        sum[6].clear();
        let whole = path.end_to_end.iter().map(|measured| {
            let title = format!("end to end, by {}", measured.switch);
            let (figures, age_s) = (Some(&measured.figures), Some(measured.age_s));
            row(title, &measured.kind, figures, age_s)
        });
        page.table(&CHAIN, hops.chain([sum]).chain(whole));
        for hop in &path.chain {
            if let Some(hint) = &hop.hint {
                let _ = writeln!(page, "{}: {hint}", hop.title);
            }
        }
        page.say("\n");
    }
    page.say(more_paths(answer.is_cut));
}

/// `path 1 of 2: edge-1 > core`; empty if there is one path.
fn route(n: usize, paths: usize, switches: &[String]) -> String {
    match paths {
        1 => String::new(),
        _ => format!("path {n} of {paths}: {}\n", switches.join(" > ")),
    }
}

fn more_paths(is_cut: bool) -> &'static str {
    if is_cut {
        "There are more paths.\n"
    } else {
        ""
    }
}

fn row(
    title: String,
    kind: &str,
    figures: Option<&SegmentFigures>,
    age_s: Option<f64>,
) -> [String; 7] {
    let of =
        |number: fn(&SegmentFigures) -> Option<f64>| known(figures.and_then(number), duration_ns);
    let lost = figures.map(|figures| figures.lost as f64 / figures.packets.max(1) as f64);
    let bound_ns = figures.and_then(|figures| figures.bound_ns);
    let mean = bounded(of(|figures| figures.mean_ns), bound_ns.unwrap_or_default());
    [
        title,
        kind.to_owned(),
        mean,
        of(|figures| figures.stddev_ns),
        of(|figures| figures.p99_ns),
        known(lost, percent),
        known(age_s, age),
    ]
}

/// Marks a row whose figures are out of date.
fn marked(mut row: [String; 7], stale_since_unix_s: Option<f64>) -> [String; 7] {
    if stale_since_unix_s.is_some() {
        row[0] += " (old)";
    }
    row
}

fn age(age_s: f64) -> String {
    format!("{age_s:.1} s")
}

/// Segments of all switches.
pub fn segments(page: &mut Page, answer: &StationSegments) {
    let rows = answer.segments.iter().map(|segment| {
        let title = title(&segment.from, &segment.to, &segment.class);
        let title = format!("{}: {title}", segment.switch);
        let (figures, age_s) = (Some(&segment.figures), Some(segment.age_s));
        let row = row(title, &segment.kind, figures, age_s);
        marked(row, segment.silent_since_unix_s)
    });
    page.table(&CHAIN, rows);
    more(page, answer.matching, answer.segments.len());
}

/// Silent switches, and gaps in the reports of others.
pub fn missing(page: &mut Page, answer: &Missing) {
    let now_s = now_s();
    let rows = answer.switches.iter().map(|switch| {
        let silent = known(switch.silent_since_unix_s, |since| {
            format!("for {:.0} s", (now_s - since).max(0.0))
        });
        [
            switch.switch.clone(),
            silent,
            count(switch.epoch),
            count(switch.missed_epochs),
            known(switch.gaps.last(), |gap| {
                format!("{} to {}", gap.first_epoch, gap.last_epoch)
            }),
            count(switch.restarts),
            switch.problems.join("; "),
        ]
    });
    page.table(&SWITCHES, rows);
    let silent = answer.switches.iter();
    let silent = silent.filter(|switch| switch.silent_since_unix_s.is_some());
    let (silent, known) = (silent.count(), answer.known);
    let _ = writeln!(page, "Silent switches: {silent} of {known}.");
    for unreadable in &answer.unreadable {
        let _ = writeln!(page, "{}: {}.", unreadable.switch, unreadable.why);
    }
    if !answer.unreported.is_empty() {
        let _ = writeln!(page, "Never reported: {}.", answer.unreported.join(", "));
    }
}

/// Seconds since 1970.
fn now_s() -> f64 {
    let now = SystemTime::now().duration_since(UNIX_EPOCH);
    now.unwrap_or_default().as_secs_f64()
}

/// Everything that has risen, and faults of measuring.
pub fn blame(page: &mut Page, answer: &Blame) {
    fleet(page, answer, now_s());
}

fn fleet(page: &mut Page, answer: &Blame, now_s: f64) {
    page.say(&failures(&answer.failed, now_s));
    if !answer.risen.is_empty() {
        let rows = answer.risen.iter().map(|risen| {
            let amount = |value| amount(&risen.signal, value);
            [
                risen.title.clone(),
                risen.signal.clone(),
                amount(risen.usual),
                amount(risen.now),
                format!("+{}", amount(risen.rise)),
                format!("{:.0} %", risen.confidence * 100.0),
                since(risen.since_unix_s, now_s),
            ]
        });
        page.table(&RISEN, rows);
        more(page, answer.matching, answer.risen.len());
        page.say("\n");
    }
    page.say(&faults(&answer.faults, now_s));
    let risen = match answer.matching {
        0 if !answer.failed.is_empty() => "nothing else is above the usual level".to_owned(),
        0 => "nothing is above the usual level".to_owned(),
        1 => "1 rise".to_owned(),
        more => format!("{} rises", count(more)),
    };
    let _ = write!(
        page,
        "{} segments are watched: {risen}",
        count(answer.segments)
    );
    if answer.learning > 0 {
        let learning = count(answer.learning);
        let _ = write!(page, "; the history of {learning} is too short to tell");
    }
    page.say(".\n");
}

/// Every path with its causes.
pub fn path_blames(page: &mut Page, answer: &PathBlames) {
    let now_s = now_s();
    for (n, path) in (1..).zip(&answer.paths) {
        if n > 1 {
            page.say("\n");
        }
        page.say(&route(n, answer.paths.len(), &path.switches));
        one_path(page, path, now_s);
    }
    page.say(more_paths(answer.is_cut));
}

fn one_path(page: &mut Page, path: &PathBlame, now_s: f64) {
    let hops = path.chain.iter().map(hop_row);
    let sum = path.sum.as_ref();
    let sum = sum.map(|sum| level_row("sum".to_owned(), Some(sum)));
    let whole = path.end_to_end.as_ref().map(|whole| {
        let mut row = hop_row(whole);
        row[0].insert_str(0, "end to end: ");
        row
    });
    page.say(&failures(&path.failed, now_s));
    page.table(&PATH, hops.chain(sum).chain(whole));
    page.say(&difference(path));
    page.say("\n");
    page.say(&causes(path, now_s));
    page.say(&faults(&path.faults, now_s));
    for part in &path.uncovered {
        let (title, cover) = (&part.title, &part.cover);
        let suspicion = if part.is_suspect {
            ", and may be the cause"
        } else {
            ""
        };
        let _ = writeln!(page, "not measured{suspicion}: {title}: {cover}");
    }
}

/// Segments that rose, and the part of the rise that is in none of them.
fn causes(path: &PathBlame, now_s: f64) -> String {
    let mut text = String::new();
    for cause in &path.causes {
        let (share, sure) = (cause.share_percent, cause.confidence * 100.0);
        let what = if cause.signal == "loss" {
            "losses'"
        } else {
            "delay's"
        };
        let (title, rise) = (&cause.title, amount(&cause.signal, cause.rise));
        let since = since(cause.since_unix_s, now_s);
        let _ = writeln!(
            text,
            "{share:.0} % of the {what} rise is in {title}: +{rise} since {since}, {sure:.0} % sure"
        );
    }
    for (share, what) in [
        (path.unexplained_share, "delay's"),
        (path.unexplained_loss_share, "losses'"),
    ] {
        if let Some(share) = share.filter(|share| *share > 0.0) {
            let share = share * 100.0;
            let _ = writeln!(
                text,
                "{share:.0} % of the {what} end-to-end rise is in no segment that is measured"
            );
        }
    }
    if path.causes.is_empty() && path.failed.is_empty() {
        text += if path.chain.iter().all(|hop| hop.is_ready) {
            "No segment is above the usual level.\n"
        } else {
            "No segment is known to be above the usual level; the history of some is too short to tell.\n"
        };
    }
    text
}

/// `core died 25 s ago: its reports stopped, while another switch still reports.`
fn failures(failed: &[Failure], now_s: f64) -> String {
    let line = |failed: &Failure| {
        let Failure { place, words, .. } = failed;
        let what = if failed.kind == "wire" {
            "failed"
        } else {
            "died"
        };
        format!(
            "{place} {what} {}: {words}.\n",
            since(failed.since_unix_s, now_s)
        )
    };
    failed.iter().map(line).collect()
}

/// Compares the end-to-end delay with the sum.
fn difference(path: &PathBlame) -> String {
    let (Some(difference), Some(bound), Some(is_explained)) = (
        path.difference_ns,
        path.difference_bound_ns,
        path.is_difference_explained,
    ) else {
        return String::new();
    };
    let sign = if difference < 0.0 { "-" } else { "+" };
    let verdict = if is_explained {
        "which the bounds explain"
    } else {
        "which is unexplained"
    };
    let (difference, bound) = (duration_ns(difference.abs()), duration_ns(bound));
    format!("end to end is the sum {sign}{difference} (bounds: {bound}), {verdict}\n")
}

fn hop_row(hop: &BlamedHop) -> [String; 8] {
    let mut row = level_row(hop.title.clone(), hop.level.as_ref());
    row[3] = known(hop.stddev_ns, duration_ns);
    row[4] = known(hop.p99_ns, duration_ns);
    row[7] = known(hop.age_s, age);
    if !hop.is_ready {
        "learning".clone_into(&mut row[2]);
    }
    row
}

fn level_row(title: String, level: Option<&Level>) -> [String; 8] {
    let mean = known(level, |level| bounded(delay(level.mean_ns), level.bound_ns));
    [
        title,
        mean,
        known(level, |level| delay(level.usual_ns)),
        String::new(),
        String::new(),
        known(level, |level| percent(level.loss)),
        known(level, |level| percent(level.usual_loss)),
        String::new(),
    ]
}

fn faults(faults: &[MeasuringFault], now_s: f64) -> String {
    let mut text = String::new();
    for fault in faults {
        let since = fault
            .since_unix_s
            .map(|at| format!(", since {}", since(at, now_s)));
        let (place, words, since) = (&fault.place, &fault.words, since.unwrap_or_default());
        let _ = writeln!(text, "measuring: {place}: {words}{since}");
    }
    text
}

/// The flows that switches report.
pub fn flows(page: &mut Page, answer: &StationFlows) {
    if answer.flows.is_empty() {
        page.say("No flow matches. A switch reports only the flows with the most packets (report.top_flows).\n");
        return;
    }
    let rows = answer.flows.iter().map(|flow| {
        [
            flow.flow.clone(),
            flow.segments.to_string(),
            count(flow.packets),
            flow.lost.to_string(),
            known(flow.mean_ns, delay),
        ]
    });
    page.table(&FLOWS, rows);
    more(page, answer.matching, answer.flows.len());
}

/// A flow's hops.
pub fn flow_path(page: &mut Page, answer: &FlowPath) {
    let rows = answer.hops.iter().enumerate().map(|(place, hop)| {
        [
            hop.title.clone(),
            if hop.is_of_flow { "flow" } else { "all" }.to_owned(),
            count(hop.packets),
            known(hop.lost, |lost| lost.to_string()),
            known(hop.mean_ns, delay),
            known(hop.stddev_ns, duration_ns),
            known(hop.p99_ns, duration_ns),
            age(hop.age_s),
            if answer.slowest == Some(place) {
                "<"
            } else {
                ""
            }
            .to_owned(),
        ]
    });
    let _ = writeln!(page, "{}", answer.flow);
    page.table(&HOPS, rows);
    let slowest = answer.slowest.and_then(|place| answer.hops.get(place));
    if let (Some(slowest), Some(share)) = (slowest, answer.slowest_percent) {
        let _ = writeln!(page, "\n{share:.0} % of the delay is in {}.", slowest.title);
    }
    if answer.hops.iter().any(|hop| !hop.is_of_flow) {
        page.say("all: figures of all packets there, not of the flow alone.\n");
    }
    if !answer.is_ordered {
        page.say("No link between some of the switches is known: their order is by name.\n");
    }
}

/// A delay, or a share of packets.
fn amount(signal: &str, value: f64) -> String {
    if signal == "loss" {
        percent(value)
    } else {
        delay(value)
    }
}

/// A delay that may be negative because clocks differ.
fn delay(ns: f64) -> String {
    if ns < 0.0 {
        format!("-{}", duration_ns(-ns))
    } else {
        duration_ns(ns)
    }
}

/// How long ago: `42 s ago`, `7 min ago`, `3.2 h ago`.
fn since(unix_s: f64, now_s: f64) -> String {
    match (now_s - unix_s).max(0.0) {
        ago if ago < 120.0 => format!("{ago:.0} s ago"),
        ago if ago < 7_200.0 => format!("{:.0} min ago", ago / 60.0),
        ago => format!("{:.1} h ago", ago / 3_600.0),
    }
}

#[cfg(test)]
mod tests {
    use records::station::{BlameCause, FlowHop, Risen, UncoveredHop};
    use records::station::{Gap, Hop, PathAnswer, SwitchState};

    use super::*;

    #[test]
    fn a_path_is_a_chain_with_its_sum_within_100_columns() {
        let figures = SegmentFigures {
            packets: 1_000,
            lost: 1,
            samples: 999,
            mean_ns: Some(412_300.0),
            bound_ns: Some(7_400.0),
            stddev_ns: Some(310_500.0),
            p99_ns: Some(1_400_000.0),
            max_ns: None,
        };
        let hop = |title: &str, figures: Option<SegmentFigures>| Hop {
            title: title.to_owned(),
            kind: "wire".to_owned(),
            hint: figures.is_none().then(|| "probe this link".to_owned()),
            age_s: figures.is_some().then_some(0.4),
            stale_since_unix_s: figures.is_some().then_some(1_000.0),
            figures,
            ..Hop::default()
        };
        let path = PathAnswer {
            chain: vec![
                hop("edge-1:trunk > edge-2:trunk", Some(figures.clone())),
                hop("edge-2 > core", None),
            ],
            sum: figures,
            loss_ratio: 0.001,
            failed: vec![dead()],
            ..PathAnswer::default()
        };
        let answer = Paths {
            paths: vec![path],
            ..Paths::default()
        };
        let text = Page::plain(false, |page| paths(page, &answer));
        let words = [
            "412 us +-7.40 us",
            "sum, incomplete",
            "0.100 %",
            "core died ",
            "ago: its reports stopped, while another switch still reports.",
            " (old)",
            "edge-2 > core: probe this link",
        ];
        shows(&text, 100, &words);
    }

    fn dead() -> Failure {
        Failure {
            place: "core".to_owned(),
            kind: "switch".to_owned(),
            since_unix_s: 1_000.0,
            words: "its reports stopped, while another switch still reports".to_owned(),
        }
    }

    #[test]
    fn who_is_silent_is_named() {
        let switch = SwitchState {
            switch: "edge-1".to_owned(),
            epoch: 7,
            silent_since_unix_s: Some(1.0),
            missed_epochs: 2,
            gaps: vec![Gap {
                first_epoch: 3,
                last_epoch: 4,
                end_unix_s: 0.0,
            }],
            ..SwitchState::default()
        };
        let answer = Missing {
            known: 3,
            switches: vec![switch],
            unreported: vec!["core".to_owned()],
            ..Missing::default()
        };
        let text = Page::plain(false, |page| missing(page, &answer));
        let silent = "Silent switches: 1 of 3.";
        let never = "Never reported: core.";
        shows(&text, 100, &["edge-1", "3 to 4", silent, never]);
    }

    /// Checks that a text contains all of these, and no line that is too long.
    fn shows(text: &str, columns: usize, parts: &[&str]) {
        for part in parts {
            assert!(text.contains(part), "{part}: {text}");
        }
        for line in text.lines() {
            assert!(line.chars().count() <= columns, "{line}");
        }
    }

    #[test]
    fn the_fleet_names_what_is_risen_and_what_is_not_measured() {
        let risen = Risen {
            title: "edge-1:trunk > edge-2:trunk".to_owned(),
            signal: "delay".to_owned(),
            now: 900_000.0,
            usual: 100_000.0,
            rise: 800_000.0,
            confidence: 0.999,
            since_unix_s: 1_000.0,
            ..Risen::default()
        };
        let fault = MeasuringFault {
            place: "core".to_owned(),
            words: "it sends no reports".to_owned(),
            since_unix_s: Some(1_000.0),
            ..MeasuringFault::default()
        };
        let answer = Blame {
            segments: 1_200,
            learning: 3,
            matching: 2,
            risen: vec![risen],
            faults: vec![fault],
            failed: Vec::new(),
        };
        let text = Page::plain(false, |page| fleet(page, &answer, 1_300.0));
        let words = [
            "edge-1:trunk > edge-2:trunk",
            "5 min ago",
            "+800",
            "1 more",
            "measuring: core: it sends no reports, since 5 min ago",
            "segments are watched: 2 rises; the history of 3 is too short to tell.",
        ];
        shows(&text, 100, &words);
        let dead = Blame {
            failed: vec![dead()],
            ..Blame::default()
        };
        assert_eq!(
            Page::plain(false, |page| fleet(page, &dead, 1_025.0)),
            "core died 25 s ago: its reports stopped, while another switch still reports.\n\
             0 segments are watched: nothing else is above the usual level.\n"
        );
        let quiet = Page::plain(false, |page| fleet(page, &Blame::default(), 0.0));
        assert_eq!(
            quiet,
            "0 segments are watched: nothing is above the usual level.\n"
        );
    }

    #[test]
    fn a_path_has_its_causes_and_what_nobody_measures() {
        let level = Level {
            mean_ns: 900_000.0,
            bound_ns: 2_000.0,
            usual_ns: 100_000.0,
            ..Level::default()
        };
        let hop = BlamedHop {
            title: "edge-1:trunk > edge-2:trunk".to_owned(),
            level: Some(level),
            is_ready: true,
            age_s: Some(0.4),
            ..BlamedHop::default()
        };
        let cause = BlameCause {
            title: hop.title.clone(),
            signal: "loss".to_owned(),
            share_percent: 97.0,
            rise: 0.02,
            ..BlameCause::default()
        };
        let uncovered = UncoveredHop {
            title: "edge-2 > core".to_owned(),
            cover: "probe this link".to_owned(),
            is_suspect: true,
        };
        let path = PathBlame {
            chain: vec![hop.clone()],
            sum: Some(level),
            end_to_end: Some(hop),
            difference_ns: Some(-5_000.0),
            difference_bound_ns: Some(2_000.0),
            is_difference_explained: Some(false),
            causes: vec![cause],
            unexplained_share: Some(0.5),
            uncovered: vec![uncovered],
            ..PathBlame::default()
        };
        let text = Page::plain(false, |page| one_path(page, &path, 60.0));
        let words = [
            "97 % of the losses' rise is in edge-1:trunk > edge-2:trunk: +2.000 % since 60 s ago",
            "not measured, and may be the cause: edge-2 > core: probe this link",
            "which is unexplained",
            "50 % of the delay's end-to-end rise is in no segment",
        ];
        shows(&text, 120, &words);
    }

    #[test]
    fn the_slowest_hop_of_a_flow_is_named() {
        let hop = |title: &str, mean_ns| FlowHop {
            title: title.to_owned(),
            is_of_flow: true,
            mean_ns,
            ..FlowHop::default()
        };
        let answer = FlowPath {
            flow: "10.0.0.1:80>10.0.0.2:9/udp".to_owned(),
            is_ordered: false,
            hops: vec![hop("a: x>y", Some(1_000.0)), hop("b: x>y", Some(9_000.0))],
            slowest: Some(1),
            slowest_percent: Some(90.0),
        };
        let text = Page::plain(false, |page| flow_path(page, &answer));
        let slowest = "90 % of the delay is in b: x>y.";
        shows(&text, 80, &[slowest, "order is by name"]);
    }
}
