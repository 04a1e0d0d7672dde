//! Bodies of every kind.

use super::{Floor, Frame, Hello, Kind, Marker, Reference, Report, Request, StashView};
use crate::codec::{Element, Fragment, FragmentView, ParseError, Put};

/// What a frame carries.
pub trait Body {
    /// The kind of frame it makes.
    const KIND: Kind;

    /// Appends it. Allocates nothing.
    fn emit(&self, out: &mut impl Put);
}

impl<E: Element, F: Fn(u32) -> E> Body for Fragment<'_, E, F> {
    const KIND: Kind = Kind::Fragment;

    fn emit(&self, out: &mut impl Put) {
        self.write(out);
    }
}

impl Body for FragmentView<'_> {
    const KIND: Kind = Kind::Fragment;

    fn emit(&self, out: &mut impl Put) {
        self.write(out);
    }
}

/// A body that was received.
#[expect(
    clippy::large_enum_variant,
    reason = "one at a time, on the stack of the code that reads it"
)]
#[derive(Debug, Clone, PartialEq)]
pub enum Message<'a> {
    /// Who is there.
    Hello(Hello),
    /// An epoch turns.
    Marker(Marker),
    /// Packets around a turn.
    Stash(StashView<'a>),
    /// A part of a synopsis.
    Fragment(FragmentView<'a>),
    /// A packet with its own time.
    Reference(Reference),
    /// What is missing.
    Request(Request),
    /// What came out of an epoch.
    Report(Report),
    /// The least delay of an epoch.
    Floor(Floor),
}

impl<'a> Message<'a> {
    /// Reads the body of a frame, which should be one that a
    /// [`Verifier`](super::Verifier) let pass.
    ///
    /// # Errors
    /// [`ParseError`] where the body is not as its kind is documented.
    pub fn parse(frame: &Frame<'a>) -> Result<Self, ParseError> {
        Self::parse_body(frame.kind(), frame.body())
    }

    /// Reads a body of this kind.
    ///
    /// # Errors
    /// [`ParseError`] where the body is not as its kind is documented.
    pub fn parse_body(kind: Kind, body: &'a [u8]) -> Result<Self, ParseError> {
        Ok(match kind {
            Kind::Hello => Self::Hello(Hello::parse(body)?),
            Kind::Marker => Self::Marker(Marker::parse(body)?),
            Kind::Stash => Self::Stash(StashView::parse(body)?),
            Kind::Fragment => Self::Fragment(FragmentView::parse(body)?),
            Kind::Reference => Self::Reference(Reference::parse(body)?),
            Kind::Request => Self::Request(Request::parse(body)?),
            Kind::Report => Self::Report(Report::parse(body)?),
            Kind::Floor => Self::Floor(Floor::parse(body)?),
        })
    }

    /// Appends the body as it was received.
    pub fn emit(&self, out: &mut impl Put) {
        match self {
            Self::Hello(hello) => hello.emit(out),
            Self::Marker(marker) => marker.emit(out),
            Self::Stash(stash) => stash.emit(out),
            Self::Fragment(fragment) => fragment.emit(out),
            Self::Reference(reference) => reference.emit(out),
            Self::Request(request) => request.emit(out),
            Self::Report(report) => report.emit(out),
            Self::Floor(floor) => floor.emit(out),
        }
    }
}
