//! Segments on the wire, as a worker has them: what goes out by a port and what comes in by it are
//! counted at this end of the path to another switch, and control frames go among the data.
//!
//! ```text
//!  transmit:  due frames ── data ── sent: counted ── due frames (references, markers) ── bulk
//!  receive:   data: counted ── control frame: believed? ── data: counted
//! ```
//!
//! A control frame never gets to the forwarding, believed or not, and is in no way stored: there is
//! one mbuf for it from its making to its sending.

mod envelope;
mod port;
mod recorder;
mod share;

pub use envelope::{Envelope, Route, source_address};
pub use port::{Arrival, WireClasses, WirePort, WireSetup};
pub use recorder::{RECORD_BYTES, Recorder, Recording};
pub use share::Share;

use crate::packet_io::PortIndex;

/// The wires of one worker, by port.
#[derive(Debug)]
pub struct Wires<P> {
    ports: Vec<Option<Box<WirePort<P>>>>,
    count: usize,
}

impl<P> Default for Wires<P> {
    fn default() -> Self {
        Self {
            ports: Vec::new(),
            count: 0,
        }
    }
}

impl<P> Wires<P> {
    /// These wires, by port, and room for those of `ports` ports.
    pub fn with(ports: usize, wires: Vec<(usize, Option<Box<WirePort<P>>>)>) -> Self {
        let mut all = Self::default();
        all.ports.resize_with(ports, || None);
        for (port, mut wire) in wires {
            all.swap(port, &mut wire);
        }
        all
    }

    /// Whether there is no wire at all.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// The wire at a port.
    #[inline]
    pub fn at(&mut self, port: PortIndex) -> Option<&mut WirePort<P>> {
        if self.count == 0 {
            return None;
        }
        self.ports.get_mut(usize::from(port.0))?.as_deref_mut()
    }

    /// Whether there is a wire at a port.
    #[inline]
    pub fn is_at(&self, port: PortIndex) -> bool {
        self.count > 0 && matches!(self.ports.get(usize::from(port.0)), Some(Some(_)))
    }

    /// Puts another wire, or none, in the place of what is at a port: that comes back in its stead.
    pub fn swap(&mut self, port: usize, wire: &mut Option<Box<WirePort<P>>>) {
        if let Some(place) = self.ports.get_mut(port) {
            std::mem::swap(place, wire);
            self.count = self.ports.iter().flatten().count();
        }
    }

    /// Ports with a wire.
    pub fn ports(&self) -> impl Iterator<Item = PortIndex> + use<P> {
        let mask = self
            .ports
            .iter()
            .enumerate()
            .fold(0_u64, |mask, (n, wire)| {
                mask | u64::from(wire.is_some()) << (n % 64)
            });
        (0..64_u8)
            .filter(move |n| mask >> n & 1 == 1)
            .map(PortIndex)
    }
}
