//! Segments between switches: the clock for reading TAI in workers, and the rings between the worker that
//! owns such a port and the control core.

pub mod clock;
pub mod handover;
