//! Vectors made by another implementation, in another language, from the tables of bytes alone.

use super::*;
use crate::cell::{Cell, CellPair};
use crate::flows::{FlowObservation, FlowSlots, Slot};
use crate::histogram::Histogram;
use crate::lda::LdaPair;
use crate::lds::{LdsPair, Sds};
use crate::moments::Moments;
use crate::observation::tests::observation_with_delay;
use crate::observation::{End, SegmentIndex};
use crate::packet::FlowHash;
use crate::rli;
use crate::shard::Tally;
use crate::synopsis::Synopsis;
use crate::time::TickRate;

/// The bytes of a vector: hexadecimal, with comments behind `#`.
pub(super) fn bytes_of(vector: &str) -> Vec<u8> {
    let digits: Vec<u8> = vector
        .lines()
        .filter_map(|line| line.split('#').next())
        .flat_map(str::chars)
        .filter_map(|digit| digit.to_digit(16))
        .map(|digit| u8::try_from(digit).unwrap())
        .collect();
    digits
        .chunks(2)
        .map(|pair| pair[0] << 4 | pair[1])
        .collect()
}

macro_rules! vector {
    ($name:literal) => {
        bytes_of(include_str!(concat!("../golden/", $name, ".hex")))
    };
}

/// All frames among the vectors.
pub(super) fn frames() -> [Vec<u8>; 8] {
    [
        vector!("hello"),
        vector!("marker"),
        vector!("stash"),
        vector!("fragment_lda"),
        vector!("fragment_lds"),
        vector!("reference"),
        vector!("request"),
        vector!("report"),
    ]
}

/// Seals `body` as frame `sequence` of its kind, and compares; then opens the vector, parses it
/// and writes it again.
fn check(sequence: u64, body: &impl Body, vector: &[u8]) {
    let (mut sealer, mut verifier) = pair();
    for _ in 1..sequence {
        seal(&mut sealer, body);
    }
    assert_eq!(seal(&mut sealer, body), vector);
    let frame = verifier.open(vector).unwrap();
    let header = frame.header();
    assert_eq!(
        (header.switch, header.port, header.segment),
        (0x0102_0304, 5, 6)
    );
    assert_eq!(
        (header.epoch, header.tai_ns),
        (subject().epoch, subject().tai_ns)
    );
    assert_eq!(header.sequence, sequence);
    let mut again = Vec::new();
    Message::parse(&frame).unwrap().emit(&mut again);
    assert_eq!(again, frame.body());
}

#[test]
fn tags_are_those_of_the_reference_implementation() {
    // vectors.h of github.com/veorq/SipHash: key 00..0f, messages 00, 01, 02 and so on.
    let vectors = [
        (0, 0xa381_7f04_ba25_a8e6_6df6_7214_c755_0293),
        (1, 0xda87_c1d8_6b99_af44_3476_5911_9b22_fc45),
        (63, 0x5150_d177_2f50_834a_503e_069a_973f_bd7c_u128),
    ];
    for (length, tag) in vectors {
        let message: Vec<u8> = (0..length).collect();
        assert_eq!(key().tag(&message), tag.to_be_bytes(), "{length}");
    }
}

#[test]
fn frames_are_as_documented() {
    check(0, &hello(), &vector!("hello"));
    let marker = Marker {
        copy: 1,
        packets_since: 3,
        coming: two_banks(),
    };
    check(11, &marker, &vector!("marker"));
    let sent = rli::Reference {
        stream: rli::StreamId {
            worker: 2,
            segment: SegmentIndex(6),
            queue: 3,
        },
        sequence: 7,
        sent_ns: 1_700_000_000_123_456_789,
        sums: rli::StreamSums {
            count: 100,
            time_ns: 5_000_000_000,
            ranked_time_ns: 250_000_000_000,
            digest: 0x1122_3344_5566_7788,
        },
    };
    let (its_subject, reference) = Reference::new(&sent, subject().epoch);
    assert_eq!(its_subject, subject());
    let vector = vector!("reference");
    check(15, &reference, &vector);
    assert_eq!(14 + vector.len(), REFERENCE_FRAME_BYTES);
    assert_eq!(
        reference.with(&Frame::parse(&vector).unwrap().header()),
        sent
    );
    let request = Request::new(&Shape::Lds(sketch()), [0..2, 5..6]).unwrap();
    check(16, &request, &vector!("request"));
    let report = report();
    let vector = vector!("report");
    check(17, &report, &vector);
    let frame = Frame::parse(&vector).unwrap();
    assert_eq!(Message::parse(&frame), Ok(Message::Report(report)));
}

