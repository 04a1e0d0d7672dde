//! Contains panics by part: the owner of a part that panicked resets it, the rest continues.
//!
//! ```text
//!  contain(Part::Wire, || exchange's poll) -- Some(result) --> as usual
//!                                          \- None: counted, logged once a kind; the owner resets
//!                                             what the closure may have left half done
//! ```
//!
//! A panic is a fault of this program. In a release it must cost only the faulty part, and never the
//! forwarding of packets. With debug assertions, as in tests and fuzzing, faults must be found instead:
//! then only injected panics are contained, all others unwind.

use std::any::Any;
use std::cell::{Cell, RefCell};
use std::collections::HashSet;
use std::panic::{
    AssertUnwindSafe, PanicHookInfo, catch_unwind, resume_unwind, set_hook, take_hook,
};
use std::sync::Once;
use std::sync::atomic::{AtomicU64, Ordering};

use contract::labelled_enum;
use metrics::counter;
use parking_lot::Mutex;

const _: () = assert!(
    cfg!(panic = "unwind"),
    "panics can only be contained where they unwind: set no `panic` in the profile"
);

/// The metric that counts contained panics, by `part`.
pub const PANICS_TOTAL: &str = "vernier_contained_panics_total";

/// Most kinds of panics (part and line of code) that are logged; others are only counted.
const KINDS_MAX: usize = 64;

labelled_enum! {
    /// The part in which a panic is contained.
    pub enum Part {
        /// One poll of the control core, for panics not contained by other parts.
        Core = "core",
        /// The data plane's upkeep: links, filtering database, reload.
        Upkeep = "upkeep",
        /// The clock of wires.
        Clock = "clock",
        /// One poll of one wire: sessions, frames, pairing.
        Wire = "wire",
        /// Decoding of a wire's flows in one epoch.
        WireDecode = "wire_decode",
        /// One shard of one worker: assembly of its epoch.
        Epoch = "epoch",
        /// One segment or sketch in one epoch: its estimates.
        Estimate = "estimate",
        /// The directory of flows.
        Flows = "flows",
        /// Decoding of the flows in one epoch, or a sum of epochs.
        Decode = "decode",
        /// One snapshot.
        Publish = "publish",
        /// One HTTP connection.
        Http = "http",
        /// The thread that sends reports.
        Report = "report",
        /// One export of flows by IPFIX.
        Ipfix = "ipfix",
    }
}

/// Panics since the process started, by [`Part::ALL`].
static CONTAINED: [AtomicU64; Part::ALL.len()] = [const { AtomicU64::new(0) }; Part::ALL.len()];

thread_local! {
    /// Depth of nested containments of this thread.
    static DEPTH: Cell<usize> = const { Cell::new(0) };
    /// Location of the current panic.
    static LOCATION: RefCell<Option<String>> = const { RefCell::new(None) };
}

/// Runs `work`; returns `None` if it panicked. Then everything that it could modify may be half changed,
/// and the caller must reset it.
pub fn contain<T>(part: Part, work: impl FnOnce() -> T) -> Option<T> {
    static HOOK: Once = Once::new();
    HOOK.call_once(keep_quiet);
    DEPTH.set(DEPTH.get() + 1);
    let done = catch_unwind(AssertUnwindSafe(|| {
        inject::point(Point::In(part));
        work()
    }));
    DEPTH.set(DEPTH.get() - 1);
    match done {
        Ok(done) => Some(done),
        Err(panic) if is_contained(&*panic) => {
            note(part, &*panic);
            None
        }
        Err(panic) => resume_unwind(panic),
    }
}

/// Counts and logs a panic that was contained elsewhere.
pub fn note(part: Part, panic: &(dyn Any + Send)) {
    let before = CONTAINED[part as usize].fetch_add(1, Ordering::Relaxed);
    counter!(PANICS_TOTAL, "part" => part.label()).absolute(before + 1);
    let location = LOCATION
        .take()
        .unwrap_or_else(|| "an unknown line".to_owned());
    if is_new(part, &location) {
        let message = message(panic);
        tracing::error!(
            part = part.label(),
            "a fault of this program was contained ({location}: {message}); please report it. More \
             of this kind are only counted, by vernier_contained_panics_total"
        );
    }
}

/// Panics contained since the process started, in all parts.
pub fn contained() -> u64 {
    let counts = CONTAINED.iter();
    counts.map(|count| count.load(Ordering::Relaxed)).sum()
}

/// The same by part.
pub fn contained_in(part: Part) -> u64 {
    CONTAINED[part as usize].load(Ordering::Relaxed)
}

/// Keeps panics that will be contained from the default hook, which would print each of them.
fn keep_quiet() {
    let usual = take_hook();
    set_hook(Box::new(move |panic: &PanicHookInfo<'_>| {
        if DEPTH.get() == 0 || !is_contained(panic.payload()) {
            return usual(panic);
        }
        let location = panic.location().map(ToString::to_string);
        LOCATION.set(location);
    }));
}

