//! Joint and hybrid decoding of a sketch with arbitrary cells, flows and references.
//!
//! Oracle: every flow gets one estimate; means are finite, variances not negative, and packets finite and not negative;
//! without a usable cell, the source is always [`Source::Nothing`]; sweeps stay within their limit, and decoding stops
//! when it is cancelled. With [`DecodeJob`], as wires decode, published means are finite, and their bounds finite and
//! not negative.

use std::cell::Cell as Counter;

use arbitrary::Arbitrary;
use measure::cell::Cell;
use measure::lds::{
    DecodeError, DecodeOptions, DelayCell, DelayCells, Fallback, FlowTable, KnownMean, LdsLayout,
    Source, decode,
};
use measure::observation::SegmentIndex;
use measure::packet::FlowHash;
use measure::rli::{Estimate, FlowDelay, Method};
use measure::time::EpochTag;
use wire::{ClockBound, DecodeJob, WireFlow};

use crate::read;

/// Columns of the largest sketch, flows of the longest list.
const COLUMNS_MAX: u32 = 32;
const FLOWS_MAX: usize = 64;

/// How often decoding may ask, per sweep and flow, whether to continue; this bounds its work.
const QUESTIONS_MAX: u32 = 10_000;

#[derive(Debug, Arbitrary)]
struct Input {
    columns: u8,
    virtual_cells: u8,
    rows: [Option<u8>; 4],
    components: u8,
    cancel_after: Option<u8>,
    resolution_ns: u8,
    clock_error_ns: u32,
    is_wire: bool,
    is_fifo: bool,
    method: Option<u8>,
    /// Whether packets, weights, features and known means are given.
    given: [bool; 4],
    cells: Vec<Given>,
    flows: Vec<Flow>,
}

/// An extreme number, or an ordinary one.
#[derive(Debug, Clone, Copy, Arbitrary)]
enum Number {
    Plain(u16),
    Whole(u64),
    Any(f64),
    Unknown,
}

impl Number {
    fn any(self) -> f64 {
        match self {
            Self::Plain(number) => number.into(),
            Self::Whole(number) => number as f64,
            Self::Any(number) => number,
            Self::Unknown => f64::NAN,
        }
    }

    /// As a count of packets: finite and not negative, or unknown.
    fn packets(self) -> f64 {
        match self.any() {
            number if number.is_infinite() => f64::MAX,
            number => number.abs(),
        }
    }

    /// As a weight: finite and over 0.
    fn weight(self) -> f64 {
        let number = self.packets();
        if number > 0.0 { number } else { 1.0 }
    }
}

#[derive(Debug, Clone, Copy, Arbitrary)]
struct Given {
    sender: Option<(u64, u32, u32)>,
    receiver: (u64, u32, u32),
    /// Adds packets with a delay that both ends counted, so that the cell is usable.
    alike: Option<(u16, u32)>,
    kind: u8,
}

impl Given {
    fn halves(self) -> (Option<Cell>, Option<Cell>) {
        let cell = |(sum, count, digest)| Cell { sum, count, digest };
        let receiver = cell(self.receiver);
        match self.alike {
            Some((count, delay)) => {
                let count = u32::from(count);
                let sent = Cell { count, ..receiver };
                let sum = sent.sum.wrapping_add(u64::from(delay) * u64::from(count));
                (Some(sent), Some(Cell { sum, ..sent }))
            }
            None => (self.sender.map(cell), Some(receiver)),
        }
    }

    /// As in a sum over several epochs.
    fn delay(self) -> DelayCell {
        let (sum, count, _) = self.receiver;
        let sent = self.sender.map_or(0, |(sent, _, _)| sent);
        let usable = self.kind & 1 == 0;
        let (count, delay_sum) = match self.alike {
            Some((count, delay)) => (count.into(), i64::from(count) * i64::from(delay)),
            None => (u64::from(count) << (self.kind >> 3), sum.cast_signed()),
        };
        DelayCell {
            sent,
            received: count,
            count: if usable { count } else { 0 },
            delay_sum,
            usable,
            partial: self.kind & 2 != 0,
            missing: self.kind & 4 != 0,
        }
    }
}

#[derive(Debug, Clone, Copy, Arbitrary)]
struct Flow {
    hash: u64,
    segment: u8,
    packets: Number,
    weight: Number,
    features: [Number; 2],
    known: [Number; 3],
    estimates: [(i64, u32, u8); 2],
}

impl Flow {
    fn wire(&self) -> WireFlow {
        let mut delay = FlowDelay::default();
        for &(delay_ns, error_ns, interval) in &self.estimates {
            delay.add(&Estimate {
                epoch: EpochTag::default(),
                received_ns: 0,
                delay_ns: delay_ns as f64,
                squared_error_ns2: f64::from(error_ns).powi(2),
                share_of_sum: if interval & 1 == 0 { 0.0 } else { 0.5 },
                interval: interval.into(),
            });
        }
        let packets = match self.packets {
            Number::Plain(packets) => packets.into(),
            Number::Whole(packets) => packets,
            Number::Any(number) => number.to_bits(),
            Number::Unknown => 1,
        };
        WireFlow {
            flow: FlowHash(self.hash),
            segment: SegmentIndex(u16::from(self.segment % 8)),
            packets,
            bytes: 0,
            delay,
        }
    }
}

/// The bytes are a sketch, and the flows in it.
pub fn lds(bytes: &[u8]) {
    let Some(mut input) = read::<Input>(bytes) else {
        return;
    };
    input.flows.truncate(FLOWS_MAX);
    let rows: Vec<f64> = input.rows.iter().flatten().copied().map(share).collect();
    let columns = u32::from(input.columns) % COLUMNS_MAX + 1;
    let virtual_cells = u32::from(input.virtual_cells) % columns + 1;
    let Ok(layout) = LdsLayout::new(columns, virtual_cells, &rows) else {
        return;
    };
    if input.is_wire {
        wire(&input, &layout);
    } else {
        lists(&input, layout);
    }
}

