//! All numbers that are declared ([`crate::metric`]).

use crate::counters::{
    ClassReading, ExceptionReading, PortReading, QueueReading, ReferenceReading, WorkerReading,
};
use crate::fdb::FdbStats;
use crate::metric::{Declaration, Metric};

/// All that is declared, over all records.
pub fn declarations() -> Vec<Declaration> {
    fn of<T: 'static>(
        metrics: impl Iterator<Item = &'static Metric<T>>,
    ) -> impl Iterator<Item = Declaration> {
        metrics.map(|metric| metric.declaration)
    }
    of(PortReading::metrics())
        .chain(of(ClassReading::metrics()))
        .chain(of(QueueReading::metrics()))
        .chain(of(WorkerReading::metrics()))
        .chain(of(ExceptionReading::metrics()))
        .chain(of(ReferenceReading::metrics()))
        .chain(of(FdbStats::metrics()))
        .collect()
}