fn is_contained(panic: &(dyn Any + Send)) -> bool {
    !cfg!(debug_assertions) || inject::is_injected(panic)
}

fn is_new(part: Part, location: &str) -> bool {
    static SEEN: Mutex<Option<HashSet<(Part, String)>>> = Mutex::new(None);
    let mut seen = SEEN.lock();
    let seen = seen.get_or_insert_default();
    seen.len() < KINDS_MAX && seen.insert((part, location.to_owned()))
}

/// The message of a panic.
fn message(panic: &(dyn Any + Send)) -> &str {
    let text = panic.downcast_ref::<String>().map(String::as_str);
    let text = text.or_else(|| panic.downcast_ref::<&str>().copied());
    text.or_else(|| inject::is_injected(panic).then_some("injected"))
        .unwrap_or("no message")
}

/// A point where a panic can be injected.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Point {
    /// At the beginning of a part.
    In(Part),
    /// While pairing an epoch of arriving packets, after taking its shard.
    Pairing,
}

/// Injected panics, which no release has.
#[cfg(debug_assertions)]
pub mod inject {
    use std::any::Any;
    use std::panic::panic_any;
    use std::sync::OnceLock;
    use std::sync::atomic::{AtomicU64, Ordering};

    use super::{Part, Point};

    /// Read once: `wire=3,publish=1` makes the next three polls of wires panic, and one snapshot.
    const VARIABLE: &str = "VERNIER_INJECT_PANICS";

    const POINTS: usize = Part::ALL.len() + 1;

    /// Payload of an injected panic.
    struct Injected;

    static ARMED: OnceLock<[AtomicU64; POINTS]> = OnceLock::new();

    impl Point {
        fn index(self) -> usize {
            match self {
                Self::In(part) => part as usize,
                Self::Pairing => POINTS - 1,
            }
        }

        fn label(self) -> &'static str {
            match self {
                Self::In(part) => part.label(),
                Self::Pairing => "pairing",
            }
        }
    }

    fn armed(point: Point) -> &'static AtomicU64 {
        let armed = ARMED.get_or_init(|| {
            let armed = [const { AtomicU64::new(0) }; POINTS];
            let wanted = std::env::var(VARIABLE).unwrap_or_default();
            let parts = Part::ALL.map(Point::In).into_iter();
            for point in parts.chain([Point::Pairing]) {
                let mut each = wanted.split(',').filter_map(|one| one.split_once('='));
                let times = each.find(|(label, _)| *label == point.label());
                let times = times.and_then(|(_, times)| times.parse().ok());
                armed[point.index()].store(times.unwrap_or(0), Ordering::Relaxed);
            }
            armed
        });
        &armed[point.index()]
    }

    /// Makes the next `times` passes of a point panic.
    pub fn arm(point: Point, times: u64) {
        armed(point).store(times, Ordering::Relaxed);
    }

    /// Panics if that is armed.
    pub(crate) fn point(point: Point) {
        let less = |times: u64| times.checked_sub(1);
        let armed = armed(point).fetch_update(Ordering::Relaxed, Ordering::Relaxed, less);
        if armed.is_ok() {
            panic();
        }
    }

    /// A contained panic.
    #[expect(clippy::panic, reason = "that is what it is for")]
    pub fn panic() -> ! {
        panic_any(Injected)
    }

    pub(super) fn is_injected(panic: &(dyn Any + Send)) -> bool {
        panic.is::<Injected>()
    }
}

#[cfg(not(debug_assertions))]
pub(crate) mod inject {
    pub(crate) fn point(_: super::Point) {}

    pub(super) fn is_injected(_: &(dyn std::any::Any + Send)) -> bool {
        false
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_panic_costs_its_part_and_is_counted() {
        assert_eq!(contain(Part::Estimate, || 1), Some(1));
        assert_eq!(contained_in(Part::Estimate), 0);
        inject::arm(Point::In(Part::Estimate), 2);
        for n in 1..=2 {
            assert_eq!(contain(Part::Estimate, || 1), None);
            assert_eq!(contained_in(Part::Estimate), n);
        }
        assert_eq!(contain(Part::Estimate, || 1), Some(1));
    }

    #[test]
    fn with_debug_assertions_a_fault_that_was_not_injected_is_found() {
        let fault = || contain(Part::Upkeep, || panic!("a fault"));
        let found = catch_unwind(fault).unwrap_err();
        assert_eq!(message(&*found), "a fault");
        assert_eq!(contained_in(Part::Upkeep), 0);
    }

    #[test]
    fn a_message_is_found_whatever_carries_it() {
        assert_eq!(message(&"fixed"), "fixed");
        assert_eq!(message(&"made".to_owned()), "made");
        assert_eq!(message(&1), "no message");
    }

    #[test]
    fn kinds_are_logged_once_each() {
        assert!(is_new(Part::Http, "a.rs:1:1"));
        assert!(is_new(Part::Http, "a.rs:2:1"));
        assert!(!is_new(Part::Http, "a.rs:1:1"));
    }
}
