//! Files named on the command line; `-` is standard input or output.

use std::fs::File;
use std::io::{self, Read, Write};
use std::path::Path;

use anyhow::{Context, Result};

const STANDARD: &str = "-";

/// Opens a file for reading; its name in errors comes first.
pub(super) fn open(path: &Path) -> Result<(String, Box<dyn Read>)> {
    if path.as_os_str() == STANDARD {
        return Ok(("standard input".to_owned(), Box::new(io::stdin().lock())));
    }
    let name = path.display().to_string();
    let file = File::open(path).with_context(|| format!("{name}: cannot be opened"))?;
    Ok((name, Box::new(file)))
}

/// Creates a file, or opens standard output.
pub(super) fn create(path: &Path) -> Result<Box<dyn Write>> {
    if path.as_os_str() == STANDARD {
        return Ok(Box::new(io::stdout().lock()));
    }
    let file =
        File::create(path).with_context(|| format!("{}: cannot be written", path.display()))?;
    Ok(Box::new(io::BufWriter::new(file)))
}

/// Writes a CSV file line by line.
pub(super) fn write_lines(
    path: &Path,
    header: &[&str],
    lines: impl IntoIterator<Item = Vec<String>>,
) -> Result<()> {
    let mut writer = csv::Writer::from_writer(create(path)?);
    let write = |writer: &mut csv::Writer<_>| -> csv::Result<()> {
        writer.write_record(header)?;
        for line in lines {
            writer.write_record(line)?;
        }
        Ok(writer.flush()?)
    };
    write(&mut writer).with_context(|| format!("{}: cannot be written", path.display()))
}
