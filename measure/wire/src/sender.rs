//! The sender's end of a wire, in the worker that owns the port.
//!
//! ```text
//!  turn(e+1)                    stash / 4 packets, 1 ms      stash / 2 packets, 2 ms
//!     |                             |                            |
//!  ref marker 0  data data ref data marker 1  data .. ref data.. marker 2  data .. ref data ..
//!     ^                    ^                       ^
//!     ends the interval    by the policy, also within a burst
//! ```

use arrayvec::ArrayVec;

use super::{Marks, SEGMENTS_MAX, SealedWire, WireError, WireLayout, WireShard};
use crate::frame::{Body, Kind, Marker, Reference, SealError, Sealer, Subject};
use crate::session::{KeyId, KeyRing, Session};
use measure::lda::LdaLayout;
use measure::observation::{End, Observation};
use measure::rli::{Injector, ReferenceSender};
use measure::time::Epoch;

/// Longest time that a copy of a marker waits for the packets that should precede it.
const COPY_WAIT_NS: i64 = 1_000_000;

/// Whether references may still use the link.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ReferenceShare {
    /// They may be sent.
    Left,
    /// Due references are withheld and counted.
    Spent,
}

/// A written control frame.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Due {
    /// Its length, from magic to tag.
    pub len: usize,
    /// Its kind.
    pub kind: Kind,
    /// The segment that it is sent with.
    pub segment: u16,
}

/// A rollover that is being announced.
#[derive(Debug, Clone, Copy)]
struct Turn {
    /// The epoch that ended.
    ended: Epoch,
    /// The epoch that began.
    begun: Epoch,
    /// Time of the rollover.
    tai_ns: u64,
    /// Data packets sent since.
    packets: u32,
    /// The next copy of the marker.
    copy: u8,
}

/// A segment's stream of references.
#[derive(Debug)]
struct Stream {
    segment: u16,
    sender: ReferenceSender,
    injector: Injector,
    /// Whether a reference must precede the marker, so that the interval ends with the epoch.
    is_closing: bool,
}

/// The sender's end of a wire.
#[derive(Debug)]
pub struct Sender {
    layout: WireLayout,
    sealer: Sealer,
    is_in_session: bool,
    /// The current epoch.
    epoch: Option<Epoch>,
    open: Option<SealedWire>,
    /// The latest rollover of the session.
    turn: Option<Turn>,
    /// Contents of the latest rollover's marker.
    marker: Marker,
    /// The LDA of the next epoch, which its marker will announce.
    coming: LdaLayout,
    streams: ArrayVec<Stream, { SEGMENTS_MAX as usize }>,
    withheld: u64,
}

impl Sender {
    /// The end at a port of a switch, without a session; it seals with the ring's `key`.
    ///
    /// # Errors
    /// [`WireError`].
    pub fn new(
        layout: &WireLayout,
        switch: u32,
        port: u16,
        keys: &KeyRing,
        key: KeyId,
    ) -> Result<Self, WireError> {
        layout.check()?;
        let mut sender = Self {
            sealer: Sealer::new(switch, port, keys, key)?,
            is_in_session: false,
            epoch: None,
            open: None,
            turn: None,
            marker: Marker {
                copy: 0,
                packets_since: 0,
                lda: layout.lda.clone(),
            },
            coming: layout.lda.clone(),
            streams: ArrayVec::new(),
            withheld: 0,
            layout: layout.clone(),
        };
        if let Some(plan) = layout.references {
            for segment in 0..layout.segments {
                sender.streams.push(Stream {
                    segment,
                    sender: ReferenceSender::new(WireLayout::stream(segment)),
                    injector: Injector::new(plan.policy, plan.link)?,
                    is_closing: false,
                });
            }
        }
        Ok(sender)
    }

    /// Starts a session, effective with the next rollover's marker, at which all streams restart. The
    /// current epoch is partial.
    pub fn begin(&mut self, session: Session) {
        self.end();
        self.sealer.begin(session);
        self.is_in_session = true;
        for stream in &mut self.streams {
            stream.sender = ReferenceSender::new(WireLayout::stream(stream.segment));
        }
    }

