//! Rates over the last second or so.

use std::time::Instant;

use super::REFRESH;
use records::snapshot::{Port, Snapshot, Worker};

/// Counters as they were a second or so ago, to take rates from.
#[derive(Debug, Default)]
pub(super) struct Rates {
    base: Option<(Instant, Vec<Port>, Vec<Worker>)>,
}

impl Rates {
    /// Renews the rates in a snapshot whose counters were read at `now`; does nothing before a
    /// second is over.
    pub fn renew(&mut self, draft: &mut Snapshot, hz: f64, now: Instant) {
        if let Some((then, ports, workers)) = &self.base {
            let elapsed = now.duration_since(*then);
            if elapsed < REFRESH {
                return;
            }
            let seconds = elapsed.as_secs_f64();
            let rate = |now: u64, then: u64| now.saturating_sub(then) as f64 / seconds;
            for port in &mut draft.ports {
                let before = ports.iter().find(|before| before.name == port.name);
                let (rx, tx) =
                    before.map_or((0, 0), |p| (p.counts.rx_packets, p.counts.tx_packets));
                port.rx_pps = rate(port.counts.rx_packets, rx);
                port.tx_pps = rate(port.counts.tx_packets, tx);
            }
            for (worker, before) in draft.workers.iter_mut().zip(workers) {
                let busy_s = worker.busy_s - before.busy_s;
                let packets = worker.counts.busy_packets;
                let packets = packets.saturating_sub(before.counts.busy_packets);
                worker.busy_ratio = (busy_s / seconds).clamp(0.0, 1.0);
                worker.cycles_per_packet = if packets > 0 {
                    busy_s * hz / packets as f64
                } else {
                    0.0
                };
            }
        }
        self.base = Some((now, draft.ports.clone(), draft.workers.clone()));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    #[test]
    fn rates_are_taken_over_a_second() {
        let mut draft = Snapshot {
            ports: vec![Port::default()],
            workers: vec![Worker::default()],
            ..Snapshot::default()
        };
        let (mut rates, then) = (Rates::default(), Instant::now());
        rates.renew(&mut draft, 2e9, then);
        draft.ports[0].counts.rx_packets = 2_000;
        draft.workers[0].busy_s = 0.5;
        draft.workers[0].counts.busy_packets = 10_000_000;
        rates.renew(&mut draft, 2e9, then + Duration::from_millis(900));
        assert!(draft.ports[0].rx_pps < 1.0, "not yet");
        rates.renew(&mut draft, 2e9, then + Duration::from_secs(2));
        assert!((draft.ports[0].rx_pps - 1_000.0).abs() < 1e-9);
        assert!((draft.workers[0].busy_ratio - 0.25).abs() < 1e-9);
        assert!((draft.workers[0].cycles_per_packet - 100.0).abs() < 1e-9);
    }
}
