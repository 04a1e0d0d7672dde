//! CSV files that carry sketches, flows and packets to and from other programs.
//!
//! `docs/interchange.md` describes the files. Readers accept any [`std::io::Read`] and limit lines, their bytes and
//! columns; data never take more memory than a small multiple of the file's size.

mod sheet;

use std::collections::HashMap;
use std::io::{Read, Write};

use measure::lds::ROWS_MAX;

use crate::traffic::Kind;
pub use sheet::ReadError;
pub(crate) use sheet::whole;
use sheet::{Sheet, bits, finite, time_ps, whole_to, wrapping_sum};

/// Columns of a cells file.
const CELL_COLUMNS: &str = "row,col,n_tx,s_tx_ns,d_tx,n_rx,s_rx_ns,d_rx";
/// Largest number of columns of a sketch: 2^22.
pub const SKETCH_COLUMNS_MAX: u32 = 1 << 22;

const COLUMN: &str = "a column, 0 to 4194303";
const FLOW: &str = "the name of a flow, 256 bytes at most";
const TIME: &str = "a time in nanoseconds, -2^63 to 2^63 - 1, with three decimals at most";

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
    /// The sender's end.
    pub sender: Half,
    /// The receiver's end.
    pub receiver: Half,
}

impl CellRecord {
    /// Packets and the sum of their delays in nanoseconds, if both ends saw the same packets: counts are equal, and
    /// digests are equal or not both known. `None` if they did not, or if a count or a sum is unknown.
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

/// Reads a cells file; `file` names it in errors. Its cells are in the order of the file, each with its line.
///
/// # Errors
/// [`ReadError`]; also if a cell occurs twice.
pub fn read_cells(file: &str, input: impl Read) -> Result<Vec<(u64, CellRecord)>, ReadError> {
    let mut sheet = Sheet::open(file, input, CELL_COLUMNS)?;
    let [row, column] = sheet.columns(["row", "col"])?;
    let sender = sheet.columns(["n_tx", "s_tx_ns", "d_tx"])?;
    let receiver = sheet.columns(["n_rx", "s_rx_ns", "d_rx"])?;
    let to_row = |text: &str| {
        let row = whole(text).and_then(|row| u8::try_from(row).ok());
        row.filter(|&row| usize::from(row) < ROWS_MAX)
    };
    let mut cells = Vec::new();
    let mut seen = HashMap::new();
    while sheet.next_line()? {
        let half = |[count, sum, digest]: [usize; 3]| -> Result<Half, ReadError> {
            let a_sum = "a sum of nanoseconds modulo 2^64, -2^63 to 2^64 - 1";
            let a_digest = "64 bits, decimal or 0x and hexadecimal";
            Ok(Half {
                count: sheet.field(count, "a number of packets, 0 to 2^64 - 1", whole)?,
                sum_ns: sheet.field(sum, a_sum, wrapping_sum)?,
                digest: sheet.field(digest, a_digest, bits)?,
            })
        };
        let cell = CellRecord {
            row: sheet.needed(row, "a row, 0 to 3", to_row)?,
            column: sheet.needed(column, COLUMN, whole_to(SKETCH_COLUMNS_MAX - 1))?,
            sender: half(sender)?,
            receiver: half(receiver)?,
        };
        let number = sheet.number();
        if let Some(first) = seen.insert((cell.row, cell.column), number) {
            return Err(sheet.error(format!(
                "row {}, col {} is already on line {first}; leave one of them",
                cell.row, cell.column
            )));
        }
        cells.push((number, cell));
    }
    Ok(cells)
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
    writer.write_record(CELL_COLUMNS.split(','))?;
    for cell in cells {
        let place = [cell.row.into(), cell.column.into()].map(Some);
        let halves = [cell.sender, cell.receiver];
        let halves = halves.map(|half| [half.count, half.sum_ns, half.digest]);
        let numbers = place.into_iter().chain(halves.into_iter().flatten());
        let text = |number: Option<u64>| number.map(|it| it.to_string()).unwrap_or_default();
        writer.write_record(numbers.map(text))?;
    }
    Ok(writer.flush()?)
}

/// The flows of a sketch, with one entry per flow in each list except `columns`.
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
/// [`ReadError`]; also if a flow occurs twice.
pub fn read_flows(file: &str, input: impl Read) -> Result<FlowList, ReadError> {
    let needed = "flow,packets,col_0 (to col_3; one for each row of the sketch)";
    let mut sheet = Sheet::open(file, input, needed)?;
    let [flow, packets] = sheet.columns(["flow", "packets"])?;
    let base = (0..=ROWS_MAX).map(|row| sheet.optional(&format!("col_{row}")));
    let mut base = base.collect::<Result<Vec<_>, _>>()?.into_iter();
    let columns: Vec<_> = base.by_ref().map_while(|column| column).collect();
    // A gap, or more rows than a sketch may have.
    if columns.len() > ROWS_MAX {
        return Err(sheet.too_much(ROWS_MAX as u64, "rows of a sketch", "give it 4"));
    }
    if columns.is_empty() || base.flatten().next().is_some() {
        return Err(sheet.missing(&format!("col_{}", columns.len())));
    }
    let rli = sheet.optional("rli_mean_ns")?;
    let truth = sheet.optional("true_mean_ns")?;

    let mut flows = FlowList {
        rows: columns.len(),
        ..FlowList::default()
    };
    let mut seen = HashMap::new();
    while sheet.next_line()? {
        let name = sheet.needed(flow, FLOW, name_of_flow)?;
        if let Some(first) = seen.insert(name.clone(), sheet.number()) {
            return Err(sheet.error(format!(
                "flow {name} is already on line {first}; add them up or leave one"
            )));
        }
        for &column in &columns {
            let column = sheet.needed(column, COLUMN, whole_to(SKETCH_COLUMNS_MAX - 1))?;
            flows.columns.push(column);
        }
        let from_0 = |text: &str| finite(text).filter(|&value| value >= 0.0);
        let count = sheet.field(packets, "a number of packets, 0 or more", from_0)?;
        flows.packets.push(count.unwrap_or(f64::NAN));
        let a_mean = "a finite number of nanoseconds";
        for (column, means) in [
            (rli, &mut flows.rli_mean_ns),
            (truth, &mut flows.true_mean_ns),
        ] {
            let mean = column.map(|column| sheet.field(column, a_mean, finite));
            means.push(mean.transpose()?.flatten().unwrap_or(f64::NAN));
        }
        flows.names.push(name);
    }
    Ok(flows)
}

fn name_of_flow(text: &str) -> Option<String> {
    (text.len() <= 256).then(|| text.to_owned())
}

/// Writes a flows file.
///
/// # Errors
/// When `output` does not take it.
pub fn write_flows(output: impl Write, flows: &FlowList) -> csv::Result<()> {
    let mut writer = csv::Writer::from_writer(output);
    let base = (0..flows.rows).map(|row| format!("col_{row}"));
    let header = ["flow", "packets"].map(str::to_owned).into_iter();
    let means = ["rli_mean_ns", "true_mean_ns"].map(str::to_owned);
    writer.write_record(header.chain(base).chain(means))?;
    for (flow, name) in flows.names.iter().enumerate() {
        let first = [name.clone(), known(flows.packets[flow])].into_iter();
        let columns = flows.columns[flow * flows.rows..][..flows.rows].iter();
        let means = [flows.rli_mean_ns[flow], flows.true_mean_ns[flow]].map(known);
        writer.write_record(first.chain(columns.map(u32::to_string)).chain(means))?;
    }
    Ok(writer.flush()?)
}

/// A number in a file; empty if unknown.
pub(crate) fn known(value: f64) -> String {
    if value.is_finite() {
        value.to_string()
    } else {
        String::new()
    }
}

/// Reads the weights of flows: columns `flow` and `weight`. Other flows have a weight of 1; the result is in the order
/// of `flows`.
///
/// # Errors
/// [`ReadError`]; also if a flow is unknown or occurs twice.
pub fn read_weights(file: &str, input: impl Read, flows: &FlowList) -> Result<Vec<f64>, ReadError> {
    let mut sheet = Sheet::open(file, input, "flow,weight")?;
    let [flow, weight] = sheet.columns(["flow", "weight"])?;
    let numbers: HashMap<&str, usize> = (flows.names.iter())
        .enumerate()
        .map(|(number, name)| (name.as_str(), number))
        .collect();
    let mut weights = vec![None; flows.names.len()];
    while sheet.next_line()? {
        let name = sheet.needed(flow, FLOW, name_of_flow)?;
        let over_0 = |text: &str| finite(text).filter(|&value| value > 0.0);
        let value = sheet.needed(weight, "a weight over 0", over_0)?;
        let Some(&number) = numbers.get(&*name) else {
            return Err(sheet.error(format!("flow {name} is not in the list of flows")));
        };
        if weights[number].replace(value).is_some() {
            return Err(sheet.error(format!("flow {name} has a weight already; leave one")));
        }
    }
    let weights = weights.into_iter();
    Ok(weights.map(|weight| weight.unwrap_or(1.0)).collect())
}

/// One packet at both ends of a segment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PairRecord<'a> {
    /// Its id: the bytes in the file.
    pub packet_id: &'a [u8],
    /// When it was sent, in picoseconds since any origin.
    pub send_ps: i128,
    /// When it was received; `None`: lost.
    pub receive_ps: Option<i128>,
}

