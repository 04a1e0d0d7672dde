//! A CSV file with a header, read line by line within bounds.

use std::io::{self, BufRead, BufReader, Read};

use csv::{ByteRecord, ErrorKind, ReaderBuilder, Trim};

/// Most bytes of a line.
pub const LINE_BYTES_MAX: usize = 1 << 16;
/// Most columns.
pub const COLUMNS_MAX: usize = 256;
/// Most lines after the header.
pub const LINES_MAX: u64 = 1 << 24;

/// A CSV file that cannot be used: which, where, why, and what to do.
#[derive(Debug, thiserror::Error)]
#[error("{at}: {problem}")]
pub struct ReadError {
    /// The file's name, and where in it.
    at: String,
    problem: String,
}

impl ReadError {
    fn new(at: impl Into<String>, problem: impl Into<String>) -> Self {
        Self {
            at: at.into(),
            problem: problem.into(),
        }
    }
}

/// Gives one line at a time, so that lines can be counted, and no more of it than is allowed, so
/// that none takes unbounded memory.
struct Bounded<R> {
    input: BufReader<R>,
    left: usize,
    /// Ends of lines given so far.
    ends: u64,
    /// The last byte given was not the end of a line.
    within: bool,
}

/// What [`Bounded`] fails with: distinguished from the system's own errors by its type.
#[derive(Debug, thiserror::Error)]
#[error("line too long")]
struct LineTooLong;

fn is_too_long(error: &io::Error) -> bool {
    matches!(error.get_ref(), Some(error) if error.is::<LineTooLong>())
}

impl<R: Read> Read for Bounded<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if self.left == 0 {
            return Err(io::Error::other(LineTooLong));
        }
        let ready = self.input.fill_buf()?;
        let line = ready.iter().position(|&byte| byte == b'\n');
        let read = line.map_or(ready.len(), |end| end + 1);
        let read = read.min(buffer.len()).min(self.left);
        let (Some(from), Some(to)) = (ready.get(..read), buffer.get_mut(..read)) else {
            return Ok(0);
        };
        to.copy_from_slice(from);
        if let Some(&last) = from.last() {
            self.within = last != b'\n';
            self.ends += u64::from(!self.within);
        }
        self.input.consume(read);
        self.left -= read;
        Ok(read)
    }
}

/// Index of a column, and its name.
#[derive(Debug, Clone)]
pub(super) struct Column {
    index: usize,
    name: String,
}

/// A file under way.
pub(super) struct Sheet<R> {
    file: String,
    reader: csv::Reader<Bounded<R>>,
    header: Vec<String>,
    needed: String,
    record: ByteRecord,
    lines: u64,
}

