//! The switch as a whole, as plain text.

use std::fmt::Write;

use super::{known, listed};
use contract::units::{count, uptime};
use records::answers::StatusAnswer;
use records::snapshot::{
    Decoding, Exceptions, Fdb, FlowTotals, JudgedEstimates, Pool, Reload, ReloadOutcome, Status,
};

/// The estimates to use, among those that are judged.
const CHOSEN: &str = "chosen";

/// A line: what it is about, and its text.
type Line = (String, String);

/// The state of a switch, line by line: readiness, epoch, last reload, workers, memory, tables.
pub fn status(answer: &StatusAnswer) -> String {
    let lines = [
        general(&answer.status, &answer.unready),
        data_plane(&answer.status),
        flows(answer),
    ];
    let mut text = String::new();
    for (head, rest) in lines.iter().flatten() {
        let _ = writeln!(text, "{head:<10} {rest}");
    }
    text
}

fn line(head: &str, rest: String) -> Line {
    (head.to_owned(), rest)
}

fn general(status: &Status, unready: &[String]) -> Vec<Line> {
    let Status {
        switch,
        version,
        generation,
        contained_panics: faults,
        ..
    } = status;
    let (state, up) = (status.state.label(), uptime(status.uptime_s));
    let ready = match unready {
        [] => "yes".to_owned(),
        reasons => format!("NO: {}", reasons.join("; ")),
    };
    let epoch = match status.epoch {
        _ if !status.measuring => "measurement off".to_owned(),
        Some(epoch) => format!("{epoch} of {} ms", status.interval_ms),
        None => "the first has not closed yet".to_owned(),
    };
    let mut lines = vec![
        line(
            "switch",
            format!("{switch}, vernier {version}, {state}, up {up}"),
        ),
        line("ready", ready),
    ];
    if *faults > 0 {
        let request =
            "faults of this program were contained: please report the log's lines about them";
        lines.push(line("faults", format!("{faults} {request}")));
    }
    lines.push(line("epoch", format!("{epoch}, generation {generation}")));
    lines.extend(
        status
            .reload
            .as_ref()
            .map(|reload| line("reload", reloaded(reload))),
    );
    lines
}

fn reloaded(reload: &Reload) -> String {
    let outcome = match reload.outcome {
        ReloadOutcome::Reading => "is being read",
        ReloadOutcome::Refused => "REFUSED",
        ReloadOutcome::Unchanged => "changed nothing",
        ReloadOutcome::UnderWay => "is under way",
        ReloadOutcome::Done => "done",
    };
    let colon = if reload.message.is_empty() { "" } else { ": " };
    format!("{} {outcome}{colon}{}", reload.number, reload.message)
}

/// Workers, pools, addresses, and packets that are not measured as others are.
fn data_plane(status: &Status) -> Vec<Line> {
    let mut lines = Vec::new();
    for (index, worker) in status.workers.iter().enumerate() {
        let words = if worker.is_stalled {
            "STALLED".to_owned()
        } else {
            format!(
                "{:.0}% busy, {:.0} cycles a packet, {} epochs missed",
                worker.busy_ratio * 100.0,
                worker.cycles_per_packet,
                worker.missed_epochs
            )
        };
        lines.push((format!("worker {index}"), words));
    }
    for Pool { name, used, size } in &status.pools {
        lines.push((
            format!("pool {name}"),
            format!("{used} of {size} buffers in use"),
        ));
    }
    lines.extend(
        status
            .fdb
            .as_ref()
            .map(|fdb| line("addresses", addresses(fdb))),
    );
    let Exceptions {
        backward_packets,
        outlived_packets,
    } = status.exceptions;
    for (packets, words) in [
        (
            backward_packets,
            "with negative delays, taken as 0: counters of cores disagree",
        ),
        (
            outlived_packets,
            "outlived their generation, and count in no segment",
        ),
    ] {
        if packets > 0 {
            lines.push(line("packets", format!("{} {words}", count(packets))));
        }
    }
    lines
}

