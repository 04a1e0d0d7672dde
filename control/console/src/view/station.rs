//! A station's answers as tables.

use std::fmt::Write;

use contract::units::{count, duration_ns};
use records::snapshot::title;
use records::station::{Missing, Paths, SegmentFigures, StationSegment, StationSegments};

use super::{known, table};

/// The chain of every path.
pub fn paths(answer: &Paths) -> String {
    let mut text = String::new();
    let several = answer.paths.len() > 1;
    for (n, path) in (1..).zip(&answer.paths) {
        if several {
            let _ = writeln!(
                text,
                "path {n} of {}: {}",
                answer.paths.len(),
                path.switches.join(" > ")
            );
        }
        let mut rows: Vec<[String; 7]> = (path.chain.iter())
            .map(|hop| {
                let age = known(hop.age_s, |age| format!("{age:.1} s"));
                row(hop.title.clone(), &hop.kind, hop.figures.as_ref(), age)
            })
            .collect();
        let of = if path.is_covered {
            "sum"
        } else {
            "sum of the covered"
        };
        let mut sum = row(of.to_owned(), "", Some(&path.sum), String::new());
        sum[5] = percent(path.loss_ratio);
        rows.push(sum);
        for measured in &path.end_to_end {
            let title = format!("end to end, by {}", measured.switch);
            rows.push(row(
                title,
                &measured.kind,
                Some(&measured.figures),
                format!("{:.1} s", measured.age_s),
            ));
        }
        let headings = "segment | kind | mean +-98% | stddev | p99 | lost | age";
        text += &table(headings, rows.into_iter());
        for hop in &path.chain {
            if let Some(hint) = &hop.hint {
                let _ = writeln!(text, "{}: {hint}", hop.title);
            }
        }
        text.push('\n');
    }
    if answer.is_cut {
        text += "There are more paths.\n";
    }
    text
}

fn row(title: String, kind: &str, figures: Option<&SegmentFigures>, age: String) -> [String; 7] {
    let of =
        |number: fn(&SegmentFigures) -> Option<f64>| known(figures.and_then(number), duration_ns);
    let lost = figures.map(|figures| figures.lost as f64 / figures.packets.max(1) as f64);
    let mean = of(|figures| figures.mean_ns);
    let mean = match figures.and_then(|figures| figures.bound_ns) {
        Some(bound) if bound > 0.0 => format!("{mean} +-{}", duration_ns(bound)),
        _ => mean,
    };
    [
        title,
        kind.to_owned(),
        mean,
        of(|figures| figures.stddev_ns),
        of(|figures| figures.p99_ns),
        known(lost, percent),
        age,
    ]
}

fn percent(ratio: f64) -> String {
    format!("{:.3} %", ratio.max(0.0) * 100.0)
}

/// Segments of all switches.
pub fn station_segments(answer: &StationSegments) -> String {
    let rows = answer.segments.iter().map(|segment| {
        let StationSegment {
            switch,
            from,
            to,
            class,
            ..
        } = segment;
        let title = format!("{switch}: {}", title(from, to, class));
        row(
            title,
            &segment.kind,
            Some(&segment.figures),
            format!("{:.1} s", segment.age_s),
        )
    });
    let mut text = table(
        "segment | kind | mean +-98% | stddev | p99 | lost | age",
        rows,
    );
    let left = answer.matching.saturating_sub(answer.segments.len() as u64);
    if left > 0 {
        let _ = writeln!(text, "{} more", count(left));
    }
    text
}

/// Who is silent, and what is missing of the others.
pub fn missing(answer: &Missing) -> String {
    let now_s = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
    let now_s = now_s.unwrap_or_default().as_secs_f64();
    let rows = answer.switches.iter().map(|switch| {
        let silent = known(switch.silent_since_unix_s, |since| {
            format!("for {:.0} s", (now_s - since).max(0.0))
        });
        let gap = switch
            .gaps
            .last()
            .map(|gap| format!("{} to {}", gap.first_epoch, gap.last_epoch));
        [
            switch.switch.clone(),
            silent,
            count(switch.epoch),
            count(switch.missed_epochs),
            known(gap, |gap| gap),
            count(switch.restarts),
            switch.problems.join("; "),
        ]
    });
    let headings = "switch | silent | last epoch | missed | last gap | restarts | problems";
    let mut text = table(headings, rows);
    let silent = answer
        .switches
        .iter()
        .filter(|switch| switch.silent_since_unix_s.is_some())
        .count();
    let _ = writeln!(text, "{silent} of {} switches are silent.", answer.known);
    for unreadable in &answer.unreadable {
        let _ = writeln!(text, "{}: {}.", unreadable.switch, unreadable.why);
    }
    if !answer.unreported.is_empty() {
        let _ = writeln!(text, "Never reported: {}.", answer.unreported.join(", "));
    }
    text
}

#[cfg(test)]
mod tests {
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
            kind: if figures.is_some() {
                "wire"
            } else {
                "uncovered"
            }
            .to_owned(),
            hint: figures.is_none().then(|| "probe this link".to_owned()),
            age_s: figures.is_some().then_some(0.4),
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
            ..PathAnswer::default()
        };
        let text = paths(&Paths {
            paths: vec![path],
            ..Paths::default()
        });
        assert!(
            text.contains("412.3 us +-7.40 us") || text.contains("+-7"),
            "{text}"
        );
        assert!(
            text.contains("sum of the covered") && text.contains("0.100 %"),
            "{text}"
        );
        assert!(text.contains("edge-2 > core: probe this link"), "{text}");
        assert!(
            text.lines().all(|line| line.chars().count() <= 100),
            "{text}"
        );
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
        let text = missing(&answer);
        for words in [
            "edge-1",
            "3 to 4",
            "1 of 3 switches are silent.",
            "Never reported: core.",
        ] {
            assert!(text.contains(words), "{text}");
        }
    }
}
