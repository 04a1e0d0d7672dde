//! Two whole switches, workers and exchanges, with a path between them that a test disturbs as it
//! likes, in a time of its own: every packet's fate and delay is known.
#![allow(
    missing_docs,
    missing_debug_implementations,
    clippy::missing_panics_doc,
    clippy::return_self_not_must_use,
    clippy::new_without_default,
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "it is for tests, and says what must hold in the plainest way"
)]

use std::collections::BTreeMap;
use std::ops::{Deref, DerefMut};
use std::sync::Arc;

use contract::counters::WireCounters;
use contract::wire::clock::TaiLine;
use control::core::wire_settings;
use control::data_plane::ResultMode;
use control::wire::exchange::Exchange;
use control::wire::flows::WireFlowsView;
use measure::packet::{FlowHash, Hasher};
use measure::time::{EpochSchedule, Ticks};
use rand::{RngExt, SeedableRng};
use rand_pcg::Pcg64;
use serde_json::json;
use wire::exchange::{ClockView, MeasuredEpoch, Moment, SessionState, Settings, WireStatus};
use wire::frame::{ClockState, EpochFate, Kind};
use wire::testing::Network;

pub use crate::rack::wired::{is_control, kind_of};

use crate::rack::wired::{HOST, TAI_NS, WIRE, wired};
use crate::rack::{GHZ, Rack, hasher, rate, udp};

/// Epochs of 50 ms.
pub const EPOCH: u64 = 50_000_000;

/// Sessions are renewed so often here, in every test: it is to cost nothing.
const RENEW_NS: u64 = 1_700_000_000;

/// Frames of a flood that come in between two passes.
const FLOOD_BURST: usize = 32;

/// What the clocks may be off by, said to be.
const CLOCK_ERROR_NS: u32 = 100;

/// One switch, worker and exchange.
pub struct Switch {
    rack: Rack,
    pub wire_counters: Arc<WireCounters>,
    /// Frames that went to its host.
    pub to_host: u64,
    pub exchange: Exchange,
    clock_ahead_ns: i64,
    random: Pcg64,
}

impl Deref for Switch {
    type Target = Rack;

    fn deref(&self) -> &Rack {
        &self.rack
    }
}

impl DerefMut for Switch {
    fn deref_mut(&mut self) -> &mut Rack {
        &mut self.rack
    }
}

impl Switch {
    pub fn new(number: u32, columns: u32, seed: u64) -> Self {
        let bank = json!({ "rows": 512, "probability": 0.5 });
        let wire = json!({
            "capacity_bps": 1_000_000_000, "share": 0.02, "peer_switch": 3 - number, "peer_port": "wire",
            "lda": { "banks": [bank, bank] },
            "lds": { "cells": columns * 4, "virtual_cells": 5, "rows": [0.01, 0.1, 0.5, 1.0] },
            "stash_packets": 256, "flows": 4_096, "rli": { "policy": { "kind": "adaptive" } },
        });
        let schedule = EpochSchedule::new(Ticks(0), EPOCH, EPOCH / 5);
        let mut rack = wired(number, &wire, EPOCH / 1_000_000, schedule);
        let (port, control) = rack.wires.remove(0);
        let wire_counters = Arc::clone(&control.counters);
        let settings = wire_settings(&rack.running.config, port, &rack.keys, rate());
        let settings = Settings {
            renew_ns: RENEW_NS,
            ..settings.unwrap()
        };
        Self {
            rack,
            wire_counters,
            to_host: 0,
            exchange: Exchange::new(settings, control, ResultMode::Polled).unwrap(),
            clock_ahead_ns: 0,
            random: Pcg64::seed_from_u64(seed),
        }
    }

    /// Sets this switch's clock ahead by so much, which the switch knows.
    pub fn set_clock(&mut self, ns: i64) {
        self.running.platform.line.count_step();
        self.step_clock(ns);
    }

    /// The same, but nobody tells the switch.
    pub fn step_clock(&mut self, ns: i64) {
        self.clock_ahead_ns += ns;
        let tai_ns = TAI_NS.wrapping_add_signed(self.clock_ahead_ns);
        let line = TaiLine::at_rate(Ticks(0), tai_ns, rate());
        self.running.platform.line.set(line);
    }

    fn poll(&mut self, now: u64) {
        let clock = ClockView {
            state: ClockState::Locked,
            error_ns: CLOCK_ERROR_NS,
            tai_utc_s: 37,
            ptp_domain: 0,
        };
        let moment = Moment {
            tai_ns: TAI_NS.wrapping_add_signed(self.clock_ahead_ns) + now,
            monotonic_ns: now,
            clock,
        };
        let random = &mut self.random;
        self.exchange.poll(moment, &mut || random.random());
    }

    pub fn status(&self) -> WireStatus {
        self.exchange.status().unwrap()
    }

    pub fn fates(&self, fate: EpochFate) -> u64 {
        self.status().receiving[0].fates[fate as usize]
    }
}

