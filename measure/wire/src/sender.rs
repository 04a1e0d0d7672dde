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

/// How long a copy of a marker waits for the packets that should come before it, at most.
const COPY_WAIT_NS: i64 = 1_000_000;

/// Whether references have anything left of the link.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ReferenceShare {
    /// They may be sent.
    Left,
    /// Those that are due are withheld, and counted.
    Spent,
}

/// A control frame that was written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Due {
    /// Its length, from magic to tag.
    pub len: usize,
    /// What it is.
    pub kind: Kind,
    /// The segment that it is to travel with.
    pub segment: u16,
}

/// A turn that is being announced.
#[derive(Debug, Clone, Copy)]
struct Turn {
    /// The epoch that ended.
    ended: Epoch,
    /// The epoch that began.
    begun: Epoch,
    /// When.
    tai_ns: u64,
    /// Data packets sent since.
    packets: u32,
    /// The copy of the marker that goes next.
    copy: u8,
}

/// A segment's stream of references.
#[derive(Debug)]
struct Stream {
    segment: u16,
    sender: ReferenceSender,
    injector: Injector,
    /// A reference is to go before the marker, so that the interval ends with the epoch.
    is_closing: bool,
}

/// The sender's end of a wire.
#[derive(Debug)]
pub struct Sender {
    layout: WireLayout,
    sealer: Sealer,
    is_in_session: bool,
    /// The epoch in progress.
    epoch: Option<Epoch>,
    open: Option<SealedWire>,
    /// The latest turn of the session.
    turn: Option<Turn>,
    /// What the latest turn's marker says.
    marker: Marker,
    /// The LDA of the next epoch, which its marker will say.
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

    /// A session begins: with the next turn's marker, at which all streams begin anew. The epoch in
    /// progress is partial.
    pub fn begin(&mut self, session: Session) {
        self.end();
        self.sealer.begin(session);
        self.is_in_session = true;
        for stream in &mut self.streams {
            stream.sender = ReferenceSender::new(WireLayout::stream(stream.segment));
        }
    }

    /// The session goes on under another name and key, which frames are sealed with from now on;
    /// everything is counted as before.
    pub fn renew(&mut self, session: Session) {
        self.sealer.begin(session);
    }

    /// Seals with the ring's key `id` from now on. The session goes on.
    ///
    /// # Errors
    /// [`SealError::UnknownKey`] when the ring does not have it; nothing is changed then.
    pub fn set_key(&mut self, keys: &KeyRing, id: KeyId) -> Result<(), SealError> {
        self.sealer.set_key(keys, id)
    }

    /// There is no session any more: nothing is sent or recorded.
    pub fn end(&mut self) {
        self.sealer.end();
        self.is_in_session = false;
        self.turn = None;
        self.mark(|marks| marks.is_partial = true);
    }

    /// How packets are spread over the LDAs' banks from the next turn on, whose marker announces it.
    /// `false`, and nothing is changed, where the sizes are others.
    pub fn set_coming(&mut self, lda: &LdaLayout) -> bool {
        let fits = self.layout.lda.has_sizes_of(lda);
        if fits {
            self.coming.clone_from(lda);
        }
        fits
    }

    /// `epoch` begins at `tai_ns`, also at the very start. `empty` is for what is counted in it;
    /// without, the turn is announced all the same, and nothing is recorded. Gives what was
    /// counted until now.
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

    /// Data packets that the driver has taken, in order, all at one time: nanoseconds of TAI.
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

    /// Writes the next control frame that is due behind what was [sent](Self::sent) so far to
    /// `buffer`, if there is one: a marker, or a reference if the `share` of the link allows it. To be
    /// called until there is none, after every burst and once a pass: what it wrote must go
    /// before any other packet.
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

    /// How many packets may be sent at `tai_ns` until a reference is due behind the last of them: 1 or more. More
    /// must not be sent before it is, or references would all be behind the last packet of a burst.
    #[inline]
    pub fn packets_to_reference(&mut self, tai_ns: u64) -> u64 {
        if self.turn.is_none() {
            return u64::MAX;
        }
        let streams = self.streams.iter_mut();
        let to_go = streams.map(|stream| stream.injector.packets_to_go(tai_ns));
        to_go.min().unwrap_or(u64::MAX)
    }

    /// References that were due and withheld since this was last asked.
    pub fn take_withheld(&mut self) -> u64 {
        std::mem::take(&mut self.withheld)
    }

    /// The link went down.
    pub fn link_lost(&mut self) {
        self.mark(|marks| marks.is_link_lost = true);
    }

    /// The clock was set.
    pub fn clock_set(&mut self) {
        self.mark(|marks| marks.is_clock_set = true);
    }

    fn mark(&mut self, mark: impl FnOnce(&mut Marks)) {
        if let Some(open) = &mut self.open {
            mark(&mut open.shard.marks);
        }
    }

    /// Copies are as far apart as to survive a burst of losses, and near enough for both ends'
    /// stashes to hold what lies between the turn and the last of them.
    #[inline]
    fn is_copy_due(&self, turn: &Turn, tai_ns: u64) -> bool {
        let copy = turn.copy;
        if copy >= Marker::COPIES {
            return false;
        }
        let packets = u32::from(copy) * u32::from(self.layout.stash_packets / 4).max(1);
        let waited_ns = tai_ns.wrapping_sub(turn.tai_ns).cast_signed();
        // Where the clock was set back there is no telling how long it has been.
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

    /// The reference of the first stream that is due for one.
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
    // Where there is no room, it stays due.
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
