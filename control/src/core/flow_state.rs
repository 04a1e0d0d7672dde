//! Flows: their directory, the decoder of their sketches, and the published lists of both, updated at the
//! end of each epoch once its estimates are ready.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Instant;

use measure::chooser;
use measure::packet::{FlowHash, FlowKey, Hasher};
use measure::rli::{FlowDelay, Method};
use measure::time::{Epoch, TickRate};

use super::labelled;
use super::segments::Segments;
use super::workers::Workers;
use crate::data_plane::ResultMode;
use crate::decode::{self, Decoder, EpochCells, Sketches};
use crate::flows::{self, Directory, FlowSums, TopSettings};
use contract::config::Config;
use contract::counters::FlowTableCounters;
use records::snapshot::{
    Credit, FlowFigures, FlowList, FlowMore, FlowName, FlowQuantiles, FlowRecord, FlowReferences,
    FlowTotals, Flows, OtherFlows, ReferenceFigures, SegmentName, Snapshot, TopFlow,
};

/// All state of flows.
#[derive(Debug)]
pub(super) struct FlowState {
    rate: TickRate,
    hasher: Hasher,
    settings: Settings,
    pub directory: Directory,
    decoder: Decoder,
    /// The sketches of the epoch whose flows are published next.
    coming: Option<Arc<Sketches>>,
    /// The epoch whose flows wait for estimates before they are published.
    awaited: Option<Epoch>,
    views: FlowViews,
}

/// Configuration of flows.
#[derive(Debug, Default)]
struct Settings {
    interval_ms: u32,
    /// Components of the prior for decoding flows.
    components: usize,
    top: TopSettings,
}

/// The published flows, as of the end of an epoch.
#[derive(Debug, Default)]
struct FlowViews {
    list: Arc<FlowList>,
    ended: Arc<FlowList>,
    /// The sketches of the same epoch; `None` without sketches.
    sketches: Option<Arc<Sketches>>,
}

impl Settings {
    fn new(config: &Config) -> Self {
        let interval_ms = config.measurement.interval_ms;
        let hold_ms = u64::from(config.prometheus.top_hold_s) * 1_000;
        let lds = config.measurement.lds.as_ref();
        let decode = lds.and_then(|lds| lds.decode.as_ref());
        // Rules were checked before.
        let pinned = config.prometheus.pinned.iter();
        Self {
            interval_ms,
            components: decode.map_or(1, |decode| decode.components.into()),
            top: TopSettings {
                flows_max: config.prometheus.top_flows as usize,
                hold_epochs: hold_ms.div_ceil(u64::from(interval_ms.max(1))),
                pinned: pinned.copied().collect(),
            },
        }
    }
}

impl FlowState {
    /// No flows.
    pub fn new(rate: TickRate, hasher: Hasher, decoding: ResultMode) -> Self {
        Self {
            rate,
            hasher,
            settings: Settings::default(),
            directory: Directory::default(),
            decoder: Decoder::new(decoding),
            coming: None,
            awaited: None,
            views: FlowViews::default(),
        }
    }

    /// Applies a change.
    pub fn begin(&mut self, config: &Config) {
        let measurement = &config.measurement;
        let lds = measurement.lds.as_ref().filter(|_| measurement.enabled);
        // Estimates belong to tracked flows: without any there is nothing to decode.
        let decode = lds.and_then(|lds| lds.decode.clone());
        let decode = decode.filter(|_| measurement.flows.is_some());
        self.decoder
            .set(decode, measurement.interval(), &self.hasher, self.rate);
        self.settings = Settings::new(config);
        self.directory.set_top(self.settings.top.clone());
    }

    /// Empties the directory.
    pub fn start_anew(&mut self) {
        self.directory.start_anew();
        self.directory.set_top(self.settings.top.clone());
        self.decoder.drop_sum();
    }

    /// Ends an epoch: its sketches are decoded, or its flows published as they are.
    pub fn close(&mut self, epoch: Epoch, segments: &mut Segments, now: Instant) {
        let (cells, untaken) = segments.take_cells();
        self.decoder.skip(untaken);
        if self.awaited.take().is_some() {
            tracing::debug!(epoch = epoch.0, "estimates come later than the next epoch");
        }
        let is_awaited = cells.is_some_and(|cells| {
            let is_awaited = self.decoder.close(&cells, &mut self.directory, now);
            self.coming = Some(Arc::new(self.sketches_of(cells, segments.names())));
            is_awaited
        });
        if is_awaited {
            self.awaited = Some(epoch);
        } else {
            self.view(epoch, segments);
        }
    }

    fn sketches_of(&self, cells: EpochCells, names: Vec<Arc<SegmentName>>) -> Sketches {
        Sketches {
            hasher: self.hasher.clone(),
            rate: self.rate,
            components: self.settings.components,
            cells,
            names,
        }
    }

    /// Takes decoded estimates; returns whether there were any.
    pub fn take_estimates(&mut self, segments: &Segments) -> bool {
        let Some(epoch) = self.decoder.take(&mut self.directory) else {
            return false;
        };
        if self.awaited == Some(epoch) {
            self.awaited = None;
            self.view(epoch, segments);
        }
        true
    }