/// What the path makes of a frame: copies that arrive, each with its delay on top of the path's own, and its bytes.
pub type Passage = Vec<(u64, Vec<u8>)>;

/// What is true of one epoch of the first switch's.
#[derive(Debug, Clone, Default)]
pub struct Truth {
    pub sent: u64,
    pub arrived: u64,
    pub delay_sum: u64,
    /// By flow: packets that arrived, and the sum of their delays.
    pub flows: BTreeMap<u64, (u64, u64)>,
}

impl Truth {
    pub fn mean_ns(&self) -> f64 {
        self.delay_sum as f64 / self.arrived as f64
    }
}

/// Relative errors of flows' means, by method.
#[derive(Debug, Default)]
pub struct FlowErrors {
    pub epochs: u64,
    latest: Option<u64>,
    pub by_method: BTreeMap<&'static str, Vec<f64>>,
}

impl FlowErrors {
    fn see(&mut self, view: &WireFlowsView, truth: &Truth) {
        if self.latest.replace(view.epoch) == Some(view.epoch) {
            return;
        }
        self.epochs += 1;
        for flow in &view.flows {
            let Some((packets, sum)) = truth.flows.get(&flow.flow.0) else {
                continue;
            };
            let mean_ns = *sum as f64 / *packets as f64;
            let estimates = flow.estimates.iter().map(|e| (e.method.name(), e));
            let chosen = flow.chosen.iter().map(|e| ("chosen", e));
            for (method, estimate) in estimates.chain(chosen) {
                let error = (estimate.mean_ns - mean_ns).abs() / mean_ns;
                self.by_method.entry(method).or_default().push(error);
            }
        }
    }

    /// The median error, in per cent.
    pub fn median(&self, method: &str) -> f64 {
        let mut errors = self.by_method[method].clone();
        errors.sort_by(f64::total_cmp);
        errors[errors.len() / 2] * 100.0
    }
}

enum Event {
    /// The first switch's host sends a packet.
    Offer,
    /// Exchanges are polled.
    Poll,
    /// A frame arrives at a switch; what it is of truth.
    Arrive(Vec<u8>, Option<(u64, u64, FlowHash)>),
}

/// Both switches, the path, and the truth.
pub struct Path {
    pub switches: [Switch; 2],
    pub now: u64,
    pub truth: BTreeMap<u64, Truth>,
    /// What the second switch said of each epoch, once.
    pub measured: BTreeMap<u64, MeasuredEpoch>,
    /// How far off each method was, of each flow.
    pub flow_errors: FlowErrors,
    /// What the first switch sends comes back to it.
    pub loops_back: bool,
    /// Somebody also throws its own hellos back to each switch.
    pub throws_back: bool,
    /// A frame that somebody sends to the second switch so many times after every poll.
    pub flood: Option<(Vec<u8>, usize)>,
    pub offered: u64,
    events: Network<Event>,
    random: Pcg64,
    hasher: Hasher,
    /// The path's own delay, a slow random walk about the queue's mean.
    queue_ns: f64,
    /// The least delay.
    pub base_ns: u64,
    /// The first switch's host sends a packet every so many nanoseconds, on average.
    pub gap_ns: u64,
}

impl Path {
    pub fn new(seed: u64) -> Self {
        let mut path = Self {
            switches: [Switch::new(1, 256, seed), Switch::new(2, 256, seed + 1)],
            now: 0,
            truth: BTreeMap::new(),
            measured: BTreeMap::new(),
            flow_errors: FlowErrors::default(),
            loops_back: false,
            throws_back: false,
            flood: None,
            offered: 0,
            events: Network::default(),
            random: Pcg64::seed_from_u64(seed + 2),
            hasher: hasher(),
            queue_ns: 100_000.0,
            base_ns: 300_000,
            gap_ns: 20_000,
        };
        path.events.send(0, 1_000, Event::Offer);
        path.events.send(0, 2_000, Event::Poll);
        path
    }

    /// Goes on for `epochs` epochs; `passage` says what becomes of each frame between the switches,
    /// by the switch that sent it.
    pub fn run(
        &mut self,
        epochs: u64,
        mut passage: impl FnMut(&mut Pcg64, usize, Vec<u8>) -> Passage,
    ) {
        let end = self.now + epochs * EPOCH;
        while let Some((at, n, event)) = self.events.arrive(end) {
            self.now = at;
            self.happen(n, event, &mut passage);
        }
        self.now = end;
    }

    /// The same where every frame arrives as it is.
    pub fn run_undisturbed(&mut self, epochs: u64) {
        self.run(epochs, |_, _, frame| vec![(0, frame)]);
    }

