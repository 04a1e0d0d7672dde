//! Declares each number once, with its name, unit, help, and the code that counts it.
//!
//! From one declaration `counters!` makes the block of atomics that a worker writes, the record read from it
//! (with the fields of the JSON snapshot), and the metrics that show the record in `/metrics` and
//! `docs/metrics.md`.

use crate::labelled_enum;
use crate::sync::{AtomicU64, Ordering};

/// A counter with one writer.
#[derive(Debug, Default)]
pub struct Counter(AtomicU64);

impl Counter {
    /// Adds to the counter; only its owner may call this.
    #[inline]
    pub fn add(&self, n: u64) {
        self.0.store(
            self.0.load(Ordering::Relaxed).wrapping_add(n),
            Ordering::Relaxed,
        );
    }

    /// Sets a gauge; only its owner may call this.
    #[inline]
    pub fn set(&self, value: u64) {
        self.0.store(value, Ordering::Relaxed);
    }

    /// The current value.
    #[inline]
    pub fn get(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

labelled_enum! {
    /// Type of a family of metrics.
    pub enum MetricKind {
        /// A number that only rises while the program runs.
        Counter = "counter",
        /// A number that rises and falls.
        Gauge = "gauge",
        /// A count and a sum.
        Summary = "summary",
        /// A count, a sum and buckets.
        Histogram = "histogram",
    }
}

/// Name and description of a number.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Declaration {
    /// Its key in the JSON snapshot, and its field in the block of counters.
    pub field: &'static str,
    /// Its name in Prometheus.
    pub name: &'static str,
    /// Whether it only rises.
    pub kind: MetricKind,
    /// What is counted, such as `packets`; empty if the name ends in it.
    pub unit: &'static str,
    /// The folder or file of `switch/src`, or the package, that counts it; empty if no worker counts it.
    pub counted_in: &'static str,
    /// A sentence of help.
    pub help: &'static str,
}

/// Called with the value of the metric's label (empty without a label) and the metric's value.
pub type Each<'e> = &'e mut dyn FnMut(&str, f64);

/// A declared number of a record `T`, or a list of numbers with a label.
#[derive(Debug, Clone, Copy)]
pub struct Metric<T: 'static> {
    /// Name and description.
    pub declaration: Declaration,
    /// The label of a list; empty for one number.
    pub label: &'static str,
    /// Reads the record; calls nothing if the number is unknown.
    pub read: fn(&T, Each<'_>),
}

impl<T> Metric<T> {
    const fn new(
        kind: MetricKind,
        name: &'static str,
        help: &'static str,
        read: fn(&T, Each<'_>),
    ) -> Self {
        Self {
            declaration: Declaration {
                field: "",
                name,
                kind,
                unit: "",
                counted_in: "",
                help,
            },
            label: "",
            read,
        }
    }

    /// A counter without a field of its own in the record.
    pub const fn counter(name: &'static str, help: &'static str, read: fn(&T, Each<'_>)) -> Self {
        Self::new(MetricKind::Counter, name, help, read)
    }

    /// A gauge, likewise.
    pub const fn gauge(name: &'static str, help: &'static str, read: fn(&T, Each<'_>)) -> Self {
        Self::new(MetricKind::Gauge, name, help, read)
    }

    /// Adds a label, whose values `read` returns.
    #[must_use]
    pub const fn by(mut self, label: &'static str) -> Self {
        self.label = label;
        self
    }
}

/// A value of a metric.
pub trait Shown {
    /// Calls `each` with every value divided by `per_unit`, and with the value of the metric's label.
    fn show(&self, per_unit: f64, each: Each<'_>);
}

macro_rules! shown {
    ($($number:ty, $value:ident => $as_f64:expr;)*) => {$(
        impl Shown for $number {
            fn show(&self, per_unit: f64, each: Each<'_>) {
                let $value = self;
                each("", $as_f64 / per_unit);
            }
        }
    )*};
}
shown! {
    bool, value => f64::from(u8::from(*value));
    i16, value => f64::from(*value);
    u32, value => f64::from(*value);
    u64, value => *value as f64;
    usize, value => *value as f64;
    f64, value => *value;
    std::sync::atomic::AtomicBool, value => f64::from(u8::from(value.load(Ordering::Relaxed)));
    std::sync::atomic::AtomicU64, value => value.load(Ordering::Relaxed) as f64;
}

impl<T: Shown> Shown for Option<T> {
    fn show(&self, per_unit: f64, each: Each<'_>) {
        if let Some(value) = self {
            value.show(per_unit, each);
        }
    }
}

impl<T: Shown> Shown for Vec<T> {
    fn show(&self, per_unit: f64, each: Each<'_>) {
        for value in self {
            value.show(per_unit, each);
        }
    }
}

/// A record with metrics declared beside its fields: the field's documentation is the metric's help.
///
/// ```text
/// record! {
///     pub struct Fdb {
///         /// Addresses in the filtering database.
///         #[metric(Gauge = "vernier_fdb_entries")]
///         pub entries: u64,
/// ```
///
/// `help = "..."` replaces the documentation. `label = "reason"` names the label of a list. `per_unit = 1e9` divides
/// a field in nanoseconds for a metric in seconds. `unit` and `counted_in` are those of [`Declaration`].
#[macro_export]
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
            /// The metrics of the fields.
            pub fn metrics() -> impl Iterator<Item = &'static $crate::metric::Metric<Self>> + Clone {
                const METRICS: &[&[$crate::metric::Metric<$record>]] = &[
                    $($crate::record!(@ $field, concat!($($doc),*), $($($metric)*)?),)*
                ];
                METRICS.iter().copied().flatten()
            }
        }
    };
    (@ $field:ident, $doc:expr,) => {
        &[]
    };
    (@ $field:ident, $doc:expr, $kind:ident = $name:literal, help = $help:literal $($more:tt)*) => {
        $crate::record!(@ $field, $help, $kind = $name $($more)*)
    };
    (
        @ $field:ident, $help:expr, $kind:ident = $name:literal
        $(, label = $label:literal)? $(, per_unit = $per_unit:literal)?
        $(, unit = $unit:ident)? $(, counted_in = $counted_in:literal)?
    ) => {
        &[$crate::metric::Metric {
            declaration: $crate::metric::Declaration {
                field: stringify!($field),
                name: $name,
                kind: $crate::metric::MetricKind::$kind,
                unit: concat!($(stringify!($unit))?),
                counted_in: concat!($($counted_in)?),
                help: $help,
            },
            label: concat!($($label)?),
            read: |record, each| {
                $crate::metric::Shown::show(&record.$field, 1.0 $(* $per_unit)?, each);
            },
        }]
    };
}

/// A block of counters with one writer, and the record read from it; `and` precedes further fields of the block.
macro_rules! counters {
    (
        $(#[$attribute:meta])*
        pub struct $block:ident {
            $(
                $field:ident: $kind:ident $name:literal, $unit:ident, in $counted_in:literal, $help:literal;
            )*
        }
        $(and {
            $($(#[$of_more:meta])* pub $more:ident: $more_type:ty,)*
        })?
        read as $(#[$of_record:meta])* $record:ident
    ) => {
        $(#[$attribute])*
        #[derive(Debug, Default)]
        pub struct $block {
            $(
                #[doc = $help]
                pub $field: $crate::metric::Counter,
            )*
            $($($(#[$of_more])* pub $more: $more_type,)*)?
        }

        impl $block {
            /// Reads the current values.
            pub fn read(&self) -> $record {
                $record {
                    $($field: self.$field.get(),)*
                }
            }

            /// Adds the difference between two readings, if another part keeps the counters; not for gauges.
            pub fn add_since(&self, now: &$record, before: &$record) {
                $(self.$field.add(now.$field - before.$field);)*
            }
        }

        $crate::record! {
            #[doc = concat!("The numbers of [`", stringify!($block), "`], read.")]
            #[derive(
                Debug, Clone, Copy, Default, PartialEq, Eq, serde::Serialize, serde::Deserialize, schemars::JsonSchema,
            )]
            $(#[$of_record])*
            pub struct $record {
                $(
                    #[doc = $help]
                    #[metric($kind = $name, unit = $unit, counted_in = $counted_in)]
                    pub $field: u64,
                )*
            }
        }

        impl std::iter::Sum for $record {
            fn sum<I: Iterator<Item = Self>>(records: I) -> Self {
                records.fold(Self::default(), |sum, one| Self {
                    $($field: sum.$field + one.$field,)*
                })
            }
        }
    };
}

pub(crate) use counters;
