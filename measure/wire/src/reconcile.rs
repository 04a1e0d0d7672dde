//! Moves packets that the ends of a wire counted in different epochs to the epoch in which the sender
//! counted them.
//!
//! Packets that overtake a marker, or are overtaken by it, count in one epoch at the sender's end and in
//! the next or previous one at the receiver's. Either spoils a cell in both epochs. The lists around the
//! rollover identify these packets:
//!
//! ```text
//!             sender's last(e)  |  sender's first(e+1)
//!  receiver's last(e)    stays  |  moves to e+1
//!  receiver's first(e+1) to e   |  stays
//! ```
//!
//! If the sender has a packet's flow and digest on one side only, the packet is moved to that side,
//! together with copies made by the network. Identical packets sent on both sides (a flow that repeats
//! itself) are moved in the number that the sender counted on the other side, and only if the lists account
//! for all of them: the latest of the earlier epoch, the earliest of the later one.
//!
//! Lists are finite, and parts of the sender's may be lost. So reconciliation also determines whether the lists prove
//! that every packet is where it was sent. Going from the rollover outward, the receiver's packets must all be in the
//! sender's lists, as far as these reach, and in a full list up to its middle: a packet in between that is in no list
//! may belong to the other epoch. One of the sender's lists is enough for that: a packet that arrived on its side and
//! is in no list reveals a misplaced one. The network is assumed to move no packet and no copy by more than half a
//! list. If the outermost misplaced packet is farther out than that, packets outside the list may be misplaced as
//! well, and nothing is proven. Therefore packets beyond the middle of a full list are where they were sent, even if
//! no list has them, such as packets that the network delayed.

use std::collections::HashMap;

use super::{Placed, WireShard};
use crate::frame::Stashed;
use measure::observation::End;
use measure::packet::FlowHash;

/// The sender's lists around one rollover, as far as they arrived: each without a gap from the rollover on.
#[derive(Debug, Clone, Copy, Default)]
pub struct SenderLists<'a> {
    /// The last packets of the epoch that ended.
    pub last: &'a [Stashed],
    /// The first packets of the epoch that began.
    pub first: &'a [Stashed],
}

/// Result of reconciling a rollover.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Reconciled {
    /// Packets counted before the rollover that were sent after it.
    pub to_later: u64,
    /// Packets counted after the rollover that were sent before it.
    pub to_earlier: u64,
    /// Packets in the receiver's lists that the sender's do not contain. There are always some, because
    /// lists are finite; they stay where they are.
    pub unexplained: u64,
    /// Whether the lists prove that every packet around the rollover is counted where it was sent, except
    /// identical ones.
    pub is_proven: bool,
    /// Whether identical packets were sent on both sides of the rollover, so that it is unknown which of
    /// them are counted where.
    pub has_alike: bool,
}

/// How often each list contains a packet.
#[derive(Debug, Clone, Copy, Default)]
struct Times {
    sent_before: usize,
    sent_after: usize,
    counted_before: usize,
    counted_after: usize,
    /// Numbers to move to the later epoch, and to the earlier one.
    to_later: usize,
    to_earlier: usize,
}

impl Times {
    fn decide(&mut self) {
        match (self.sent_before, self.sent_after) {
            (0, 0) => {}
            (_, 0) => self.to_earlier = self.counted_after,
            (0, _) => self.to_later = self.counted_before,
            (before, after) if before + after == self.counted() => {
                self.to_later = self.counted_before.saturating_sub(before);
                self.to_earlier = self.counted_after.saturating_sub(after);
            }
            _ => {}
        }
    }

    fn counted(&self) -> usize {
        self.counted_before + self.counted_after
    }

    fn sent(&self) -> usize {
        self.sent_before + self.sent_after
    }

    /// Whether it was sent on both sides and, because of `is_cut`, the lists may not contain all copies.
    fn is_alike(&self, is_cut: bool) -> bool {
        let is_on_both = self.sent_before > 0 && self.sent_after > 0;
        is_on_both && (is_cut || self.sent() != self.counted())
    }
}

type Key = (FlowHash, u32);

fn key(packet: &Placed) -> Key {
    let stashed = packet.stashed();
    (stashed.flow, stashed.digest)
}

/// The receiver's packets on one side of a rollover, from the rollover outward.
struct Near<'a> {
    packets: Vec<&'a Placed>,
    /// Whether the epoch may have more packets than the list.
    is_cut: bool,
}

