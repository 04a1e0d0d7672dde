//! Test packets: base packets, their timestamps and HMACs, and what follows them.

pub mod key;
pub mod packet;
pub mod time;
pub mod tlv;