#[test]
fn stashes_are_as_documented() {
    let of = |flow, time, digest| Stashed {
        flow: FlowHash(flow),
        time,
        digest,
    };
    let filler = of(0, 0, 0);
    let list = [
        filler,
        filler,
        filler,
        of(0xa1a2_a3a4_a5a6_a7a8, 999_999_000, 0xd1d2_d3d4),
        of(0xb1b2_b3b4_b5b6_b7b8, 5_u64.wrapping_neg(), 0xe1e2_e3e4),
    ];
    let room = HEADER_BYTES + 5 + 3 * 20 + TAG_BYTES;
    let part = Stash::parts(Side::Before, &list, room).last().unwrap();
    let vector = vector!("stash");
    check(12, &part, &vector);
    let view = StashView::parse(Frame::parse(&vector).unwrap().body()).unwrap();
    assert_eq!(
        (view.side(), view.total(), view.first()),
        (Side::Before, 5, 3)
    );
    assert!(view.packets().eq(list[3..].iter().copied()));
}

#[test]
fn fragments_are_as_documented() {
    let cell = |sum, count, digest| Cell { sum, count, digest };
    let cells = [cell(123_456_789, 3, 0xdead_beef), cell(u64::MAX, 1, 1)];
    let lda = Shape::Lda(two_banks());
    let element = |index: u32| cells[index as usize - 10];
    let mut all = fragments(&lda, End::Sender, [10..12], 200, element).unwrap();
    check(13, &all.next().unwrap(), &vector!("fragment_lda"));
    assert!(all.next().is_none());

    let with_bytes = Shape::Lds(sketch());
    let counted = |_| Counted {
        cell: cell(77, 25, 0xcafe_f00d),
        bytes: 1_500,
    };
    let least = HEADER_BYTES + 12 + 34 + 24 + TAG_BYTES;
    let mut all = fragments(&with_bytes, End::Receiver, [4..5], least, counted).unwrap();
    check(14, &all.next().unwrap(), &vector!("fragment_lds"));
}

/// Compares a synopsis' form with a vector, and what is read from the vector with the synopsis.
fn check_form<S: Synopsis + PartialEq + std::fmt::Debug>(synopsis: &S, vector: &[u8]) {
    let mut out = Vec::new();
    synopsis.encode(&mut out);
    assert_eq!(out, vector);
    let mut reader = Reader::new(vector);
    assert_eq!(S::decode(&mut reader).as_ref(), Ok(synopsis));
    assert_eq!(reader.end("form"), Ok(()));
}

#[test]
fn forms_of_exact_figures_are_as_documented() {
    let mut moments = Moments::default();
    moments.record(
        End::Receiver,
        &[observation_with_delay(3), observation_with_delay(4)],
    );
    check_form(&moments, &vector!("moments"));

    let tally = Tally {
        sent: 10,
        sent_bytes: 1_000,
        received: 7,
        received_bytes: 700,
        dropped: 2,
        late: 1,
    };
    check_form(&tally, &vector!("tally"));

    let mut histogram = Histogram::new(TickRate::from_hz(1_000_000_000));
    for delay in [0, 1, 3] {
        histogram.record(End::Receiver, &[observation_with_delay(delay)]);
    }
    check_form(&histogram, &vector!("histogram"));

    let mut slots = FlowSlots::new(1).with_estimates();
    for delay in [3, 4] {
        let (slot, bytes) = (Slot(0), 64);
        slots.record(End::Receiver, &[FlowObservation { slot, bytes, delay }]);
    }
    slots.record_estimates(&[Slot(0)], -3);
    check_form(&slots, &vector!("flow_slots"));
}

#[test]
fn forms_of_sketches_are_as_documented() {
    let decode = |vector: &[u8]| <LdaPair>::decode(&mut Reader::new(vector)).unwrap();
    let lda = decode(&vector!("lda"));
    check_form(&lda, &vector!("lda"));
    let cell = |sum, count, digest| Cell { sum, count, digest };
    assert_eq!(
        lda.cells(),
        [
            CellPair {
                sender: cell(7, 1, 0xaabb_ccdd),
                receiver: cell(9, 1, 0xaabb_ccdd),
            },
            CellPair {
                sender: Cell::default(),
                receiver: cell(1, 1, 2),
            },
        ]
    );

    let lds = <LdsPair>::decode(&mut Reader::new(&vector!("lds"))).unwrap();
    check_form(&lds, &vector!("lds"));
    assert_eq!(SketchShape::new(lds.layout()), sketch());
    assert_eq!(lds.layout().weights(), [1, 25, 100]);
    assert_eq!(lds.cells()[5].sender, cell(5, 6, 7));
    assert_eq!(lds.cells()[5].receiver, cell(15, 6, 7));
    assert_eq!(lds.bytes().unwrap()[5].receiver, 8);

    let sds = Sds::decode(&mut Reader::new(&vector!("sds"))).unwrap();
    check_form(&sds, &vector!("sds"));
    assert_eq!((sds.cells()[1].sum, sds.cells()[1].count), (50, 5));
}
