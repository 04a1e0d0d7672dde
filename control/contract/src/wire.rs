//! Segments between switches: the line that workers read TAI by, and the rings between the worker that
//! owns such a port and the control core.

pub mod clock;
pub mod handover;
