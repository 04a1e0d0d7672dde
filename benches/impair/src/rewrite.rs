//! What a router changes in a frame: addresses, VLAN tag, DSCP, time to live, IPv4's checksum.

use crate::frame::Frame;
use crate::impairment::Impairment;

const ADDRESSES_BYTES: usize = 12;
const IPV4_CHECKSUM_AT: usize = 10;

/// A packet that goes no further: its time to live is over.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Expired;

/// Applies what `rule` says of rewriting.
///
/// # Errors
/// [`Expired`] where the rule takes a hop off a packet that has none left.
pub fn rewrite(rule: &Impairment, frame: &mut impl Frame) -> Result<(), Expired> {
    if rule.hop || rule.dscp.is_some() {
        rewrite_ip(rule, frame.head_mut())?;
    }
    if rule.vlan_pop {
        frame.pop_vlan();
    }
    if let Some(tag) = rule.vlan_push {
        frame.push_vlan(tag);
    }
    let places = [(rule.destination_mac, 0..6), (rule.source_mac, 6..12)];
    for (address, place) in places {
        if let (Some(address), Some(bytes)) = (address, frame.head_mut().get_mut(place)) {
            bytes.copy_from_slice(&address.0);
        }
    }
    Ok(())
}

/// Leaves what is not IP, or is cut off in its header, as it is.
fn rewrite_ip(rule: &Impairment, frame: &mut [u8]) -> Result<(), Expired> {
    let mut at = ADDRESSES_BYTES;
    while let Some([0x81 | 0x91, 0] | [0x88, 0xa8]) = frame.get(at..at + 2) {
        at += 4;
    }
    let Some((ethertype, ip)) = frame
        .get_mut(at..)
        .and_then(|rest| rest.split_first_chunk_mut::<2>())
    else {
        return Ok(());
    };
    match (*ethertype, ip) {
        ([0x08, 0x00], ip) if ip.len() >= 20 => {
            if rule.hop {
                take_hop(&mut ip[8])?;
            }
            if let Some(dscp) = rule.dscp {
                ip[1] = ip[1] & 3 | dscp << 2;
            }
            let header = usize::from(ip[0] & 15) * 4;
            if let Some(header) = ip.get_mut(..header.max(20)) {
                header[IPV4_CHECKSUM_AT..][..2].fill(0);
                let sum = checksum(header).to_be_bytes();
                header[IPV4_CHECKSUM_AT..][..2].copy_from_slice(&sum);
            }
        }
        ([0x86, 0xdd], ip) if ip.len() >= 40 => {
            if rule.hop {
                take_hop(&mut ip[7])?;
            }
            if let Some(dscp) = rule.dscp {
                // Version, traffic class (DSCP is its upper six bits), flow label.
                ip[0] = ip[0] & 0xf0 | dscp >> 2;
                ip[1] = ip[1] & 0x3f | dscp << 6;
            }
        }
        _ => {}
    }
    Ok(())
}

fn take_hop(hops: &mut u8) -> Result<(), Expired> {
    if *hops <= 1 {
        return Err(Expired);
    }
    *hops -= 1;
    Ok(())
}

/// The Internet checksum (RFC 1071).
fn checksum(header: &[u8]) -> u16 {
    let words = header.chunks(2).map(|pair| match *pair {
        [high, low] => u32::from(u16::from_be_bytes([high, low])),
        [high] => u32::from(high) << 8,
        _ => 0,
    });
    let sum: u32 = words.sum();
    let folded = (sum & 0xffff) + (sum >> 16);
    let folded = (folded & 0xffff) + (folded >> 16);
    #[expect(clippy::cast_possible_truncation, reason = "folded to 16 bits")]
    let folded = folded as u16;
    !folded
}

#[cfg(test)]
mod tests {
    use measure::packet::Hasher;
    use proptest::prelude::*;

    use super::*;

    /// A header with a right checksum, from RFC 1071's kin: Wikipedia's example.
    const IPV4: [u8; 20] = [
        0x45, 0, 0, 0x73, 0, 0, 0x40, 0, 0x40, 0x11, 0xb8, 0x61, 0xc0, 0xa8, 0, 1, 0xc0, 0xa8, 0,
        0xc7,
    ];

