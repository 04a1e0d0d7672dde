pub(crate) mod agreement;
mod corpus;
mod frames;
mod specimens;
mod spread;

use proptest::prelude::*;

use super::*;
use specimens::specimens;

pub(crate) fn hasher() -> Hasher {
    Hasher::new(std::array::from_fn(|i| u8::try_from(i).unwrap()))
}

#[test]
fn every_specimen_is_taken_for_what_it_is() {
    let hasher = hasher();
    for (name, frame, kind, key) in specimens() {
        let parsed = hasher.parse(&frame, u32::try_from(frame.len()).unwrap());
        assert_eq!(parsed.kind, kind, "{name}");
        assert_eq!(FlowKey::parse(&frame).to_string(), key, "{name}");
    }
}

#[test]
fn kinds_are_counted_in_their_order() {
    for (place, kind) in Kind::ALL.into_iter().enumerate() {
        assert_eq!(kind as usize, place);
    }
    let seen: std::collections::HashSet<_> = specimens().iter().map(|s| s.2).collect();
    assert_eq!(seen.len(), Kind::COUNT, "a specimen of each kind");
}

/// Computed by a second implementation, written from this module's documentation alone.
#[test]
fn hashes_agree_with_the_vectors() {
    let vectors = [
        ("TCP", 0x55a0_1746_7ef5_187a, 0x6dbe_fae8_f9ac_6137),
        ("UDP", 0x9991_a375_6909_c0df, 0x8b38_6d80_2bf8_3b4d),
        ("SCTP", 0xd83f_4547_c053_88a5, 0x2c70_3fd0_baf2_3979),
        ("ICMP", 0x9f61_c137_d01f_f170, 0x028f_6a83_0f9c_8d9c),
        (
            "later fragment",
            0xe7cc_c93b_6c43_7a89,
            0x54c7_078c_c4aa_70b9,
        ),
        (
            "TCP over IPv6",
            0x260c_5226_cad1_4834,
            0xf4f8_3b52_8806_ae24,
        ),
        (
            "IPv6 fragment behind other extensions",
            0xaf78_129f_78fa_e24a,
            0x67aa_9086_2e6f_afbe,
        ),
        ("ARP", 0x8b63_2629_5eb7_5971, 0x444f_efff_72f3_0e4e),
    ];
    let hasher = hasher();
    let specimens = specimens();
    for (name, flow, packet) in vectors {
        let (_, frame, ..) = specimens
            .iter()
            .find(|specimen| specimen.0 == name)
            .unwrap();
        let parsed = hasher.parse(frame, u32::try_from(frame.len()).unwrap());
        assert_eq!((parsed.flow.0, parsed.packet.0), (flow, packet), "{name}");
    }
}

/// The fast path may only decline, never disagree; and the flow's key has the flow's hash.
fn check_consistency(hasher: &Hasher, head: &[u8], frame_len: u32) -> Result<(), TestCaseError> {
    let any = hasher.parse_any(head, frame_len);
    prop_assert_eq!(hasher.parse(head, frame_len), any);
    let Parsed { flow, kind, .. } = hasher.parse_as::<false>(head, frame_len);
    prop_assert_eq!((flow, kind), (any.flow, any.kind));
    prop_assert_eq!(hasher.flow_hash(&FlowKey::parse(head)), any.flow);
    Ok(())
}

#[test]
fn plain_frames_take_the_fast_path() {
    let specimens = specimens();
    let frame_of = |name: &str| {
        let specimen = specimens.iter().find(|specimen| specimen.0 == name);
        &specimen.unwrap().1
    };
    for name in ["TCP", "UDP"] {
        assert!(
            hasher().parse_plain::<true>(frame_of(name)).is_some(),
            "{name}"
        );
    }
    for name in ["TCP over IPv6", "UDP over IPv6", "one VLAN tag"] {
        let parsed = hasher().parse_plain_other::<true>(frame_of(name));
        assert!(parsed.is_some(), "{name}");
    }
}

#[test]
fn frames_cut_anywhere_are_parsed() {
    let hasher = hasher();
    for (_, frame, ..) in specimens() {
        for length in 0..frame.len() {
            let frame_len = u32::try_from(frame.len()).unwrap();
            check_consistency(&hasher, &frame[..length], frame_len).unwrap();
        }
    }
}

proptest! {
    #[test]
    fn any_bytes_are_parsed(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
        check_consistency(&hasher(), &bytes, 1_000)?;
    }

    #[test]
    fn damaged_frames_are_parsed(
        specimen in proptest::sample::select(specimens()),
        damage in proptest::collection::vec((0_usize..90, any::<u8>()), 0..6),
    ) {
        let (_, mut frame, ..) = specimen;
        for (at, byte) in damage {
            if let Some(target) = frame.get_mut(at) {
                *target = byte;
            }
        }
        check_consistency(&hasher(), &frame, u32::try_from(frame.len()).unwrap())?;
    }
}

#[test]
fn every_kind_has_room_for_a_whole_burst() {
    for (n, kind) in Kind::ALL.into_iter().enumerate() {
        let mut census = Census::default();
        for _ in 0..Census::FRAMES_MAX {
            census.add(kind);
        }
        let mut expected = [0; Kind::COUNT];
        expected[n] = Census::FRAMES_MAX as u64;
        assert_eq!(census.counts(), expected, "{kind:?}");
    }
}

#[test]
fn kinds_do_not_mix() {
    let mut census = Census::default();
    for (n, kind) in Kind::ALL.into_iter().enumerate() {
        for _ in 0..=n {
            census.add(kind);
        }
    }
    assert_eq!(census.counts(), [1, 2, 3, 4, 5, 6, 7, 8, 9]);
}
