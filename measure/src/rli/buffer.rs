//! The interpolation buffer: packets that wait for the reference behind them.

use super::busy::Idle;
use crate::time::EpochTag;

/// Packets that were received at one time: neighbours in the buffer.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct BufferedRun {
    pub(super) received_ns: u64,
    /// Idle time since the packet or reference before it.
    pub(super) idle: Option<Idle>,
    /// How many.
    pub(super) packets: u32,
    /// Of each.
    pub(super) bytes: u32,
    pub(super) epoch: EpochTag,
}

impl BufferedRun {
    /// Whether packets like `next` may count as part of it.
    #[inline]
    fn takes(&self, next: &Self) -> bool {
        next.idle.is_none()
            && (self.received_ns, self.bytes, self.epoch)
                == (next.received_ns, next.bytes, next.epoch)
    }
}

/// Packets in order: what runs have in common, and the flow of each.
#[derive(Debug)]
pub(super) struct Buffer<F> {
    runs: Vec<BufferedRun>,
    flows: Vec<F>,
    packets_max: usize,
}

impl<F> Default for Buffer<F> {
    /// Without room.
    fn default() -> Self {
        Self {
            runs: Vec::new(),
            flows: Vec::new(),
            packets_max: 0,
        }
    }
}

impl<F: Copy> Buffer<F> {
    /// Memory for each packet that there is room for.
    pub(super) const PACKET_BYTES: usize = size_of::<BufferedRun>() + size_of::<F>();

    /// Room for `packets` packets, whatever their times.
    pub(super) fn with_room(packets: usize) -> Self {
        Self {
            runs: Vec::with_capacity(packets),
            flows: Vec::with_capacity(packets),
            packets_max: packets,
        }
    }

    /// Packets that there is room for.
    #[inline]
    pub(super) fn room(&self) -> usize {
        self.packets_max - self.flows.len()
    }

    /// Adds packets of `flows`, all as `run` says; no more than there is [room](Self::room) for.
    #[inline]
    pub(super) fn push(&mut self, run: BufferedRun, flows: &[F]) {
        self.flows.extend_from_slice(flows);
        match self.runs.last_mut() {
            Some(last) if last.takes(&run) => last.packets += run.packets,
            _ => self.runs.push(run),
        }
    }

    /// The runs, in order.
    #[inline]
    pub(super) fn runs(&self) -> &[BufferedRun] {
        &self.runs
    }

    /// The runs, in order, with the flows of their packets.
    pub(super) fn iter(&self) -> impl Iterator<Item = (&BufferedRun, &[F])> {
        let mut rest = self.flows.as_slice();
        self.runs.iter().map(move |run| {
            let (flows, behind) = rest.split_at(rest.len().min(run.packets as usize));
            rest = behind;
            (run, flows)
        })
    }

    /// Packets.
    pub(super) fn packets(&self) -> usize {
        self.flows.len()
    }

    /// Whether packets of `epoch` are among them.
    pub(super) fn holds(&self, epoch: EpochTag) -> bool {
        self.runs.iter().any(|run| run.epoch == epoch)
    }

    /// Forgets all packets; the room stays.
    pub(super) fn clear(&mut self) {
        self.runs.clear();
        self.flows.clear();
    }
}
