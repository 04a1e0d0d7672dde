//! Memory of a configuration by purpose, and how many packet buffers may be in use at once.

use measure::cell::CellPair;
use measure::digest::DigestTable;
use measure::flows::FlowIndex;
use measure::histogram::SmallHistogram;
use measure::lds::{DelayCell, LdsLayout};
use measure::rli::{FlowDistribution, Receiver};
use measure::shard::ShardLayout;
use measure::time::TickRate;
use wire::{FlowOutcome, Placed, WireFlow, WireLayout, WireSegment};

use super::document::{Check, KeyPath, ensure};
use super::{Config, Device, Forwarding, Port, RING_PACKETS};
use crate::fdb::FdbMaster;
use crate::handover::SHARDS_PER_WORKER;
use crate::limits::{
    DIRECTORY_BYTES_PER_SLOT, ESTIMATE_BYTES, EXPORTED_BYTES_PER_SLOT, HISTORY_BYTES,
    LAST_MINUTE_BYTES, WIRE_SEEN_ENTRY_BYTES, WIRE_SEEN_FLOW_BYTES, answer_bytes_max,
};
use crate::wire::handover;

/// Shards in which the control core adds up: one for each of the two epochs that may be incomplete. They
/// have no flow slots.
pub const SUMS: usize = 2;

/// A slot of an egress queue or of a ring between workers: a packet's pointer and its tag.
const SLOT_BYTES: usize = 40;

/// Bytes for each slot of a worker's flow table: its share of the index, its entry in the list of free
/// slots, and whether it is away.
const FLOW_TABLE_BYTES: usize = 64 / FlowIndex::FLOWS_PER_BUCKET + 4 + 1;

/// Stations in a bucket of 64 bytes of a worker's replica of the filtering database, when half full.
const STATIONS_PER_BUCKET: usize = 2;

/// Epochs whose cells the control core keeps: the published one, the next, and a sum.
const EPOCHS_OF_CELLS: usize = 3;

/// Reference counts of a shared value.
const SHARED_BYTES: usize = 2 * size_of::<usize>();

/// Bytes of a flow while it is decoded: queries, messages and estimates; approximate.
const DECODED_FLOW_BYTES: usize = 640;

/// Bytes for each cell of a flow while it is decoded; approximate.
const DECODED_EDGE_BYTES: usize = 64;

/// Epochs of a wire that wait for the other end's half, or for a second request.
const WIRE_EPOCHS: usize = 2;

/// Bytes of a packet buffer: `rte_mbuf` and its pool's header (192), headroom (128), data (2,048);
/// approximate.
const MBUF_BYTES: usize = 192 + 128 + 2_048;

/// A page without hugepages, which DPDK gives to a single buffer because no buffer may cross pages.
const PAGE_BYTES: usize = 4_096;

/// Descriptors of a device's queue, if the device has descriptors.
pub const DESCRIPTORS: u16 = 1_024;

/// Buffers in a worker's cache of the pool.
pub const POOL_CACHE: u32 = 512;

/// Drivers that copy each packet at once (their `tx_pkt_burst` frees it), and allocate on receive.
const COPYING: [&str; 3] = ["net_af_packet", "net_null", "net_pcap"];

/// Further buffers held by a worker: its cache until it is flushed (half as much again, `rte_mempool.h`),
/// and eight bursts of 64 in processing.
const WORKER_PACKETS: usize = POOL_CACHE as usize * 3 / 2 + 8 * 64;

/// Memory for one purpose.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize)]
pub struct Item {
    /// The purpose.
    #[serde(rename = "name")]
    pub purpose: &'static str,
    /// Bytes of one copy.
    pub bytes: usize,
    /// Copies.
    pub copies: usize,
    /// Contents of a copy: `16 streams`.
    pub of: String,
}

impl Item {
    /// Bytes of all copies.
    pub fn total_bytes(&self) -> usize {
        self.bytes.saturating_mul(self.copies)
    }
}

/// Memory that a configuration needs in addition to packets, by purpose; nothing for disabled features.
///
/// During a change the replaced parts are allocated as well, for an epoch or two.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Memory(Vec<Item>);

impl Memory {
    /// The memory of a checked configuration.
    pub fn of(config: &Config) -> Self {
        let mut items = Vec::new();
        let layout = layout(config);
        synopses(config, &layout, &mut items);
        flows(config, layout.flow_slots, &mut items);
        histories(config, &layout, &mut items);
        database(config, &mut items);
        queues(config, &mut items);
        wires(config, &mut items);
        devices(config, &mut items);
        answers(config, layout.segments(), &mut items);
        let (streams, bytes) = config.reference_streams();
        items.push(item("RLI", bytes, streams, format!("{streams} streams")));
        items.retain(|item| item.total_bytes() > 0);
        Self(items)
    }

