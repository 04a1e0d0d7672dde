//! The work of a partition's owner: reports in, states and minutes out.
//!
//! ```text
//!  consumer of the partition --up to 256 reports--> State::take --> minutes, states --> acknowledge the last report
//!                                                   Histories::feed --> findings, in the states
//! ```
//!
//! A report is acknowledged after its changes are written, so that a station that dies loses none. Reports that are
//! then read again have been counted, as shown by their sequence, or by run and epoch; they only update the histories
//! ([`crate::histories`]). A state is written only over the revision that was read, so that a station that does not
//! know yet that it has lost the partition cannot undo the new owner's writes.
//!
//! A fault of one switch is set aside, so that the other switches of its partition are not affected: an unreadable
//! value, a value that the server refuses, a report on which this program panics. It is counted and named in the
//! switch's state.

use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, UNIX_EPOCH};

use futures_util::StreamExt;
use futures_util::future::join_all;
use parking_lot::Mutex;
use report::msp::Report;
use report::subject::PARTITIONS;

use crate::bus::{Again, Bus, Delivered, Put, PutError, Reports, StoreError, failed};
use crate::clock::ms;
use crate::histories::{self, Histories, Room};
use crate::state::{Minute, Taken};
use crate::store::STATES;
use crate::values::{self, Entry, KEY};

/// Largest number of reports between two writes.
const BATCH: usize = 256;

/// How often histories are written. The next owner reads the reports since then again: half of this time on average.
const REMEMBER_EVERY: Duration = Duration::from_mins(2);

/// Largest number of poison reports that are remembered. Beyond it, the oldest may be tried again.
const POISON_MAX: usize = 1_000;

/// Time for which reports are read again if no history was written: an hour.
const LEARN_AGAIN_NS: u64 = 3_600_000_000_000;

/// Counts of this station's work as an owner.
#[derive(Debug, Default)]
pub struct Work {
    /// Reports counted.
    pub reports: AtomicU64,
    /// Reports that had already been counted.
    pub duplicates: AtomicU64,
    /// Counted reports that were read again for the histories.
    pub read_again: AtomicU64,
    /// Messages that are not reports, or have a later major version.
    pub refused: AtomicU64,
    /// Takeovers of partitions.
    pub takeovers: AtomicU64,
    /// Values, minutes and reports that were set aside.
    pub set_aside: AtomicU64,
    /// Sequences of reports on which this program panicked, by partition. They are not processed again.
    poison: Mutex<HashSet<(u16, u64)>>,
    /// Nanoseconds from the end of the last report's epoch until its state was written.
    pub delay_ns: AtomicU64,
}

/// An owner's data about a partition.
struct Owned<'w, B> {
    bus: &'w B,
    work: &'w Work,
    partition: u16,
    histories: Histories,
    states: BTreeMap<String, Entry>,
    /// Last sequence that an earlier owner counted.
    counted: u64,
    /// First revision that the server still kept at the last eviction.
    first_state: u64,
}

/// Owns a partition until an error occurs, or the future is dropped.
///
/// # Errors
/// [`StoreError`], including when another station has taken over.
pub async fn own<B: Bus>(
    bus: &B,
    partition: u16,
    work: &Work,
    room: &Arc<Room>,
) -> Result<(), StoreError> {
    let (mut owned, reports) = Owned::take_over(bus, partition, work, room).await?;
    // Staggers the writes of the partitions.
    let first = REMEMBER_EVERY * (u32::from(partition) + 1) / u32::from(PARTITIONS);
    let mut remember_at = after(bus.now_unix_ns(), first);
    let mut batches = reports.messages.ready_chunks(BATCH);
    let mut sequence = None;
    loop {
        let until_due = Duration::from_nanos(remember_at.saturating_sub(bus.now_unix_ns()));
        match tokio::time::timeout(until_due.min(REMEMBER_EVERY), batches.next()).await {
            Ok(Some(batch)) => {
                let batch: Vec<_> = batch.into_iter().collect::<Result<_, _>>()?;
                owned.evict();
                sequence = Some(owned.count(&batch).await?);
            }
            Ok(None) => return Ok(()),
            // Drop states that the server has evicted even while no reports arrive.
            Err(_) => owned.evict(),
        }
        let now_unix_ns = bus.now_unix_ns();
        // Also due after the clock was set back.
        if now_unix_ns >= remember_at || after(now_unix_ns, REMEMBER_EVERY) < remember_at {
            owned.remember(sequence.take()).await?;
            remember_at = after(now_unix_ns, REMEMBER_EVERY);
        }
    }
}

fn after(unix_ns: u64, time: Duration) -> u64 {
    unix_ns.saturating_add(u64::try_from(time.as_nanos()).unwrap_or(u64::MAX))
}