impl<R: Read> Sheet<R> {
    /// Reads the header of `input`; `file` names it in errors, `needed` lists its columns there.
    pub(super) fn open(file: &str, input: R, needed: &str) -> Result<Self, ReadError> {
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
            needed: needed.to_owned(),
            record: ByteRecord::new(),
            lines: 0,
        };
        if !sheet.read()? {
            let problem = format!("empty; {}", sheet.needs());
            return Err(ReadError::new(file, problem));
        }
        if sheet.record.len() > COLUMNS_MAX {
            return Err(sheet.too_much(
                COLUMNS_MAX as u64,
                "columns",
                "leave those that are needed",
            ));
        }
        sheet.header = sheet
            .record
            .iter()
            .map(|name| String::from_utf8_lossy(name).into_owned())
            .collect();
        Ok(sheet)
    }

    /// The column called `name`, where there is one.
    pub(super) fn optional(&self, name: &str) -> Result<Option<Column>, ReadError> {
        let named = self.header.iter().enumerate();
        let mut named = named.filter(|(_, header)| *header == name);
        match (named.next(), named.next()) {
            (Some((index, name)), None) => Ok(Some(Column {
                index,
                name: name.clone(),
            })),
            (None, _) => Ok(None),
            (Some(_), Some(_)) => {
                let problem = format!("column {name} is named twice; leave one");
                Err(ReadError::new(self.at(1), problem))
            }
        }
    }

    /// The column called `name`, which must be there.
    pub(super) fn column(&self, name: &str) -> Result<Column, ReadError> {
        self.optional(name)?.ok_or_else(|| self.missing(name))
    }

    /// The error of a file without the column `name`.
    pub(super) fn missing(&self, name: &str) -> ReadError {
        let problem = format!("no column {name}; {}", self.needs());
        ReadError::new(self.at(1), problem)
    }

    fn needs(&self) -> String {
        format!("the first line must name the columns: {}", self.needed)
    }

    fn at(&self, line: u64) -> String {
        format!("{}, line {line}", self.file)
    }

    /// The next line; `None` at the end.
    pub(super) fn next_line(&mut self) -> Result<Option<Line<'_>>, ReadError> {
        if !self.read()? {
            return Ok(None);
        }
        self.lines += 1;
        if self.lines > LINES_MAX {
            return Err(self.too_much(LINES_MAX, "lines", "split the file"));
        }
        Ok(Some(Line {
            file: &self.file,
            number: self.line(),
            record: &self.record,
        }))
    }

    fn read(&mut self) -> Result<bool, ReadError> {
        self.reader.get_mut().left = LINE_BYTES_MAX;
        let read = self.reader.read_byte_record(&mut self.record);
        read.map_err(|error| {
            let message = error.to_string();
            let unreadable = |why| ReadError::new(&self.file, format!("cannot be read: {why}"));
            match error.into_kind() {
                ErrorKind::UnequalLengths {
                    expected_len, len, ..
                } => {
                    let problem =
                        format!("{len} fields, but the first line names {expected_len} columns");
                    ReadError::new(self.at(self.line()), problem)
                }
                ErrorKind::Io(source) if is_too_long(&source) => {
                    let limit = LINE_BYTES_MAX as u64;
                    self.too_much(limit, "bytes on one line", "is it a CSV file?")
                }
                ErrorKind::Io(source) => unreadable(source.to_string()),
                _ => unreadable(message),
            }
        })
    }

    /// Which line the record begins on, from 1: where reading is, less the line ends in its fields.
    fn line(&self) -> u64 {
        let &Bounded { ends, within, .. } = self.reader.get_ref();
        let inside = self.record.as_slice().iter().filter(|&&byte| byte == b'\n');
        (ends + u64::from(within)).saturating_sub(inside.count() as u64)
    }

    /// The error of a file that has more than `limit` of something.
    pub(super) fn too_much(&self, limit: u64, what: &str, remedy: &str) -> ReadError {
        let problem = format!("more than {limit} {what}; {remedy}");
        ReadError::new(self.at(self.line()), problem)
    }
}

/// One line of a [`Sheet`].
#[derive(Clone, Copy)]
pub(super) struct Line<'a> {
    file: &'a str,
    number: u64,
    record: &'a ByteRecord,
}

impl<'a> Line<'a> {
    /// Which line, from 1.
    pub(super) fn number(self) -> u64 {
        self.number
    }

    /// The bytes in `column`, without blanks around them.
    pub(super) fn bytes(self, column: &Column) -> &'a [u8] {
        self.record.get(column.index).unwrap_or_default()
    }

    /// What is in `column`; `None` where nothing is. `expected` says what may be.
    pub(super) fn field<T>(
        self,
        column: &Column,
        expected: &str,
        parse: impl FnOnce(&str) -> Option<T>,
    ) -> Result<Option<T>, ReadError> {
        let bytes = self.bytes(column);
        if bytes.is_empty() {
            return Ok(None);
        }
        str::from_utf8(bytes)
            .ok()
            .and_then(parse)
            .map(Some)
            .ok_or_else(|| self.unexpected(column, expected))
    }

    /// As [`field`](Self::field), where something must be.
    pub(super) fn needed<T>(
        self,
        column: &Column,
        expected: &str,
        parse: impl FnOnce(&str) -> Option<T>,
    ) -> Result<T, ReadError> {
        self.field(column, expected, parse)?
            .ok_or_else(|| self.unexpected(column, expected))
    }

    /// The error of a line that contradicts another one, or another file.
    pub(super) fn contradiction(self, problem: impl Into<String>) -> ReadError {
        ReadError::new(format!("{}, line {}", self.file, self.number), problem)
    }

    fn unexpected(self, column: &Column, expected: &str) -> ReadError {
        let found = String::from_utf8_lossy(self.bytes(column));
        let found: String = found.chars().take(40).collect();
        let Column { name, .. } = column;
        ReadError::new(
            format!("{}, line {}, column {name}", self.file, self.number),
            format!("{found:?} is not {expected}"),
        )
    }
}
