//! Sampling probabilities that follow the losses.
