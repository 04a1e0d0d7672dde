//! The cells of a sketch at both ends, the flows in it, and their weights.

use std::collections::HashMap;
use std::io::{self, Read, Write};

use measure::lds::ROWS_MAX;

use super::number::{bits, finite, finite_from_0, finite_over_0, whole, whole_u32, wrapping_sum};
use super::sheet::{ReadError, Sheet};

/// Columns of a cells file.
const CELL_COLUMNS: [&str; 8] = [
    "row", "col", "n_tx", "s_tx_ns", "d_tx", "n_rx", "s_rx_ns", "d_rx",
];
/// Bytes of a flow's name.
const FLOW_BYTES_MAX: usize = 256;

/// One end of a cell; `None` is unknown.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Half {
    /// Packets.
    pub count: Option<u64>,
    /// Times of observation in nanoseconds, added modulo 2^64.
    pub sum_ns: Option<u64>,
    /// Exclusive or of the packets' hashes.
    pub digest: Option<u64>,
}

/// A cell at both ends.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct CellRecord {
    /// Row of the sketch, from 0.
    pub row: u8,
    /// Column, from 0.
    pub column: u32,
    /// What the sender's end saw.
    pub sender: Half,
    /// What the receiver's end saw.
    pub receiver: Half,
}

impl CellRecord {
    /// Packets and the sum of their delays in nanoseconds, where both ends saw the same packets:
    /// equal counts, and digests that are equal or not both known. `None` where they did not, or
    /// where a count or a sum is unknown.
    pub fn delays(&self) -> Option<(u64, i64)> {
        let (sender, receiver) = (self.sender, self.receiver);
        let count = receiver.count.filter(|_| receiver.count == sender.count)?;
        if let (Some(sent), Some(received)) = (sender.digest, receiver.digest)
            && sent != received
        {
            return None;
        }
        let sum = receiver.sum_ns?.wrapping_sub(sender.sum_ns?);
        Some((count, sum.cast_signed()))
    }
}

/// Most columns of a sketch: 2^22.
pub const SKETCH_COLUMNS_MAX: u32 = 1 << 22;

/// Reads a cells file; `file` names it in errors. Its cells are in the order of the file, each with its line.
///
/// # Errors
/// [`ReadError`]; also where a cell is there twice.
pub fn read_cells(file: &str, input: impl Read) -> Result<Vec<(u64, CellRecord)>, ReadError> {
    let mut sheet = Sheet::open(file, input, &CELL_COLUMNS.join(","))?;
    let [row, column, n_tx, s_tx, d_tx, n_rx, s_rx, d_rx] =
        CELL_COLUMNS.map(|name| sheet.column(name));
    let (row, column) = (row?, column?);
    let (n_tx, s_tx, d_tx) = (n_tx?, s_tx?, d_tx?);
    let (n_rx, s_rx, d_rx) = (n_rx?, s_rx?, d_rx?);
    let mut cells = Vec::new();
    let mut seen = HashMap::new();
    while let Some(line) = sheet.next_line()? {
        let half = |count, sum, digest| {
            Ok(Half {
                count: line.field(count, "a number of packets, 0 to 2^64 - 1", whole)?,
                sum_ns: line.field(
                    sum,
                    "a sum of nanoseconds modulo 2^64, -2^63 to 2^64 - 1",
                    wrapping_sum,
                )?,
                digest: line.field(digest, "64 bits, decimal or 0x and hexadecimal", bits)?,
            })
        };
        let cell = CellRecord {
            row: line.needed(&row, "a row, 0 to 3", row_number)?,
            column: line.needed(&column, "a column, 0 to 4194303", column_number)?,
            sender: half(&n_tx, &s_tx, &d_tx)?,
            receiver: half(&n_rx, &s_rx, &d_rx)?,
        };
        if let Some(first) = seen.insert((cell.row, cell.column), line.number()) {
            return Err(line.contradiction(format!(
                "row {}, col {} stands already on line {first}; leave one of them",
                cell.row, cell.column
            )));
        }
        cells.push((line.number(), cell));
    }
    Ok(cells)
}

fn row_number(text: &str) -> Option<u8> {
    let row = whole(text).filter(|&row| row < ROWS_MAX as u64)?;
    u8::try_from(row).ok()
}

fn column_number(text: &str) -> Option<u32> {
    whole_u32(text).filter(|&column| column < SKETCH_COLUMNS_MAX)
}

/// The flows of a sketch, one entry of each list a flow, but for `columns`.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct FlowList {
    /// Rows of the sketch.
    pub rows: usize,
    /// Names, as the file has them.
    pub names: Vec<String>,
    /// Base columns, `rows` entries a flow.
    pub columns: Vec<u32>,
    /// Packets that the receiver's end saw; NaN: unknown.
    pub packets: Vec<f64>,
    /// Mean delay by RLI in nanoseconds; NaN: unknown.
    pub rli_mean_ns: Vec<f64>,
    /// True mean delay in nanoseconds; NaN: unknown.
    pub true_mean_ns: Vec<f64>,
}

