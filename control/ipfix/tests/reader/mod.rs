//! A small collector for tests, based only on RFC 7011 and independent of the exporter.

use std::collections::{BTreeMap, HashMap};

/// A record: values by enterprise number (0 for IANA's) and element.
pub type Values = BTreeMap<(u32, u16), Vec<u8>>;

/// The data read from one stream.
#[derive(Debug, Default)]
pub struct Collector {
    templates: HashMap<u16, Vec<(u32, u16, u16)>>,
    /// Data records in order.
    pub records: Vec<Values>,
    /// Template records.
    pub announced: usize,
    /// Sets of data whose template did not come before.
    pub unknown: usize,
    /// Sequence number of the next message, if none is lost.
    next: Option<u32>,
    /// Observation domain of the last message.
    pub domain: u32,
}

/// Takes a number with this many octets from the front.
fn take(bytes: &mut &[u8], octets: usize) -> u32 {
    let (head, rest) = bytes.split_at(octets);
    *bytes = rest;
    head.iter()
        .fold(0, |number, &octet| number << 8 | u32::from(octet))
}

fn take_16(bytes: &mut &[u8]) -> u16 {
    u16::try_from(take(bytes, 2)).unwrap()
}

impl Collector {
    /// Reads the first message of `bytes`; returns the rest. Panics if it is not a message.
    pub fn read<'b>(&mut self, bytes: &'b [u8]) -> &'b [u8] {
        let mut head = bytes;
        assert_eq!(take_16(&mut head), 10, "version");
        let (mut message, behind) = bytes.split_at(take_16(&mut head).into());
        take(&mut head, 4);
        let sequence = take(&mut head, 4);
        self.domain = take(&mut head, 4);
        if self.unknown == 0 {
            assert_eq!(self.next.unwrap_or(sequence), sequence, "sequence number");
        }
        let before = self.records.len();
        message = &message[16..];
        while !message.is_empty() {
            let mut head = message;
            let (id, length) = (take_16(&mut head), take_16(&mut head));
            let (set, rest) = message.split_at(length.into());
            message = rest;
            match id {
                2 | 3 => self.template(&set[4..], id == 3),
                _ => self.data(id, &set[4..]),
            }
        }
        let records = u32::try_from(self.records.len() - before).unwrap();
        self.next = Some(sequence.wrapping_add(records));
        behind
    }

    fn template(&mut self, mut set: &[u8], is_options: bool) {
        while !set.is_empty() {
            let (id, count) = (take_16(&mut set), take_16(&mut set));
            if is_options {
                assert!((1..=count).contains(&take_16(&mut set)), "scope");
            }
            let field = |_| {
                let (element, length) = (take_16(&mut set), take_16(&mut set));
                let is_own = element >> 15 == 1;
                let enterprise = if is_own { take(&mut set, 4) } else { 0 };
                (enterprise, element & 0x7fff, length)
            };
            let fields: Vec<_> = (0..count).map(field).collect();
            let earlier = self.templates.insert(id, fields.clone());
            assert!(
                earlier.is_none_or(|earlier| earlier == fields),
                "a template has changed"
            );
            self.announced += 1;
        }
    }

    fn data(&mut self, id: u16, mut set: &[u8]) {
        let Some(fields) = self.templates.get(&id) else {
            self.unknown += 1;
            return;
        };
        while !set.is_empty() {
            let mut record = Values::new();
            for &(enterprise, element, length) in fields {
                let (value, rest) = set.split_at(length.into());
                set = rest;
                record.insert((enterprise, element), value.to_vec());
            }
            self.records.push(record);
        }
    }
}

/// An unsigned number of a record.
pub fn number(record: &Values, enterprise: u32, element: u16) -> Option<u64> {
    let value = record.get(&(enterprise, element))?;
    Some(
        value
            .iter()
            .fold(0, |number, &octet| number << 8 | u64::from(octet)),
    )
}
