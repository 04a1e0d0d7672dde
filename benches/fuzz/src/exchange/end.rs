//! One end of a wire, with its worker's part and its exchange.

use std::sync::Arc;

use contract::counters::{Counter, WireCounters};
use contract::ids::PortIndex;
use contract::wire::clock::SharedLine;
use contract::wire::clock::TaiLine;
use contract::wire::handover::wire_handover;
use control::data_plane::ResultMode;
use control::wire::exchange::Exchange;
use measure::lda::{Bank, LdaLayout};
use measure::lds::LdsLayout;
use measure::time::{EpochSchedule, TickRate, Ticks};
use switch::packet_io::memory::{MemoryHandles, MemoryIo, MemoryPacket};
use switch::packet_io::{PacketIo, PortHandles};
use switch::wire::{Envelope, HelloGate, Share, WirePort, WireSetup, source_address};
use wire::exchange::{ClockView, Expected, FrameSettings, Moment, OwnEnd, SessionState, Settings};
use wire::frame::{ClockState, Kind, PortName};
use wire::session::{Key, KeyId, KeyRing, SessionId};
use wire::{Receiver, Sender, WireLayout};

use super::{EPOCH_NS, TAI_NS};

const PORT: PortIndex = PortIndex(0);
const ETHERTYPE: u16 = 0x88B5;
const CAPACITY_BPS: u64 = 1_000_000_000;

fn layout() -> WireLayout {
    let bank = |probability| Bank {
        rows: 4,
        probability,
    };
    WireLayout {
        segments: 1,
        lda: LdaLayout::new(&[bank(0.5), bank(1.0)]).unwrap(),
        lds: Some(LdsLayout::new(8, 2, &[1.0]).unwrap()),
        stash_packets: 8,
        flows: 16,
        references: None,
    }
}

pub(super) fn keys(byte: u8) -> KeyRing {
    let ring = KeyRing::new().with(KeyId(1), Key::new([byte; 16]));
    ring.unwrap()
}

fn rate() -> TickRate {
    TickRate::from_hz(1_000_000_000)
}

pub(super) struct End {
    pub exchange: Exchange,
    pub wire: WirePort<MemoryPacket>,
    io: MemoryIo,
    pub line: Arc<SharedLine>,
    counters: Arc<WireCounters>,
    pub clock: ClockView,
    pub ahead_ns: i64,
    pub is_up: bool,
    /// Control frames passed to its worker.
    pub heard: u64,
    /// The session of the last accepted frame.
    pub session: Option<SessionId>,
}

impl End {
    pub fn new(switch: u32, now: u64) -> Self {
        let layout = layout();
        let (line, counters) = (Arc::<SharedLine>::default(), Arc::<WireCounters>::default());
        line.set(TaiLine::at_rate(Ticks(0), TAI_NS, rate()));
        let (end, control) = wire_handover(&layout, Arc::clone(&line), Arc::clone(&counters));
        let keys = keys(7);
        let wire = WirePort::new(WireSetup {
            port: PORT,
            sender: Sender::new(&layout, switch, 3, &keys, KeyId(1)).unwrap(),
            receiver: Receiver::new(&layout, keys.clone()).unwrap(),
            end,
            classes: [Some(0); 8],
            envelope: Envelope::Link {
                ethertype: ETHERTYPE,
                source: source_address(switch, PortIndex(3)),
            },
            share: Share::new(CAPACITY_BPS, 0.02, 0.4, rate(), Ticks(now)),
            hellos: HelloGate::new(rate(), Ticks(now)),
            schedule: EpochSchedule::new(Ticks(0), EPOCH_NS, EPOCH_NS / 5),
            recorder: None,
        });
        let settings = Settings {
            own: OwnEnd {
                switch,
                port: 3,
                port_name: PortName::default(),
            },
            keys,
            key: KeyId(1),
            layout,
            adaptive: None,
            seed_check: 42,
            epoch_ns: EPOCH_NS,
            frames: FrameSettings {
                bytes_max: 1_500,
                overhead_bytes: 38,
                bytes_per_s: CAPACITY_BPS / 400,
            },
            idle_epochs: 300,
            components: 1,
            resolution_ns: 1.0,
            delay_min_ns: 0,
            is_routed: false,
            expected: Expected::default(),
            renew_ns: u64::MAX,
        };
        let mut io = MemoryIo::default();
        io.take_over(&mut MemoryHandles::room(PORT, 0));
        Self {
            exchange: Exchange::new(settings, control, ResultMode::Polled).unwrap(),
            wire,
            io,
            line,
            counters,
            clock: ClockView {
                state: ClockState::Locked,
                error_ns: 100,
                tai_utc_s: 37,
                ptp_domain: 0,
            },
            ahead_ns: 0,
            is_up: true,
            heard: 0,
            session: None,
        }
    }

    pub fn set_clock(&mut self, ahead_ns: i64) {
        self.ahead_ns = ahead_ns;
        let tai_ns = TAI_NS.wrapping_add_signed(ahead_ns);
        self.line.set(TaiLine::at_rate(Ticks(0), tai_ns, rate()));
    }

    /// Runs one pass of the worker and one poll of the control core; returns the control frames sent.
    pub fn step(&mut self, now: u64, drawn: &mut u64) -> Vec<Vec<u8>> {
        self.io.set_now(Ticks(now));
        self.wire.tick(Ticks(now), self.is_up);
        self.wire.send_due(&mut self.io, Ticks(now));
        self.wire.send_bulk(&mut self.io, Ticks(now));
        let moment = Moment {
            tai_ns: TAI_NS.wrapping_add_signed(self.ahead_ns).wrapping_add(now),
            monotonic_ns: now,
            clock: self.clock,
        };
        self.exchange.poll(moment, &mut || {
            *drawn += 1;
            // No two alike.
            drawn.wrapping_mul(0x9E37_79B9_7F4A_7C15)
        });
        let departed = self.io.departed(PORT);
        let frames = departed.iter().map(|(_, packet)| packet.bytes());
        frames
            .filter_map(|frame| self.wire.control_in(frame).map(<[u8]>::to_vec))
            .collect()
    }

    pub fn accepted(&self, kind: Kind) -> u64 {
        self.counters.accepted[kind.index()].get()
    }

    pub fn counted(&self) -> u64 {
        let counters = self.counters.accepted.iter().chain(&self.counters.rejected);
        counters.map(Counter::get).sum()
    }

    pub fn is_established(&self) -> bool {
        let status = self.exchange.status();
        status.is_some_and(|status| status.session == SessionState::Established)
    }
}
