use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::mpsc;

use anyhow::bail;
use contract::change::ReloadOutcome;
use contract::config::{Config, WireKeys};
use contract::ids::GenerationId;
use measure::time::TickRate;

use super::READING_MAX;
use super::*;

/// A target of numbers: it holds one, and another one can be taken up.
#[derive(Default)]
struct Number {
    held: u32,
    needs_another: bool,
    is_in_use: bool,
}

/// A number that no generation can be made by, and one at which that panics.
const REFUSED: u32 = 7;
const PANICS: u32 = 13;

impl Target for Number {
    type Draft = u32;
    type Generation = u32;

    fn needs_generation(&self) -> bool {
        self.needs_another
    }

    fn prepare(&mut self, draft: Option<u32>) -> Result<Option<Preparing<u32>>> {
        let number = draft.unwrap_or(self.held);
        assert_ne!(number, PANICS);
        if number == REFUSED {
            bail!("{number} means nothing");
        }
        if draft == Some(self.held) {
            return Ok(None);
        }
        let config = Config::demo()?;
        let layout = config.shard_layout(TickRate::from_hz(1_000_000_000))?;
        let change = Change {
            number: GenerationId(number),
            from: Epoch(0),
            config,
            layout,
            ends: Vec::new(),
            wires: Vec::new(),
            keys: WireKeys::default(),
        };
        Ok(Some(Job::done(Ok((change, number)))))
    }

    fn apply(&mut self, generation: u32, from: Epoch) -> Difference {
        assert_eq!(from, Epoch(7));
        self.held = generation;
        self.needs_another = false;
        self.is_in_use = true;
        Difference {
            keys: vec!["number".to_owned()],
            ..Difference::default()
        }
    }

    fn release(&mut self, _: Epoch) -> bool {
        !self.is_in_use
    }
}

/// A target, its reloads, and a control core.
struct Bench {
    target: Number,
    reloads: Reconfigurer<Number>,
    is_busy: bool,
    now: Instant,
}

impl Bench {
    fn new() -> Self {
        Self {
            target: Number::default(),
            reloads: Reconfigurer::default(),
            is_busy: false,
            now: Instant::now(),
        }
    }

    fn begin(&mut self, number: u32) {
        assert!(self.reloads.is_idle());
        self.reloads.begin_with(Ok(Some(number)), self.now);
    }

    fn step(&mut self) -> Progress {
        let core = CoreStatus {
            epoch: Epoch(5),
            generation: GenerationId(0),
            is_busy: self.is_busy,
            stalled_workers: 0,
        };
        self.reloads.step(&mut self.target, core, self.now)
    }

    /// The number of the next generation, which is offered now.
    fn offered(&mut self) -> u32 {
        match self.step() {
            Progress::Offered(change) => change.number.0,
            progress => panic!("{progress:?}"),
        }
    }

    fn outcome(&self) -> (u64, ReloadOutcome, String) {
        let last = self.reloads.last().unwrap();
        (last.number, last.outcome, last.message)
    }
}

#[test]
fn a_reload_is_offered_applied_and_done_when_nothing_of_the_old_is_in_use() {
    let mut bench = Bench::new();
    bench.begin(2);
    assert_eq!(bench.outcome().1, ReloadOutcome::Reading);
    bench.is_busy = true;
    assert!(
        matches!(bench.step(), Progress::Pending),
        "the core is busy"
    );
    bench.is_busy = false;
    assert_eq!(bench.offered(), 2);
    assert_eq!(bench.target.held, 0, "nobody has it before the core");
    bench.reloads.answer(Ok(()), &mut bench.target);
    assert_eq!(bench.target.held, 2);
    assert!(matches!(bench.step(), Progress::Pending));
    let under_way = (1, ReloadOutcome::UnderWay, "number".to_owned());
    assert_eq!(bench.outcome(), under_way);
    bench.target.is_in_use = false;
    assert!(matches!(bench.step(), Progress::Done));
    bench.begin(2);
    assert!(matches!(bench.step(), Progress::Unchanged));
    assert_eq!(bench.outcome().0, 2);
}

#[test]
fn what_is_refused_changes_nothing() {
    let mut bench = Bench::new();
    let mut refused = |number, answer: Option<ChangeError>, message: &str| {
        bench.begin(number);
        if let Some(answer) = answer {
            bench.offered();
            bench.reloads.answer(Err(answer), &mut bench.target);
        } else {
            bench.step();
        }
        let (_, outcome, said) = bench.outcome();
        assert_eq!(outcome, ReloadOutcome::Refused);
        assert!(said.contains(message), "{said}");
        assert_eq!(bench.target.held, 0);
        assert!(matches!(bench.step(), Progress::Pending));
    };
    refused(REFUSED, None, "7 means nothing");
    let number = GenerationId(1);
    refused(2, Some(ChangeError::Busy { number }), "generation 1");
    refused(2, Some(ChangeError::Fault), "fault of this program");
}

