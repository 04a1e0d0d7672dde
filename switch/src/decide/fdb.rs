//! The filtering database: which address was last seen on which port.
//!
//! A set-associative table of fixed size: four addresses to a bucket, one cache line a bucket, no
//! allocation after start, no tombstones. A bucket full of live addresses learns no more until one
//! ages; frames to the address that found no room are flooded, and counted as overflow.

use std::time::Duration;

use measure::time::TickRate;

use super::ETHERNET_HEADER_BYTES;
use crate::packet_io::PortIndex;

/// Ages are kept in units of 2^28 ticks (about 0.1 s at 2.7 GHz): a refresh then rarely writes.
const AGE_SHIFT: u32 = 28;

const WAYS: usize = 4;

/// An address as a number: the first octet on the wire is the most significant of 48 bits.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct MacAddress(u64);

impl MacAddress {
    /// The six octets of `header` from `offset` on.
    #[inline]
    pub(super) fn at(header: &[u8; ETHERNET_HEADER_BYTES], offset: usize) -> Self {
        let mut octets = [0; 8];
        octets[2..].copy_from_slice(&header[offset..offset + 6]);
        Self(u64::from_be_bytes(octets))
    }

    /// A group (multicast or broadcast) address: the low bit of the first octet is set.
    #[inline]
    pub fn is_group(self) -> bool {
        self.0 & (1 << 40) != 0
    }

    /// An address that a station can have: neither a group's nor all zeros.
    #[inline]
    pub fn is_station(self) -> bool {
        self.0 != 0 && !self.is_group()
    }

    /// 01:80:C2:00:00:00 to 0F, which bridges do not forward (IEEE 802.1D table 7-10).
    #[inline]
    pub fn is_link_local(self) -> bool {
        self.0 >> 4 == 0x0180_c200_0000 >> 4
    }
}

/// A remembered address; `address` 0, which no station has, marks a free place.
#[derive(Debug, Clone, Copy, Default)]
struct Entry {
    address: u64,
    seen: u32,
    port: u8,
}

#[derive(Debug, Clone, Copy, Default)]
#[repr(align(64))]
struct Bucket([Entry; WAYS]);

const _: () = assert!(size_of::<Bucket>() == 64, "one cache line a bucket");

/// The table.
#[derive(Debug)]
pub struct Fdb {
    buckets: Box<[Bucket]>,
    multiplier: u64,
    age_limit: u32,
    overflows: u64,
}

impl Fdb {
    /// A table with room for at least `entries` addresses (rounded up to a power of two, four at
    /// least), each forgotten after `ageing` (0.1 s resolution) without a sight. `seed` keys the
    /// bucket of an address, so that nobody can aim at one.
    pub fn new(entries: usize, ageing: Duration, rate: TickRate, seed: u64) -> Self {
        let buckets = entries.div_ceil(WAYS).next_power_of_two();
        let age_limit = u32::try_from(rate.ticks_in(ageing) >> AGE_SHIFT).unwrap_or(u32::MAX);
        Self {
            buckets: vec![Bucket::default(); buckets].into_boxed_slice(),
            multiplier: seed | 1,
            age_limit: age_limit.max(1),
            overflows: 0,
        }
    }