    /// All items.
    pub fn items(&self) -> &[Item] {
        &self.0
    }

    /// The sum of all items.
    pub fn total_bytes(&self) -> usize {
        self.0.iter().map(Item::total_bytes).sum()
    }

    /// The sum in MiB, rounded up, as `memory_budget_mib` counts.
    pub fn total_mib(&self) -> usize {
        self.total_bytes().div_ceil(1 << 20)
    }

    /// The largest item.
    pub fn largest(&self) -> Option<&Item> {
        self.0.iter().max_by_key(|item| item.total_bytes())
    }
}

/// Rejects a configuration that needs more memory than its budget, or than `unnamed_mib` if it has none.
///
/// # Errors
/// The memory needed, and its largest item.
pub fn keep_budget(config: &Config, unnamed_mib: Option<usize>) -> Check {
    let named = config.memory_budget_mib.map(|mib| mib as usize);
    let Some(budget_mib) = named.or(unnamed_mib) else {
        return Ok(());
    };
    let memory = Memory::of(config);
    let needed = memory.total_mib();
    let largest = memory.largest().map_or("", |item| item.purpose);
    let (expected, got) = match named {
        Some(budget_mib) => (
            format!("at least {needed} (mostly {largest})"),
            budget_mib.to_string(),
        ),
        None => (
            format!(
                "a budget, or a configuration that needs at most {budget_mib} MiB for everything but packets, half of the free memory"
            ),
            format!("none, and one that needs {needed} MiB, mostly {largest}"),
        ),
    };
    let path = KeyPath::default().key("memory_budget_mib");
    ensure(needed <= budget_mib, path, expected, got)
}

fn item(purpose: &'static str, bytes: usize, copies: usize, of: impl Into<String>) -> Item {
    Item {
        purpose,
        bytes,
        copies,
        of: of.into(),
    }
}

/// Memory of the packet buffers and of the ring of free buffers, both allocated by DPDK.
pub fn packet_bytes(config: &Config) -> usize {
    let mbufs = config.dpdk.mbufs as usize;
    let each = if config.dpdk.hugepages {
        MBUF_BYTES
    } else {
        PAGE_BYTES
    };
    mbufs * each + (mbufs + 1).next_power_of_two() * size_of::<usize>()
}

fn layout(config: &Config) -> ShardLayout {
    // Sizes do not depend on the rate.
    let rate = TickRate::from_hz(1_000_000_000);
    let layout = config.shard_layout(rate);
    // An invalid layout takes nothing, and was rejected before.
    layout.unwrap_or_else(|_| ShardLayout::new(rate, 0))
}

fn synopses(config: &Config, layout: &ShardLayout, items: &mut Vec<Item>) {
    let workers = config.workers.len();
    let circulating = SHARDS_PER_WORKER * workers;
    let bytes = layout.size_bytes();
    let of_segments = format!("{} segments", layout.segments());
    let of_ports = format!("{} egress ports", layout.sketches);
    let of_slots = format!("{} slots", layout.flow_slots);
    let copies = circulating + SUMS;
    let segments = bytes.segments.into_iter();
    items.extend(segments.map(|(purpose, bytes)| item(purpose, bytes, copies, &of_segments)));
    items.extend([
        item("LDS", bytes.lds, copies, of_ports),
        item("flow counters", bytes.flows, circulating, of_slots),
    ]);
}

fn flows(config: &Config, slots: usize, items: &mut Vec<Item>) {
    let (workers, of) = (config.workers.len(), format!("{slots} slots"));
    let directory_bytes = DIRECTORY_BYTES_PER_SLOT + estimates_bytes(config);
    let exported_bytes = usize::from(config.ipfix.is_some()) * EXPORTED_BYTES_PER_SLOT;
    let purposes = [
        ("flow tables", FLOW_TABLE_BYTES),
        ("flow directory", directory_bytes),
        ("flows at the IPFIX collector", exported_bytes),
    ];
    items.extend(purposes.map(|(purpose, bytes)| item(purpose, bytes * slots, workers, &of)));
}

/// Bytes of a flow's estimates: the best one and one for each method, in the current list and in the next.
fn estimates_bytes(config: &Config) -> usize {
    let measurement = &config.measurement;
    let decode = measurement.lds.as_ref().and_then(|lds| lds.decode.as_ref());
    let estimates = match (decode.is_some(), measurement.rli.is_some()) {
        (false, false) => return 0,
        // Joint decoding, the hybrid and references.
        (true, true) => 1 + 3,
        _ => 1 + 1,
    };
    2 * (estimates * ESTIMATE_BYTES + SHARED_BYTES)
}

