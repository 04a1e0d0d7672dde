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
        ("TCP", 0x9090_6499_5277_dbb0, 0x8d67_6138_89a8_6ab8),
        ("UDP", 0xf8a5_adaf_caf6_99bb, 0xb347_22c2_2e1f_d629),
        ("SCTP", 0xe68a_4f01_70d4_a442, 0xe374_d73a_8e23_24c1),
        ("ICMP", 0x9548_e515_de12_b234, 0x7bb9_f418_17b9_7b13),
        (
            "later fragment",
            0x6ed8_6bac_d095_0883,
            0x4c62_b31e_18bc_84fc,
        ),
        (
            "TCP over IPv6",
            0x93c4_4a02_232a_dc8a,
            0x258c_df9d_2bf7_56c6,
        ),
        (
            "IPv6 fragment behind other extensions",
            0x2b81_5fe5_5d67_bab1,
            0x3eaa_0ff5_392a_8317,
        ),
        ("ARP", 0x859e_1bc4_efd6_ed21, 0xbbff_59f2_858c_5697),
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
    prop_assert_eq!(hasher.flow_hash(&FlowKey::parse(head)), any.flow);
    Ok(())
}

#[test]
fn plain_frames_take_the_fast_path() {
    for name in [
        "TCP",
        "UDP",
        "TCP over IPv6",
        "UDP over IPv6",
        "one VLAN tag",
    ] {
        let specimens = specimens();
        let (_, frame, ..) = specimens
            .iter()
            .find(|specimen| specimen.0 == name)
            .unwrap();
        assert!(hasher().parse_plain(frame).is_some(), "{name}");
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
