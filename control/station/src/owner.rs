//! What the owner of a partition does: reports in, states and minutes out.
//!
//! ```text
//!  consumer of the partition --up to 256 reports--> State::take --> minutes, states --> acknowledge the last report
//!                                                   Learner::feed --> what was found, in the states
//! ```
//!
//! A report is acknowledged when what it changed is written, so that a station which dies loses none. What is then read again
//! was counted, and is known by its sequence, or by run and epoch; localisation learns from it again ([`crate::learn`]). A state is written only over the revision that was read: a station that does
//! not know yet that it owns the partition no more cannot undo what the new owner wrote.

use std::collections::{BTreeSet, HashMap};
use std::fmt::Display;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant, UNIX_EPOCH};

use async_nats::jetstream::consumer::pull;
use async_nats::jetstream::{AckKind, Message};
use futures_util::StreamExt;
use report::msp::Report;
use report::subject::PARTITIONS;

use crate::learn::{Learner, Room};
use crate::state::Taken;
use crate::store::{Again, Entry, Store, StoreError, failed};

/// Most reports between two writes.
const BATCH: usize = 256;

/// How often what was learnt is written. The next owner reads the reports since then again: half of it on average.
const REMEMBER_EVERY: Duration = Duration::from_mins(2);

/// Where nothing was written, the reports of an hour are read again.
const LEARN_AGAIN_NS: u64 = 3_600_000_000_000;

/// What this station has counted as an owner.
#[derive(Debug, Default)]
pub struct Work {
    /// Reports counted.
    pub reports: AtomicU64,
    /// Reports that had been counted before.
    pub duplicates: AtomicU64,
    /// Reports that were counted, and were read again for what is learnt from them.
    pub read_again: AtomicU64,
    /// Messages that are no report, or of a later major version.
    pub refused: AtomicU64,
    /// Times that a partition was taken up.
    pub takeovers: AtomicU64,
    /// Nanoseconds from the end of the last report's epoch to its state being written.
    pub delay_ns: AtomicU64,
}

/// What an owner has of a partition.
struct Owned<'w> {
    store: &'w Store,
    work: &'w Work,
    learner: Learner,
    states: HashMap<String, Entry>,
    /// The revision before which states have been forgotten.
    first_state: u64,
}

/// Owns a partition until something fails, or this is dropped.
///
/// # Errors
/// [`StoreError`], also where another station has taken over.
pub async fn own(
    store: &Store,
    partition: u16,
    work: &Work,
    room: &Arc<Room>,
) -> Result<(), StoreError> {
    let (mut owned, messages) = Owned::take_over(store, partition, work, room).await?;
    // Partitions do not write at the same time.
    let first = REMEMBER_EVERY * (u32::from(partition) + 1) / u32::from(PARTITIONS);
    let mut remember_at = Instant::now() + first;
    let mut batches = messages.ready_chunks(BATCH);
    let mut sequence = None;
    loop {
        let until_due = remember_at.saturating_duration_since(Instant::now());
        match tokio::time::timeout(until_due, batches.next()).await {
            Ok(Some(batch)) => sequence = Some(owned.take(batch).await?),
            Ok(None) => return Ok(()),
            // Without reports, too, what the server has evicted is forgotten.
            Err(_) => owned.evict(),
        }
        if Instant::now() >= remember_at {
            owned.remember(sequence.take()).await?;
            remember_at = Instant::now() + REMEMBER_EVERY;
        }
    }
}
impl<'w> Owned<'w> {
    /// With what the last owner had learnt, and the reports behind that.
    async fn take_over(
        store: &'w Store,
        partition: u16,
        work: &'w Work,
        room: &Arc<Room>,
    ) -> Result<(Self, pull::Stream), StoreError> {
        let mut learner = Learner::new(Arc::clone(room));
        let behind = store.recall(partition, &mut learner).await?;
        // In this order: what is written from here on by another owner makes our first write fail.
        let again = Again::Behind(behind.unwrap_or(u64::MAX - 1));
        let (mut messages, mut last) = store.take_over(partition, again).await?;
        let mut states = store.states(partition).await?;
        let since_ns = store.clock.now_unix_ns().saturating_sub(LEARN_AGAIN_NS);
        let is_unknown = |Entry { state, .. }: &Entry| {
            state.received_unix_ns > since_ns && !learner.has(&state.switch)
        };
        if !learner.is_off() && states.values().any(is_unknown) {
            let again = Again::Since(UNIX_EPOCH + Duration::from_nanos(since_ns));
            (messages, last) = store.take_over(partition, again).await?;
        }
        for entry in states.values_mut() {
            // The stream was made anew.
            if entry.state.sequence > last {
                entry.state.sequence = 0;
            }
        }
        work.takeovers.fetch_add(1, Ordering::Relaxed);
        let owned = Self {
            store,
            work,
            learner,
            states,
            first_state: 0,
        };
        Ok((owned, messages))
    }

