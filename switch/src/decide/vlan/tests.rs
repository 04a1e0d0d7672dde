use super::*;
use config::{Vlan, VlanIds};

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
