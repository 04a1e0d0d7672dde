use config::{Vlan, VlanIds};
use proptest::prelude::*;

use super::*;

const ACCESS: PortIndex = PortIndex(0);
const TRUNK: PortIndex = PortIndex(1);
const NATIVE: PortIndex = PortIndex(2);
const PLAIN: PortIndex = PortIndex(3);
const OTHER: PortIndex = PortIndex(4);

/// Access to VLAN 10; trunk of 10 and 20; trunk of all, native 20; a port without VLANs; access to 20.
fn lan() -> Lan {
    let trunk = |vlans, native| Some(Vlan::Trunk { vlans, native });
    let vlans = [
        Some(Vlan::Access { vlan: 10 }),
        trunk(VlanIds::Listed(vec![10, 20]), None),
        trunk(VlanIds::All, Some(20)),
        None,
        Some(Vlan::Access { vlan: 20 }),
    ];
    Lan::of((0..).map(PortIndex).zip(vlans.iter().map(Option::as_ref)))
}

fn frame(tags: &[(u16, u16)]) -> Vec<u8> {
    let mut frame = vec![2; 12];
    for (tpid, tci) in tags {
        frame.extend(tpid.to_be_bytes());
        frame.extend(tci.to_be_bytes());
    }
    frame.extend([0x08, 0x00]);
    frame.extend([0; 46]);
    frame
}

fn vlan(from: PortIndex, tags: &[(u16, u16)]) -> Result<u16, DropReason> {
    lan().admit(from, &frame(tags)).map(|(vlan, _)| vlan)
}

#[test]
fn a_frame_is_of_the_vlan_that_tag_and_port_say() {
    const REFUSED: Result<u16, DropReason> = Err(DropReason::Vlan);
    assert_eq!(vlan(ACCESS, &[]), Ok(10));
    assert_eq!(vlan(ACCESS, &[(0x8100, 0xe000)]), Ok(10), "a priority tag");
    assert_eq!(vlan(ACCESS, &[(0x8100, 10)]), REFUSED, "even its own");
    assert_eq!(vlan(ACCESS, &[(0x88a8, 30)]), Ok(10), "QinQ is as untagged");
    assert_eq!(vlan(TRUNK, &[]), REFUSED, "no native VLAN");
    assert_eq!(vlan(TRUNK, &[(0x8100, 0)]), REFUSED);
    assert_eq!(vlan(TRUNK, &[(0x8100, 0x6014)]), Ok(20));
    assert_eq!(vlan(TRUNK, &[(0x8100, 30)]), REFUSED, "not a member");
    assert_eq!(vlan(NATIVE, &[]), Ok(20));
    assert_eq!(vlan(NATIVE, &[(0x8100, 20)]), Ok(20));
    assert_eq!(vlan(NATIVE, &[(0x8100, 4094)]), Ok(4094));
    assert_eq!(vlan(NATIVE, &[(0x8100, 4095)]), REFUSED, "reserved");
    assert_eq!(vlan(PLAIN, &[]), Ok(0));
    assert_eq!(vlan(PLAIN, &[(0x8100, 20)]), Ok(0), "passes as it is");
    let cut = &frame(&[(0x8100, 20)])[..17];
    assert_eq!(lan().admit(TRUNK, cut).err(), Some(DropReason::Runt));
}

#[test]
fn members_are_those_that_send_the_vlan() {
    let members = |vlan| lan().members(vlan).ports().collect::<Vec<_>>();
    assert_eq!(members(0), [PLAIN]);
    assert_eq!(members(10), [ACCESS, TRUNK, NATIVE]);
    assert_eq!(members(20), [TRUNK, NATIVE, OTHER]);
    assert_eq!(members(30), [NATIVE]);
    assert_eq!(members(4095), []);
    assert_eq!(Lan::of_plain(3).members(0), PortSet(0b111));
    assert!(!Lan::of_plain(64).has_vlans());
    assert_eq!(Lan::of_plain(64).members(0), PortSet::ALL);
}

#[test]
fn tags_are_put_on_and_taken_off_as_the_way_out_has_it() {
    let rewrite = |from, to, tags: &[(u16, u16)]| lan().rewrite(from, to, &frame(tags));
    assert_eq!(rewrite(ACCESS, TRUNK, &[]), Rewrite::Push(10));
    assert_eq!(rewrite(ACCESS, TRUNK, &[(0x88a8, 5)]), Rewrite::Push(10));
    assert_eq!(
        rewrite(ACCESS, TRUNK, &[(0x8100, 0xe000)]),
        Rewrite::Replace(0xe00a),
        "the priority stays"
    );
    assert_eq!(rewrite(TRUNK, ACCESS, &[(0x8100, 0xe00a)]), Rewrite::Pop);
    assert_eq!(rewrite(TRUNK, NATIVE, &[(0x8100, 10)]), Rewrite::None);
    assert_eq!(
        rewrite(TRUNK, NATIVE, &[(0x8100, 20)]),
        Rewrite::Pop,
        "native"
    );
    assert_eq!(rewrite(NATIVE, TRUNK, &[]), Rewrite::Push(20));
    assert_eq!(rewrite(NATIVE, OTHER, &[]), Rewrite::None);
    assert_eq!(rewrite(NATIVE, OTHER, &[(0x8100, 0x2000)]), Rewrite::Pop);
    assert_eq!(rewrite(PLAIN, PLAIN, &[(0x8100, 20)]), Rewrite::None);
}

