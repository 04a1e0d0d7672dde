//! What the owner of a partition does: reports in, states and minutes out.
//!
//! ```text
//!  consumer of the partition --up to 256 reports--> State::take --> minutes, states --> acknowledge the last report
//! ```
//!
//! A report is acknowledged when what it changed is written, so that a station which dies loses none. What is then read again
//! was counted, and is known by run and epoch. A state is written only over the revision that was read: a station that does
//! not know yet that it owns the partition no more cannot undo what the new owner wrote.

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use async_nats::jetstream::{AckKind, Message};
use futures_util::StreamExt;
use report::msp::Report;

use crate::state::Taken;
use crate::store::{Entry, Store, StoreError, failed};

/// Most reports between two writes.
const BATCH: usize = 256;

/// What this station has counted as an owner.
#[derive(Debug, Default)]
pub struct Work {
    /// Reports counted.
    pub reports: AtomicU64,
    /// Reports that had been counted before.
    pub duplicates: AtomicU64,
    /// Messages that are no report, or of a later major version.
    pub refused: AtomicU64,
    /// Times that a partition was taken up.
    pub takeovers: AtomicU64,
    /// Nanoseconds from the end of the last report's epoch to its state being written.
    pub delay_ns: AtomicU64,
}

/// Owns a partition until something fails, or this is dropped.
///
/// # Errors
/// [`StoreError`], also where another station has taken over.
pub async fn own(store: &Store, partition: u16, work: &Arc<Work>) -> Result<(), StoreError> {
    // In this order: what is written from here on by another owner makes our first write fail.
    let messages = store.take_over(partition).await?;
    let mut states = store.states(partition).await?;
    work.takeovers.fetch_add(1, Ordering::Relaxed);
    let mut batches = messages.ready_chunks(BATCH);
    while let Some(batch) = batches.next().await {
        let batch: Vec<Message> =
            (batch.into_iter().collect::<Result<_, _>>()).map_err(failed("cannot read reports"))?;
        let mut changed = BTreeSet::new();
        let mut end_unix_ns = 0;
        for message in &batch {
            let Some(report) = read(message, work) else {
                continue;
            };
            let info = message.info().map_err(failed("cannot read reports"))?;
            let received_unix_ns = u64::try_from(info.published.unix_timestamp_nanos());
            let entry = states.entry(report.switch.clone()).or_default();
            match entry
                .state
                .take(&report, received_unix_ns.unwrap_or_default())
            {
                Taken::Duplicate => work.duplicates.fetch_add(1, Ordering::Relaxed),
                Taken::Counted(closed) => {
                    if let Some(minute) = closed {
                        store.write_minute(&minute).await?;
                    }
                    work.reports.fetch_add(1, Ordering::Relaxed)
                }
            };
            end_unix_ns = report.end_unix_ns();
            changed.insert(report.switch);
        }
        write(store, &mut states, &changed).await?;
        if let Some(last) = batch.last() {
            let acknowledged = last.ack_with(AckKind::Ack).await;
            acknowledged.map_err(failed("cannot acknowledge reports"))?;
        }
        if end_unix_ns > 0 {
            let delay_ns = crate::now_unix_ns().saturating_sub(end_unix_ns);
            work.delay_ns.store(delay_ns, Ordering::Relaxed);
        }
    }
    Ok(())
}

/// Writes the states of these switches, side by side.
async fn write(
    store: &Store,
    states: &mut HashMap<String, Entry>,
    changed: &BTreeSet<String>,
) -> Result<(), StoreError> {
    let mut answers = Vec::with_capacity(changed.len());
    for switch in changed {
        if let Some(entry) = states.get(switch) {
            answers.push((switch, store.write_state(entry).await?));
        }
    }
    for (switch, answer) in answers {
        let written = answer.await.map_err(failed("cannot write a state"))?;
        if let Some(entry) = states.get_mut(switch) {
            entry.revision = written.sequence;
        }
    }
    Ok(())
}

/// The report in a message; what is none is counted, and logged ever more rarely.
fn read(message: &Message, work: &Work) -> Option<Report> {
    match Report::read(&message.payload) {
        Ok(report) if *message.subject == *report::subject::of_switch(&report.switch) => {
            return Some(report);
        }
        Ok(report) => {
            let (subject, switch) = (&message.subject, report.switch);
            tracing::debug!(
                "{subject}: the report is of switch {switch}, whose subject is another"
            );
        }
        Err(error) => tracing::debug!("{}: {error}", message.subject),
    }
    let refused = work.refused.fetch_add(1, Ordering::Relaxed);
    if refused.is_power_of_two() || refused == 0 {
        let so_far = refused + 1;
        tracing::warn!(
            "{so_far} messages on vernier.report.> were refused; VERNIER_LOG=debug shows why"
        );
    }
    None
}
