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
pub enum ReadError {
    /// The system would not give it.
    #[error("{file}: cannot be read: {source}")]
    Io {
        /// Its name.
        file: String,
        /// What the system says.
        source: io::Error,
    },
    /// Nothing in it.
    #[error("{file}: empty; the first line must name the columns: {needed}")]
    NoHeader {
        /// Its name.
        file: String,
        /// The columns that it must have.
        needed: String,
    },
    /// A column is not there.
    #[error("{file}, line 1: no column {column}; the first line must name the columns: {needed}")]
    MissingColumn {
        /// Its name.
        file: String,
        /// The column that is missing.
        column: String,
        /// The columns that it must have.
        needed: String,
    },
    /// A column is there twice.
    #[error("{file}, line 1: column {column} is named twice; leave one")]
    ColumnTwice {
        /// Its name.
        file: String,
        /// The column.
        column: String,
    },
    /// A line with too few or too many fields.
    #[error("{file}, line {line}: {found} fields, but the first line names {expected} columns")]
    Fields {
        /// Its name.
        file: String,
        /// Which line, from 1.
        line: u64,
        /// Fields on it.
        found: u64,
        /// Fields of the header.
        expected: u64,
    },
    /// A field that is not what its column holds.
    #[error("{file}, line {line}, column {column}: {found:?} is not {expected}")]
    Field {
        /// Its name.
        file: String,
        /// Which line, from 1.
        line: u64,
        /// Which column.
        column: String,
        /// What stands there, cut to 40 characters.
        found: String,
        /// What may stand there.
        expected: &'static str,
    },
    /// A line that contradicts another one, or another file.
    #[error("{file}, line {line}: {problem}")]
    Contradiction {
        /// Its name.
        file: String,
        /// Which line, from 1.
        line: u64,
        /// What is wrong, and what to do.
        problem: String,
    },
    /// Larger than any of these files has reason to be.
    #[error("{file}, line {line}: more than {limit} {what}; {remedy}")]
    TooMuch {
        /// Its name.
        file: String,
        /// Which line, from 1.
        line: u64,
        /// The most.
        limit: u64,
        /// Of what.
        what: &'static str,
        /// What to do.
        remedy: &'static str,
    },
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

fn is_line_too_long(error: &(dyn std::error::Error + Send + Sync + 'static)) -> bool {
    error.is::<LineTooLong>()
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

/// Place of a column, and its name.
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
            return Err(ReadError::NoHeader {
                file: sheet.file,
                needed: sheet.needed,
            });
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
        let mut places = (0..)
            .zip(&self.header)
            .filter(|(_, header)| *header == name);
        match (places.next(), places.next()) {
            (Some((index, name)), None) => Ok(Some(Column {
                index,
                name: name.clone(),
            })),
            (None, _) => Ok(None),
            (Some(_), Some(_)) => Err(ReadError::ColumnTwice {
                file: self.file.clone(),
                column: name.to_owned(),
            }),
        }
    }

    /// The column called `name`, which must be there.
    pub(super) fn column(&self, name: &str) -> Result<Column, ReadError> {
        self.optional(name)?.ok_or_else(|| self.missing(name))
    }

    /// The error of a file without the column `name`.
    pub(super) fn missing(&self, name: &str) -> ReadError {
        ReadError::MissingColumn {
            file: self.file.clone(),
            column: name.to_owned(),
            needed: self.needed.clone(),
        }
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
            let file = self.file.clone();
            let message = error.to_string();
            match error.into_kind() {
                ErrorKind::UnequalLengths {
                    expected_len, len, ..
                } => ReadError::Fields {
                    file,
                    line: self.line(),
                    found: len,
                    expected: expected_len,
                },
                ErrorKind::Io(source) if source.get_ref().is_some_and(is_line_too_long) => self
                    .too_much(
                        LINE_BYTES_MAX as u64,
                        "bytes on one line",
                        "is it a CSV file?",
                    ),
                ErrorKind::Io(source) => ReadError::Io { file, source },
                _ => ReadError::Io {
                    file,
                    source: io::Error::other(message),
                },
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
    pub(super) fn too_much(
        &self,
        limit: u64,
        what: &'static str,
        remedy: &'static str,
    ) -> ReadError {
        ReadError::TooMuch {
            file: self.file.clone(),
            line: self.line(),
            limit,
            what,
            remedy,
        }
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

    /// What stands in `column`; `None` where nothing does. `expected` says what may.
    pub(super) fn field<T>(
        self,
        column: &Column,
        expected: &'static str,
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

    /// As [`field`](Self::field), where something must stand.
    pub(super) fn needed<T>(
        self,
        column: &Column,
        expected: &'static str,
        parse: impl FnOnce(&str) -> Option<T>,
    ) -> Result<T, ReadError> {
        self.field(column, expected, parse)?
            .ok_or_else(|| self.unexpected(column, expected))
    }

    /// The error of a line that contradicts something else.
    pub(super) fn contradiction(self, problem: impl Into<String>) -> ReadError {
        ReadError::Contradiction {
            file: self.file.to_owned(),
            line: self.number,
            problem: problem.into(),
        }
    }

    fn unexpected(self, column: &Column, expected: &'static str) -> ReadError {
        let found = String::from_utf8_lossy(self.bytes(column));
        ReadError::Field {
            file: self.file.to_owned(),
            line: self.number,
            column: column.name.clone(),
            found: found.chars().take(40).collect(),
            expected,
        }
    }
}