    /// Continues the session under another name and key, which are used from now on; counts are kept.
    pub fn renew(&mut self, session: Session) {
        self.sealer.begin(session);
    }

    /// Seals with the ring's key `id` from now on. The session continues.
    ///
    /// # Errors
    /// [`SealError::UnknownKey`] if the ring does not have it; nothing is changed then.
    pub fn set_key(&mut self, keys: &KeyRing, id: KeyId) -> Result<(), SealError> {
        self.sealer.set_key(keys, id)
    }

    /// Ends the session: nothing is sent or recorded.
    pub fn end(&mut self) {
        self.sealer.end();
        self.is_in_session = false;
        self.turn = None;
        self.mark(|marks| marks.is_partial = true);
    }

    /// Sets how packets are spread over the LDAs' banks from the next rollover on, whose marker announces
    /// it. Returns `false`, and changes nothing, if the sizes differ.
    pub fn set_coming(&mut self, lda: &LdaLayout) -> bool {
        let fits = self.layout.lda.has_sizes_of(lda);
        if fits {
            self.coming.clone_from(lda);
        }
        fits
    }

    /// Begins `epoch` at `tai_ns`, including the very first one. Its packets are recorded into `empty`;
    /// without it the rollover is still announced, but nothing is recorded. Returns the counts of the
    /// previous epoch.
    pub fn turn(
        &mut self,
        epoch: Epoch,
        tai_ns: u64,
        empty: Option<Box<WireShard>>,
    ) -> Option<SealedWire> {
        let ended = self.epoch.replace(epoch);
        let mut sealed = self.open.take();
        if let Some(sealed) = &mut sealed {
            sealed.shard.marks.end(sealed.epoch, epoch);
        }
        self.marker.lda.clone_from(&self.coming);
        if let Some(mut shard) = empty {
            shard.relay(&self.marker.lda);
            shard.marks = Marks {
                is_partial: !self.is_in_session,
                ..Marks::default()
            };
            self.open = Some(SealedWire { epoch, shard });
        }
        if self.is_in_session {
            let is_first = self.turn.is_none();
            for stream in &mut self.streams {
                stream.is_closing = is_first || stream.injector.packets_since() > 0;
            }
            self.turn = Some(Turn {
                ended: ended.unwrap_or(epoch),
                begun: epoch,
                tai_ns,
                packets: 0,
                copy: 0,
            });
        }
        sealed
    }

    /// Records data packets that the driver accepted, in order, all at one time: nanoseconds of TAI.
    #[inline]
    pub fn sent(&mut self, observations: &[Observation]) {
        if !self.is_in_session {
            return;
        }
        if let Some(open) = &mut self.open {
            open.shard.record(End::Sender, observations);
        }
        if let Some(turn) = &mut self.turn {
            turn.packets = turn.packets.saturating_add(count(observations));
        }
        if self.streams.is_empty() {
            return;
        }
        for run in observations.chunk_by(|one, other| one.segment == other.segment) {
            let Some(first) = run.first() else { continue };
            let segment = usize::from(first.segment.0);
            let Some(stream) = self.streams.get_mut(segment) else {
                continue;
            };
            let (mut digest, mut bytes) = (0, 0);
            for observation in run {
                digest ^= observation.packet.0;
                bytes += u64::from(observation.bytes);
            }
            stream.sender.record_run(count(run), digest, first.time);
            stream.injector.run(count(run), bytes, first.time);
        }
    }

    /// Writes the next control frame that is due behind the packets [sent](Self::sent) so far to `buffer`,
    /// if any: a marker, or a reference if the `share` of the link allows it. Call it until it returns
    /// none, after every burst and once in a pass; its frames must precede all further packets.
    #[inline]
    pub fn due(&mut self, tai_ns: u64, share: ReferenceShare, buffer: &mut [u8]) -> Option<Due> {
        let turn = self.turn?;
        if turn.copy == 0
            && let Some(due) = self.refer(turn.ended, tai_ns, share, buffer, |stream| {
                std::mem::take(&mut stream.is_closing)
            })
        {
            return Some(due);
        }
        if self.is_copy_due(&turn, tai_ns) {
            return self.announce(turn, tai_ns, buffer);
        }
        self.refer(turn.begun, tai_ns, share, buffer, |stream| {
            stream.injector.due(tai_ns)
        })
    }

