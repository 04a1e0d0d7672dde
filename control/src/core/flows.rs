//! What is published of flows: made anew at the end of each epoch, once its estimates are there.

use std::sync::Arc;

use measure::time::{Epoch, TickRate};

use super::CoreState;
use crate::decode::{EpochCells, Sketches};
use crate::flows::{self, FlowSums, TopSettings};
use contract::config::Config;
use contract::counters::FlowTableCounters;
use records::snapshot::{
    Credit, FlowFigures, FlowList, FlowRecord, FlowTotals, Flows, Labelled, OtherFlows, Snapshot,
    TopFlow,
};

/// What is published of flows, as it was at the end of an epoch.
#[derive(Debug, Default)]
pub(super) struct FlowViews {
    list: Arc<FlowList>,
    ended: Arc<FlowList>,
    /// The sketches of the same epoch; `None` where none are kept.
    pub sketches: Option<Arc<Sketches>>,
}

/// Who has series of its own, by the configuration.
pub(super) fn top_settings(config: &Config) -> TopSettings {
    let hold_ms = u64::from(config.prometheus.top_hold_s) * 1_000;
    // A rule that was checked can be taken.
    let pinned = config.prometheus.pinned.iter();
    TopSettings {
        places: config.prometheus.top_flows as usize,
        hold_epochs: hold_ms.div_ceil(u64::from(config.measurement.interval_ms.max(1))),
        pinned: pinned.filter_map(|rule| rule.try_into().ok()).collect(),
    }
}

impl CoreState {
    /// An epoch has closed: its sketches are decoded, or its flows published as they are.
    pub(super) fn close_flows(&mut self, epoch: Epoch) {
        let (cells, untaken) = self.segments.take_cells();
        self.decoder.skip(untaken);
        if self.awaited.take().is_some() {
            tracing::debug!(epoch = epoch.0, "estimates come later than the next epoch");
        }
        let now = self.monotonic();
        let is_awaited = cells.is_some_and(|cells| {
            let is_awaited = self.decoder.close(&cells, &mut self.flows, now);
            self.coming = Some(Arc::new(self.sketches_of(cells)));
            is_awaited
        });
        if is_awaited {
            self.awaited = Some(epoch);
        } else {
            self.view_flows(epoch);
        }
    }

    fn sketches_of(&self, cells: EpochCells) -> Sketches {
        let config = self.draft.config.as_ref();
        let lds = config.and_then(|config| config.measurement.lds.as_ref());
        let decode = lds.and_then(|lds| lds.decode.as_ref());
        Sketches {
            hasher: self.hasher.clone(),
            rate: self.rate,
            components: decode.map_or(1, |decode| decode.components.into()),
            cells,
            names: self.segments.names(),
        }
    }

    /// Takes what has been decoded; whether there was anything.
    pub(super) fn take_estimates(&mut self) -> bool {
        let Some(epoch) = self.decoder.take(&mut self.flows) else {
            return false;
        };
        if self.awaited.is_some_and(|awaited| awaited == epoch) {
            self.awaited = None;
            self.view_flows(epoch);
        }
        true
    }

    fn view_flows(&mut self, epoch: Epoch) {
        let interval_ms = self.draft.interval_ms;
        self.flows.close(epoch, self.rate, interval_ms);
        let names = self.segments.names();
        let rate = self.rate;
        let list = |flows: Vec<FlowRecord>| {
            Arc::new(FlowList {
                epoch: Some(epoch.0),
                segments: names.clone(),
                flows,
            })
        };
        self.flow_views = FlowViews {
            list: list(self.flows.iter().map(|flow| record(flow, rate)).collect()),
            ended: list(self.flows.ended().map(|flow| record(flow, rate)).collect()),
            sketches: self.coming.take(),
        };
    }

    /// All that is published of flows; `None` where none are tracked.
    pub(super) fn published_flows(&self, snapshot: &Snapshot) -> Option<Flows> {
        let slots = self.newest()?.slots() as u64;
        if slots == 0 {
            return None;
        }
        let free_slots = self.counters.iter().map(|own| own.flows.free_slots.get());
        let free_slots = free_slots.sum();
        let mut untracked = FlowTableCounters::default()
            .untracked()
            .map(|(label, _)| (label, 0));
        for own in &self.counters {
            for (sum, (_, counter)) in untracked.iter_mut().zip(own.flows.untracked()) {
                sum.1 += counter.get();
            }
        }
        let comings = self.flows.comings();
        let list = &self.flow_views.list;
        let names = self.segments.names();
        let top = self.flows.top();
        let seconds_per_tick = 1.0 / self.rate.hz() as f64;
        let credit = |sums: &FlowSums| Credit {
            packets: sums.packets,
            delay_sum_s: sums.sum_ticks as f64 * seconds_per_tick,
            lost_packets: sums.lost,
        };
        let shown = top.iter().map(|held| TopFlow {
            flow: snapshot.flow(list, &record(&held.flow, self.rate)),
            reason: held.reason.label().to_owned(),
            since_epoch: held.since.0,
            credited: credit(&held.credited),
            history: held.history.clone(),
        });
        let mut other: Vec<OtherFlows> = top
            .other()
            .filter_map(|(segment, sums)| {
                let name = names.get(segment as usize)?;
                Some(OtherFlows {
                    ingress: name.ingress.clone(),
                    egress: name.egress.clone(),
                    class: name.class.clone(),
                    credited: credit(&sums),
                })
            })
            .collect();
        other.sort_unstable_by(|a, b| {
            let (a, b) = (
                [&a.ingress, &a.egress, &a.class],
                [&b.ingress, &b.egress, &b.class],
            );
            a.cmp(&b)
        });
        let totals = FlowTotals {
            tracked: self.flows.len() as u64,
            slots,
            free_slots,
            new: comings.new,
            expired: comings.expired,
            evicted: comings.evicted,
            untracked: untracked
                .map(|(label, packets)| Labelled {
                    label: label.to_owned(),
                    packets,
                })
                .to_vec(),
            folded: top.folded(),
        };
        Some(Flows {
            totals,
            top: shown.collect(),
            other,
            decoding: self.decoder.shown(),
            list: Arc::clone(list),
            ended: Arc::clone(&self.flow_views.ended),
        })
    }
}

fn record(flow: &flows::Flow, rate: TickRate) -> FlowRecord {
    FlowRecord {
        key: flow.key,
        segment: flow.segment,
        first_epoch: flow.first.0,
        last_epoch: flow.last.0,
        last: figures(&flow.recent, rate),
        total: figures(&flow.total, rate),
        estimate: flow.estimate,
        rli_mean_ns: flow.estimated.mean_ticks().map(|ticks| rate.to_ns(ticks)),
    }
}

fn figures(sums: &FlowSums, rate: TickRate) -> FlowFigures {
    let ns = |ticks: Option<f64>| rate.to_ns(ticks.unwrap_or(0.0));
    FlowFigures {
        packets: sums.packets,
        bytes: sums.bytes,
        lost_packets: sums.lost,
        mean_ns: ns(sums.mean_ticks()),
        stddev_ns: ns(sums.stddev_ticks()),
    }
}
