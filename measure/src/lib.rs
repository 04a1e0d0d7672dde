#![doc = include_str!("../docs/methods.md")]
//!
#![doc = include_str!("../../docs/pictures/lda.svg")]
//!
#![doc = include_str!("../docs/methods-lda.md")]
//!
#![doc = include_str!("../../docs/pictures/lds.svg")]
//!
#![doc = include_str!("../docs/methods-lds.md")]
//!
#![doc = include_str!("../../docs/pictures/rli.svg")]
//!
#![doc = include_str!("../docs/methods-rli.md")]
#![deny(unsafe_code)]

mod argument;
pub mod batch;
pub mod cell;
pub mod chooser;
pub mod decoding;
pub mod digest;
pub mod flows;
pub mod histogram;
mod labelled;
pub mod lda;
pub mod lds;
pub mod moments;
pub mod observation;
pub mod packet;
#[cfg(feature = "planted")]
pub mod planted;
mod prefetch;
pub mod rli;
pub mod shard;
pub mod sizing;
pub mod statistics;
pub mod synopsis;
pub mod time;

pub use argument::InvalidArgument;
