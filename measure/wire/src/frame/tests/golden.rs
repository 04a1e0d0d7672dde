//! Vectors made by another implementation, in another language, from the tables of bytes alone.

use super::*;
use measure::cell::Cell;
use measure::observation::{End, SegmentIndex};
use measure::packet::FlowHash;
use measure::rli;
use measure::shard::Tally;

/// The bytes of a vector: hexadecimal, with comments behind `#`.
fn bytes_of(vector: &str) -> Vec<u8> {
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
pub(super) fn frames() -> [Vec<u8>; 9] {
    [
        vector!("hello"),
        vector!("marker"),
        vector!("stash"),
        vector!("fragment_lda"),
        vector!("fragment_lds"),
        vector!("reference"),
        vector!("request"),
        vector!("report"),
        vector!("floor"),
    ]
}

/// Seals `body` as frame `sequence` of its kind, and compares; then opens the vector, parses it and writes it back.
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
        lda: two_banks(),
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
    let floor = Floor {
        least_delay_ns: -962_345,
    };
    check(18, &floor, &vector!("floor"));
}

/// Numbers in frames have the same meaning in every version.
#[test]
fn numbers_mean_what_they_meant_in_the_first_version() {
    let (_, mut verifier) = pair();
    let vector = vector!("report");
    let body = verifier.open(&vector).unwrap().body().to_vec();
    let said = |at: usize, number: u8| {
        let mut body = body.clone();
        body[at] = number;
        Report::parse(&body).ok()
    };
    let fates = [
        "usable",
        "mismatch",
        "clock",
        "link",
        "unmeasured",
        "no_markers",
        "partial",
        "no_fragments",
        "reordered",
        "too_few_cells",
        "idle",
    ];
    for (number, fate) in (0..).zip(fates) {
        assert_eq!(said(0, number).unwrap().fate.label(), fate);
    }
    let methods = [
        Method::Stamped,
        Method::Hybrid,
        Method::Joint,
        Method::Rli(rli::Method::Sums),
        Method::Lda,
        Method::LdsPaper,
        Method::Prior,
        Method::Combined,
    ];
    for (number, method) in (1..).zip(methods) {
        assert_eq!(said(2, number).unwrap().chosen.unwrap().method, method);
    }
    let kinds = [
        Kind::Hello,
        Kind::Marker,
        Kind::Stash,
        Kind::Fragment,
        Kind::Reference,
        Kind::Request,
        Kind::Report,
        Kind::Floor,
    ];
    for (number, kind) in (1..).zip(kinds) {
        let mut frame = vector.clone();
        frame[5] = number;
        assert_eq!(Frame::parse(&frame).unwrap().kind(), kind);
    }
    let hello = vector!("hello");
    let hello = Frame::parse(&hello).unwrap().body().to_vec();
    let clocks = [
        ClockState::Free,
        ClockState::HoldingOver,
        ClockState::Locked,
    ];
    for (number, clock) in (0..).zip(clocks) {
        let mut hello = hello.clone();
        hello[50] = number;
        assert_eq!(Hello::parse(&hello).unwrap().clock, clock);
    }
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

/// A cell with the bytes of its packets, which no switch sends.
#[derive(Clone, Copy)]
struct Counted {
    cell: Cell,
    bytes: u64,
}

impl Element for Counted {
    const BYTES: usize = Cell::BYTES + 8;

    fn emit(&self, out: &mut impl Put) {
        self.cell.emit(out);
        out.put_number(self.bytes);
    }

    fn parse(reader: &mut Reader<'_>) -> Result<Self, ParseError> {
        Ok(Self {
            cell: Cell::parse(reader)?,
            bytes: reader.number("bytes of a cell")?,
        })
    }
}

#[test]
fn fragments_are_as_documented() {
    let cell = |sum, count, digest| Cell { sum, count, digest };
    let cells = [cell(123_456_789, 3, 0xdead_beef), cell(u64::MAX, 1, 1)];
    let lda = Shape::Lda(two_banks());
    let element = |index: u32| cells[index as usize - 10];
    let mut all = fragments(&lda, End::Sender, [10..12], 200, element);
    check(13, &all.next().unwrap(), &vector!("fragment_lda"));
    assert!(all.next().is_none());

    let with_bytes = Shape::Lds(sketch());
    let counted = |_| Counted {
        cell: cell(77, 25, 0xcafe_f00d),
        bytes: 1_500,
    };
    let least = 12 + 34 + 24;
    let mut all = fragments(&with_bytes, End::Receiver, [4..5], least, counted);
    check(14, &all.next().unwrap(), &vector!("fragment_lds"));

    let tally = Tally {
        sent: 10,
        sent_bytes: 1_000,
        received: 7,
        received_bytes: 700,
        dropped: 2,
        late: 1,
    };
    let shape = Shape::Tally;
    let mut all = fragments(&shape, End::Receiver, [0..1], 200, |_| tally);
    let mut body = Vec::new();
    all.next().unwrap().emit(&mut body);
    assert_eq!(body, vector!("tally"));
    let view = FragmentView::parse(&body).unwrap();
    assert_eq!((view.shape(), view.range()), (&Shape::Tally, 0..1));
    assert!(view.elements::<Tally>().unwrap().eq([tally]));
}
