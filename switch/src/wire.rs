//! A worker's part of segments on the wire: it counts departing and arriving packets at this end of the
//! path to another switch, and sends control frames among the data.
//!
//! ```text
//!  transmit:  due frames ── data ── sent: counted ── due frames (references, markers) ── bulk
//!  receive:   data: counted ── control frame: accepted? ── data: counted
//! ```
//!
//! A control frame never reaches the forwarding, accepted or not, and is never queued: a single mbuf serves
//! it from making to sending.

mod envelope;
mod hellos;
mod port;
mod recorder;
mod share;

pub use envelope::{Envelope, Route, source_address};
pub use hellos::HelloGate;
pub use port::{WireClasses, WirePort, WireSetup};
pub use recorder::{RECORD_BYTES, Recorder, Recording};
pub use share::Share;

use crate::decide::PortSet;
use contract::ids::PortIndex;

/// Another wire for a port, or none.
pub type WireChange<P> = (usize, Option<Box<WirePort<P>>>);

/// The wires of one worker, by port.
#[derive(Debug)]
pub struct Wires<P> {
    ports: Vec<Option<Box<WirePort<P>>>>,
    /// Ports with a wire.
    at: PortSet,
}

impl<P> Default for Wires<P> {
    fn default() -> Self {
        Self {
            ports: Vec::new(),
            at: PortSet::EMPTY,
        }
    }
}

impl<P> Wires<P> {
    /// These wires, by port, with room for those of `ports` ports.
    pub fn with(ports: usize, wires: Vec<WireChange<P>>) -> Self {
        let mut all = Self::default();
        all.ports.resize_with(ports, || None);
        for (port, mut wire) in wires {
            all.swap(port, &mut wire);
        }
        all
    }

    /// Ports with a wire.
    #[inline]
    pub fn ports(&self) -> PortSet {
        self.at
    }

    /// Whether a port has a wire.
    #[inline]
    pub fn is_at(&self, port: PortIndex) -> bool {
        self.at.contains(port)
    }

    /// The wire at a port.
    #[inline]
    pub fn at(&mut self, port: PortIndex) -> Option<&mut WirePort<P>> {
        if !self.is_at(port) {
            return None;
        }
        self.ports.get_mut(port.index())?.as_deref_mut()
    }

    /// Swaps the wire of a port, if any, with `wire`.
    pub fn swap(&mut self, port: usize, wire: &mut Option<Box<WirePort<P>>>) {
        if let Some(at_port) = self.ports.get_mut(port) {
            std::mem::swap(at_port, wire);
        }
        self.at = PortSet::EMPTY;
        for (port, wire) in (0..).zip(&self.ports) {
            if wire.is_some() {
                self.at.insert(PortIndex(port));
            }
        }
    }
}
