//! Reference Latency Interpolation: the delay of every flow from a few stamped packets.