/// Memory that the control core keeps for histories and decoding.
fn histories(config: &Config, layout: &ShardLayout, items: &mut Vec<Item>) {
    let tracks = layout.flow_slots > 0;
    let top_flows = usize::from(tracks) * config.prometheus.top_flows as usize;
    let of = format!("{} segments, {top_flows} flows", layout.segments());
    let histories = layout.segments() + top_flows;
    items.push(item("histories, at most", HISTORY_BYTES, histories, of));
    items.push(item(
        "delays of an epoch of flows with series",
        size_of::<SmallHistogram>(),
        top_flows,
        format!("{top_flows} flows"),
    ));
    let (segments, classes) = (layout.segments(), config.class_count());
    let minutes = segments + usize::from(segments > 0) * classes;
    let of = format!("{segments} segments, {classes} classes");
    let purpose = "delays of the last minute, at most";
    items.push(item(purpose, LAST_MINUTE_BYTES, minutes, of));
    let cells = layout.lds.as_ref().map_or(0, LdsLayout::cells);
    items.push(item(
        "cells to be asked and decoded",
        cells * size_of::<DelayCell>(),
        EPOCHS_OF_CELLS * layout.sketches,
        format!("{} egress ports", layout.sketches),
    ));
    let lds = config.measurement.lds.as_ref();
    if tracks && let Some(lds) = lds.filter(|lds| lds.decode.is_some()) {
        let edges = lds.rows.len() * lds.virtual_cells as usize;
        let bytes = layout.flow_slots * (DECODED_FLOW_BYTES + edges * DECODED_EDGE_BYTES);
        let of = format!("{} slots", layout.flow_slots);
        items.push(item("decoding", bytes, config.workers.len(), of));
    }
}

fn database(config: &Config, items: &mut Vec<Item>) {
    let Forwarding::Bridge { fdb_entries, .. } = config.forwarding else {
        return;
    };
    let stations = fdb_entries as usize;
    let workers = config.workers.len();
    let of = format!("{stations} stations");
    let master = FdbMaster::size_bytes(stations, workers);
    let buckets = stations.div_ceil(STATIONS_PER_BUCKET);
    let replica = buckets.next_power_of_two().max(2) * 64;
    items.extend([
        item("filtering database, master", master, 1, &of),
        item("filtering database, replicas", replica, workers, of),
    ]);
}

/// HTTP answers that clients have requested and not read yet.
fn answers(config: &Config, segments: usize, items: &mut Vec<Item>) {
    let copies = usize::from(config.http.listen.is_some());
    let of = format!("{segments} segments");
    items.push(item(
        "HTTP answers in flight, at most",
        answer_bytes_max(segments),
        copies,
        of,
    ));
}

/// Packets inside other devices.
fn devices(config: &Config, items: &mut Vec<Item>) {
    let devices = config.measurement.around.iter();
    let devices = devices.filter(|_| config.measurement.enabled);
    items.extend(devices.map(|around| {
        let bytes = DigestTable::size_bytes(around.packets);
        let of = format!("{}, {} packets", around.name, around.packets);
        item("packets inside a device", bytes, 1, of)
    }));
}

