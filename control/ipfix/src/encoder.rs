//! Encodes records as messages (RFC 7011, section 3).

use std::collections::HashMap;

use contract::config::Ipfix;

use crate::element::{Element, Kind};

const VERSION: u16 = 10;
const HEADER_BYTES: usize = 16;
const SET_HEADER_BYTES: usize = 4;
const TEMPLATES: u16 = 2;
const OPTIONS_TEMPLATES: u16 = 3;
/// The first id of a template, and of sets with its data.
const FIRST_ID: u16 = 256;

/// A complete message.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Message {
    pub bytes: Vec<u8>,
    /// Data records in it.
    pub records: u32,
}

/// Packs the records of one stream into messages. A template precedes the first record that needs it.
#[derive(Debug, Default)]
pub(crate) struct Encoder {
    enterprise: u32,
    domain: u32,
    bytes_max: usize,
    templates: HashMap<Shape, Template>,
    /// Data records in the finished messages.
    sequence: u32,
    /// The current message: empty, or a header and sets.
    bytes: Vec<u8>,
    records: u32,
    /// The last set: its id and offset.
    set: Option<(u16, usize)>,
}

#[derive(Debug)]
struct Template {
    id: u16,
    is_announced: bool,
}

impl Encoder {
    pub fn new(settings: &Ipfix) -> Self {
        Self {
            enterprise: settings.enterprise,
            domain: settings.observation_domain,
            bytes_max: settings.message_bytes.into(),
            ..Self::default()
        }
    }

    /// Announces every template again, before the next record that needs it.
    pub fn announce_again(&mut self) {
        for template in self.templates.values_mut() {
            template.is_announced = false;
        }
    }

    /// Starts a new connection: numbers restart, and unsent records are dropped; returns their number.
    pub fn restart(&mut self) -> u32 {
        self.announce_again();
        self.sequence = 0;
        let dropped = self.records;
        self.clear();
        dropped
    }

    /// Adds a record; returns the previous message if it is full.
    pub fn push(&mut self, record: &Record, unix_s: u32) -> Option<Message> {
        let next = FIRST_ID + u16::try_from(self.templates.len()).unwrap_or(u16::MAX - FIRST_ID);
        let template = self.templates.entry(record.shape).or_insert(Template {
            id: next,
            is_announced: false,
        });
        let id = template.id;
        let is_known = std::mem::replace(&mut template.is_announced, true);
        let announced = (!is_known).then(|| record.shape.template(id, self.enterprise));
        let announced_bytes = announced.as_ref();
        let announced_bytes = announced_bytes.map_or(0, |bytes| SET_HEADER_BYTES + bytes.len());
        let needed = announced_bytes + SET_HEADER_BYTES + record.bytes.len();
        let is_full = !self.bytes.is_empty() && self.bytes.len() + needed > self.bytes_max;
        let full = is_full.then(|| self.finish(unix_s)).flatten();
        if let Some(announced) = announced {
            let set = if record.shape.scopes > 0 {
                OPTIONS_TEMPLATES
            } else {
                TEMPLATES
            };
            self.append(set, &announced);
        }
        self.append(id, &record.bytes);
        self.records += 1;
        full
    }

    /// The current message, if any.
    pub fn finish(&mut self, unix_s: u32) -> Option<Message> {
        if self.bytes.is_empty() {
            return None;
        }
        self.close_set();
        // Section 3.1; the number of the first record, counted from 0.
        let length = u16::try_from(self.bytes.len()).unwrap_or(u16::MAX);
        self.bytes[..2].copy_from_slice(&VERSION.to_be_bytes());
        self.bytes[2..4].copy_from_slice(&length.to_be_bytes());
        self.bytes[4..8].copy_from_slice(&unix_s.to_be_bytes());
        self.bytes[8..12].copy_from_slice(&self.sequence.to_be_bytes());
        self.bytes[12..16].copy_from_slice(&self.domain.to_be_bytes());
        self.sequence = self.sequence.wrapping_add(self.records);
        let (bytes, records) = (self.bytes.clone(), self.records);
        self.clear();
        Some(Message { bytes, records })
    }