/// Reads a file of packets at both ends, one by one: columns `packet_id`, `send_ns`, `recv_ns`.
///
/// # Errors
/// [`ReadError`].
pub fn read_pairs(
    file: &str,
    input: impl Read,
    mut each: impl FnMut(PairRecord<'_>),
) -> Result<(), ReadError> {
    let mut sheet = Sheet::open(file, input, "packet_id,send_ns,recv_ns")?;
    let [id, send, receive] = sheet.columns(["packet_id", "send_ns", "recv_ns"])?;
    while sheet.next_line()? {
        sheet.needed(id, "the id of a packet", |_| Some(()))?;
        each(PairRecord {
            packet_id: sheet.bytes(id),
            send_ps: sheet.needed(send, TIME, time_ps)?,
            receive_ps: sheet.field(receive, TIME, time_ps)?,
        });
    }
    Ok(())
}

/// One packet of a link, in the order of sending.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LinkPacket<'a> {
    /// What it is.
    pub kind: Kind,
    /// Its flow's name; only a regular packet must have one.
    pub flow: &'a str,
    /// Its length in bytes.
    pub bytes: u32,
    /// When it was sent, in picoseconds since any origin; no sooner than the one before it.
    pub send_ps: i128,
    /// When it was received; `None`: dropped.
    pub receive_ps: Option<i128>,
}

