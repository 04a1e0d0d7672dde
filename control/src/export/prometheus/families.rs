//! The families of one value an item: names, kinds, help, and where the value is.

use super::Family;
use crate::snapshot::{Estimate, Port, Segment, Worker};

/// Of a segment, since the switch started.
pub(super) const SEGMENTS: [Family<Segment, f64>; 5] = [
    Family {
        name: "vernier_segment_delay_squared_seconds_total",
        kind: "counter",
        help: "Sum of squared delays (seconds squared): with sum and count of the delay it gives the \
               standard deviation over any window.",
        value: |s| s.total.delay_squared_sum_s2,
    },
    Family {
        name: "vernier_segment_packets_total",
        kind: "counter",
        help: "Packets that entered the segment.",
        value: |s| s.total.counts.sent_packets as f64,
    },
    Family {
        name: "vernier_segment_bytes_total",
        kind: "counter",
        help: "Bytes that entered the segment.",
        value: |s| s.total.counts.sent_bytes as f64,
    },
    Family {
        name: "vernier_segment_lost_packets_total",
        kind: "counter",
        help: "Packets lost on the segment.",
        value: |s| s.total.counts.dropped_packets as f64,
    },
    Family {
        name: "vernier_segment_late_packets_total",
        kind: "counter",
        help: "Packets that left the segment after their epoch was sealed: neither measured nor lost.",
        value: |s| s.total.counts.late_packets as f64,
    },
];

/// Of a segment's estimate in its last usable epoch.
pub(super) const ESTIMATES: [Family<Estimate, Option<f64>>; 7] = [
    Family {
        name: "vernier_segment_estimated_delay_mean_seconds",
        kind: "gauge",
        help: "Estimated mean delay of the last usable epoch.",
        value: |e| Some(e.mean_ns / 1e9),
    },
    Family {
        name: "vernier_segment_estimated_delay_stddev_seconds",
        kind: "gauge",
        help: "Estimated standard deviation of the delay in the last usable epoch.",
        value: |e| Some(e.stddev_ns? / 1e9),
    },
    Family {
        name: "vernier_segment_estimated_delay_bound_seconds",
        kind: "gauge",
        help: "Half-width of the nominal 98 % interval around the estimated mean.",
        value: |e| Some(e.bound_ns / 1e9),
    },
    Family {
        name: "vernier_segment_estimated_delay_effective_samples",
        kind: "gauge",
        help: "Packets that the estimated mean rests on.",
        value: |e| Some(e.effective_samples as f64),
    },
    Family {
        name: "vernier_segment_estimated_lost_packets",
        kind: "gauge",
        help: "Estimated packets lost in the last usable epoch.",
        value: |e| Some(e.lost_packets),
    },
    Family {
        name: "vernier_estimator_error_ratio",
        kind: "gauge",
        help: "Live error of the estimated mean against the stamped mean.",
        value: |e| e.error_ratio,
    },
    Family {
        name: "vernier_estimator_usable_cells_ratio",
        kind: "gauge",
        help: "Share of the estimator's cells that were usable in the last usable epoch.",
        value: |e| Some(e.usable_cells as f64 / e.cells.max(1) as f64),
    },
];

/// Of a port.
pub(super) const PORTS: [Family<Port, u64>; 11] = [
    Family {
        name: "vernier_port_received_packets_total",
        kind: "counter",
        help: "Packets received.",
        value: |p| p.rx_packets,
    },
    Family {
        name: "vernier_port_received_bytes_total",
        kind: "counter",
        help: "Bytes received, without frame check sequences.",
        value: |p| p.rx_bytes,
    },
    Family {
        name: "vernier_port_transmitted_packets_total",
        kind: "counter",
        help: "Packets that the driver accepted for transmission.",
        value: |p| p.tx_packets,
    },
    Family {
        name: "vernier_port_transmitted_bytes_total",
        kind: "counter",
        help: "Bytes of the packets transmitted.",
        value: |p| p.tx_bytes,
    },
    Family {
        name: "vernier_port_copied_packets_total",
        kind: "counter",
        help: "Copies made to flood packets that came in by the port.",
        value: |p| p.copies,
    },
    Family {
        name: "vernier_port_queued_packets",
        kind: "gauge",
        help: "Packets that wait to be sent.",
        value: |p| p.queued_packets,
    },
    Family {
        name: "vernier_port_link_up",
        kind: "gauge",
        help: "1 if the link is up.",
        value: |p| p.facts.is_up.into(),
    },
    Family {
        name: "vernier_port_device_missed_packets_total",
        kind: "counter",
        help: "Packets that the device dropped for want of a free descriptor.",
        value: |p| p.facts.missed_packets,
    },
    Family {
        name: "vernier_port_device_no_buffer_packets_total",
        kind: "counter",
        help: "Packets that the device dropped for want of a buffer.",
        value: |p| p.facts.no_buffer_packets,
    },
    Family {
        name: "vernier_port_device_receive_errors_total",
        kind: "counter",
        help: "Packets that the device received broken.",
        value: |p| p.facts.rx_error_packets,
    },
    Family {
        name: "vernier_port_device_transmit_errors_total",
        kind: "counter",
        help: "Packets that the device could not send.",
        value: |p| p.facts.tx_error_packets,
    },
];

/// Of a worker.
pub(super) const WORKERS: [Family<Worker, f64>; 6] = [
    Family {
        name: "vernier_worker_busy_ratio",
        kind: "gauge",
        help: "Share of the last second or so that the worker spent on packets.",
        value: |w| w.busy_ratio,
    },
    Family {
        name: "vernier_worker_busy_seconds_total",
        kind: "counter",
        help: "Time that the worker spent on packets.",
        value: |w| w.busy_s,
    },
    Family {
        name: "vernier_worker_passes_total",
        kind: "counter",
        help: "Passes of the worker's loop.",
        value: |w| w.passes as f64,
    },
    Family {
        name: "vernier_worker_idle_passes_total",
        kind: "counter",
        help: "Passes that received nothing.",
        value: |w| w.idle_passes as f64,
    },
    Family {
        name: "vernier_worker_stamp_uncertainty_seconds",
        kind: "gauge",
        help: "Longest time between two polls of a port of late: what stamps cannot see.",
        value: |w| w.poll_gap_max_ns / 1e9,
    },
    Family {
        name: "vernier_worker_missed_epochs_total",
        kind: "counter",
        help: "Epochs that the worker could not measure for want of an empty shard.",
        value: |w| w.missed_epochs as f64,
    },
];
