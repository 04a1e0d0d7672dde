//! Frames against vectors of another implementation, against damage, and round and round.
#![expect(
    clippy::single_range_in_vec_init,
    reason = "a list of one range is meant"
)]

mod golden;
mod refusals;
mod round_trips;

use proptest::prelude::*;

use super::*;
use crate::codec::{
    Assembler, Element, FragmentView, ParseError, Put, Reader, Shape, SketchShape, fragments,
};
use crate::session::{Key, KeyId, KeyRing, KeyRingError, Nonce, Nonces, Session};
use measure::chooser::Method;
use measure::lda::LdaLayout;
use measure::rli;
use measure::time::Epoch;

/// The nonces of the vectors.
const NONCES: (u64, u64) = (0x0123_4567_89ab_cdef, 0xfedc_ba98_7654_3210);

fn key() -> Key {
    Key::new(std::array::from_fn(|i| u8::try_from(i).unwrap()))
}

fn keys() -> KeyRing {
    KeyRing::new().with(KeyId(7), key()).unwrap()
}

fn session() -> Session {
    Session {
        sender: Nonce::from_random(NONCES.0),
        receiver: Nonce::from_random(NONCES.1),
    }
}

/// Both ends of a session.
fn pair() -> (Sealer, Verifier) {
    let mut sealer = Sealer::new(0x0102_0304, 5, &keys(), KeyId(7)).unwrap();
    let mut verifier = Verifier::new(keys());
    sealer.begin(session());
    verifier.begin(session());
    (sealer, verifier)
}

fn subject() -> Subject {
    Subject {
        segment: 6,
        epoch: Epoch(258),
        tai_ns: 1_700_000_000_123_456_789,
    }
}

fn seal(sealer: &mut Sealer, body: &impl Body) -> Vec<u8> {
    let mut buffer = vec![0; FRAME_BYTES_MAX];
    let length = sealer.seal(subject(), body, &mut buffer).unwrap();
    buffer.truncate(length);
    buffer
}

fn two_banks() -> LdaLayout {
    LdaLayout::from_bank_shares(&[(4, 1 << 29), (8, 7 << 29)]).unwrap()
}

fn sketch() -> SketchShape {
    SketchShape {
        columns: 3,
        virtual_cells: 2,
        counts_bytes: true,
        weights_check: SketchShape::weights_check(&[1, 25, 100]),
        shares: [1 << 31, 1 << 32].into_iter().collect(),
    }
}

fn hello() -> Hello {
    Hello {
        hash_version: 1,
        seed_check: seed_check(std::array::from_fn(|i| 16 + u8::try_from(i).unwrap())),
        epoch_ns: 1_000_000_000,
        nonces: Nonces {
            own: Nonce::from_random(NONCES.0),
            peer: Some(Nonce::from_random(NONCES.1)),
            renews: Some(Nonce::from_random(NONCES.0 + 1)),
        },
        clock_error_ns: 250,
        tai_utc_s: 37,
        clock: ClockState::Locked,
        ptp_domain: 24,
        stash_packets: 64,
        port_name: PortName::from("trunk").unwrap(),
        shapes: [Shape::Lda(two_banks()), Shape::Lds(sketch())]
            .into_iter()
            .collect(),
    }
}

fn report() -> Report {
    Report {
        fate: EpochFate::Usable,
        sent: 1_000,
        received: 1_002,
        lost: -2,
        moved: 3,
        mean_ns: Some(12_500.5),
        stddev_ns: Some(250.25),
        bound_ns: Some(16.0),
        effective_samples: 900,
        usable_cells: 10,
        cells: 12,
        chosen: Some(crate::Estimate {
            method: Method::Rli(rli::Method::Sums),
            mean_ns: -0.75,
            bound_ns: Some(0.0),
        }),
    }
}

/// Shapes of every kind, with at most a few hundred elements.
fn shapes() -> impl Strategy<Value = Shape> {
    let banks = proptest::collection::vec((1_u32..20, 1_u64..1 << 30), 1..5);
    let lda = banks.prop_map(|mut banks| {
        banks.sort_by_key(|&(_, share)| share);
        Shape::Lda(LdaLayout::from_bank_shares(&banks).unwrap())
    });
    let shares = proptest::collection::vec(1_u64..=1 << 32, 1..=4);
    let sketch = (1_u32..60, 1_u32..60, any::<bool>(), any::<u64>(), shares).prop_map(
        |(columns, virtual_cells, counts_bytes, weights_check, shares)| SketchShape {
            columns,
            virtual_cells: virtual_cells.min(columns),
            counts_bytes,
            weights_check,
            shares: shares.into_iter().collect(),
        },
    );
    prop_oneof![lda, sketch.prop_map(Shape::Lds), Just(Shape::Tally)]
}