/// Reads a link's packets, one by one: columns `kind`, `flow`, `bytes`, `send_ns`, `recv_ns`.
///
/// # Errors
/// [`ReadError`]; also if packets are not in the order of sending.
pub fn read_link(
    file: &str,
    input: impl Read,
    mut each: impl FnMut(LinkPacket<'_>),
) -> Result<(), ReadError> {
    let mut sheet = Sheet::open(file, input, "kind,flow,bytes,send_ns,recv_ns")?;
    let header = ["kind", "flow", "bytes", "send_ns", "recv_ns"];
    let [kind, flow, bytes, send, receive] = sheet.columns(header)?;
    let of_name = |text: &str| match text {
        "reference" => Some(Kind::Reference),
        "regular" => Some(Kind::Regular),
        "cross" => Some(Kind::Cross),
        _ => None,
    };
    let mut last_ps = i128::MIN;
    while sheet.next_line()? {
        let kind = sheet.needed(kind, "reference, regular or cross", of_name)?;
        let name = "the name of a flow in UTF-8, 256 bytes at most";
        let named = |text: &str| (text.len() <= 256).then_some(());
        match kind {
            Kind::Regular => sheet.needed(flow, name, named)?,
            Kind::Reference | Kind::Cross => sheet.field(flow, name, named)?.unwrap_or(()),
        }
        let length = "a length in bytes, 0 to 16777216";
        let packet = LinkPacket {
            kind,
            flow: str::from_utf8(sheet.bytes(flow)).unwrap_or_default(),
            bytes: sheet.needed(bytes, length, whole_to(1 << 24))?,
            send_ps: sheet.needed(send, TIME, time_ps)?,
            receive_ps: sheet.field(receive, TIME, time_ps)?,
        };
        if packet.send_ps < last_ps {
            let problem = "sent sooner than the packet on the line before";
            return Err(sheet.error(format!("{problem}; sort the file by send_ns")));
        }
        last_ps = packet.send_ps;
        each(packet);
    }
    Ok(())
}

#[cfg(test)]
mod tests;