impl<'a> Near<'a> {
    fn new(packets: impl ExactSizeIterator<Item = &'a Placed>, shard: &WireShard) -> Self {
        let room = usize::from(shard.layout().stash_packets);
        Self {
            is_cut: packets.len() >= room,
            packets: packets.collect(),
        }
    }

    /// Removes packets farther from the rollover than the sender's list of this side reaches or, if nothing
    /// of that list arrived, than the other list. Returns whether the rest proves where each packet
    /// belongs. `sent` returns how often a packet was sent, on this side and in total.
    fn trim(&mut self, sent: impl Fn(&Placed) -> (usize, usize)) -> bool {
        let own = self.packets.iter().rposition(|one| sent(one).0 > 0);
        let any = self.packets.iter().rposition(|one| sent(one).1 > 0);
        let reach = own.or(any).map_or(0, |at| at + 1);
        // So far out, the next one may be beyond the end of the list.
        let misplaced = |one: &&Placed| sent(one).0 == 0 && sent(one).1 > 0;
        let outermost = self.packets.iter().rposition(misplaced);
        let half = self.packets.len() / 2;
        let is_flooded = self.is_cut && outermost.is_some_and(|at| at >= half);
        let is_reached = any < Some(reach);
        self.packets.truncate(reach);
        let near = if self.is_cut { half } else { reach };
        let is_whole = self.packets.iter().take(near).all(|one| sent(one).1 > 0);
        is_whole && is_reached && !is_flooded
    }
}

/// Moves packets between the receiver's shards of an epoch and of the next, so that they count where the
/// sender counted them, as far as the lists prove it.
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
    let mut before = Near::new(earlier.stash.last().rev(), earlier);
    let mut after = Near::new(later.stash.first().iter(), later);
    let mut outcome = Reconciled {
        unexplained: unexplained(&packets, &before, &after),
        ..Reconciled::default()
    };
    let is_empty = before.packets.is_empty() && after.packets.is_empty();
    let sent = |packet: &Placed| packets.get(&key(packet)).copied().unwrap_or_default();
    let are_proven = [
        before.trim(|packet| (sent(packet).sent_before, sent(packet).sent())),
        after.trim(|packet| (sent(packet).sent_after, sent(packet).sent())),
    ];
    let is_any_known = !before.packets.is_empty() || !after.packets.is_empty();
    outcome.is_proven = are_proven == [true; 2] && (is_any_known || is_empty);
    for packet in &before.packets {
        packets.entry(key(packet)).or_default().counted_before += 1;
    }
    for packet in &after.packets {
        packets.entry(key(packet)).or_default().counted_after += 1;
    }
    packets.values_mut().for_each(Times::decide);
    let is_cut = before.is_cut || after.is_cut;
    outcome.has_alike = packets.values().any(|times| times.is_alike(is_cut));
    let late = take(before.packets, &mut packets, |times| &mut times.to_later);
    let early = take(after.packets, &mut packets, |times| &mut times.to_earlier);
    shift(&late, earlier, later);
    shift(&early, later, earlier);
    // They must not be moved again at the next rollover.
    later.stash.remove(&early);
    outcome.to_later = late.len() as u64;
    outcome.to_earlier = early.len() as u64;
    outcome
}

/// Packets that were counted more often than the sender's lists contain them.
fn unexplained(sent: &HashMap<Key, Times>, before: &Near<'_>, after: &Near<'_>) -> u64 {
    let mut left: HashMap<Key, usize> = sent.iter().map(|(key, one)| (*key, one.sent())).collect();
    let counted = before.packets.iter().chain(&after.packets);
    let is_left_over = |packet: &&&Placed| match left.get_mut(&key(packet)) {
        Some(left) if *left > 0 => {
            *left -= 1;
            false
        }
        _ => true,
    };
    counted.filter(is_left_over).count() as u64
}

/// The packets still to be moved, counted down.
fn take(
    list: Vec<&Placed>,
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
        let observation = [packet.observation()];
        from.uncount(End::Receiver, &observation);
        to.count(End::Receiver, &observation);
        (from.flows).uncount(packet.flow, packet.segment, packet.bytes);
        (to.flows).count(packet.flow, packet.segment, packet.bytes);
    }
}

#[cfg(test)]
mod tests;
