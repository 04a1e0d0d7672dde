//! A CSV file with a header, read line by line within limits, and its numbers.

use std::borrow::Cow;
use std::io::{self, BufRead, BufReader, Read};

use csv::{ByteRecord, ErrorKind, ReaderBuilder, Trim};

/// Longest line in bytes.
pub const LINE_BYTES_MAX: usize = 1 << 16;
/// Most columns.
const COLUMNS_MAX: usize = 256;
/// Largest number of lines after the header.
const LINES_MAX: u64 = 1 << 24;

/// An error in a CSV file: its place, the reason, and what to do.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub struct ReadError(String);

/// Returns one line at a time, so that lines can be counted, up to a maximum length, so that memory is bounded.
struct Bounded<R> {
    input: BufReader<R>,
    left: usize,
    /// Ends of lines given so far.
    ends: u64,
    /// The last byte given was not the end of a line.
    within: bool,
}

impl<R: Read> Read for Bounded<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if self.left == 0 {
            return Err(io::ErrorKind::FileTooLarge.into());
        }
        let ready = self.input.fill_buf()?;
        let line = ready.iter().position(|&byte| byte == b'\n');
        let read = line.map_or(ready.len(), |end| end + 1);
        let read = read.min(buffer.len()).min(self.left);
        buffer[..read].copy_from_slice(&ready[..read]);
        if let Some(&last) = ready[..read].last() {
            self.within = last != b'\n';
            self.ends += u64::from(!self.within);
        }
        self.input.consume(read);
        self.left -= read;
        Ok(read)
    }
}

/// A file being read, and its current line.
pub(super) struct Sheet<R> {
    file: String,
    reader: csv::Reader<Bounded<R>>,
    header: Vec<String>,
    needed: &'static str,
    record: ByteRecord,
    lines: u64,
}

impl<R: Read> Sheet<R> {
    /// Reads the header of `input`; `file` names it in errors, `needed` lists its columns there.
    pub(super) fn open(file: &str, input: R, needed: &'static str) -> Result<Self, ReadError> {
        let reader = ReaderBuilder::new()
            .has_headers(false)
            .trim(Trim::All)
            .from_reader(Bounded {
                input: BufReader::new(input),
                left: 0,
                ends: 0,
                within: false,
            });
        let mut sheet = Self {
            file: file.to_owned(),
            reader,
            header: Vec::new(),
            needed,
            record: ByteRecord::new(),
            lines: 0,
        };
        if !sheet.read()? {
            return Err(ReadError(format!("{file}: empty; {}", sheet.needs())));
        }
        if sheet.record.len() > COLUMNS_MAX {
            let remedy = "leave those that are needed";
            return Err(sheet.too_much(COLUMNS_MAX as u64, "columns", remedy));
        }
        let names = sheet.record.iter().map(String::from_utf8_lossy);
        sheet.header = names.map(Cow::into_owned).collect();
        Ok(sheet)
    }

    /// The column `name`, if there is one.
    pub(super) fn optional(&self, name: &str) -> Result<Option<usize>, ReadError> {
        let named = self.header.iter().enumerate();
        let mut named = named.filter(|(_, header)| *header == name);
        match (named.next(), named.next()) {
            (found, None) => Ok(found.map(|(index, _)| index)),
            _ => Err(self.error_at(1, &format!("column {name} occurs twice; leave one"))),
        }
    }

    /// Columns that must be there, by name.
    pub(super) fn columns<const N: usize>(
        &self,
        names: [&str; N],
    ) -> Result<[usize; N], ReadError> {
        let mut columns = [0; N];
        for (column, name) in columns.iter_mut().zip(names) {
            *column = self.optional(name)?.ok_or_else(|| self.missing(name))?;
        }
        Ok(columns)
    }

    /// The error of a file without the column `name`.
    pub(super) fn missing(&self, name: &str) -> ReadError {
        self.error_at(1, &format!("no column {name}; {}", self.needs()))
    }

    fn needs(&self) -> String {
        format!("the first line must name the columns: {}", self.needed)
    }

    fn error_at(&self, line: u64, problem: &str) -> ReadError {
        ReadError(format!("{}, line {line}: {problem}", self.file))
    }

    /// Goes to the next line; false at the end.
    pub(super) fn next_line(&mut self) -> Result<bool, ReadError> {
        if !self.read()? {
            return Ok(false);
        }
        self.lines += 1;
        if self.lines > LINES_MAX {
            return Err(self.too_much(LINES_MAX, "lines", "split the file"));
        }
        Ok(true)
    }

    fn read(&mut self) -> Result<bool, ReadError> {
        self.reader.get_mut().left = LINE_BYTES_MAX;
        let read = self.reader.read_byte_record(&mut self.record);
        read.map_err(|error| {
            let message = error.to_string();
            let unreadable = |why| ReadError(format!("{}: cannot be read: {why}", self.file));
            match error.into_kind() {
                ErrorKind::UnequalLengths { len, .. } => self.error(format!(
                    "{len} fields, but the first line names {} columns",
                    self.header.len()
                )),
                ErrorKind::Io(source) if source.kind() == io::ErrorKind::FileTooLarge => {
                    let limit = LINE_BYTES_MAX as u64;
                    self.too_much(limit, "bytes on one line", "is it a CSV file?")
                }
                ErrorKind::Io(source) => unreadable(source.to_string()),
                _ => unreadable(message),
            }
        })
    }