impl<'w, B: Bus> Owned<'w, B> {
    /// Takes over a partition, with the last owner's histories and the reports after them.
    async fn take_over(
        bus: &'w B,
        partition: u16,
        work: &'w Work,
        room: &Arc<Room>,
    ) -> Result<(Self, Reports<B::Message>), StoreError> {
        let mut histories = Histories::new(Arc::clone(room));
        let behind = histories::load(bus, partition, &mut histories).await?;
        // The consumer comes first, so that any write of another owner from here on makes our first write fail.
        let again = Again::Behind(behind.unwrap_or(u64::MAX));
        let mut reports = bus.take_over(partition, again).await?;
        let values = bus.last(STATES, format!("{KEY}{partition}.>")).await?;
        let mut states = values::entries(values);
        let since_ns = bus.now_unix_ns().saturating_sub(LEARN_AGAIN_NS);
        let is_unknown = |Entry { state, .. }: &Entry| {
            state.received_unix_ns > since_ns && !histories.has(&state.switch)
        };
        if !histories.is_off() && states.values().any(is_unknown) {
            let again = Again::Since(UNIX_EPOCH + Duration::from_nanos(since_ns));
            reports = bus.take_over(partition, again).await?;
        }
        for Entry { state, .. } in states.values_mut() {
            // The stream was recreated.
            if state.sequence > reports.last || state.received_unix_ns < reports.created_unix_ns {
                state.sequence = 0;
            }
            if state.set_aside > 0 && state.reports == 0 {
                set_aside(work, &state.switch, &state.set_aside_why);
            }
        }
        histories.rewind(reports.last);
        work.takeovers.fetch_add(1, Ordering::Relaxed);
        let owned = Self {
            bus,
            work,
            partition,
            histories,
            states,
            counted: reports.counted,
            first_state: 0,
        };
        Ok((owned, reports))
    }

    /// Drops the states that the server has evicted.
    fn evict(&mut self) {
        let first = self.bus.first_state();
        if first > self.first_state {
            let is_kept = |entry: &Entry| entry.revision == 0 || entry.revision >= first;
            self.states.retain(|_, entry| is_kept(entry));
            self.first_state = first;
        }
    }

    /// Counts reports, writes their changes, and acknowledges them. Returns the sequence of the last.
    async fn count(&mut self, batch: &[Delivered<B::Message>]) -> Result<u64, StoreError> {
        let mut changed = BTreeSet::new();
        let (mut end_unix_ns, mut sequence) = (0, 0);
        for message in batch {
            sequence = message.sequence;
            let Some(report) = read(message, self.work) else {
                continue;
            };
            // The server has evicted the state in which this report was counted.
            if sequence <= self.counted && !self.states.contains_key(&report.switch) {
                self.work.read_again.fetch_add(1, Ordering::Relaxed);
                continue;
            }
            if self.work.is_poison(self.partition, sequence) {
                self.leave_out(sequence, &report.switch);
                changed.insert(report.switch);
                continue;
            }
            let taken = catch_unwind(AssertUnwindSafe(|| self.take(message, &report)));
            let Ok(taken) = taken else {
                // The switch's state may be half changed and must be read again.
                self.work.remember_poison(self.partition, sequence);
                set_aside(
                    self.work,
                    &report.switch,
                    "the station panicked on its report",
                );
                let doing = "internal error";
                return Err(failed(doing)("panicked on a report, which will be skipped"));
            };
            match taken {
                None => continue,
                Some(Taken::Duplicate) => {
                    self.work.duplicates.fetch_add(1, Ordering::Relaxed);
                }
                Some(Taken::Counted(closed)) => {
                    if let Some(minute) = closed {
                        self.write_minute(minute).await?;
                    }
                    self.work.reports.fetch_add(1, Ordering::Relaxed);
                }
            }
            end_unix_ns = report.end_unix_ns();
            changed.insert(report.switch);
        }
        for switch in &changed {
            if let Some(entry) = self.states.get_mut(switch) {
                self.histories.note(&mut entry.state);
            }
        }
        self.write(&changed).await?;
        if let Some(last) = batch.last() {
            self.bus.acknowledge(&last.message).await?;
        }
        if end_unix_ns > 0 {
            let delay_ns = self.bus.now_unix_ns().saturating_sub(end_unix_ns);
            self.work.delay_ns.store(delay_ns, Ordering::Relaxed);
        }
        Ok(sequence)
    }

    /// Processes a report. Returns `None` if it had already been counted; then it only updates the histories.
    fn take(&mut self, message: &Delivered<B::Message>, report: &Report) -> Option<Taken> {
        #[cfg(test)]
        tests::befall(report);
        let sequence = message.sequence;
        let entry = self.states.entry(report.switch.clone()).or_default();
        if sequence <= entry.state.sequence {
            self.histories
                .feed(report, sequence, message.published_unix_ns);
            self.work.read_again.fetch_add(1, Ordering::Relaxed);
            return None;
        }
        entry.state.sequence = sequence;
        let taken = entry.state.take(report, message.published_unix_ns);
        if matches!(taken, Taken::Counted(_)) {
            self.histories
                .feed(report, sequence, message.published_unix_ns);
        }
        Some(taken)
    }

