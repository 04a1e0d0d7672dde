//! The switch as a whole, as plain text.

use std::fmt::Write;

use contract::units::{count, uptime};
use records::answers::Status;
use records::snapshot::{Decoding, Exceptions, Fdb, ReloadOutcome};

/// What a switch is doing, line by line: readiness, epoch, last reload, workers, memory, tables.
pub fn status(status: &Status) -> String {
    let Status {
        switch, version, ..
    } = status;
    let mut text = String::new();
    let mut line = |head: &str, rest: &str| {
        let _ = writeln!(text, "{head:<10} {rest}");
    };
    let (state, up) = (status.state.label(), uptime(status.uptime_s));
    line(
        "switch",
        &format!("{switch}, vernier {version}, {state}, up {up}"),
    );
    if status.unready.is_empty() {
        line("ready", "yes");
    } else {
        line("ready", &format!("NO: {}", status.unready.join("; ")));
    }
    if status.contained_panics > 0 {
        let words =
            "faults of this program were contained: please report what the log says of them";
        line("faults", &format!("{} {words}", status.contained_panics));
    }
    let epoch = match status.epoch {
        _ if !status.measuring => "measurement off".to_owned(),
        Some(epoch) => format!("{epoch} of {} ms", status.interval_ms),
        None => "the first has not closed yet".to_owned(),
    };
    line(
        "epoch",
        &format!("{epoch}, generation {}", status.generation),
    );
    if let Some(reload) = &status.reload {
        let outcome = match reload.outcome {
            ReloadOutcome::Reading => "is being read",
            ReloadOutcome::Refused => "REFUSED",
            ReloadOutcome::Unchanged => "changed nothing",
            ReloadOutcome::UnderWay => "is being taken up",
            ReloadOutcome::Done => "done",
        };
        let colon = if reload.message.is_empty() { "" } else { ": " };
        let words = format!("{} {outcome}{colon}{}", reload.number, reload.message);
        line("reload", &words);
    }
    for (index, worker) in status.workers.iter().enumerate() {
        let what = if worker.is_stalled {
            "STALLED".to_owned()
        } else {
            format!(
                "{:.0}% busy, {:.0} cycles a packet, {} epochs missed",
                worker.busy_ratio * 100.0,
                worker.cycles_per_packet,
                worker.missed_epochs
            )
        };
        line(&format!("worker {index}"), &what);
    }
    for pool in &status.pools {
        let words = format!("{} of {} buffers in use", pool.used, pool.size);
        line(&format!("pool {}", pool.name), &words);
    }
    if let Some(fdb) = &status.fdb {
        line("addresses", &addresses(fdb));
    }
    for (packets, what) in exceptions(&status.exceptions) {
        line("packets", &format!("{} {what}", count(packets)));
    }
    if let Some(flows) = &status.flows {
        let untracked = flows.untracked.iter().filter(|reason| reason.packets > 0);
        let untracked: Vec<String> = untracked
            .map(|reason| format!("{} packets {}", count(reason.packets), reason.label))
            .collect();
        let untracked = if untracked.is_empty() {
            "none untracked".to_owned()
        } else {
            format!("untracked: {}", untracked.join(", "))
        };
        line(
            "flows",
            &format!(
                "{} tracked, {} slots free; {untracked}",
                flows.tracked, flows.free_slots
            ),
        );
    }
    if let Some(decoding) = &status.decoding {
        line("decoding", &decoded(decoding));
    }
    text
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

/// Packets whose measurement is not as that of others, where there are any.
fn exceptions(of: &Exceptions) -> impl Iterator<Item = (u64, &'static str)> {
    let all = [
        (
            of.backward_packets,
            "left before they came: counters of cores disagree",
        ),
        (
            of.outlived_packets,
            "outlived their generation, and count in no segment",
        ),
    ];
    all.into_iter().filter(|&(packets, _)| packets > 0)
}

fn decoded(decoding: &Decoding) -> String {
    let Some(epoch) = decoding.epoch else {
        return "none yet".to_owned();
    };
    let share = decoding.within_bound as f64 * 100.0 / decoding.estimates.max(1) as f64;
    let error = decoding
        .error_ratio_median
        .map_or_else(String::new, |error| {
            format!(
                "; the median error of flows of 10 packets and more is {:.2}%",
                error * 100.0
            )
        });
    format!(
        "epoch {epoch}: {} flows in {:.0} ms; the true mean lay inside the bound for {share:.1}% of all \
         estimates{error}",
        decoding.flows,
        decoding.duration_s * 1e3
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use records::snapshot::{Reload, Snapshot};

    #[test]
    fn a_switch_is_told_line_by_line() {
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
faults     2 faults of this program were contained: please report what the log says of them
epoch      81 of 250 ms, generation 1
reload     3 REFUSED: name: no
worker 0   25% busy, 188 cycles a packet, 1 epochs missed
pool node0 1200 of 65535 buffers in use
addresses  2000 of 65536 known, 12 evicted, 40 over a port's limit
packets    4 left before they came: counters of cores disagree
packets    9 outlived their generation, and count in no segment
flows      50000 tracked, 15500 slots free; untracked: 40 packets no_free_slot, 2 packets no_place
decoding   epoch 81: 50000 flows in 82 ms; the true mean lay inside the bound for 99.2% of all \
estimates; the median error of flows of 10 packets and more is 0.04%
";
        assert_eq!(status(&Status::from(&snapshot)), expected);
    }
}