/// The share of packets that a row takes: all, or 2^-n of them.
fn share(byte: u8) -> f64 {
    0.5_f64.powi(i32::from(byte % 33))
}

/// Lists as a caller may pass them.
fn lists(input: &Input, layout: LdsLayout) {
    let mut cells: Vec<DelayCell> = input.cells.iter().map(|given| given.delay()).collect();
    cells.resize(layout.cells(), DelayCell::default());
    let columns: Vec<u32> = (input.flows.iter())
        .flat_map(|flow| {
            (0..)
                .take(layout.rows())
                .map(|row| flow.hash.rotate_left(16 * row))
        })
        .map(|hash| u32::try_from(hash % u64::from(layout.columns())).unwrap_or(0))
        .collect();
    let cells = DelayCells::new(layout, cells).unwrap();
    let list = |of: fn(&Flow) -> f64| -> Vec<f64> { input.flows.iter().map(of).collect() };
    let packets = list(|flow| flow.packets.packets());
    let weights = list(|flow| flow.weight.weight());
    let features: Vec<f64> = (input.flows.iter())
        .flat_map(|flow| flow.features.map(Number::any))
        .collect();
    let known_mean = |flow: &Flow| {
        let [mean_ticks, error_ticks2, packets_ticks2] = flow.known.map(Number::any);
        KnownMean {
            mean_ticks,
            error_ticks2,
            packets_ticks2,
        }
    };
    let known: Vec<KnownMean> = input.flows.iter().map(known_mean).collect();
    let [has_packets, has_weights, has_features, has_known] = input.given;
    let table = FlowTable {
        columns: &columns,
        packets: has_packets.then_some(&packets),
        weights: has_weights.then_some(&weights),
        features: if has_features { &features } else { &[] },
        features_per_flow: if has_features { 2 } else { 0 },
        known: has_known.then_some(&known),
    };
    let options = DecodeOptions {
        components: usize::from(input.components % 3) + 1,
        ..DecodeOptions::default()
    };
    let patience = Patience::new(input.cancel_after);
    let decoded = match decode(&cells, table, &options, || patience.is_over()) {
        Ok(decoded) => decoded,
        Err(DecodeError::Cancelled) => return assert!(input.cancel_after.is_some()),
        Err(error) => panic!("{error}"),
    };
    assert_eq!(decoded.flows.len(), input.flows.len());
    for flow in &decoded.flows {
        assert!(flow.mean_ticks.is_finite(), "{flow:?}");
        assert!(flow.variance_ticks2 >= 0.0, "{flow:?}");
        assert!(flow.packets.is_finite() && flow.packets >= 0.0, "{flow:?}");
    }
    assert!(decoded.last_change.is_finite(), "{}", decoded.last_change);
    assert!(
        decoded.sweeps <= options.sweeps,
        "{} sweeps",
        decoded.sweeps
    );
    let is_filled = |cell: &DelayCell| cell.usable && cell.count > 0;
    let is_blind = !cells.cells().iter().any(is_filled);
    assert_eq!(decoded.fallback == Some(Fallback::NoUsableCell), is_blind);
    let says_nothing = |source| source == Source::Nothing;
    assert!(!is_blind || decoded.flows.iter().all(|flow| says_nothing(flow.source)));
}

/// Decodes as wires do: one end's cells, and the references, come from the network.
fn wire(input: &Input, layout: &LdsLayout) {
    let halves = input.cells.iter().map(|given| given.halves());
    let clocks = ClockBound {
        error_ns: input.clock_error_ns.into(),
        resolution_ns: input.resolution_ns.into(),
    };
    let job = DecodeJob {
        delays: Vec::new(),
        cells: DelayCells::from_arrived(layout, halves),
        flows: input.flows.iter().map(Flow::wire).collect(),
        method: input
            .method
            .map(|method| Method::ALL[usize::from(method) % Method::ALL.len()]),
        is_fifo: input.is_fifo,
        clocks,
        components: usize::from(input.components % 3) + 1,
    };
    let patience = Patience::new(input.cancel_after);
    let outcomes = match job.decode(|| patience.is_over()) {
        Ok(outcomes) => outcomes,
        Err(DecodeError::Cancelled) => return assert!(input.cancel_after.is_some()),
        Err(error) => panic!("{error}"),
    };
    assert_eq!(outcomes.len(), job.flows.len());
    for outcome in &outcomes {
        for estimate in outcome.estimates.iter().chain(&outcome.chosen) {
            assert!(estimate.mean_ns.is_finite(), "{estimate:?}");
            let is_good = |bound: f64| bound.is_finite() && bound >= clocks.error_ns;
            assert!(estimate.bound_ns.is_none_or(is_good), "{estimate:?}");
        }
    }
}

/// How often decoding may ask.
struct Patience {
    left: Counter<u32>,
    is_bounded: bool,
}

impl Patience {
    fn new(cancel_after: Option<u8>) -> Self {
        Self {
            left: Counter::new(cancel_after.map_or(QUESTIONS_MAX, u32::from)),
            is_bounded: cancel_after.is_some(),
        }
    }

    fn is_over(&self) -> bool {
        let Some(left) = self.left.get().checked_sub(1) else {
            assert!(
                self.is_bounded,
                "asked {QUESTIONS_MAX} times, and still not done"
            );
            return true;
        };
        self.left.set(left);
        false
    }
}
