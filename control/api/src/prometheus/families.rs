//! The families of one value an item: names, kinds, help, and where the value is.

use super::Family;
use records::snapshot::{
    ClassCounts, DeviceCounts, Estimate, Exceptions, Fdb, FlowTotals, Port, QueueCounts,
    ReferenceEstimate, Segment, Sketch, Worker,
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
        help: "FlowTotals that have a slot.",
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
        help: "FlowTotals that were new.",
        value: |f| f.new,
    },
    Family {
        name: "vernier_flows_folded_total",
        kind: "counter",
        help: "FlowTotals with packets in an epoch that were folded into flow=\"other\", epoch by epoch.",
        value: |f| f.folded,
    },
];

/// Of packets that are not measured as others are.
pub(super) const EXCEPTIONS: [Family<Exceptions, u64>; 2] = [
    Family {
        name: "vernier_backward_packets_total",
        kind: "counter",
        help: "Packets that seem to have left before they came, since the counters of two cores disagree: their delay \
               is taken for 0.",
        value: |e| e.backward_packets,
    },
    Family {
        name: "vernier_outlived_packets_total",
        kind: "counter",
        help: "Packets that waited until the generation that measured them had gone: they count in no segment.",
        value: |e| e.outlived_packets,
    },
];

/// Of the bridge's filtering database.
pub(super) const FDB: [Family<Fdb, u64>; 10] = [
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
    Family {
        name: "vernier_fdb_moves_total",
        kind: "counter",
        help: "Times that an address turned up at another port.",
        value: |f| f.moves,
    },
    Family {
        name: "vernier_fdb_overflows_total",
        kind: "counter",
        help: "Reports of new addresses for which there was no room.",
        value: |f| f.overflows,
    },
    Family {
        name: "vernier_fdb_replica_overflows_total",
        kind: "counter",
        help: "Times that a worker had no room for an address; frames to it are flooded.",
        value: |f| f.replica_overflows,
    },
    Family {
        name: "vernier_fdb_evictions_total",
        kind: "counter",
        help: "Addresses forgotten, since the table was full, for one of a port that has fewer.",
        value: |f| f.evictions,
    },
    Family {
        name: "vernier_fdb_replica_evictions_total",
        kind: "counter",
        help: "Times that a worker forgot an address for one of a port that has fewer.",
        value: |f| f.replica_evictions,
    },
    Family {
        name: "vernier_fdb_limited_total",
        kind: "counter",
        help: "Times that an address was not learnt, since its port had its `max_stations`.",
        value: |f| f.limited,
    },
    Family {
        name: "vernier_fdb_reports_lost_total",
        kind: "counter",
        help: "Reports of addresses that did not fit into their ring; they are said again.",
        value: |f| f.reports_lost,
    },
    Family {
        name: "vernier_fdb_restarts_total",
        kind: "counter",
        help: "Times that a worker was told every address anew since it fell behind.",
        value: |f| f.restarts,
    },
];

/// Of a class at its egress port.
pub(super) const CLASSES: [Family<ClassCounts, u64>; 3] = [
    Family {
        name: "vernier_class_transmitted_packets_total",
        kind: "counter",
        help: "Packets of the class that the driver accepted for transmission.",
        value: |c| c.tx_packets,
    },
    Family {
        name: "vernier_class_transmitted_bytes_total",
        kind: "counter",
        help: "Bytes of these.",
        value: |c| c.tx_bytes,
    },
    Family {
        name: "vernier_class_dropped_packets_total",
        kind: "counter",
        help: "Packets of the class dropped on their way to the driver.",
        value: |c| c.dropped_packets,
    },
];

/// Of an egress queue.
pub(super) const QUEUES: [Family<QueueCounts, u64>; 2] = [
    Family {
        name: "vernier_queue_packets",
        kind: "gauge",
        help: "Packets in the egress queue.",
        value: |q| q.packets,
    },
    Family {
        name: "vernier_queue_bytes",
        kind: "gauge",
        help: "Bytes in the egress queue.",
        value: |q| q.bytes,
    },
];

/// Of a port.
pub(super) const PORTS: [Family<Port, u64>; 9] = [
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

/// Of a worker.
pub(super) const WORKERS: [Family<Worker, f64>; 16] = [
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
    Family {
        name: "vernier_worker_stalled",
        kind: "gauge",
        help: "1 if the worker has made no pass for a second.",
        value: |w| w.is_stalled.into(),
    },
    Family {
        name: "vernier_worker_generation",
        kind: "gauge",
        help: "Generation that the worker works in.",
        value: |w| w.generation as f64,
    },
    Family {
        name: "vernier_worker_received_packets_total",
        kind: "counter",
        help: "Packets that the worker received, from ports and from other workers.",
        value: |w| w.busy_packets as f64,
    },
    Family {
        name: "vernier_worker_cycles_per_packet",
        kind: "gauge",
        help: "Ticks of the time stamp counter that a packet took over the last second or so.",
        value: |w| w.cycles_per_packet,
    },
    Family {
        name: "vernier_worker_ring_packets",
        kind: "gauge",
        help: "Packets that wait in rings from other workers.",
        value: |w| w.ring_packets as f64,
    },
    Family {
        name: "vernier_worker_references_injected_total",
        kind: "counter",
        help: "Reference packets injected.",
        value: |w| w.references.injected as f64,
    },
    Family {
        name: "vernier_worker_references_received_total",
        kind: "counter",
        help: "Reference packets that came to the egress point.",
        value: |w| w.references.received as f64,
    },
    Family {
        name: "vernier_worker_references_left_out_total",
        kind: "counter",
        help: "Reference packets left out, since too many of their stream were under way.",
        value: |w| w.references.left_out as f64,
    },
    Family {
        name: "vernier_worker_reference_overflowed_packets_total",
        kind: "counter",
        help: "Packets that did not fit into an interpolation buffer: estimated from the left reference.",
        value: |w| w.references.overflowed_packets as f64,
    },
    Family {
        name: "vernier_worker_reference_late_estimates_total",
        kind: "counter",
        help: "Estimates for packets whose epoch was sealed by then, or went unmeasured.",
        value: |w| w.references.late_estimates as f64,
    },
];
