//! How what is counted is declared: once, with its name, its unit, its words and where it is counted.
//!
//! `counters!` makes of one declaration the block of atomics that a worker writes, the record
//! that is read from it (its fields are those of the JSON snapshot), and the metrics by which `/metrics` and
//! `docs/metrics.md` show the record.

use crate::sync::{AtomicU64, Ordering};

/// A counter with one writer.
#[derive(Debug, Default)]
pub struct Counter(AtomicU64);

impl Counter {
    /// Adds; only the owner may call it.
    #[inline]
    pub fn add(&self, n: u64) {
        self.0.store(
            self.0.load(Ordering::Relaxed).wrapping_add(n),
            Ordering::Relaxed,
        );
    }

    /// Sets a gauge; only the owner may call it.
    #[inline]
    pub fn set(&self, value: u64) {
        self.0.store(value, Ordering::Relaxed);
    }

    /// The present value.
    #[inline]
    pub fn get(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

/// Whether a number only rises.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MetricKind {
    /// It only rises while the switch runs.
    Counter,
    /// It is what holds now.
    Gauge,
}

/// What a number is called and what it says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Declaration {
    /// Its key in the JSON snapshot, and its field in the block of counters.
    pub field: &'static str,
    /// Its name in Prometheus.
    pub name: &'static str,
    /// Whether it only rises.
    pub kind: MetricKind,
    /// What is counted: `packets`; empty where the name ends in it.
    pub unit: &'static str,
    /// The folder or file of `switch/src`, or the package, whose code counts it; empty where the control core does.
    pub counted_in: &'static str,
    /// A sentence for people.
    pub help: &'static str,
}

impl Declaration {
    /// Of a field of a published record that the control core makes.
    pub const fn of_field(
        field: &'static str,
        name: &'static str,
        kind: MetricKind,
        help: &'static str,
    ) -> Self {
        Self {
            field,
            name,
            kind,
            unit: "",
            counted_in: "",
            help,
        }
    }
}

/// Takes the value of the metric's label, empty where it has none, and the metric's value.
pub type Each<'e> = &'e mut dyn FnMut(&str, f64);

/// A declared number of a record `T`, or a list of numbers with a label.
#[derive(Debug, Clone, Copy)]
pub struct Metric<T: 'static> {
    /// What it is called and what it says.
    pub declaration: Declaration,
    /// The label of a list; empty for one number.
    pub label: &'static str,
    /// Reads the record; nothing where the number is not known.
    pub read: fn(&T, Each<'_>),
}

/// A record of declared numbers, with its metrics and its sum over workers.
macro_rules! record {
    (
        $(#[$attribute:meta])*
        pub struct $record:ident {
            $(
                $(#[$of_field:meta])*
                $field:ident: $kind:ident $name:literal, $unit:ident, in $counted_in:literal, $help:literal;
            )*
        }
    ) => {
        #[derive(
            Debug, Clone, Copy, Default, PartialEq, Eq, serde::Serialize, serde::Deserialize, schemars::JsonSchema,
        )]
        $(#[$attribute])*
        pub struct $record {
            $(
                #[doc = $help]
                $(#[$of_field])*
                pub $field: u64,
            )*
        }

        impl $record {
            /// What each number is called and what it says.
            pub const METRICS: [$crate::metric::Metric<Self>; [$($name),*].len()] = [$(
                $crate::metric::Metric {
                    declaration: $crate::metric::Declaration {
                        field: stringify!($field),
                        name: $name,
                        kind: $crate::metric::MetricKind::$kind,
                        unit: stringify!($unit),
                        counted_in: $counted_in,
                        help: $help,
                    },
                    label: "",
                    read: |record, each| each("", record.$field as f64),
                },
            )*];
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

/// A block of counters with one writer, and the record that is read from it; behind `and` what else the block has.
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
            /// The present values.
            pub fn read(&self) -> $record {
                $record {
                    $($field: self.$field.get(),)*
                }
            }

            /// Adds what was counted from `before` to `now`, where another part keeps the counters; not for gauges.
            pub fn add_since(&self, now: &$record, before: &$record) {
                $(self.$field.add(now.$field - before.$field);)*
            }
        }

        $crate::metric::record! {
            #[doc = concat!("The numbers of [`", stringify!($block), "`], read.")]
            $(#[$of_record])*
            pub struct $record {
                $($field: $kind $name, $unit, in $counted_in, $help;)*
            }
        }
    };
}

pub(crate) use {counters, record};
