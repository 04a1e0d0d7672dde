//! Metrics, declared beside the fields that they show: the field's documentation is the metric's help.
//!
//! ```text
//! record! {
//!     pub struct Fdb {
//!         /// Addresses in the filtering database.
//!         #[metric(gauge = "vernier_fdb_entries")]
//!         pub entries: u64,
//! ```
//!
//! `label = "reason"` names the label of a list; `per_unit = 1e9` divides, where the field is in
//! nanoseconds and the metric in seconds.

use contract::metric::Each;

/// What a metric can show.
pub(crate) trait Shown {
    /// Calls `each` with every value divided by `per_unit`, and with the value of the metric's label.
    fn show(&self, per_unit: f64, each: Each<'_>);
}

macro_rules! numbers {
    ($($number:ty),*) => {$(
        impl Shown for $number {
            fn show(&self, per_unit: f64, each: Each<'_>) {
                each("", f64::from(*self) / per_unit);
            }
        }
    )*};
}
numbers!(bool, u32, i16, f64);

impl Shown for u64 {
    fn show(&self, per_unit: f64, each: Each<'_>) {
        each("", *self as f64 / per_unit);
    }
}

impl<T: Shown> Shown for Option<T> {
    fn show(&self, per_unit: f64, each: Each<'_>) {
        if let Some(value) = self {
            value.show(per_unit, each);
        }
    }
}

/// A record with metrics beside its fields.
macro_rules! record {
    (
        $(#[$attribute:meta])*
        pub struct $record:ident {
            $(
                $(#[doc = $doc:literal])*
                $(#[serde($($serde:tt)*)])*
                $(#[metric($($metric:tt)*)])?
                pub $field:ident: $type:ty,
            )*
        }
    ) => {
        $(#[$attribute])*
        pub struct $record {
            $(
                $(#[doc = $doc])*
                $(#[serde($($serde)*)])*
                pub $field: $type,
            )*
        }

        impl $record {
            /// The metrics of its fields.
            pub fn metrics() -> impl Iterator<Item = &'static contract::metric::Metric<Self>> + Clone {
                const METRICS: &[&[contract::metric::Metric<$record>]] = &[
                    $($crate::metric::beside!($field, [$($doc)*] $(, $($metric)*)?),)*
                ];
                METRICS.iter().copied().flatten()
            }
        }
    };
}

/// The metric beside a field, if there is one.
macro_rules! beside {
    ($field:ident, [$($doc:literal)*]) => {
        &[]
    };
    (
        $field:ident, [$($doc:literal)*],
        $kind:ident = $name:literal $(, label = $label:literal)? $(, per_unit = $per_unit:literal)?
    ) => {
        &[contract::metric::Metric {
            declaration: contract::metric::Declaration::of_field(
                stringify!($field),
                $name,
                $crate::metric::kind!($kind),
                concat!($($doc),*),
            ),
            label: concat!($($label)?),
            read: |record, each| {
                $crate::metric::Shown::show(&record.$field, 1.0 $(* $per_unit)?, each);
            },
        }]
    };
}

macro_rules! kind {
    (counter) => {
        contract::metric::MetricKind::Counter
    };
    (gauge) => {
        contract::metric::MetricKind::Gauge
    };
}

pub(crate) use {beside, kind, record};