    /// Which line the record begins on, from 1: where reading is, less the line ends in its fields.
    pub(super) fn number(&self) -> u64 {
        let &Bounded { ends, within, .. } = self.reader.get_ref();
        let inside = self.record.as_slice().iter().filter(|&&byte| byte == b'\n');
        (ends + u64::from(within)).saturating_sub(inside.count() as u64)
    }

    /// The error of a file that has more than `limit` of something.
    pub(super) fn too_much(&self, limit: u64, what: &str, remedy: &str) -> ReadError {
        self.error(format!("more than {limit} {what}; {remedy}"))
    }

    /// An error of the present line.
    pub(super) fn error(&self, problem: impl AsRef<str>) -> ReadError {
        self.error_at(self.number(), problem.as_ref())
    }

    /// The bytes in `column`, without blanks around them.
    pub(super) fn bytes(&self, column: usize) -> &[u8] {
        self.record.get(column).unwrap_or_default()
    }

    /// The value in `column`; `None` if it is empty. `expected` describes valid values.
    pub(super) fn field<T>(
        &self,
        column: usize,
        expected: &str,
        parse: impl FnOnce(&str) -> Option<T>,
    ) -> Result<Option<T>, ReadError> {
        if self.bytes(column).is_empty() {
            return Ok(None);
        }
        self.needed(column, expected, parse).map(Some)
    }

    /// As [`field`](Self::field), for a required value.
    pub(super) fn needed<T>(
        &self,
        column: usize,
        expected: &str,
        parse: impl FnOnce(&str) -> Option<T>,
    ) -> Result<T, ReadError> {
        let bytes = self.bytes(column);
        let text = str::from_utf8(bytes).ok().filter(|text| !text.is_empty());
        text.and_then(parse).ok_or_else(|| {
            let found = String::from_utf8_lossy(bytes);
            let found: String = found.chars().take(40).collect();
            let (file, line, name) = (&self.file, self.number(), &self.header[column]);
            ReadError(format!(
                "{file}, line {line}, column {name}: {found:?} is not {expected}"
            ))
        })
    }
}

/// Largest number of digits of a decimal, so that it fits into 128 bits.
const DIGITS_MAX: usize = 38;

/// A decimal as most programs write it (`-12`, `3.50`, `1.7e+18`), times 10^`shift` and rounded to the nearest integer; and
/// whether that is exact.
fn scaled(text: &str, shift: i32) -> Option<(i128, bool)> {
    let (mantissa, exponent) = match text.split_once(['e', 'E']) {
        Some((mantissa, exponent)) => (mantissa, exponent.parse::<i32>().ok()?),
        None => (text, 0),
    };
    let (sign, mantissa) = match mantissa.strip_prefix('-') {
        Some(rest) => (-1, rest),
        None => (1, mantissa.strip_prefix('+').unwrap_or(mantissa)),
    };
    let (whole, fraction) = mantissa.split_once('.').unwrap_or((mantissa, ""));
    let digits = [whole, fraction].concat();
    let is_decimal = digits.bytes().all(|byte| byte.is_ascii_digit());
    if !is_decimal || digits.len() > DIGITS_MAX || !(-1_000..=1_000).contains(&exponent) {
        return None;
    }
    let digits: u128 = digits.parse().ok()?;
    let zeros = exponent + shift - i32::try_from(fraction.len()).ok()?;
    let power = 10_u128.checked_pow(zeros.unsigned_abs());
    let (magnitude, exact) = match power {
        _ if digits == 0 => (0, true),
        _ if zeros >= 0 => (digits.checked_mul(power?)?, true),
        Some(divisor) => {
            let (quotient, rest) = (digits / divisor, digits % divisor);
            (quotient + u128::from(rest >= divisor - rest), rest == 0)
        }
        None => (0, false),
    };
    Some((sign * i128::try_from(magnitude).ok()?, exact))
}

/// A whole number, also written as `7.0` or `1e6`.
pub(crate) fn whole(text: &str) -> Option<u64> {
    let (value, exact) = scaled(text, 0)?;
    exact.then(|| u64::try_from(value).ok()).flatten()
}

/// A whole number up to a maximum.
pub(super) fn whole_to(most: u32) -> impl FnOnce(&str) -> Option<u32> {
    move |text| {
        let value = whole(text).and_then(|value| u32::try_from(value).ok());
        value.filter(|&value| value <= most)
    }
}

/// A sum of nanoseconds modulo 2^64, rounded to whole ones; negative ones as two's complement.
pub(super) fn wrapping_sum(text: &str) -> Option<u64> {
    let (value, _) = scaled(text, 0)?;
    let negative = || i64::try_from(value).ok().map(i64::cast_unsigned);
    u64::try_from(value).ok().or_else(negative)
}

/// Any 64 bits: a decimal, or hexadecimal behind `0x`.
pub(super) fn bits(text: &str) -> Option<u64> {
    match text.strip_prefix("0x").or_else(|| text.strip_prefix("0X")) {
        // `from_str_radix` would also accept a sign.
        Some(digits) if !digits.starts_with(['+', '-']) => u64::from_str_radix(digits, 16).ok(),
        Some(_) => None,
        None => whole(text),
    }
}

/// A finite number.
pub(super) fn finite(text: &str) -> Option<f64> {
    text.parse::<f64>().ok().filter(|value| value.is_finite())
}

/// A point of time in picoseconds since any origin: nanoseconds with up to three decimals (the rest is rounded), -2^63 to
/// 2^63 - 1.
pub(super) fn time_ps(text: &str) -> Option<i128> {
    let (ps, _) = scaled(text, 3)?;
    i64::try_from(ps.div_euclid(1_000)).is_ok().then_some(ps)
}
