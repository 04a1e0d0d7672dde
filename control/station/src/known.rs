//! What is known of a segment now, by its switch's state.

use locate::{BOUND_ERRORS, Finding, Mean, Rise, Step};

use crate::found::ms;
use crate::state::{Known, State};
use crate::summary::is_silent;

/// What is known of a segment now; before localisation has seen it only its last report.
pub fn finding(state: &State, known: &Known, now_unix_ns: u64) -> Finding {
    let last = &known.last;
    let silent_since_ms = is_silent(state, now_unix_ns).then(|| ms(state.end_unix_ns));
    let finding = Finding {
        // Of the last delays, not of the last report: that is what the age says. By the server's clock, as `now_unix_ns` is.
        time_ms: ms(now_unix_ns.saturating_sub(state.age_ns(known.end_unix_ns, now_unix_ns))),
        deviation_ns: last.stddev_ns.map(f64::from),
        p99_ns: last.quantiles.map(|quantiles| quantiles.p99_ns.into()),
        silent_since_ms,
        ..Finding::default()
    };
    let Some(found) = known.found.as_ref() else {
        let reported = Mean {
            value: last.mean_ns.into(),
            error: f64::from(last.bound_ns.unwrap_or_default()) / BOUND_ERRORS,
        };
        return Finding {
            present_ns: (last.samples > 0).then_some(reported),
            ..finding
        };
    };
    let mean = |value: Option<f32>, error: f32| {
        value.map(|value| Mean {
            value: value.into(),
            error: error.into(),
        })
    };
    Finding {
        present_ns: mean(found.present_ns, found.present_error_ns),
        present_loss: mean(found.present_loss, found.present_loss_error),
        usual_ns: found.usual_ns.map(f64::from),
        usual_loss: found.usual_loss.into(),
        is_ready: found.is_ready,
        delay: found.delay.map(Rise::from),
        loss: found.loss.map(Rise::from),
        unsynchronised_since_ms: found.unsynchronised_since_ms,
        step: found.step_since_ms.map(|since_ms| Step {
            shift_ns: found.step_shift_ns.into(),
            since_ms,
        }),
        ..finding
    }
}
