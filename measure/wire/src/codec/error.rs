//! What is wrong with bytes from outside.

/// A part of a synopsis, or the body of a frame, that is not as documented.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ParseError {
    /// The bytes end too soon.
    #[error("{what} needs {needed} bytes and {left} are left")]
    Truncated {
        /// What was being read.
        what: &'static str,
        /// Bytes it takes.
        needed: usize,
        /// Bytes there are.
        left: usize,
    },
    /// The bytes continue where they should end.
    #[error("{left} bytes behind the end of {what}")]
    Trailing {
        /// What was read.
        what: &'static str,
        /// How many bytes are left.
        left: usize,
    },
    /// A number that means nothing.
    #[error("{what} is {value}; it must be {allowed}")]
    Value {
        /// Which number.
        what: &'static str,
        /// Its value.
        value: u64,
        /// What it may be.
        allowed: &'static str,
    },
}

impl ParseError {
    pub(crate) fn value(what: &'static str, value: impl Into<u64>, allowed: &'static str) -> Self {
        Self::Value {
            what,
            value: value.into(),
            allowed,
        }
    }
}