    #[inline]
    fn bucket_of(&self, address: MacAddress) -> usize {
        let mixed = (address.0 ^ (address.0 >> 24)).wrapping_mul(self.multiplier);
        #[expect(
            clippy::cast_possible_truncation,
            reason = "masked to the table's size"
        )]
        let index = (mixed ^ (mixed >> 32)) as usize;
        index & (self.buckets.len() - 1)
    }

    #[inline]
    #[expect(
        clippy::cast_possible_truncation,
        reason = "ages compare modulo 2^32 units, 13 years"
    )]
    fn age_at(now: u64) -> u32 {
        (now >> AGE_SHIFT) as u32
    }

    #[inline]
    fn is_live(entry: &Entry, age: u32, limit: u32) -> bool {
        entry.address != 0 && age.wrapping_sub(entry.seen) <= limit
    }

    /// Remembers that `address` was seen on `port` at `now` (ticks).
    #[inline]
    pub fn learn(&mut self, address: MacAddress, port: PortIndex, now: u64) {
        let age = Self::age_at(now);
        let index = self.bucket_of(address);
        let bucket = &mut self.buckets[index].0;
        if let Some(entry) = bucket.iter_mut().find(|entry| entry.address == address.0) {
            if entry.seen != age || entry.port != port.0 {
                (entry.seen, entry.port) = (age, port.0);
            }
            return;
        }
        let limit = self.age_limit;
        match bucket
            .iter_mut()
            .find(|entry| !Self::is_live(entry, age, limit))
        {
            Some(free) => {
                *free = Entry {
                    address: address.0,
                    seen: age,
                    port: port.0,
                }
            }
            None => self.overflows += 1,
        }
    }

    /// The port on which `address` was last seen, unless that is too long ago.
    #[inline]
    pub fn look_up(&self, address: MacAddress, now: u64) -> Option<PortIndex> {
        let age = Self::age_at(now);
        self.buckets[self.bucket_of(address)]
            .0
            .iter()
            .find(|entry| entry.address == address.0 && Self::is_live(entry, age, self.age_limit))
            .map(|entry| PortIndex(entry.port))
    }

    /// Addresses alive at `now`. Walks the whole table: not for the fast path.
    pub fn live_entries(&self, now: u64) -> usize {
        let age = Self::age_at(now);
        let entries = self.buckets.iter().flat_map(|bucket| &bucket.0);
        entries
            .filter(|entry| Self::is_live(entry, age, self.age_limit))
            .count()
    }

    /// Times an address was not learnt because its bucket was full of live ones.
    pub fn overflows(&self) -> u64 {
        self.overflows
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::HashMap;

    const SECOND: u64 = 1_000_000_000;

    fn table(entries: usize) -> Fdb {
        Fdb::new(
            entries,
            Duration::from_secs(10),
            TickRate::from_hz(SECOND),
            0x9e37_79b9_7f4a_7c15,
        )
    }

    #[test]
    fn an_address_is_forgotten_after_its_age() {
        let mut fdb = table(64);
        let address = MacAddress(0x0200_0000_0001);
        fdb.learn(address, PortIndex(3), 0);
        assert_eq!(fdb.look_up(address, 9 * SECOND), Some(PortIndex(3)));
        assert_eq!(fdb.look_up(address, 11 * SECOND), None);
        fdb.learn(address, PortIndex(3), 9 * SECOND);
        assert_eq!(fdb.look_up(address, 18 * SECOND), Some(PortIndex(3)));
    }

    #[test]
    fn a_flood_of_addresses_stays_bounded_and_is_counted() {
        let mut fdb = table(1024);
        for address in 1..=100_000 {
            fdb.learn(MacAddress(address << 1), PortIndex(0), 0);
        }
        assert!(fdb.live_entries(0) <= 1024);
        assert_eq!(fdb.overflows() + fdb.live_entries(0) as u64, 100_000);
        // Once they have aged the table learns again.
        fdb.learn(MacAddress(0x0200_0000_0001), PortIndex(1), 20 * SECOND);
        assert_eq!(
            fdb.look_up(MacAddress(0x0200_0000_0001), 20 * SECOND),
            Some(PortIndex(1))
        );
    }

    #[test]
    fn sequential_addresses_fill_the_table_evenly() {
        let mut fdb = table(65_536);
        for address in 0..16_384u64 {
            fdb.learn(MacAddress(0x0200_0000_0000 + address), PortIndex(0), 0);
        }
        assert!(
            fdb.live_entries(0) > 16_000,
            "{} of 16384",
            fdb.live_entries(0)
        );
    }

    proptest! {
        #[test]
        fn it_agrees_with_a_plain_map(
            steps in prop::collection::vec((1u64..40, 0u8..4, 0u64..3 * SECOND), 1..200)
        ) {
            // Forty addresses in a table of 4096 places never overflow with this seed.
            let (mut fdb, mut model, mut now) = (table(4096), HashMap::new(), 0);
            for (address, port, pause) in steps {
                now += pause;
                let address = MacAddress(address << 1);
                let age = |seen: u64| (now >> AGE_SHIFT) - (seen >> AGE_SHIFT);
                let limit = (10 * SECOND) >> AGE_SHIFT;
                let expected = model
                    .get(&address)
                    .filter(|&&(_, seen)| age(seen) <= limit)
                    .map(|&(port, _)| PortIndex(port));
                prop_assert_eq!(fdb.look_up(address, now), expected);
                fdb.learn(address, PortIndex(port), now);
                model.insert(address, (port, now));
            }
        }
    }
}