    fn view(&mut self, epoch: Epoch, segments: &Segments) {
        let rate = self.rate;
        let directory = &mut self.directory;
        if self.decoder.shown().is_none() {
            let methods = segments.rli_methods();
            let verdicts = decode::by_references(directory, epoch, &methods, rate);
            self.decoder.judged.add(verdicts);
        }
        directory.close(epoch, rate, self.settings.interval_ms);
        let (names, methods) = (segments.names(), segments.rli_methods());
        let record = |flow: &flows::Flow| {
            let quantiles = directory.top().quantiles(flow.key, flow.segment);
            record(flow, quantiles, &methods, rate)
        };
        let list = |flows: Vec<FlowRecord>| {
            Arc::new(FlowList {
                epoch: Some(epoch.0),
                segments: names.clone(),
                flows,
                wire_times: None,
            })
        };
        self.views = FlowViews {
            list: list(directory.iter().map(record).collect()),
            ended: list(directory.ended().map(record).collect()),
            sketches: self.coming.take(),
        };
    }

    /// The sketches of the published epoch.
    pub fn sketches(&self) -> Option<Arc<Sketches>> {
        self.views.sketches.clone()
    }

    /// The hasher of flows.
    pub fn hasher(&self) -> &Hasher {
        &self.hasher
    }

    /// Flows with series of their own, by hash.
    pub fn names(&self) -> HashMap<FlowHash, FlowKey> {
        let keys = self.directory.top().iter().map(|held| held.flow.key);
        keys.map(|key| (self.hasher.flow_hash(&key), key)).collect()
    }

    /// Everything published about flows; `None` without `slots` to track any.
    pub fn publish(
        &self,
        snapshot: &Snapshot,
        slots: usize,
        segments: &Segments,
        workers: &Workers,
    ) -> Option<Flows> {
        if slots == 0 {
            return None;
        }
        let list = &self.views.list;
        let methods = segments.rli_methods();
        let top = self.directory.top().iter().map(|held| TopFlow {
            flow: snapshot.flow(
                list,
                &record(&held.flow, held.quantiles, &methods, self.rate),
            ),
            reason: held.reason.label().to_owned(),
            since_epoch: held.since.0,
            credited: credit(&held.credited, self.rate),
            history: held.history.clone(),
        });
        Some(Flows {
            totals: self.totals(slots as u64, workers),
            top: top.collect(),
            other: self.others(&segments.names()),
            decoding: self.decoder.shown(),
            judged: self.decoder.judged.shown(),
            list: Arc::clone(list),
            ended: Arc::clone(&self.views.ended),
        })
    }

    /// By segment: the credits of flows without series of their own.
    fn others(&self, names: &[Arc<SegmentName>]) -> Vec<OtherFlows> {
        let others = self.directory.top().other();
        let others = others.filter_map(|(segment, sums)| {
            let name = names.get(segment as usize)?;
            Some(OtherFlows {
                segment: SegmentName::clone(name),
                credited: credit(&sums, self.rate),
            })
        });
        let mut others: Vec<OtherFlows> = others.collect();
        others.sort_unstable_by(|a, b| a.segment.cmp(&b.segment));
        others
    }

    fn totals(&self, slots: u64, workers: &Workers) -> FlowTotals {
        let comings = self.directory.comings();
        let reasons = FlowTableCounters::default();
        let mut untracked = reasons.untracked().map(|(label, _)| labelled(label, 0));
        for own in workers.counters() {
            for (sum, (_, counter)) in untracked.iter_mut().zip(own.flows.untracked()) {
                sum.packets += counter.get();
            }
        }
        let free_slots = workers.counters().map(|own| own.flows.free_slots.get());
        FlowTotals {
            tracked: self.directory.len() as u64,
            slots,
            free_slots: free_slots.sum(),
            new: comings.new,
            expired: comings.expired,
            evicted: comings.evicted,
            untracked: untracked.into(),
            folded: self.directory.top().folded(),
        }
    }
}

fn credit(sums: &FlowSums, rate: TickRate) -> Credit {
    Credit {
        packets: sums.packets,
        delay_sum_s: sums.sum_ticks as f64 * (1.0 / rate.hz() as f64),
        lost_packets: sums.lost,
    }
}

/// `methods` are those of references, by segment.
fn record(
    flow: &flows::Flow,
    quantiles: Option<FlowQuantiles>,
    methods: &[Option<Method>],
    rate: TickRate,
) -> FlowRecord {
    let method = methods.get(flow.segment as usize).copied().flatten();
    let references = method.and_then(|method| references(flow, method, rate));
    FlowRecord {
        name: FlowName::Key(flow.key),
        segment: flow.segment,
        first_epoch: flow.first.0,
        last_epoch: flow.last.0,
        last: figures(&flow.recent, rate),
        total: figures(&flow.total, rate),
        quantiles,
        estimates: flow.estimates.clone(),
        more: references.map(FlowMore::References),
    }
}

fn references(flow: &flows::Flow, method: Method, rate: TickRate) -> Option<FlowReferences> {
    let figures = |delay: &FlowDelay| {
        Some(ReferenceFigures {
            packets: delay.packets(),
            mean_ns: delay.mean_ns()?,
            bound_ns: delay.bound_ns(method)?.max(rate.resolution_ns()),
            stddev_ns: delay.stddev_ns()?,
        })
    };
    Some(FlowReferences {
        method: decode::published(chooser::Method::Rli(method))?,
        last: figures(&flow.recent_references),
        total: figures(&flow.total_references)?,
    })
}

fn figures(sums: &FlowSums, rate: TickRate) -> FlowFigures {
    let ns = |ticks: Option<f64>| ticks.map(|ticks| rate.to_ns(ticks));
    FlowFigures {
        packets: sums.packets,
        bytes: sums.bytes,
        lost_packets: Some(sums.lost),
        mean_ns: ns(sums.mean_ticks()),
        stddev_ns: ns(sums.stddev_ticks()),
    }
}
