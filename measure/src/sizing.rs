//! How large a synopsis must be.
