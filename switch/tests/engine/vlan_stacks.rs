//! Frames with several VLAN tags, through a complete switch: each leaves in the VLAN in which it arrived.
use contract::counters::DropReason;
use simulate::rack::{self, Rack, config, port};

const BRIDGE: &str = r#""forwarding": {"mode": "bridge"}, "measurement": {}"#;

/// Access to VLAN 10, and two trunks of 10 and 20 with 10 as native VLAN.
fn rack() -> Rack {
    let access = r#""vlan": {"mode": "access", "vlan": 10},"#;
    let trunk = r#""vlan": {"mode": "trunk", "vlans": [10, 20], "native": 10},"#;
    let ports = [port("a", access), port("b", trunk), port("c", trunk)].join(", ");
    Rack::new(&config(1, &ports, BRIDGE))
}

/// A broadcast with these tags.
fn frame(tags: &[(u16, u16)]) -> Vec<u8> {
    let mut frame = rack::between([0xff; 6], [2, 0, 0, 0, 0, 1], 7, 0, 100);
    let tags = tags
        .iter()
        .flat_map(|(tpid, tci)| [tpid.to_be_bytes(), tci.to_be_bytes()]);
    frame.splice(12..12, tags.flatten());
    frame
}

/// Frames that a port sends after one frame arrives at port `from`.
fn sent(rack: &mut Rack, from: usize, tags: &[(u16, u16)], to: usize) -> Vec<Vec<u8>> {
    for port in 0..3 {
        rack.departed(port);
    }
    rack.arrive(from, frame(tags));
    rack.pass_at(rack.now + 1_000);
    rack.assert_conserved();
    rack.frames(to)
}

#[test]
fn a_priority_tag_takes_no_frame_to_another_vlan() {
    let mut rack = rack();
    let hop = [(0x8100, 0x0000), (0x8100, 0x0014)];
    let kept = [frame(&[(0x8100, 0x000a), (0x8100, 0x0014)])];
    assert_eq!(sent(&mut rack, 0, &hop, 1), kept, "access to trunk");
    assert_eq!(sent(&mut rack, 1, &hop, 2), kept, "trunk to trunk");
    let native = [(0x8100, 0x000a), (0x8100, 0x0014)];
    assert_eq!(
        sent(&mut rack, 1, &native, 2),
        kept,
        "the native VLAN's tag"
    );
    assert_eq!(
        rack.dropped(1, DropReason::Vlan),
        2,
        "not to the access port"
    );
    assert!(sent(&mut rack, 1, &native, 0).is_empty());
}

#[test]
fn a_stack_of_another_vlan_passes_between_trunks_as_it_is() {
    let mut rack = rack();
    let stack = [(0x8100, 0x6014), (0x8100, 0x001e), (0x88a8, 0x0005)];
    assert_eq!(sent(&mut rack, 1, &stack, 2), [frame(&stack)]);
    let one = [(0x8100, 0x600a)];
    assert_eq!(sent(&mut rack, 1, &one, 2), [frame(&[])], "native: no tag");
}