/// Shards, frames and references of segments on the wire, by purpose over all ports.
fn wires(config: &Config, items: &mut Vec<Item>) {
    let layouts = config
        .wires()
        .filter_map(|(port, _)| config.wire_layout(port).ok());
    let layouts: Vec<WireLayout> = layouts.collect();
    let names = config.wires().map(|(port, _)| config.port_name(port));
    let names: Vec<&str> = names.collect();
    let of = format!("ports {}", names.join(", "));
    let shard = |layout: &WireLayout| {
        let segment = size_of::<WireSegment>() + layout.lda.cells() * size_of::<CellPair>();
        let lds = layout.lds.as_ref().map_or(0, LdsLayout::cells);
        usize::from(layout.segments) * segment
            + lds * size_of::<CellPair>()
            + 2 * usize::from(layout.stash_packets) * size_of::<Placed>()
    };
    let flows = |layout: &WireLayout| {
        let largest = layout.named_flows() as usize;
        let all = layout.flows as usize + largest;
        all * size_of::<WireFlow>()
            + (all * 2).next_power_of_two() * size_of::<u32>()
            + largest * size_of::<FlowDistribution>()
    };
    let decoded = |layout: &WireLayout| {
        let lds = layout.lds.as_ref().map_or(0, LdsLayout::cells);
        let flow = size_of::<WireFlow>() + size_of::<FlowOutcome>() + WIRE_SEEN_FLOW_BYTES;
        let largest = layout.named_flows() as usize;
        lds * size_of::<DelayCell>()
            + (layout.flows as usize + largest) * flow
            + largest * size_of::<FlowDistribution>()
    };
    let seen = |layout: &WireLayout| {
        // A hash table is filled to 7/8, and has an additional byte for each entry.
        let flows = (layout.flows + layout.named_flows()) as usize;
        let entries = (flows * 8 / 7).next_power_of_two();
        entries * (WIRE_SEEN_ENTRY_BYTES + 1)
    };
    let frames = 2 * handover::FRAMES_MAX * size_of::<handover::FrameBox>();
    let buffers = |layout: &WireLayout| {
        let references = layout.references.as_ref();
        let packets = references.map_or(0, |references| references.buffer_packets);
        usize::from(layout.segments) * packets * Receiver::<u32>::PACKET_BYTES
    };
    let all = |of_one: &dyn Fn(&WireLayout) -> usize| layouts.iter().map(of_one).sum();
    let each = [
        ("wires: shards", all(&shard), 2 * handover::SHARDS_PER_END),
        // Halves from the other end, and halves to send.
        ("wires: halves under way", all(&shard), 2 * WIRE_EPOCHS),
        (
            "wires: flows of an epoch",
            all(&flows),
            handover::SHARDS_PER_END,
        ),
        // Flows being decoded, shown, and still in use by a request.
        ("wires: what flows are decoded from", all(&decoded), 3),
        ("wires: flows seen lately, at most", all(&seen), 1),
        ("wires: control frames", frames * layouts.len(), 1),
        ("wires: RLI", all(&buffers), 1),
    ];
    items.extend(each.map(|(purpose, bytes, copies)| item(purpose, bytes, copies, &of)));
}

fn queues(config: &Config, items: &mut Vec<Item>) {
    let Held { queues, rings, .. } = Held::of(config);
    let (number, each) = (rings / RING_PACKETS, RING_PACKETS * SLOT_BYTES);
    let (of_queues, of_ring) = (format!("{queues} slots"), format!("{RING_PACKETS} slots"));
    items.extend([
        item("egress queues", queues * SLOT_BYTES, 1, of_queues),
        item("rings to owners", each, number, of_ring),
    ]);
}

/// Packet buffers by place. The pool needs more than all places can hold, or no port could receive.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Held {
    /// In descriptors of devices.
    pub descriptors: usize,
    /// In egress queues.
    pub queues: usize,
    /// In rings from workers to port owners.
    pub rings: usize,
    /// In workers and their caches.
    pub workers: usize,
}

impl Held {
    /// For a configuration whose workers are known.
    pub fn of(config: &Config) -> Self {
        let workers = config.workers.len();
        let mut held = Self {
            descriptors: 0,
            queues: 0,
            rings: 0,
            workers: workers * WORKER_PACKETS,
        };
        let ports = config.ports.iter().zip(config.resolve().owners).enumerate();
        for (index, (port, owner)) in ports.filter(|(_, (port, _))| port.is_present()) {
            let is_owned = owner.is_some();
            let senders = if is_owned { 1 } else { workers };
            held.queues += slots(port) * senders;
            held.rings += usize::from(is_owned) * RING_PACKETS * workers.saturating_sub(1);
            if has_descriptors(&port.device) {
                let queues = usize::from(config.rx_queues(index)) + senders;
                held.descriptors += queues * usize::from(DESCRIPTORS);
            }
        }
        held
    }

    /// The sum.
    pub fn total(&self) -> usize {
        self.descriptors + self.queues + self.rings + self.workers
    }
}

/// Whether the device holds packet buffers: our own sources and sinks do not, nor do drivers that copy.
fn has_descriptors(device: &Device) -> bool {
    match device {
        Device::Dpdk(device) => !COPYING.iter().any(|driver| device.starts_with(driver)),
        _ => false,
    }
}

/// Slots of a port's egress queues, for each worker that sends to it.
fn slots(port: &Port) -> usize {
    // References in the switch have an additional eighth of a queue.
    let slots = |packets: u32| packets as usize + (packets as usize / 8).max(1);
    match port.egress.queues.as_slice() {
        [] => slots(port.egress.queue_packets),
        queues => queues.iter().map(|queue| slots(queue.packets)).sum(),
    }
}

#[cfg(test)]
mod tests;