    /// Forgets the states that the server has evicted.
    fn evict(&mut self) {
        let first = self.store.first_state.load(Ordering::Relaxed);
        if first > self.first_state {
            let is_kept = |entry: &Entry| entry.revision == 0 || entry.revision >= first;
            self.states.retain(|_, entry| is_kept(entry));
            self.first_state = first;
        }
    }

    /// Counts reports as they were read; the sequence of the last.
    async fn take(&mut self, batch: Vec<Result<Message, impl Display>>) -> Result<u64, StoreError> {
        let batch: Vec<Message> =
            (batch.into_iter().collect::<Result<_, _>>()).map_err(failed("cannot read reports"))?;
        self.evict();
        self.count(&batch).await
    }

    /// Drops what was learnt and is of no use any more, and writes the rest, if reports up to this one were read since then.
    async fn remember(&mut self, sequence: Option<u64>) -> Result<(), StoreError> {
        let now_ms = crate::found::ms(self.store.clock.now_unix_ns());
        let state_of = |switch: &str| self.states.get(switch).map(|entry| &entry.state);
        for switch in self.learner.forget(state_of, now_ms) {
            self.store.forget(&switch).await?;
        }
        match sequence {
            Some(sequence) => self.store.remember(&self.learner, sequence).await,
            None => Ok(()),
        }
    }

    /// Counts reports, writes what they changed, and acknowledges them; the sequence of the last.
    async fn count(&mut self, batch: &[Message]) -> Result<u64, StoreError> {
        let work = self.work;
        let mut changed = BTreeSet::new();
        let (mut end_unix_ns, mut sequence) = (0, 0);
        for message in batch {
            let info = message.info().map_err(failed("cannot read reports"))?;
            sequence = info.stream_sequence;
            let received_unix_ns =
                u64::try_from(info.published.unix_timestamp_nanos()).unwrap_or_default();
            let Some(report) = read(message, work) else {
                continue;
            };
            let entry = self.states.entry(report.switch.clone()).or_default();
            if sequence <= entry.state.sequence {
                self.learner.feed(&report, sequence, received_unix_ns);
                work.read_again.fetch_add(1, Ordering::Relaxed);
                continue;
            }
            entry.state.sequence = sequence;
            match entry.state.take(&report, received_unix_ns) {
                Taken::Duplicate => work.duplicates.fetch_add(1, Ordering::Relaxed),
                Taken::Counted(closed) => {
                    if let Some(minute) = closed {
                        self.store.write_minute(&minute).await?;
                    }
                    self.learner.feed(&report, sequence, received_unix_ns);
                    work.reports.fetch_add(1, Ordering::Relaxed)
                }
            };
            end_unix_ns = report.end_unix_ns();
            changed.insert(report.switch);
        }
        for switch in &changed {
            if let Some(entry) = self.states.get_mut(switch) {
                self.learner.note(&mut entry.state);
            }
        }
        write(self.store, &mut self.states, &changed).await?;
        if let Some(last) = batch.last() {
            let acknowledged = last.ack_with(AckKind::Ack).await;
            acknowledged.map_err(failed("cannot acknowledge reports"))?;
        }
        if end_unix_ns > 0 {
            let delay_ns = self.store.clock.now_unix_ns().saturating_sub(end_unix_ns);
            work.delay_ns.store(delay_ns, Ordering::Relaxed);
        }
        Ok(sequence)
    }
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

/// The report in a message, if it is that of the switch to which the message's subject belongs; what is none is counted, and
/// logged ever more rarely.
fn read(message: &Message, work: &Work) -> Option<Report> {
    let why = match (
        report::subject::switch_of(&message.subject),
        Report::read(&message.payload),
    ) {
        (Some(switch), Ok(report)) if report.switch == switch => return Some(report),
        (Some(switch), Ok(report)) => format!("{switch} sent a report of {:?}", report.switch),
        (None, _) => "no switch has this subject".to_owned(),
        (_, Err(error)) => error.to_string(),
    };
    tracing::debug!("{:?}: {why}", &*message.subject);
    let refused = work.refused.fetch_add(1, Ordering::Relaxed) + 1;
    if refused.is_power_of_two() {
        tracing::warn!(
            "{refused} messages on vernier.report.> were refused, the last on {:?}: {why}; VERNIER_LOG=debug shows all",
            &*message.subject
        );
    }
    None
}
