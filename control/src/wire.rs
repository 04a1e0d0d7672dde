//! Segments on the wire: the control core's part of what two switches measure of the path between
//! them. The workers' part, and the methods, are in [`wire`].

pub mod clock;
pub mod exchange;
pub mod flows;
