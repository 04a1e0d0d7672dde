//! What waits to leave by a port: packets that the driver refused, in order, then class queues
//! that a scheduler and a shaper empty.

pub mod lane;
pub mod layout;
pub mod port;
pub mod queue;
pub mod red;
pub mod scheduler;
pub mod shaper;

pub use lane::{FRAME_OVERHEAD_BYTES, Lane, Relayed};
pub use layout::{EgressLayout, QueueLayout};
pub use port::PortEgress;
pub use queue::{QueuedReference, Refused};