    /// Number of packets that may be sent at `tai_ns` until a reference is due behind the last of them, at least
    /// 1. Do not send more, or all references would follow the last packet of a burst.
    #[inline]
    pub fn packets_to_reference(&mut self, tai_ns: u64) -> u64 {
        if self.turn.is_none() {
            return u64::MAX;
        }
        let streams = self.streams.iter_mut();
        let to_go = streams.map(|stream| stream.injector.packets_to_go(tai_ns));
        to_go.min().unwrap_or(u64::MAX)
    }

    /// Takes the number of references withheld since the last call.
    pub fn take_withheld(&mut self) -> u64 {
        std::mem::take(&mut self.withheld)
    }

    /// Notes that the link went down.
    pub fn link_lost(&mut self) {
        self.mark(|marks| marks.is_link_lost = true);
    }

    /// Notes that the clock was set.
    pub fn clock_set(&mut self) {
        self.mark(|marks| marks.is_clock_set = true);
    }

    fn mark(&mut self, mark: impl FnOnce(&mut Marks)) {
        if let Some(open) = &mut self.open {
            mark(&mut open.shard.marks);
        }
    }

    /// Distance between copies: far enough to survive a burst of losses, and near enough for both ends'
    /// stashes to contain everything between the rollover and the last copy.
    #[inline]
    fn is_copy_due(&self, turn: &Turn, tai_ns: u64) -> bool {
        let copy = turn.copy;
        if copy >= Marker::COPIES {
            return false;
        }
        let packets = u32::from(copy) * u32::from(self.layout.stash_packets / 4).max(1);
        let waited_ns = tai_ns.wrapping_sub(turn.tai_ns).cast_signed();
        // If the clock was set back, the elapsed time is unknown.
        turn.packets >= packets || !(0..i64::from(copy) * COPY_WAIT_NS).contains(&waited_ns)
    }

    fn announce(&mut self, turn: Turn, tai_ns: u64, buffer: &mut [u8]) -> Option<Due> {
        self.marker.copy = turn.copy;
        self.marker.packets_since = turn.packets;
        let subject = Subject {
            segment: 0,
            epoch: turn.begun,
            tai_ns: tai_ns.cast_signed(),
        };
        let due = write(&mut self.sealer, subject, &self.marker, buffer)?;
        self.turn = Some(Turn {
            copy: turn.copy + 1,
            ..turn
        });
        Some(due)
    }

    /// The reference of the first stream that has one due.
    #[inline]
    fn refer(
        &mut self,
        epoch: Epoch,
        tai_ns: u64,
        share: ReferenceShare,
        buffer: &mut [u8],
        is_due: impl Fn(&mut Stream) -> bool,
    ) -> Option<Due> {
        for stream in &mut self.streams {
            if !is_due(stream) {
                continue;
            }
            if share == ReferenceShare::Spent {
                stream.injector.left_out(tai_ns);
                self.withheld += 1;
                continue;
            }
            let (subject, body) = Reference::new(&stream.sender.reference(tai_ns), epoch);
            let due = write(&mut self.sealer, subject, &body, buffer)?;
            stream.injector.injected(tai_ns);
            return Some(due);
        }
        None
    }
}

fn write<B: Body>(
    sealer: &mut Sealer,
    subject: Subject,
    body: &B,
    buffer: &mut [u8],
) -> Option<Due> {
    // Without room it stays due.
    let len = sealer.seal(subject, body, buffer).ok()?;
    Some(Due {
        len,
        kind: B::KIND,
        segment: subject.segment,
    })
}

#[expect(clippy::cast_possible_truncation, reason = "a burst")]
fn count(observations: &[Observation]) -> u32 {
    observations.len() as u32
}