/// Reads a flows file. Its columns `col_0`, `col_1`, ... give the number of rows;
/// `rli_mean_ns` and `true_mean_ns` may be left out.
///
/// # Errors
/// [`ReadError`]; also where a flow is there twice.
pub fn read_flows(file: &str, input: impl Read) -> Result<FlowList, ReadError> {
    let needed = "flow,packets,col_0 (to col_3; one for each row of the sketch)";
    let mut sheet = Sheet::open(file, input, needed)?;
    let flow = sheet.column("flow")?;
    let packets = sheet.column("packets")?;
    let mut base = vec![sheet.column("col_0")?];
    for row in 1..ROWS_MAX {
        match sheet.optional(&format!("col_{row}"))? {
            Some(column) => base.push(column),
            None => break,
        }
    }
    for row in base.len()..=ROWS_MAX {
        // A gap, or more rows than a sketch may have.
        if sheet.optional(&format!("col_{row}"))?.is_some() {
            return Err(if base.len() < ROWS_MAX {
                sheet.missing(&format!("col_{}", base.len()))
            } else {
                sheet.too_much(ROWS_MAX as u64, "rows of a sketch", "give it 4")
            });
        }
    }
    let rli = sheet.optional("rli_mean_ns")?;
    let truth = sheet.optional("true_mean_ns")?;

    let mut flows = FlowList {
        rows: base.len(),
        ..FlowList::default()
    };
    let mut seen = HashMap::new();
    while let Some(line) = sheet.next_line()? {
        let name = line.needed(&flow, "the name of a flow, 256 bytes at most", name_of_flow)?;
        if let Some(first) = seen.insert(name.clone(), line.number()) {
            return Err(line.contradiction(format!(
                "flow {name} stands already on line {first}; add them up or leave one"
            )));
        }
        for column in &base {
            let column = line.needed(column, "a column, 0 to 4194303", column_number)?;
            flows.columns.push(column);
        }
        let count = line.field(&packets, "a number of packets, 0 or more", finite_from_0)?;
        flows.packets.push(count.unwrap_or(f64::NAN));
        let mean = |column: &Option<_>| match column {
            Some(column) => line.field(column, "a finite number of nanoseconds", finite),
            None => Ok(None),
        };
        flows.rli_mean_ns.push(mean(&rli)?.unwrap_or(f64::NAN));
        flows.true_mean_ns.push(mean(&truth)?.unwrap_or(f64::NAN));
        flows.names.push(name);
    }
    Ok(flows)
}

fn name_of_flow(text: &str) -> Option<String> {
    (text.len() <= FLOW_BYTES_MAX).then(|| text.to_owned())
}

/// Reads the weights of flows: columns `flow` and `weight`. Flows that are not named weigh 1;
/// `flows` gives the order of the result.
///
/// # Errors
/// [`ReadError`]; also where a flow is unknown or there twice.
pub fn read_weights(file: &str, input: impl Read, flows: &FlowList) -> Result<Vec<f64>, ReadError> {
    let mut sheet = Sheet::open(file, input, "flow,weight")?;
    let (flow, weight) = (sheet.column("flow")?, sheet.column("weight")?);
    let numbers: HashMap<&str, usize> = (flows.names.iter())
        .enumerate()
        .map(|(number, name)| (name.as_str(), number))
        .collect();
    let mut weights = vec![None; flows.names.len()];
    while let Some(line) = sheet.next_line()? {
        let name = line.needed(&flow, "the name of a flow, 256 bytes at most", name_of_flow)?;
        let value = line.needed(&weight, "a weight over 0", finite_over_0)?;
        let Some(slot) = numbers
            .get(&*name)
            .and_then(|&number| weights.get_mut(number))
        else {
            return Err(line.contradiction(format!("flow {name} is not in the list of flows")));
        };
        if slot.replace(value).is_some() {
            return Err(line.contradiction(format!("flow {name} has a weight already; leave one")));
        }
    }
    Ok(weights
        .into_iter()
        .map(|weight| weight.unwrap_or(1.0))
        .collect())
}

/// Writes a cells file.
///
/// # Errors
/// When `output` does not take it.
pub fn write_cells(
    output: impl Write,
    cells: impl IntoIterator<Item = CellRecord>,
) -> csv::Result<()> {
    let mut writer = csv::Writer::from_writer(output);
    writer.write_record(CELL_COLUMNS)?;
    let text = |value: Option<u64>| value.map(|value| value.to_string()).unwrap_or_default();
    for cell in cells {
        let CellRecord {
            row,
            column,
            sender,
            receiver,
        } = cell;
        writer.write_record([
            row.to_string(),
            column.to_string(),
            text(sender.count),
            text(sender.sum_ns),
            text(sender.digest),
            text(receiver.count),
            text(receiver.sum_ns),
            text(receiver.digest),
        ])?;
    }
    Ok(writer.flush()?)
}

/// Writes a flows file.
///
/// # Errors
/// When `output` does not take it, or the lists of `flows` differ in length.
pub fn write_flows(output: impl Write, flows: &FlowList) -> csv::Result<()> {
    let mut writer = csv::Writer::from_writer(output);
    let base = (0..flows.rows).map(|row| format!("col_{row}"));
    let header = ["flow", "packets"].map(str::to_owned).into_iter();
    let means = ["rli_mean_ns", "true_mean_ns"].map(str::to_owned);
    writer.write_record(header.chain(base).chain(means))?;
    let uneven = || io::Error::other("lists of flows differ in length");
    for (flow, name) in flows.names.iter().enumerate() {
        let number = |list: &[f64]| list.get(flow).copied().map(known).ok_or_else(uneven);
        writer.write_field(name)?;
        writer.write_field(number(&flows.packets)?)?;
        let columns = flows
            .columns
            .get(flow * flows.rows..(flow + 1) * flows.rows);
        for column in columns.ok_or_else(uneven)? {
            writer.write_field(column.to_string())?;
        }
        writer.write_field(number(&flows.rli_mean_ns)?)?;
        writer.write_field(number(&flows.true_mean_ns)?)?;
        writer.write_record(None::<&[u8]>)?;
    }
    Ok(writer.flush()?)
}

/// A number as a file has it: nothing where it is not known.
pub(crate) fn known(value: f64) -> String {
    if value.is_finite() {
        value.to_string()
    } else {
        String::new()
    }
}