#[test]
fn a_reload_that_panics_is_refused() {
    let mut bench = Bench::new();
    bench.begin(PANICS);
    let panicked = catch_unwind(AssertUnwindSafe(|| bench.step()));
    assert!(panicked.is_err());
    assert!(!bench.reloads.is_idle());
    bench.step();
    let (number, outcome, message) = bench.outcome();
    assert_eq!((number, outcome), (1, ReloadOutcome::Refused));
    assert!(message.contains("fault of this program"), "{message}");
    // And the next is not.
    bench.begin(2);
    assert_eq!(bench.offered(), 2);
}

#[test]
fn what_the_target_needs_is_no_reload() {
    let mut bench = Bench::new();
    bench.target.needs_another = true;
    bench.offered();
    let busy = ChangeError::Busy {
        number: GenerationId(1),
    };
    let answered = bench.reloads.answer(Err(busy), &mut bench.target);
    assert!(matches!(answered, Progress::Pending), "it is offered again");
    bench.offered();
    let fault = Err(ChangeError::Fault);
    let answered = bench.reloads.answer(fault, &mut bench.target);
    assert!(matches!(answered, Progress::Failed(_)));
    bench.offered();
    let answered = bench.reloads.answer(Ok(()), &mut bench.target);
    assert!(matches!(answered, Progress::Pending));
    assert_eq!(bench.reloads.last(), None);
    // A reload is read meanwhile.
    bench.begin(2);
    assert!(matches!(bench.step(), Progress::Pending));
    bench.target.is_in_use = false;
    assert!(matches!(bench.step(), Progress::Pending));
    assert_eq!(bench.offered(), 2);
}

#[test]
fn a_file_that_hangs_holds_up_nobody() {
    let mut bench = Bench::new();
    let (release, released) = mpsc::channel::<()>();
    let hangs = move || {
        let _ = released.recv();
        Ok(Some(2))
    };
    bench.reloads.begin(Ok(hangs), bench.now);
    // It is never released: a step that waited for it would never return.
    assert!(matches!(bench.step(), Progress::Pending));
    bench.target.needs_another = true;
    assert_eq!(bench.offered(), 0);
    bench.reloads.answer(Ok(()), &mut bench.target);
    bench.target.is_in_use = false;
    bench.step();
    bench.now += READING_MAX;
    bench.step();
    assert_eq!(bench.outcome().1, ReloadOutcome::Refused);
    // The first is abandoned, and the second does not begin while it runs.
    bench.reloads.begin(Ok(|| Ok(Some(3))), bench.now);
    let (number, outcome, message) = bench.outcome();
    assert_eq!((number, outcome), (2, ReloadOutcome::Refused));
    assert!(message.contains("file system"), "{message}");
    drop(release);
    // Once its thread has ended, another one reads.
    while bench.reloads.is_idle() {
        bench.reloads.begin(Ok(|| Ok(Some(3))), bench.now);
        std::thread::yield_now();
    }
    loop {
        match bench.step() {
            Progress::Offered(change) => break assert_eq!(change.number.0, 3),
            _ => std::thread::yield_now(),
        }
    }
}

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

/// Waits for what was read.
fn taken<T: Send + 'static>(reader: &mut Reader<T>, now: Instant) -> Result<T> {
    std::iter::from_fn(|| Some(reader.take(now)))
        .flatten()
        .next()
        .unwrap()
}

#[test]
fn what_hangs_is_given_up_and_what_panics_has_ended() {
    let now = Instant::now();
    let mut reader = Reader::new();
    assert!(reader.take(now).is_none());
    let (release, released) = mpsc::channel();
    reader.begin(move || Ok(released.recv()?), now).unwrap();
    assert!(reader.take(now).is_none());
    release.send(7).unwrap();
    assert_eq!(taken(&mut reader, now).unwrap(), 7);

    let (release, released) = mpsc::channel::<()>();
    let hangs = move || {
        let _ = released.recv();
        Ok(8)
    };
    reader.begin(hangs, now).unwrap();
    let late = now + READING_MAX;
    let error = reader.take(late).unwrap().unwrap_err().to_string();
    assert!(error.contains("60 s"), "{error}");
    assert!(reader.take(late).is_none());
    // One thread at a time hangs.
    assert!(reader.begin(|| Ok(9), late).is_err());
    drop(release);
    while reader.begin(|| Ok(9), late).is_err() {
        std::thread::yield_now();
    }
    assert_eq!(taken(&mut reader, late).unwrap(), 9);

    reader.begin(|| panic!("as it is meant to"), late).unwrap();
    assert!(taken(&mut reader, late).is_err());
}
