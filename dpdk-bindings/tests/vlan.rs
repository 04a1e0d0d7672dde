//! Tags are inserted and removed in place.

mod common;

use common::{eal, pool};
use dpdk_bindings::NoRoom;

#[test]
fn tags_go_in_and_out_and_the_rest_stays() {
    let eal = eal();
    let pool = pool(&eal);
    let bytes: Vec<u8> = (0..100).collect();
    let mut mbuf = pool.alloc_frame(&bytes, 100).unwrap();
    assert_eq!(mbuf.pop_vlan(), None, "no tag");

    // As many as fit into the headroom of 128 bytes.
    for n in 0..32 {
        mbuf.push_vlan(if n % 2 == 0 { 0x8100 } else { 0x88a8 }, 0xf000 | n)
            .unwrap();
        assert_eq!(mbuf.len_bytes(), 104 + 4 * u32::from(n));
        assert_eq!(mbuf.head()[..12], bytes[..12]);
        assert_eq!(mbuf.head()[14..16], (0xf000 | n).to_be_bytes());
    }
    assert_eq!(mbuf.push_vlan(0x8100, 1), Err(NoRoom));
    for n in (0..32).rev() {
        assert_eq!(mbuf.pop_vlan(), Some(0xf000 | n));
    }
    assert_eq!((mbuf.pop_vlan(), mbuf.head()), (None, &bytes[..]));

    // Frames too short for a tag, or for addresses; other EtherTypes.
    let mut tagged = vec![0; 18];
    tagged[12..14].copy_from_slice(&[0x81, 0]);
    for len in 0..18 {
        let mut short = pool.alloc_frame(&tagged[..len], 0).unwrap();
        assert_eq!(short.pop_vlan(), None);
        assert_eq!(short.push_vlan(0x8100, 5).is_ok(), len >= 12, "{len} bytes");
    }
    assert_eq!(pool.alloc_frame(&tagged, 0).unwrap().pop_vlan(), Some(0));
    tagged[12] = 0x08;
    assert_eq!(pool.alloc_frame(&tagged, 0).unwrap().pop_vlan(), None);

    // In a chain the tag is inserted into the first segment, and the length is that of all segments.
    let mut chain = pool.alloc_frame(&bytes, 5000).unwrap();
    chain.push_vlan(0x8100, 7).unwrap();
    assert_eq!((chain.len_bytes(), chain.segments()), (5004, 3));
    assert_eq!((chain.pop_vlan(), chain.len_bytes()), (Some(7), 5000));
}