    /// Notes a report without counting it.
    fn leave_out(&mut self, sequence: u64, switch: &str) {
        let state = &mut self.states.entry(switch.to_owned()).or_default().state;
        if sequence > state.sequence {
            state.sequence = sequence;
            switch.clone_into(&mut state.switch);
            state.set_aside("a report on which the station panicked");
        }
    }

    /// Writes a closed minute. A minute that is written again within two minutes is stored once.
    async fn write_minute(&mut self, minute: Minute) -> Result<(), StoreError> {
        let switch = minute.switch.clone();
        let subject = values::minutes_of(&switch);
        for part in minute.split(self.bus.bytes_max()) {
            let id = match part.part {
                0 => format!("{switch}.{}", part.minute),
                number => format!("{switch}.{}.{number}", part.minute),
            };
            let bytes = prost::Message::encode_to_vec(&part);
            let written = self.bus.put(subject.clone(), bytes, Put::Once(id)).await;
            self.or_set_aside(&switch, "a minute", written)?;
        }
        Ok(())
    }

    /// Writes the states of these switches concurrently.
    async fn write(&mut self, changed: &BTreeSet<String>) -> Result<(), StoreError> {
        let bus = self.bus;
        let entries = self.states.iter_mut();
        let entries = entries.filter(|(switch, _)| changed.contains(*switch));
        let written = entries.map(|(switch, entry)| {
            let switch = switch.clone();
            async move { (switch, entry.write(bus).await) }
        });
        for (switch, written) in join_all(written).await {
            self.or_set_aside(&switch, "its state", written)?;
        }
        Ok(())
    }

    /// Sets aside a write of one switch that the server refuses; any other error stops the partition.
    fn or_set_aside<T>(
        &mut self,
        switch: &str,
        what: &str,
        written: Result<T, PutError>,
    ) -> Result<(), StoreError> {
        match written {
            Ok(_) => Ok(()),
            Err(PutError::Refused(why)) => {
                let why = format!("{what} was not written: {why}");
                set_aside(self.work, switch, &why);
                if let Some(entry) = self.states.get_mut(switch) {
                    entry.state.set_aside(&why);
                }
                Ok(())
            }
            Err(error) => Err(failed("cannot write what was counted")(error)),
        }
    }

    /// Deletes the histories of switches that are gone. Writes the others up to a report, if there was one since the
    /// last call.
    async fn remember(&mut self, sequence: Option<u64>) -> Result<(), StoreError> {
        let now_ms = ms(self.bus.now_unix_ns());
        let states = &self.states;
        let state_of = |switch: &str| states.get(switch).map(|entry| &entry.state);
        for switch in self.histories.forget(state_of, now_ms) {
            histories::delete(self.bus, &switch).await?;
        }
        match sequence {
            Some(sequence) => histories::store(self.bus, &self.histories, sequence).await,
            None => Ok(()),
        }
    }
}

impl Work {
    fn is_poison(&self, partition: u16, sequence: u64) -> bool {
        self.poison.lock().contains(&(partition, sequence))
    }

    fn remember_poison(&self, partition: u16, sequence: u64) {
        let mut poison = self.poison.lock();
        if poison.len() >= POISON_MAX
            && let Some(oldest) = poison.iter().min_by_key(|(_, sequence)| *sequence).copied()
        {
            poison.remove(&oldest);
        }
        poison.insert((partition, sequence));
    }
}

/// Counts an item that was set aside. Logs the first, second, fourth and so on.
fn set_aside(work: &Work, switch: &str, why: &str) {
    let so_far = work.set_aside.fetch_add(1, Ordering::Relaxed) + 1;
    if so_far.is_power_of_two() {
        tracing::warn!("{switch}: {why}; set aside ({so_far} so far at this station)");
    }
}

/// Returns the report in a message if its switch is the one in the subject. Anything else is counted; the first,
/// second, fourth and so on are logged.
fn read<M>(message: &Delivered<M>, work: &Work) -> Option<Report> {
    let why = match (
        report::subject::switch_of(&message.subject),
        Report::read(&message.payload),
    ) {
        (Some(switch), Ok(report)) if is_of(&report, &switch) => return Some(report),
        (Some(switch), Ok(report)) => format!("{switch} sent a report of {:?}", report.switch),
        (None, _) => "no switch has this subject".to_owned(),
        (_, Err(error)) => error.to_string(),
    };
    tracing::debug!("{:?}: {why}", &*message.subject);
    let refused = work
        .refused
        .fetch_add(1, Ordering::Relaxed)
        .saturating_add(1);
    if refused.is_power_of_two() {
        tracing::warn!(
            "{refused} messages on vernier.report.> were refused, the last on {:?}: {why}; VERNIER_LOG=debug shows all",
            &*message.subject
        );
    }
    None
}

/// Returns whether a report is from the switch to which a subject belongs.
fn is_of(report: &Report, switch: &str) -> bool {
    let is_of = report.switch == switch;
    #[cfg(feature = "planted")]
    let is_of = is_of || measure::planted::is(measure::planted::Bug::ForeignReport);
    is_of
}

#[cfg(test)]
mod tests;