#[test]
fn no_tag_comes_to_light_behind_one_that_is_taken_off() {
    let rewrite = |from, to, tags: &[(u16, u16)]| lan().rewrite(from, to, &frame(tags));
    for inner in [0x8100, 0x88a8, 0x9100] {
        assert_eq!(
            rewrite(OTHER, NATIVE, &[(0x8100, 0xe000), (inner, 30)]),
            Rewrite::Replace(0xe014),
            "a trunk gets the tag of the VLAN"
        );
        assert_eq!(
            rewrite(TRUNK, NATIVE, &[(0x8100, 20), (inner, 30)]),
            Rewrite::None,
            "which it has already"
        );
        assert_eq!(
            rewrite(TRUNK, ACCESS, &[(0x8100, 10), (inner, 30)]),
            Rewrite::Drop,
            "an access port sends no tags"
        );
        assert_eq!(
            rewrite(TRUNK, NATIVE, &[(0x8100, 10), (inner, 20)]),
            Rewrite::None,
            "QinQ passes between trunks"
        );
    }
}

/// The VLAN that a strict receiver of 802.1Q takes a frame for that comes by a link of these VLANs.
fn received_as(link: Option<&Vlan>, frame: &[u8]) -> Option<u16> {
    let tag = tag_of(frame).map_or(0, Control::vlan);
    match link {
        Some(Vlan::Access { vlan }) if tag == 0 => Some(*vlan),
        Some(Vlan::Trunk { native, .. }) if tag == 0 => *native,
        Some(Vlan::Trunk { .. }) => Some(tag),
        Some(Vlan::Access { .. }) | None => None,
    }
}

/// The frame as it leaves; `None`: dropped.
fn rewritten(frame: &[u8], rewrite: Rewrite) -> Option<Vec<u8>> {
    let with = |tci: u16, rest: &[u8]| {
        let tci = tci.to_be_bytes();
        [&frame[..12], &ethertype::VLAN.to_be_bytes(), &tci, rest].concat()
    };
    match rewrite {
        Rewrite::None => Some(frame.to_vec()),
        Rewrite::Push(tci) => Some(with(tci, &frame[12..])),
        Rewrite::Pop => Some([&frame[..12], &frame[16..]].concat()),
        Rewrite::Replace(tci) => Some(with(tci, &frame[16..])),
        Rewrite::Drop => None,
    }
}

fn modes() -> impl Strategy<Value = Vlan> {
    let vlan = || prop_oneof![Just(10), Just(20)];
    prop_oneof![
        vlan().prop_map(|vlan| Vlan::Access { vlan }),
        (any::<bool>(), proptest::option::of(vlan())).prop_map(|(all, native)| Vlan::Trunk {
            vlans: if all {
                VlanIds::All
            } else {
                VlanIds::Listed(vec![10, 20])
            },
            native,
        }),
    ]
}

fn tags() -> impl Strategy<Value = Vec<(u16, u16)>> {
    let tpid = prop_oneof![3 => Just(0x8100), 1 => Just(0x88a8), 1 => Just(0x9100)];
    let vlan = prop_oneof![Just(0_u16), Just(10), Just(20), Just(30)];
    let tag =
        (tpid, vlan, 0_u16..8).prop_map(|(tpid, vlan, priority)| (tpid, priority << 13 | vlan));
    proptest::collection::vec(tag, 0..=3)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(4_096))]

    #[test]
    fn a_frame_stays_in_its_vlan(from in modes(), to in modes(), tags in tags()) {
        let lan = Lan::of([(ACCESS, Some(&from)), (TRUNK, Some(&to))]);
        let frame = frame(&tags);
        let Ok((vlan, members)) = lan.admit(ACCESS, &frame) else {
            return Ok(());
        };
        if !members.contains(TRUNK) {
            return Ok(());
        }
        let rewrite = lan.rewrite(ACCESS, TRUNK, &frame);
        let Some(sent) = rewritten(&frame, rewrite) else {
            prop_assert!(matches!(to, Vlan::Access { .. }), "only an access port refuses a stack");
            prop_assert!(tags.len() > 1);
            return Ok(());
        };
        prop_assert_eq!(received_as(Some(&to), &sent), Some(vlan), "{:?}", rewrite);
        // The frame under the VLAN's tag is payload, and unchanged.
        let is_tagged = |frame: &[u8]| tag_of(frame).is_some();
        let payload = |frame: &[u8]| frame[if is_tagged(frame) { 16 } else { 12 }..].to_vec();
        prop_assert_eq!(payload(&sent), payload(&frame));
    }
}
