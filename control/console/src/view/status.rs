//! The switch as a whole, as plain text.

use super::{Page, known, listed};
use contract::units::{count, uptime};
use records::answers::StatusAnswer;
use records::snapshot::{Decoding, Fdb, JudgedEstimates, Pool, Reload, ReloadOutcome, Status};

/// The estimates to use, among those that are checked.
const CHOSEN: &str = "chosen";

/// The state of a switch, line by line: readiness, epoch, last reload, workers, memory, tables.
pub fn status(page: &mut Page, answer: &StatusAnswer) {
    let lines = [
        general(&answer.status, &answer.unready),
        data_plane(&answer.status),
        flows(answer),
    ];
    page.say(&(lines.concat().join("\n") + "\n"));
}

fn general(status: &Status, unready: &[String]) -> Vec<String> {
    let (switch, version) = (&status.switch, &status.version);
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
        format!("switch     {switch}, vernier {version}, {state}, up {up}"),
        format!("ready      {ready}"),
    ];
    if status.contained_panics > 0 {
        lines.push(format!(
            "faults     {} faults of this program were contained: please report the log's lines about them",
            status.contained_panics
        ));
    }
    lines.push(format!(
        "epoch      {epoch}, generation {}",
        status.generation
    ));
    lines.extend(status.reload.as_ref().map(reloaded));
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
    format!(
        "reload     {} {outcome}{colon}{}",
        reload.number, reload.message
    )
}

/// Workers, pools, addresses, and packets that are not measured normally.
fn data_plane(status: &Status) -> Vec<String> {
    let workers = status.workers.iter().enumerate().map(|(index, worker)| {
        let busy = worker.busy_ratio * 100.0;
        let (cycles, missed) = (worker.cycles_per_packet, worker.missed_epochs);
        let head = format!("worker {index}");
        if worker.is_stalled {
            format!("{head:<10} STALLED")
        } else {
            format!(
                "{head:<10} {busy:.0}% busy, {cycles:.0} cycles a packet, {missed} epochs missed"
            )
        }
    });
    let pools = status.pools.iter().map(|Pool { name, used, size }| {
        let head = format!("pool {name}");
        format!("{head:<10} {used} of {size} buffers in use")
    });
    let exceptions = [
        (
            status.exceptions.backward_packets,
            "with negative delays, taken as 0: counters of cores disagree",
        ),
        (
            status.exceptions.outlived_packets,
            "outlived their generation, and count in no segment",
        ),
    ];
    let exceptions = exceptions.into_iter().filter(|(packets, _)| *packets > 0);
    let exceptions =
        exceptions.map(|(packets, words)| format!("packets    {} {words}", count(packets)));
    let lines = workers
        .chain(pools)
        .chain(status.fdb.as_ref().map(addresses));
    lines.chain(exceptions).collect()
}

fn flows(answer: &StatusAnswer) -> Vec<String> {
    let tracked = answer.flows.as_ref().map(|flows| {
        let untracked = flows.untracked.iter().filter(|reason| reason.packets > 0);
        let untracked =
            untracked.map(|reason| format!("{} packets {}", count(reason.packets), reason.label));
        let untracked = match listed(untracked) {
            Some(reasons) => format!("untracked: {reasons}"),
            None => "none untracked".to_owned(),
        };
        let (tracked, free) = (flows.tracked, flows.free_slots);
        format!("flows      {tracked} tracked, {free} slots free; {untracked}")
    });
    let decoding = answer.decoding.as_ref().map(decoded);
    let chosen = answer.judged.iter().filter(|one| one.method == CHOSEN);
    let judged: Vec<String> = chosen.map(judged).collect();
    let judged = (!judged.is_empty()).then(|| {
        format!(
            "estimates  median error and bounds that held, of flows of {}",
            judged.join("; ")
        )
    });
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
    let known = format!("addresses  {} of {} known", fdb.entries, fdb.capacity);
    std::iter::once(known).chain(refused).collect()
}

fn decoded(decoding: &Decoding) -> String {
    let Some(epoch) = decoding.epoch else {
        return "decoding   none yet".to_owned();
    };
    let (flows, ms) = (decoding.flows, decoding.duration_s * 1e3);
    format!("decoding   epoch {epoch}: {flows} flows in {ms:.0} ms")
}

/// How the estimates to use compare with stamps, for flows of one size.
fn judged(kind: &JudgedEstimates) -> String {
    let bounded = kind.within_bound + kind.beyond_bound;
    let within = kind.within_bound as f64 * 100.0 / bounded.max(1) as f64;
    let error = known(kind.error_ratio_median, |error| {
        format!("{:.2}%", error * 100.0)
    });
    format!("{} packets: {error}, {within:.1}%", kind.size)
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
        let answer = StatusAnswer::from(&snapshot);
        assert_eq!(Page::plain(false, |page| status(page, &answer)), expected);
    }
}
