//! Formats numbers for people: three significant digits and a unit.

/// Formats an amount in the largest unit that gives at least `least`, or else in the last unit.
fn scaled(x: f64, units: &[(f64, &str)], least: f64) -> String {
    let is_reached = |(size, _): &&(f64, &str)| x.abs() >= least * size;
    let unit = units.iter().find(is_reached).or(units.last());
    let (size, name) = unit.copied().unwrap_or((1.0, ""));
    format!("{}{name}", three_digits(x / size))
}

/// An amount that would round up to a thousand uses the next unit.
const ROUNDED_UP: f64 = 0.9995;

/// `12.3 us`; negative values keep their sign.
pub fn duration_ns(ns: f64) -> String {
    const UNITS: [(f64, &str); 4] = [(1e9, " s"), (1e6, " ms"), (1e3, " us"), (1.0, " ns")];
    scaled(ns, &UNITS, ROUNDED_UP)
}

/// `4.12 M`, to be followed by the counted thing; whole numbers under a thousand.
pub fn count(n: u64) -> String {
    if n < 1_000 {
        n.to_string()
    } else {
        rate(n as f64)
    }
}

/// `4.12 M`, to be followed by the counted thing.
pub fn rate(n: f64) -> String {
    const UNITS: [(f64, &str); 5] = [
        (1e12, " T"),
        (1e9, " G"),
        (1e6, " M"),
        (1e3, " k"),
        (1.0, ""),
    ];
    scaled(n, &UNITS, ROUNDED_UP)
}

/// `1 row`, `2 rows`.
pub fn counted(n: usize, what: &str) -> String {
    format!("{n} {what}{}", if n == 1 { "" } else { "s" })
}

/// `36.5 KiB`.
pub fn bytes(n: u64) -> String {
    const UNITS: [(f64, &str); 4] = [
        (1_073_741_824.0, " GiB"),
        (1_048_576.0, " MiB"),
        (1024.0, " KiB"),
        (1.0, " B"),
    ];
    scaled(n as f64, &UNITS, 1.0)
}

/// `1h02m03s`, without leading zeros.
pub fn uptime(seconds: f64) -> String {
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "casts saturate"
    )]
    let whole = seconds as u64;
    let (hours, minutes, seconds) = (whole / 3600, whole / 60 % 60, whole % 60);
    match (hours, minutes) {
        (0, 0) => format!("{seconds}s"),
        (0, _) => format!("{minutes}m{seconds:02}s"),
        _ => format!("{hours}h{minutes:02}m{seconds:02}s"),
    }
}

/// `53.9 years`: a long time, in the largest unit that gives at least two.
pub fn span(ns: u64) -> String {
    const UNITS: [(f64, &str); 5] = [
        (31_557_600.0, " years"),
        (86_400.0, " days"),
        (3_600.0, " hours"),
        (60.0, " minutes"),
        (1.0, " seconds"),
    ];
    scaled(ns as f64 / 1e9, &UNITS, 2.0)
}

fn three_digits(x: f64) -> String {
    let decimals = match x.abs() {
        x if x < 9.995 => 2,
        x if x < 99.95 => 1,
        _ => 0,
    };
    let text = format!("{x:.decimals$}");
    if x == 0.0 { "0".to_owned() } else { text }
}

#[cfg(test)]
mod tests;
