//! What had to hold.

use reporting::Checks;
use reporting::statistics::mean;

use crate::wire::around;
use crate::wire::asked;
use crate::wire::attack;
use crate::wire::flood;
use crate::wire::memif;
use crate::wire::report::{self, ARROWS, Report, list, packets_of, percent};
use crate::wire::scenario::Way;
use crate::wire::verdict::{CHOSEN, FlowClass, FlowErrors, Verdict};

/// Least share of epochs in which the truth is within a bound of nominal 98 %.
const WITHIN_MIN: f64 = 0.93;
/// Least number of epochs for such a share.
const EPOCHS_MIN: usize = 100;
/// Least number of flows, each in an epoch, for a median.
const FLOWS_MIN: usize = 100;
/// Most by which the chooser's error may exceed the best single method's, for flows of one size in one run.
const CHOOSER_MAX: f64 = 1.1;
/// And by the geometric mean over all of them: far better known, so far closer.
const CHOOSER_MEAN_MAX: f64 = 1.03;
/// Least number of sizes of flows, over all runs, for this mean.
const CLASSES_MIN: usize = 20;
/// Most median error of a flow's 99th percentile.
const TAIL_ERROR_MAX: f64 = 0.3;
/// And of its standard deviation.
const DEVIATION_ERROR_MAX: f64 = 0.25;
/// Least share of all flows asked for whose mean is within its bound.
const ASKED_WITHIN_MIN: f64 = 0.96;
/// Most that references may take of the data's bytes at high load.
const REFERENCES_MAX: f64 = 0.002;

/// All limits of a report.
pub fn checks(report: &Report) -> Checks {
    let mut checks = Checks::default();
    for (name, why) in &report.failed {
        checks.add(format!("{name}: comes to an end"), why, false);
    }
    for (run, arrow, way) in report.ways() {
        check_way(&format!("{}, {arrow}", run.name), way, &mut checks);
    }
    for attack in report.runs.iter().filter_map(|run| run.attack.as_ref()) {
        check_attack(attack, &mut checks);
    }
    if let Some(memif) = &report.memif {
        check_memif(memif, &mut checks);
    }
    let of_memif = report.memif.iter().map(|memif| &memif.verdict);
    check_chooser(
        report.ways().map(|(.., way)| &way.verdict).chain(of_memif),
        &mut checks,
    );
    for (arrow, way) in ARROWS.into_iter().zip(report.around.iter().flatten()) {
        check_around(arrow, way, &mut checks);
    }
    if let Some(asked) = &report.asked {
        check_asked(asked, &mut checks);
    }
    if let Some(flood) = &report.flood {
        check_flood(flood, &mut checks);
    }
    checks
}

fn check_way(name: &str, way: &Way, checks: &mut Checks) {
    check_verdict(name, &way.verdict, checks);
    if let Some(compared) = way.compared {
        checks.add(
            format!("{name}: data packets changed"),
            format!("{} of {}", compared.changed, compared.received),
            compared.changed == 0 && compared.received > 0,
        );
    }
    checks.add(
        format!("{name}: control frames that got out of a switch"),
        way.leaked,
        way.leaked == 0,
    );
    let share = way.overhead.control_bps / way.overhead.share_bps;
    check_share(name, share, checks);
}

fn check_share(name: &str, share: f64, checks: &mut Checks) {
    let what = format!("{name}: control frames, of the bits that they may take");
    checks.add(what, percent(share), share <= 1.0);
}

fn check_verdict(name: &str, verdict: &Verdict, checks: &mut Checks) {
    let usable = verdict.usable;
    checks.add(
        format!("{name}: usable epochs, {EPOCHS_MIN} at least"),
        format!("{usable} of {}", verdict.path.epochs),
        usable >= EPOCHS_MIN,
    );
    if let Some(chosen) = verdict.means.iter().find(|of| of.method == CHOSEN) {
        let share = chosen.within_share();
        let what = format!("{name}: truth within the bound of the mean, 93 % at least");
        checks.add(what, percent(share), share >= WITHIN_MIN);
    }
    let (exact, counted) = (verdict.counts_exact, verdict.counted);
    checks.add(
        format!("{name}: sent, received and lost packets exact wherever they are known"),
        format!("{exact} of {counted}"),
        exact == counted && counted > 0,
    );
    let tails = verdict.tails;
    if tails.known >= FLOWS_MIN {
        checks.add(
            format!(
                "{name}: median error of p99 over flows of 1000 packets and more, 30 % at most"
            ),
            format!("{} of {} flows", percent(tails.error), tails.known),
            tails.error <= TAIL_ERROR_MAX,
        );
    }
    let judged: Vec<_> = judged(verdict).collect();
    checks.add(
        format!("{name}: sizes of flows with enough flows to judge the chooser"),
        judged.len(),
        !judged.is_empty(),
    );
    for (class, chosen, best) in judged {
        let what = format!(
            "{name}: median error over flows of {} packets by the chooser, as far as so many flows tell, \
             the best method's + 10 % at most",
            packets_of(class)
        );
        let got = format!(
            "{}, {} at least ({} {})",
            percent(chosen.error),
            percent(chosen.error_min),
            best.method,
            percent(best.error)
        );
        checks.add(what, got, chosen.error_min <= best.error * CHOOSER_MAX);
    }
}