    /// Appends to the last set if it has this id, else to a new one.
    fn append(&mut self, set: u16, bytes: &[u8]) {
        if self.bytes.is_empty() {
            self.bytes.resize(HEADER_BYTES, 0);
        }
        if self.set.is_none_or(|(last, _)| last != set) {
            self.close_set();
            self.set = Some((set, self.bytes.len()));
            self.bytes.extend(set.to_be_bytes());
            self.bytes.extend([0; 2]);
        }
        self.bytes.extend(bytes);
    }

    fn close_set(&mut self) {
        if let Some((_, begin)) = self.set.take() {
            let length = u16::try_from(self.bytes.len() - begin).unwrap_or(u16::MAX);
            self.bytes[begin + 2..begin + 4].copy_from_slice(&length.to_be_bytes());
        }
    }

    fn clear(&mut self) {
        self.bytes.clear();
        self.records = 0;
        self.set = None;
    }
}

/// The elements of a record.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash)]
pub(crate) struct Shape {
    /// A bit for each element.
    elements: u64,
    /// Number of leading elements that are the scope of options; 0 for data.
    pub scopes: u16,
}

impl Shape {
    /// The elements, in order.
    pub fn elements(self) -> impl Iterator<Item = Element> {
        let has = move |element: &Element| self.elements & (1 << *element as u8) != 0;
        Element::ALL.iter().copied().filter(has)
    }

    /// The template record (RFC 7011, section 3.4).
    pub fn template(self, id: u16, enterprise: u32) -> Vec<u8> {
        let mut template = Vec::new();
        template.extend(id.to_be_bytes());
        let fields = u16::try_from(self.elements().count()).unwrap_or(u16::MAX);
        template.extend(fields.to_be_bytes());
        if self.scopes > 0 {
            template.extend(self.scopes.to_be_bytes());
        }
        for element in self.elements() {
            let known = element.description();
            let is_own = u16::from(known.is_own) << 15;
            template.extend((is_own | known.id).to_be_bytes());
            template.extend(element.length().to_be_bytes());
            if known.is_own {
                template.extend(enterprise.to_be_bytes());
            }
        }
        template
    }
}

/// A data record. Elements are added in their order.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Record {
    pub shape: Shape,
    pub bytes: Vec<u8>,
}

impl Record {
    /// A record of options; its first `scopes` elements are the scope.
    pub fn of_options(scopes: u16) -> Self {
        let mut record = Self::default();
        record.shape.scopes = scopes;
        record
    }

    /// Adds a number, in as many octets as its type has.
    pub fn number(&mut self, element: Element, number: impl Into<u64>) -> &mut Self {
        let length = usize::from(element.length());
        let octets = number.into().to_be_bytes();
        self.octets(element, &octets[octets.len() - length..])
    }

    /// Adds a signed number.
    pub fn signed(&mut self, element: Element, number: i64) -> &mut Self {
        self.octets(element, &number.to_be_bytes())
    }

    /// Adds a number of nanoseconds, if it is known.
    pub fn nanoseconds(&mut self, element: Element, ns: Option<f64>) -> &mut Self {
        match ns {
            Some(ns) => self.number(element, rounded(ns)),
            None => self,
        }
    }

    /// Adds text, truncated or padded with zeros.
    pub fn text(&mut self, element: Element, text: &str) -> &mut Self {
        debug_assert!(element.description().kind == Kind::String);
        let length = usize::from(element.length());
        let mut octets = text.as_bytes()[..text.floor_char_boundary(length)].to_vec();
        octets.resize(length, 0);
        self.octets(element, &octets)
    }

    /// Adds raw octets.
    pub fn octets(&mut self, element: Element, octets: &[u8]) -> &mut Self {
        debug_assert_eq!(usize::from(element.length()), octets.len());
        self.enter(element);
        self.bytes.extend(octets);
        self
    }

    fn enter(&mut self, element: Element) {
        let bit = 1_u64 << element as u8;
        assert!(self.shape.elements < bit, "{element:?} is out of order");
        self.shape.elements |= bit;
    }
}

/// The nearest whole number; 0 for negative ones.
#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "a conversion saturates"
)]
pub(crate) fn rounded(number: f64) -> u64 {
    number.round() as u64
}

/// The nearest whole number, with its sign.
#[expect(clippy::cast_possible_truncation, reason = "a conversion saturates")]
pub(crate) fn rounded_signed(number: f64) -> i64 {
    number.round() as i64
}

#[cfg(test)]
mod tests;
