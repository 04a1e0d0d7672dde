//! The binary form of synopses and control frames.
