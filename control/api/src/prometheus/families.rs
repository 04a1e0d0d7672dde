//! The families of one value an item: names, kinds, help, and where the value is.

use super::Family;
use records::snapshot::{
    DeviceCounts, Estimate, Fdb, FlowTotals, Port, ReferenceEstimate, Segment, Sketch, Worker,
};

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

/// How to read a value from what references say, where they say it.
type OfReferences = Option<fn(&ReferenceEstimate) -> Option<f64>>;

/// Of a segment's estimates in its last usable epoch: the LDA's, and what references say.
pub(super) const ESTIMATES: [(Family<Estimate, Option<f64>>, OfReferences); 7] = [
    (
        Family {
            name: "vernier_segment_estimated_delay_mean_seconds",
            kind: "gauge",
            help: "Estimated mean delay of the last usable epoch.",
            value: |e| Some(e.mean_ns / 1e9),
        },
        Some(|r| Some(r.mean_ns / 1e9)),
    ),
    (
        Family {
            name: "vernier_segment_estimated_delay_stddev_seconds",
            kind: "gauge",
            help: "Estimated standard deviation of the delay in the last usable epoch.",
            value: |e| Some(e.stddev_ns? / 1e9),
        },
        None,
    ),
    (
        Family {
            name: "vernier_segment_estimated_delay_bound_seconds",
            kind: "gauge",
            help: "Half-width of the nominal 98 % interval around the estimated mean.",
            value: |e| Some(e.bound_ns / 1e9),
        },
        None,
    ),
    (
        Family {
            name: "vernier_segment_estimated_delay_effective_samples",
            kind: "gauge",
            help: "Packets that the estimated mean rests on.",
            value: |e| Some(e.effective_samples as f64),
        },
        Some(|r| Some(r.packets as f64)),
    ),
    (
        Family {
            name: "vernier_segment_estimated_lost_packets",
            kind: "gauge",
            help: "Estimated packets lost in the last usable epoch.",
            value: |e| Some(e.lost_packets),
        },
        None,
    ),
    (
        Family {
            name: "vernier_estimator_error_ratio",
            kind: "gauge",
            help: "Live error of the estimated mean against the stamped mean.",
            value: |e| e.error_ratio,
        },
        Some(|r| r.error_ratio),
    ),
    (
        Family {
            name: "vernier_estimator_usable_cells_ratio",
            kind: "gauge",
            help: "Share of the estimator's cells that were usable in the last usable epoch.",
            value: |e| Some(e.usable_cells as f64 / e.cells.max(1) as f64),
        },
        None,
    ),
];

/// Of a port's sketch in its last usable epoch.
pub(super) const SKETCHES: [Family<Sketch, Option<f64>>; 5] = [
    Family {
        name: "vernier_sketch_cells",
        kind: "gauge",
        help: "Cells of the sketch of per-flow delays.",
        value: |s| Some(s.cells as f64),
    },
    Family {
        name: "vernier_sketch_filled_cells_ratio",
        kind: "gauge",
        help: "Share of the sketch's cells in which packets were counted.",
        value: |s| Some(s.filled_cells as f64 / s.cells.max(1) as f64),
    },
    Family {
        name: "vernier_sketch_usable_cells_ratio",
        kind: "gauge",
        help: "Share of the filled cells whose two ends agree.",
        value: |s| Some(s.usable_cells as f64 / s.filled_cells.max(1) as f64),
    },
    Family {
        name: "vernier_sketch_estimated_delay_mean_seconds",
        kind: "gauge",
        help: "Mean delay of all packets to the port, with their weights, as the sketch has it.",
        value: |s| Some(s.mean_ns? / 1e9),
    },
    Family {
        name: "vernier_sketch_error_ratio",
        kind: "gauge",
        help: "Live error of the sketch's mean against the stamped mean.",
        value: |s| s.error_ratio,
    },
];

/// Of the flows that are tracked.
pub(super) const FLOWS: [Family<FlowTotals, u64>; 5] = [
    Family {
        name: "vernier_flows_tracked",
        kind: "gauge",
        help: "Flows that have a slot.",
        value: |f| f.tracked,
    },
    Family {
        name: "vernier_flow_slots",
        kind: "gauge",
        help: "Slots of all workers.",
        value: |f| f.slots,
    },
    Family {
        name: "vernier_flow_slots_free",
        kind: "gauge",
        help: "Slots that no flow has.",
        value: |f| f.free_slots,
    },
    Family {
        name: "vernier_flows_new_total",
        kind: "counter",
        help: "Flows that were new.",
        value: |f| f.new,
    },
    Family {
        name: "vernier_flows_folded_total",
        kind: "counter",
        help: "Flows with packets in an epoch that were folded into flow=\"other\", epoch by epoch.",
        value: |f| f.folded,
    },
];

/// Of the bridge's filtering database, beside what [`FdbStats`](contract::fdb::FdbStats) declares.
pub(super) const FDB: [Family<Fdb, u64>; 2] = [
    Family {
        name: "vernier_fdb_entries",
        kind: "gauge",
        help: "Addresses in the filtering database.",
        value: |f| f.entries,
    },
    Family {
        name: "vernier_fdb_capacity",
        kind: "gauge",
        help: "Most addresses that the filtering database holds.",
        value: |f| f.capacity,
    },
];

/// Of a port, beside what its counters declare ([`contract::counters`]).
pub(super) const PORTS: [Family<Port, u64>; 3] = [
    Family {
        name: "vernier_port_link_up",
        kind: "gauge",
        help: "1 if the link is up.",
        value: |p| p.facts.is_up.into(),
    },
    Family {
        name: "vernier_port_removed",
        kind: "gauge",
        help: "1 if the device was pulled while the switch ran: its port is used no more before a restart.",
        value: |p| p.facts.is_removed.into(),
    },
    Family {
        name: "vernier_port_link_flaps_total",
        kind: "counter",
        help: "Times that the link went down.",
        value: |p| p.facts.link_flaps,
    },
];

/// Of the device behind a port, where it is not a host's.
pub(super) const DEVICES: [Family<DeviceCounts, u64>; 4] = [
    Family {
        name: "vernier_port_device_missed_packets_total",
        kind: "counter",
        help: "Packets that the device dropped for want of a free descriptor.",
        value: |d| d.missed_packets,
    },
    Family {
        name: "vernier_port_device_no_buffer_packets_total",
        kind: "counter",
        help: "Packets that the device dropped for want of a buffer.",
        value: |d| d.no_buffer_packets,
    },
    Family {
        name: "vernier_port_device_receive_errors_total",
        kind: "counter",
        help: "Packets that the device received broken.",
        value: |d| d.rx_error_packets,
    },
    Family {
        name: "vernier_port_device_transmit_errors_total",
        kind: "counter",
        help: "Packets that the device could not send.",
        value: |d| d.tx_error_packets,
    },
];

/// Of a worker, likewise.
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
    Family {
        name: "vernier_worker_stalled",
        kind: "gauge",
        help: "1 if the worker has made no pass for a second.",
        value: |w| w.is_stalled.into(),
    },
    Family {
        name: "vernier_worker_cycles_per_packet",
        kind: "gauge",
        help: "Ticks of the time stamp counter that a packet took over the last second or so.",
        value: |w| w.cycles_per_packet,
    },
];