/// Sizes of flows with enough flows to judge the chooser, with its errors and the best single method's.
fn judged(verdict: &Verdict) -> impl Iterator<Item = (&FlowClass, &FlowErrors, &FlowErrors)> {
    let classes = verdict.flows.iter().filter(|class| !class.is_all());
    let compared = classes.filter_map(|class| {
        let (chosen, best) = class.chosen_and_best()?;
        Some((class, chosen, best))
    });
    compared.filter(|(_, chosen, _)| chosen.flows >= FLOWS_MIN)
}

/// The chooser over everything that was judged, where that is enough.
fn check_chooser<'v>(verdicts: impl Iterator<Item = &'v Verdict>, checks: &mut Checks) {
    let judged = verdicts.flat_map(judged);
    let ratios: Vec<_> = judged
        .map(|(_, chosen, best)| (chosen.error / best.error).ln())
        .collect();
    if ratios.len() >= CLASSES_MIN {
        let excess = mean(ratios.iter().copied()).exp();
        checks.add(
            "error of the chooser by the best method's, geometric mean over all sizes of flows judged, 1.03 at most",
            format!("{excess:.3} ({} sizes)", ratios.len()),
            excess <= CHOOSER_MEAN_MAX,
        );
    }
}

fn check_attack(attack: &attack::Outcome, checks: &mut Checks) {
    let by_scapy = attack.by_scapy();
    let sent = [by_scapy, by_scapy + attack.made_up];
    for ((switch, sent), refused) in (1..).zip(sent).zip(&attack.at) {
        let frames = refused.frames();
        let least = sent - attack.old_hellos();
        checks.add(
            format!("attack: frames sent to switch {switch}, all counted as refused, but for some old hellos"),
            format!("{frames} of {sent}"),
            (least.max(1)..=sent).contains(&frames),
        );
        checks.add(
            format!("attack: useless frames that switch {switch} accepted"),
            refused.useless,
            refused.useless == 0,
        );
    }
    for (arrow, lost) in ARROWS.into_iter().zip(&attack.epochs_lost) {
        let what = format!("attack: epochs lost, {arrow}");
        checks.add(what, list(lost), lost.is_empty());
    }
}

fn check_memif(memif: &memif::Outcome, checks: &mut Checks) {
    check_verdict("memif", &memif.verdict, checks);
    check_share("memif", memif.full.control_of_share, checks);
    let references = memif.full.references_of_data;
    checks.add(
        "memif: references at the highest rate with IMIX, of the data's bytes, 0.2 % at most",
        percent(references),
        references < REFERENCES_MAX,
    );
}

fn check_around(arrow: &str, way: &around::Way, checks: &mut Checks) {
    let of = |of: &around::Figures| [of.entered, of.returned, of.lost];
    let (seen, truth) = (of(&way.seen), of(&way.truth));
    let [entered, returned, lost] = seen;
    checks.add(
        format!("around the box, {arrow}: packets that entered, came back, were lost and were not known, exactly"),
        format!("{entered}, {returned}, {lost}, {}", way.unknown),
        seen == truth && lost > 0 && way.unknown == 0,
    );
    checks.add(
        format!("around the box, {arrow}: mean by the mean of the box, 1 at least"),
        format!("{:.4}", way.seen.mean_ns / way.truth.mean_ns),
        way.seen.mean_ns >= way.truth.mean_ns,
    );
}

fn check_asked(asked: &asked::Outcome, checks: &mut Checks) {
    checks.add(
        "asked: flows without an answer that had packets",
        format!("{} of {}", asked.missed, asked.asked),
        asked.missed == 0 && asked.answered * 100 >= asked.asked * 98,
    );
    if let Some(all) = asked.sizes.last() {
        let share = all.within as f64 / all.bounded as f64;
        checks.add(
            "asked: flows whose bound holds their mean, 96 % at least, and flows with a bound, 99 % at least",
            format!("{} of {} of {}", percent(share), all.bounded, asked.answered),
            share >= ASKED_WITHIN_MIN && all.bounded * 100 >= asked.answered * 99,
        );
        checks.add(
            "asked: flows that lost more packets than said",
            all.lost_more,
            all.lost_more == 0,
        );
    }
    for (what, judged, most) in [
        (
            "standard deviation, flows of 100 packets and more, 25 %",
            &asked.deviation,
            DEVIATION_ERROR_MAX,
        ),
        (
            "p99, flows of 1000 packets and more, 30 %",
            &asked.p99,
            TAIL_ERROR_MAX,
        ),
    ] {
        checks.add(
            format!("asked: median error of the {what} at most"),
            report::judged(judged),
            judged.error <= most && judged.known * 2 > judged.flows,
        );
    }
    checks.add(
        "asked: references, of the data's bytes, 0.2 % at most",
        percent(asked.references_of_data),
        asked.references_of_data < REFERENCES_MAX,
    );
}

fn check_flood(flood: &flood::Outcome, checks: &mut Checks) {
    let (epochs, missed) = flood.flooded.epochs();
    checks.add(
        format!("flood: epochs missed, of {EPOCHS_MIN} at least"),
        format!("{missed} of {epochs}"),
        missed == 0 && epochs >= EPOCHS_MIN as u64,
    );
    let kept = if flood.is_session_kept { "yes" } else { "no" };
    checks.add("flood: sessions kept", kept, flood.is_session_kept);
    let lost = flood.lost_packets;
    checks.add("flood: packets lost beside it", lost, lost == 0);
    let counted = flood.accepted + flood.refused.frames();
    let sent = flood.replayed + flood.hellos;
    checks.add(
        "flood: hellos, all counted as accepted or refused",
        format!("{counted} of {sent}"),
        counted == sent && flood.replayed > 0,
    );
}

#[cfg(test)]
mod tests;