    fn happen(
        &mut self,
        n: usize,
        event: Event,
        passage: &mut impl FnMut(&mut Pcg64, usize, Vec<u8>) -> Passage,
    ) {
        match event {
            Event::Offer => {
                // Zipf-like: flow n has a share of 1/n.
                let flow = (200.0_f64.powf(self.random.random::<f64>())) as u16;
                let frame = udp(flow, self.offered as u32, 64 + usize::from(flow) % 900);
                self.offered += 1;
                self.switches[0].arrive(HOST, frame);
                let gap = self.random.random_range(1..2 * self.gap_ns);
                self.events.send(0, self.now + gap, Event::Offer);
                self.pass(0, passage);
            }
            Event::Poll => {
                for n in 0..2 {
                    self.switches[n].poll(self.now);
                    self.pass(n, passage);
                }
                if let Some((frame, times)) = self.flood.clone() {
                    for burst in 0..times / FLOOD_BURST {
                        for _ in 0..FLOOD_BURST {
                            self.switches[1].arrive(WIRE, frame.clone());
                        }
                        self.switches[1].pass_at(self.now + burst as u64);
                    }
                }
                if let Some(latest) = self.switches[1].status().receiving[0].latest {
                    self.measured.insert(latest.epoch, latest);
                }
                if let Some(view) = self.switches[1].exchange.flows()
                    && let Some(truth) = self.truth.get(&view.epoch)
                {
                    self.flow_errors.see(&view, truth);
                }
                self.events.send(0, self.now + 1_000_000, Event::Poll);
            }
            Event::Arrive(frame, truth) => {
                if let Some((epoch, sent_at, flow)) = truth {
                    let truth = self.truth.entry(epoch).or_default();
                    let delay = self.now - sent_at;
                    truth.arrived += 1;
                    truth.delay_sum += delay;
                    let of_flow = truth.flows.entry(flow.0).or_default();
                    of_flow.0 += 1;
                    of_flow.1 += delay;
                }
                self.switches[n].arrive(WIRE, frame);
                self.pass(n, passage);
            }
        }
    }

    /// A switch passes, and what it sends is on its way.
    fn pass(&mut self, n: usize, passage: &mut impl FnMut(&mut Pcg64, usize, Vec<u8>) -> Passage) {
        self.switches[n].pass_at(self.now);
        let to_host = self.switches[n].frames(HOST);
        assert!(to_host.iter().all(|frame| !is_control(frame)), "forwarded");
        self.switches[n].to_host += to_host.len() as u64;
        for frame in self.switches[n].frames(WIRE) {
            let truth = (!is_control(&frame)).then(|| {
                let epoch = self.now / EPOCH;
                self.truth.entry(epoch).or_default().sent += 1;
                let parsed = self.hasher.parse(&frame, frame.len() as u32);
                (epoch, self.now, parsed.flow)
            });
            let step = self.random.random_range(-0.5..0.5) * 4_000.0;
            self.queue_ns = (self.queue_ns + step - (self.queue_ns - 100_000.0) * 0.001).max(0.0);
            let arrival = self.now + self.base_ns + self.queue_ns as u64;
            let in_order = self.events.in_order(n, arrival, 500);
            if self.throws_back && kind_of(&frame) == Some(Kind::Hello.number()) {
                self.events
                    .send(n, in_order, Event::Arrive(frame.clone(), None));
            }
            for (extra, frame) in passage(&mut self.random, n, frame) {
                let to = if self.loops_back { n } else { 1 - n };
                self.events
                    .send(to, in_order + extra, Event::Arrive(frame, truth));
            }
        }
    }

    /// The other switch is started anew, in the middle of whatever it does.
    pub fn restart(&mut self, n: usize, columns: u32, seed: u64) {
        let mut fresh = Switch::new(n as u32 + 1, columns, seed);
        fresh.workers[0].worker.io_mut().set_now(Ticks(self.now));
        self.switches[n] = fresh;
    }

    pub fn is_established(&self) -> [bool; 2] {
        let is = |n: usize| self.switches[n].status().session == SessionState::Established;
        [is(0), is(1)]
    }

    /// Usable epochs so far, and how many of them have the truth within their bound.
    pub fn coverage(&self) -> (usize, usize) {
        let mut usable = (0, 0);
        for (epoch, measured) in &self.measured {
            if measured.fate != EpochFate::Usable {
                continue;
            }
            let chosen = measured.outcome.and_then(|outcome| outcome.chosen).unwrap();
            let off_ns = (chosen.mean_ns - self.truth[epoch].mean_ns()).abs();
            usable.0 += 1;
            usable.1 += usize::from(off_ns <= chosen.bound_ns.unwrap_or(f64::INFINITY));
        }
        usable
    }

    /// Usable epochs whose loss is not the truth's.
    pub fn wrong_losses(&self) -> Vec<(u64, i64, i64)> {
        let wrong = |(epoch, measured): (&u64, &MeasuredEpoch)| {
            let truth = &self.truth[epoch];
            let lost = measured.outcome?.lost()?;
            let true_loss = truth.sent.cast_signed() - truth.arrived.cast_signed();
            (measured.fate == EpochFate::Usable && lost != true_loss)
                .then_some((*epoch, lost, true_loss))
        };
        self.measured.iter().filter_map(wrong).collect()
    }
}

const _: () = assert!(GHZ == 1_000_000_000, "a tick is a nanosecond");