    fn frame(tags: &[u8], ethertype: [u8; 2], ip: &[u8]) -> Vec<u8> {
        [&[2; 12], tags, &ethertype, ip].concat()
    }

    fn rule(text: &str) -> Impairment {
        text.parse().unwrap()
    }

    #[test]
    fn a_hop_keeps_the_checksum_right() {
        for tags in [
            &[][..],
            &[0x81, 0, 0, 7],
            &[0x88, 0xa8, 0, 1, 0x81, 0, 0, 2],
        ] {
            let mut packet = frame(tags, [8, 0], &IPV4);
            rewrite(&rule("hop,dscp=46"), &mut packet).unwrap();
            let ip = &packet[14 + tags.len()..];
            assert_eq!((ip[8], ip[1]), (0x3f, 46 << 2));
            assert_eq!(checksum(ip), 0, "a right header sums up to zero");
        }
        let mut last = IPV4;
        last[8] = 1;
        let mut packet = frame(&[], [8, 0], &last);
        assert_eq!(rewrite(&rule("hop"), &mut packet), Err(Expired));
        assert_eq!(checksum(&IPV4), 0);
    }

    #[test]
    fn ipv6_has_hops_and_classes_too() {
        let mut ip = [0; 40];
        ip[..4].copy_from_slice(&[0x6a, 0xb1, 0x23, 0x45]);
        ip[7] = 9;
        let mut packet = frame(&[], [0x86, 0xdd], &ip);
        rewrite(&rule("hop,dscp=46"), &mut packet).unwrap();
        // Traffic class 46 << 2 and the two bits of ECN that were there (0xab: 11).
        assert_eq!(packet[14..18], [0x6b, 0xb1, 0x23, 0x45]);
        assert_eq!(packet[21], 8);
    }

    #[test]
    fn tags_and_addresses_are_written() {
        let mut packet = frame(&[], [8, 0], &IPV4);
        let change = "vlan_push=5,source_mac=02:00:00:00:00:0a,destination_mac=02:00:00:00:00:0b";
        rewrite(&rule(change), &mut packet).unwrap();
        assert_eq!(packet[..12], [2, 0, 0, 0, 0, 11, 2, 0, 0, 0, 0, 10]);
        assert_eq!(packet[12..18], [0x81, 0, 0, 5, 8, 0]);
        rewrite(&rule("vlan_pop"), &mut packet).unwrap();
        assert_eq!(packet[12..14], [8, 0]);
        assert_eq!(packet[14..], IPV4);
    }

    proptest! {
        #[test]
        fn no_frame_is_too_odd(mut bytes: Vec<u8>, cut in 0..60_usize) {
            let all = rule("hop,dscp=1,vlan_push=1,vlan_pop,source_mac=02:00:00:00:00:01");
            let _ = rewrite(&all, &mut bytes);
            for ethertype in [[8, 0], [0x86, 0xdd]] {
                let mut packet = frame(&[], ethertype, &[0x4f; 60]);
                packet.truncate(cut);
                let _ = rewrite(&all, &mut packet);
            }
        }

        /// Both switches must see the same packet before and after a router.
        #[test]
        fn no_router_changes_the_hash(
            payload in prop::collection::vec(any::<u8>(), 8..60),
            hops in 2..=255_u8,
            dscp in 0..64_u8,
        ) {
            let mut ip = IPV4.to_vec();
            ip[2..4].copy_from_slice(&u16::try_from(20 + payload.len()).unwrap().to_be_bytes());
            ip[8] = hops;
            ip.extend(payload);
            let mut packet = frame(&[], [8, 0], &ip);
            let hasher = Hasher::new([9; 16]);
            let before = hasher.parse(&packet, packet.len_bytes());
            let change = format!("hop,dscp={dscp},vlan_push=9,source_mac=02:00:00:00:00:0a");
            rewrite(&rule(&change), &mut packet).unwrap();
            prop_assert_eq!(hasher.parse(&packet, packet.len_bytes()), before);
        }
    }
}
