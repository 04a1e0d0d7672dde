//! A router's changes to a frame: addresses, DSCP, time to live, IPv4's checksum.

use measure::packet::header::checksum::Sum;
use measure::packet::header::{ethernet, ethertype, ipv4, ipv6};
use measure::packet::walk::Link;

use crate::impair::rule::Rule;
use crate::transits::Fate;

/// Applies the changes in `rule`. Fails if the packet's time to live is over.
pub fn rewrite(rule: &Rule, frame: &mut [u8]) -> Result<(), Fate> {
    if rule.hop || rule.dscp.is_some() {
        rewrite_ip(rule, frame)?;
    }
    let addresses = [
        (rule.destination_mac, ethernet::field::DESTINATION),
        (rule.source_mac, ethernet::field::SOURCE),
    ];
    for (address, field) in addresses {
        if let (Some(address), Some(bytes)) = (address, frame.get_mut(field)) {
            bytes.copy_from_slice(&address.0);
        }
    }
    Ok(())
}

/// Frames other than IP, or with a truncated header, are not changed.
fn rewrite_ip(rule: &Rule, frame: &mut [u8]) -> Result<(), Fate> {
    let link = Link::of(frame);
    match (link.ethertype, frame.get_mut(link.at..)) {
        (ethertype::IPV4, Some(ip)) if ip.len() >= ipv4::BYTES => rewrite_ipv4(rule, ip),
        (ethertype::IPV6, Some(ip)) if ip.len() >= ipv6::BYTES => rewrite_ipv6(rule, ip),
        _ => Ok(()),
    }
}

fn rewrite_ipv4(rule: &Rule, ip: &mut [u8]) -> Result<(), Fate> {
    use ipv4::field::{CHECKSUM, DSCP_AND_ECN, TTL};
    if rule.hop {
        take_hop(&mut ip[TTL])?;
    }
    if let Some(dscp) = rule.dscp {
        ip[DSCP_AND_ECN] = ip[DSCP_AND_ECN] & 3 | dscp << 2;
    }
    let header_bytes = ipv4::Header::at(ip, 0).map_or(0, ipv4::Header::header_bytes);
    if let Some(header) = ip.get_mut(..header_bytes.max(ipv4::BYTES)) {
        header[CHECKSUM].fill(0);
        let sum = Sum::default().add(header).finish();
        header[CHECKSUM].copy_from_slice(&sum.to_be_bytes());
    }
    Ok(())
}

fn rewrite_ipv6(rule: &Rule, ip: &mut [u8]) -> Result<(), Fate> {
    if rule.hop {
        take_hop(&mut ip[ipv6::field::HOP_LIMIT])?;
    }
    if let Some(dscp) = rule.dscp {
        // Version, traffic class (its upper six bits are the DSCP), flow label.
        ip[0] = ip[0] & 0xf0 | dscp >> 2;
        ip[1] = ip[1] & 0x3f | dscp << 6;
    }
    Ok(())
}

fn take_hop(hops: &mut u8) -> Result<(), Fate> {
    if *hops <= 1 {
        return Err(Fate::Expired);
    }
    *hops -= 1;
    Ok(())
}

#[cfg(test)]
mod tests {
    use measure::packet::Hasher;
    use proptest::prelude::*;

    use super::*;

    /// A header with a correct checksum: Wikipedia's example.
    const IPV4: [u8; 20] = [
        0x45, 0, 0, 0x73, 0, 0, 0x40, 0, 0x40, 0x11, 0xb8, 0x61, 0xc0, 0xa8, 0, 1, 0xc0, 0xa8, 0,
        0xc7,
    ];

    fn frame(tags: &[u8], ethertype: [u8; 2], ip: &[u8]) -> Vec<u8> {
        [&[2; 12], tags, &ethertype, ip].concat()
    }

    fn checksum(header: &[u8]) -> u16 {
        Sum::default().add(header).finish()
    }

    fn rule(text: &str) -> Rule {
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
            assert_eq!(checksum(ip), 0, "a correct header sums up to zero");
        }
        let mut last = IPV4;
        last[8] = 1;
        let mut packet = frame(&[], [8, 0], &last);
        assert_eq!(rewrite(&rule("hop"), &mut packet), Err(Fate::Expired));
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
    fn addresses_are_written() {
        let mut packet = frame(&[], [8, 0], &IPV4);
        let change = "source_mac=02:00:00:00:00:0a,destination_mac=02:00:00:00:00:0b";
        rewrite(&rule(change), &mut packet).unwrap();
        assert_eq!(packet[..12], [2, 0, 0, 0, 0, 11, 2, 0, 0, 0, 0, 10]);
        assert_eq!(packet[12..14], [8, 0]);
        assert_eq!(packet[14..], IPV4);
    }

    proptest! {
        #[test]
        fn no_frame_is_too_odd(mut bytes: Vec<u8>, cut in 0..60_usize) {
            let all = rule("hop,dscp=1,source_mac=02:00:00:00:00:01");
            let _ = rewrite(&all, &mut bytes);
            for ethertype in [[8, 0], [0x86, 0xdd]] {
                let mut packet = frame(&[], ethertype, &[0x4f; 60]);
                packet.truncate(cut);
                let _ = rewrite(&all, &mut packet);
            }
        }

        /// Both switches must compute the same hashes before and after a router.
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
            let before = hasher.parse(&packet, u32::try_from(packet.len()).unwrap());
            let change = format!("hop,dscp={dscp},source_mac=02:00:00:00:00:0a");
            rewrite(&rule(&change), &mut packet).unwrap();
            prop_assert_eq!(hasher.parse(&packet, u32::try_from(packet.len()).unwrap()), before);
        }
    }
}
