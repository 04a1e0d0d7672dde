//! What is published of reloads: the last one, how far it got and what it came to.

use contract::change::{Reload, ReloadOutcome};

use super::{Difference, Progress};

/// Keys that are named one by one; of more only the number is given.
const KEYS_MAX: usize = 64;

/// The last reload that somebody asked for.
#[derive(Debug, Default)]
pub(super) struct Record(Option<Reload>);

impl Record {
    /// The last reload; `None` before the first.
    pub fn last(&self) -> Option<Reload> {
        self.0.clone()
    }

    /// Whether more is to come of the last reload.
    pub fn is_open(&self) -> bool {
        self.0.as_ref().is_some_and(|last| is_open(last.outcome))
    }

    /// Takes down what has happened.
    pub fn note(&mut self, progress: &Progress) {
        let number = match &self.0 {
            Some(last) if is_open(last.outcome) => last.number,
            Some(last) => last.number + 1,
            None => 1,
        };
        let (outcome, message) = match progress {
            Progress::Pending | Progress::Offered(_) | Progress::Failed(_) => return,
            Progress::Reading => (ReloadOutcome::Reading, String::new()),
            Progress::Refused(error) => (ReloadOutcome::Refused, format!("{error:#}")),
            Progress::Unchanged => (ReloadOutcome::Unchanged, String::new()),
            Progress::Begun(difference) => (ReloadOutcome::UnderWay, difference.named()),
            Progress::Done => {
                let keys = self.0.take().map(|begun| begun.message);
                (ReloadOutcome::Done, keys.unwrap_or_default())
            }
        };
        self.0 = Some(Reload {
            number,
            outcome,
            message,
        });
    }
}

/// Whether more is to come of it.
fn is_open(outcome: ReloadOutcome) -> bool {
    matches!(outcome, ReloadOutcome::Reading | ReloadOutcome::UnderWay)
}

impl Difference {
    /// The keys, as they are shown.
    pub fn named(&self) -> String {
        let more = self.keys.len().saturating_sub(KEYS_MAX);
        let named = self.keys[..self.keys.len() - more].join(", ");
        match more {
            0 => named,
            more => format!("{named} and {more} more"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn begun(keys: usize) -> Progress {
        Progress::Begun(Difference {
            keys: (0..keys).map(|key| format!("k{key}")).collect(),
            ..Difference::default()
        })
    }

    fn noted(record: &mut Record, progress: &Progress) -> (u64, ReloadOutcome, String) {
        record.note(progress);
        let last = record.last().unwrap();
        (last.number, last.outcome, last.message)
    }

    #[test]
    fn a_reload_keeps_its_number_until_its_end_and_its_keys_after_it() {
        let mut record = Record::default();
        assert_eq!(record.last(), None);
        let steps = [
            (Progress::Reading, 1, ReloadOutcome::Reading, ""),
            (begun(2), 1, ReloadOutcome::UnderWay, "k0, k1"),
            (Progress::Done, 1, ReloadOutcome::Done, "k0, k1"),
            (Progress::Reading, 2, ReloadOutcome::Reading, ""),
            (Progress::Unchanged, 2, ReloadOutcome::Unchanged, ""),
        ];
        for (progress, number, outcome, message) in steps {
            let noted = noted(&mut record, &progress);
            assert_eq!(noted, (number, outcome, message.to_owned()));
        }
    }

    #[test]
    fn one_that_is_refused_before_it_is_read_has_a_number_too() {
        let mut record = Record::default();
        for number in 1..4 {
            let error = anyhow::anyhow!("no such file").context("v.json");
            let refused = noted(&mut record, &Progress::Refused(error));
            let message = "v.json: no such file".to_owned();
            assert_eq!(refused, (number, ReloadOutcome::Refused, message));
        }
    }

    #[test]
    fn many_keys_are_counted() {
        let mut record = Record::default();
        let (.., message) = noted(&mut record, &begun(KEYS_MAX + 3));
        assert!(message.ends_with(", k63 and 3 more"), "{message}");
    }
}
