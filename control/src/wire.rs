//! The control core's part of measuring segments on the wire. The workers' part, and the methods, are in
//! [`wire`].

pub mod clock;
pub mod exchange;
pub mod flows;
