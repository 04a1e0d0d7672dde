//! All numbers that are declared ([`crate::metric`]).

use crate::counters::{
    ClassReading, ExceptionReading, PortReading, QueueReading, ReferenceReading, WorkerReading,
};
use crate::fdb::FdbStats;
use crate::metric::{Declaration, Metric};

/// All that is declared, over all records.
pub fn declarations() -> Vec<Declaration> {
    fn of<T>(metrics: &[Metric<T>]) -> impl Iterator<Item = Declaration> {
        metrics.iter().map(|metric| metric.declaration)
    }
    of(&PortReading::METRICS)
        .chain(of(&ClassReading::METRICS))
        .chain(of(&QueueReading::METRICS))
        .chain(of(&WorkerReading::METRICS))
        .chain(of(&ExceptionReading::METRICS))
        .chain(of(&ReferenceReading::METRICS))
        .chain(of(&FdbStats::METRICS))
        .collect()
}
