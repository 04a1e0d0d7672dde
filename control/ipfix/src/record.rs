//! Records: elements with values, and the shape that a template describes.

use crate::element::{Element, Kind};

/// Which elements a record has.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash)]
pub(crate) struct Shape {
    /// A bit for each element.
    elements: u64,
    /// How many of them, from the first, are the scope of options; 0 for data.
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

    /// Adds text, as much as fits, and zeros behind it.
    pub fn text(&mut self, element: Element, text: &str) -> &mut Self {
        debug_assert!(element.description().kind == Kind::String);
        let length = usize::from(element.length());
        let mut octets = text.as_bytes()[..text.floor_char_boundary(length)].to_vec();
        octets.resize(length, 0);
        self.octets(element, &octets)
    }

    /// Adds octets as they are.
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
