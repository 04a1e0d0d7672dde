//! The fields that records of flows and of segments have in common.

use records::snapshot::{EpochTimes, FlowEstimate};

use crate::counted::{Counted, Delays};
use crate::element::Element;
use crate::record::{Record, rounded, rounded_signed};

/// What a record says beside its names or addresses.
#[derive(Debug)]
pub(crate) struct Line<'e> {
    pub since: Counted,
    pub first_epoch: u64,
    pub last_epoch: u64,
    pub delays: Option<Delays>,
    pub estimate: Option<Estimate<'e>>,
}

/// An estimate of the mean delay.
#[derive(Debug)]
pub(crate) struct Estimate<'e> {
    pub mean_ns: f64,
    pub bound_ns: Option<f64>,
    pub stddev_ns: Option<f64>,
    pub packets: Option<u64>,
    pub epoch: u64,
    pub method: &'e str,
}

impl From<&FlowEstimate> for Estimate<'static> {
    fn from(estimate: &FlowEstimate) -> Self {
        Self {
            mean_ns: estimate.mean_ns,
            bound_ns: estimate.bound_ns,
            stddev_ns: None,
            packets: Some(estimate.packets),
            epoch: estimate.epoch,
            method: estimate.method.label(),
        }
    }
}

impl Line<'_> {
    pub fn put(&self, record: &mut Record, times: &EpochTimes) {
        let since = &self.since;
        let unix_ms = |epoch| rounded(1e3 * times.start_unix_s(epoch));
        if let Some(bytes) = since.bytes {
            record.number(Element::OctetDeltaCount, bytes);
        }
        record.number(Element::PacketDeltaCount, since.packets);
        if let Some(lost) = since.lost {
            record.number(Element::DroppedPacketDeltaCount, lost);
        }
        record.number(Element::FlowStartMilliseconds, unix_ms(self.first_epoch));
        record.number(Element::FlowEndMilliseconds, unix_ms(self.last_epoch + 1));
        self.put_microseconds(record);
        record.number(Element::Epoch, self.last_epoch);
        if let Some(delays) = &self.delays {
            record.number(Element::DelayPackets, delays.packets);
            record.nanoseconds(Element::DelayMean, Some(delays.mean_ns));
            record.nanoseconds(Element::DelayDeviation, Some(delays.stddev_ns));
            record.nanoseconds(Element::DelayMin, delays.min_ns);
            record.nanoseconds(Element::DelayMax, delays.max_ns);
            for (element, ns) in PERCENTILES.into_iter().zip(delays.percentiles_ns) {
                record.nanoseconds(element, ns);
            }
        }
        if let Some(estimate) = &self.estimate {
            record.signed(Element::EstimatedMean, rounded_signed(estimate.mean_ns));
            record.nanoseconds(Element::EstimatedBound, estimate.bound_ns);
            record.nanoseconds(Element::EstimatedDeviation, estimate.stddev_ns);
            if let Some(packets) = estimate.packets {
                record.number(Element::EstimatePackets, packets);
            }
            record.number(Element::EstimateEpoch, estimate.epoch);
            record.text(Element::EstimateMethod, estimate.method);
        }
    }

    /// RFC 9951. The mean is the estimate's where delays are not stamped.
    fn put_microseconds(&self, record: &mut Record) {
        let delays = self.delays.as_ref();
        let estimated_ns = || Some(self.estimate.as_ref()?.mean_ns).filter(|ns| *ns >= 0.0);
        let mean_ns = delays.map(|delays| delays.mean_ns).or_else(estimated_ns);
        for (element, ns) in [
            (Element::PathDelayMeanDeltaMicroseconds, mean_ns),
            (
                Element::PathDelayMinDeltaMicroseconds,
                delays.and_then(|delays| delays.min_ns),
            ),
            (
                Element::PathDelayMaxDeltaMicroseconds,
                delays.and_then(|delays| delays.max_ns),
            ),
        ] {
            if let Some(ns) = ns {
                let us = rounded(ns / 1e3).min(u32::MAX.into());
                record.number(element, us);
            }
        }
        if let Some(delays) = delays {
            let sum_us = rounded(delays.sum_ns / 1e3);
            record.number(Element::PathDelaySumDeltaMicroseconds, sum_us);
        }
    }
}

const PERCENTILES: [Element; 5] = [
    Element::DelayP50,
    Element::DelayP90,
    Element::DelayP99,
    Element::DelayP999,
    Element::DelayP9999,
];