fn flows(answer: &StatusAnswer) -> Vec<Line> {
    let tracked = answer.flows.as_ref().map(|flows| {
        let untracked = flows.untracked.iter().filter(|reason| reason.packets > 0);
        let untracked =
            untracked.map(|reason| format!("{} packets {}", count(reason.packets), reason.label));
        let untracked = match listed(untracked) {
            Some(reasons) => format!("untracked: {reasons}"),
            None => "none untracked".to_owned(),
        };
        let FlowTotals {
            tracked,
            free_slots,
            ..
        } = flows;
        line(
            "flows",
            format!("{tracked} tracked, {free_slots} slots free; {untracked}"),
        )
    });
    let decoding = answer.decoding.as_ref();
    let decoding = decoding.map(|decoding| line("decoding", decoded(decoding)));
    let judged = answer
        .judged
        .iter()
        .any(|one| one.method == CHOSEN)
        .then(|| line("estimates", judged(&answer.judged)));
    tracked.into_iter().chain(decoding).chain(judged).collect()
}

fn addresses(fdb: &Fdb) -> String {
    let refused = [
        (fdb.stats.evictions, "evicted"),
        (fdb.stats.overflows, "without room"),
        (fdb.stats.limited, "over a port's limit"),
    ];
    let refused = refused.into_iter().filter(|&(n, _)| n > 0);
    let refused = refused.map(|(n, what)| format!(", {} {what}", count(n)));
    let known = format!("{} of {} known", fdb.entries, fdb.capacity);
    std::iter::once(known).chain(refused).collect()
}

fn decoded(decoding: &Decoding) -> String {
    let Some(epoch) = decoding.epoch else {
        return "none yet".to_owned();
    };
    let (flows, ms) = (decoding.flows, decoding.duration_s * 1e3);
    format!("epoch {epoch}: {flows} flows in {ms:.0} ms")
}

/// How the estimates to use compare with stamps, by size of flows.
fn judged(kinds: &[JudgedEstimates]) -> String {
    let chosen = kinds.iter().filter(|one| one.method == CHOSEN);
    let words = chosen.map(|one| {
        let bounded = one.within_bound + one.beyond_bound;
        let within = one.within_bound as f64 * 100.0 / bounded.max(1) as f64;
        let error = known(one.error_ratio_median, |error| {
            format!("{:.2}%", error * 100.0)
        });
        format!("{} packets: {error}, {within:.1}%", one.size)
    });
    let words: Vec<String> = words.collect();
    format!(
        "median error and bounds that held, of flows of {}",
        words.join("; ")
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use records::snapshot::Snapshot;

    #[test]
    fn a_switch_is_described_line_by_line() {
        let mut snapshot = Snapshot::example();
        snapshot.ports[0].facts.is_up = false;
        snapshot.contained_panics = 2;
        snapshot.reload = Some(Reload {
            number: 3,
            outcome: ReloadOutcome::Refused,
            message: "name: no".to_owned(),
        });
        let expected = "\
switch     demo, vernier 0.1.0, running, up 20s
ready      NO: port east: link is down
faults     2 faults of this program were contained: please report the log's lines about them
epoch      81 of 250 ms, generation 1
reload     3 REFUSED: name: no
worker 0   25% busy, 188 cycles a packet, 1 epochs missed
pool node0 1200 of 65535 buffers in use
addresses  2000 of 65536 known, 12 evicted, 40 over a port's limit
packets    4 with negative delays, taken as 0: counters of cores disagree
packets    9 outlived their generation, and count in no segment
flows      50000 tracked, 15500 slots free; untracked: 40 packets no_free_slot, 2 packets no_place
decoding   epoch 81: 50000 flows in 82 ms
estimates  median error and bounds that held, of flows of 100-999 packets: 0.04%, 99.2%
";
        assert_eq!(status(&StatusAnswer::from(&snapshot)), expected);
    }
}
