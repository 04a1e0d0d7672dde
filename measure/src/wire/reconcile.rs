//! Packets that the ends of a wire counted in different epochs, moved to where the sender counted
//! them.
//!
//! Packets that overtake a marker, or are overtaken by it, count in one epoch at the sender's end
//! and in its neighbour at the receiver's. Either spoils a cell in both epochs. The lists around the
//! turn say which packets these are:
//!
//! ```text
//!             sender's last(e)  |  sender's first(e+1)
//!  receiver's last(e)    stays  |  moves to e+1
//!  receiver's first(e+1) to e   |  stays
//! ```
//!
//! Lists end somewhere, and parts of them may be lost: what is in no list proves nothing and stays
//! where it is. A packet whose flow and digest occur once only is moved when it is found on the
//! other side. Of packets that look the same (a flow that repeats itself, or a network that does)
//! as many are moved as the sender counted on the other side, and only if the four lists account
//! for every one of them: the latest of the earlier epoch, the earliest of the later one.

use std::collections::HashMap;

use super::{Placed, WireShard};
use crate::codec::Stashed;
use crate::packet::FlowHash;
use crate::sight::End;

/// What the sender listed around one turn, as far as it arrived.
#[derive(Debug, Clone, Copy, Default)]
pub struct SenderLists<'a> {
    /// The last packets of the epoch that ended.
    pub last: &'a [Stashed],
    /// The first packets of the epoch that began.
    pub first: &'a [Stashed],
}

/// What was moved at a turn.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Reconciled {
    /// Packets that had been counted before the turn and were sent after it.
    pub to_later: u64,
    /// Packets that had been counted after the turn and were sent before it.
    pub to_earlier: u64,
    /// Packets in the receiver's lists that the sender's do not have. Some there always are, for lists
    /// end; they stay where they are.
    pub unexplained: u64,
}

/// How often a packet is in each of the lists.
#[derive(Debug, Clone, Copy, Default)]
struct Times {
    sent_before: usize,
    sent_after: usize,
    counted_before: usize,
    counted_after: usize,
    /// To be moved to the later epoch, and to the earlier one.
    to_later: usize,
    to_earlier: usize,
}

impl Times {
    fn decide(&mut self) {
        let sent = self.sent_before + self.sent_after;
        let counted = self.counted_before + self.counted_after;
        if sent != counted && sent.max(counted) > 1 {
            return;
        }
        let late = self.counted_before.saturating_sub(self.sent_before);
        let early = self.counted_after.saturating_sub(self.sent_after);
        self.to_later = late.min(self.sent_after.saturating_sub(self.counted_after));
        self.to_earlier = early.min(self.sent_before.saturating_sub(self.counted_before));
    }

    fn unexplained(&self) -> usize {
        let counted = self.counted_before + self.counted_after;
        counted.saturating_sub(self.sent_before + self.sent_after)
    }
}

type Key = (FlowHash, u32);

fn key(packet: &Placed) -> Key {
    let stashed = packet.stashed();
    (stashed.flow, stashed.digest)
}

/// Moves packets between the receiver's shards of an epoch and of the one that follows it, so that
/// they count where the sender counted them, as far as the lists prove it.
pub fn reconcile(
    earlier: &mut WireShard,
    later: &mut WireShard,
    sender: SenderLists<'_>,
) -> Reconciled {
    let mut packets: HashMap<Key, Times> = HashMap::new();
    for packet in sender.last {
        let times = packets.entry((packet.flow, packet.digest)).or_default();
        times.sent_before += 1;
    }
    for packet in sender.first {
        let times = packets.entry((packet.flow, packet.digest)).or_default();
        times.sent_after += 1;
    }
    for packet in earlier.stash.last() {
        packets.entry(key(packet)).or_default().counted_before += 1;
    }
    for packet in later.stash.first() {
        packets.entry(key(packet)).or_default().counted_after += 1;
    }
    let mut outcome = Reconciled::default();
    for times in packets.values_mut() {
        times.decide();
        outcome.unexplained += times.unexplained() as u64;
    }
    let late = take(earlier.stash.last().rev(), &mut packets, |times| {
        &mut times.to_later
    });
    let early = take(later.stash.first().iter(), &mut packets, |times| {
        &mut times.to_earlier
    });
    shift(&late, earlier, later);
    shift(&early, later, earlier);
    // They are not to be moved a second time, at the next turn.
    later.stash.remove(&early);
    outcome.to_later = late.len() as u64;
    outcome.to_earlier = early.len() as u64;
    outcome
}

/// The packets that are left to move, each counted off.
fn take<'a>(
    list: impl Iterator<Item = &'a Placed>,
    packets: &mut HashMap<Key, Times>,
    left: impl Fn(&mut Times) -> &mut usize,
) -> Vec<Placed> {
    let mut taken = Vec::new();
    for packet in list {
        let left = packets.get_mut(&key(packet)).map(&left);
        if let Some(left) = left.filter(|left| **left > 0) {
            *left -= 1;
            taken.push(*packet);
        }
    }
    taken
}

fn shift(packets: &[Placed], from: &mut WireShard, to: &mut WireShard) {
    for packet in packets {
        let sight = [packet.sight()];
        from.uncount(End::Receiver, &sight);
        to.count(End::Receiver, &sight);
        from.flows.uncount(packet.flow, packet.segment);
        to.flows.count(packet.flow, packet.segment);
    }
}

#[cfg(test)]
mod tests;
