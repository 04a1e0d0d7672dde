//! Whole synopses, round and round.

use super::*;
use crate::cell::PassedCell;
use crate::histogram::Histogram;
use crate::lda::LdaPair;
use crate::lds::{LdsLayout, LdsPair, Sds};
use crate::observation::{End, Observation, SegmentIndex};
use crate::packet::{FlowHash, PacketHash};
use crate::shard::{Shard, ShardLayout};
use crate::synopsis::Synopsis;
use crate::time::{EpochTag, TickRate};

fn observations() -> impl Strategy<Value = Vec<Observation>> {
    let one = any::<(u64, u64, u64, u64, u32)>().prop_map(|(flow, packet, time, delay, bytes)| {
        Observation {
            flow: FlowHash(flow),
            packet: PacketHash(packet),
            time,
            delay,
            bytes,
            segment: SegmentIndex(u16::try_from(flow % 3).unwrap()),
            epoch: EpochTag(0),
        }
    });
    proptest::collection::vec(one, 0..40)
}

/// Records into a synopsis, writes it and reads it back; then reads it cut short.
fn check<S>(mut synopsis: S, observations: &[Observation]) -> Result<(), TestCaseError>
where
    S: Synopsis<Item = Observation> + PartialEq + std::fmt::Debug,
{
    synopsis.record(End::Sender, observations);
    synopsis.record(End::Receiver, observations);
    let mut out = Vec::new();
    synopsis.encode(&mut out);
    out.push(7);
    let mut reader = Reader::new(&out);
    prop_assert_eq!(S::decode(&mut reader), Ok(synopsis));
    prop_assert_eq!(reader.rest(), [7]);
    for length in (0..out.len() - 1).step_by(61) {
        prop_assert!(S::decode(&mut Reader::new(&out[..length])).is_err());
    }
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(32))]

    #[test]
    fn synopses_round(observations in observations(), counts_bytes: bool) {
        let rate = TickRate::from_hz(2_500_000_000);
        check(LdaPair::new(&two_banks()), &observations)?;
        check(LdaPair::<PassedCell>::empty(&two_banks()), &observations)?;
        check(Histogram::new(rate), &observations)?;
                let plain = LdsLayout::new(13, 1, &[1.0, 1.0, 1.0]).unwrap();
        let rich = LdsLayout::new(13, 5, &[0.01, 0.1, 0.5, 1.0]).unwrap();
        let rich = rich.with_weights(&[1, 25, 100, 1]).unwrap();
        let rich = if counts_bytes { rich.with_bytes() } else { rich };
        for layout in [plain, rich] {
            check(LdsPair::new(&layout), &observations)?;
            check(LdsPair::<PassedCell>::empty(&layout), &observations)?;
            check(Sds::new(&layout), &observations)?;
            let shard = Shard::new(&ShardLayout {
                sketch_of: vec![0, 1, 0],
                sketches: 2,
                lda: counts_bytes.then(two_banks),
                lds: Some(layout.clone()),
                sds: counts_bytes.then_some(layout),
                flow_slots: usize::from(counts_bytes),
                ..ShardLayout::new(rate, 3)
            });
            check(shard, &observations)?;
        }
    }

    #[test]
    fn any_bytes_are_read(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
        let _ = <LdaPair>::decode(&mut Reader::new(&bytes));
        let _ = <LdsPair>::decode(&mut Reader::new(&bytes));
        let _ = Shard::decode(&mut Reader::new(&bytes));
    }
}

#[test]
fn other_weights_than_those_counted_with_are_refused() {
    let mut out = golden::bytes_of(include_str!("../golden/lds.hex"));
    assert!(<LdsPair>::decode(&mut Reader::new(&out)).is_ok());
    out[11] = 26;
    let error = <LdsPair>::decode(&mut Reader::new(&out)).unwrap_err();
    assert!(
        error.to_string().starts_with("check of the weights"),
        "{error}"
    );
}

#[test]
fn halves_that_a_switch_does_not_write_are_refused() {
    let (lda, lds) = (
        golden::bytes_of(include_str!("../golden/lda.hex")),
        golden::bytes_of(include_str!("../golden/lds.hex")),
    );
    let lda = LdaPair::<PassedCell>::decode(&mut Reader::new(&lda)).unwrap_err();
    let lds = LdsPair::<PassedCell>::decode(&mut Reader::new(&lds)).unwrap_err();
    for error in [lda, lds].map(|error| error.to_string()) {
        assert!(
            error.starts_with("digest of the sender's half is"),
            "{error}"
        );
    }
}

#[test]
fn histograms_of_absurd_counts_do_not_overflow() {
    let rate = TickRate::from_hz(1_000_000_000);
    let mut out = Vec::new();
    Histogram::new(rate).encode(&mut out);
    let counts = out.len() - 496 * 8;
    out[counts..].fill(0xff);
    let mut histogram = Histogram::decode(&mut Reader::new(&out)).unwrap();
    assert_eq!(histogram.count(), u64::MAX);
    assert_eq!(histogram.octaves().last(), Some((1 << 63, u64::MAX)));
    assert!(histogram.quantile_ns(0.5).is_some());
    let twin = histogram.clone();
    histogram.merge(&twin).unwrap();
}
