//! Packets one by one: with their times at both ends of a segment, or as a link carried them.

use std::io::Read;

use super::number::{Time, whole_u32};
use super::sheet::{ReadError, Sheet};
use crate::traffic::Kind;

const TIME: &str = "a time in nanoseconds, -2^63 to 2^63 - 1, with three decimals at most";

/// One packet at both ends of a segment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PairRecord<'a> {
    /// What distinguishes it from others: the bytes in the file.
    pub packet_id: &'a [u8],
    /// When it was sent.
    pub send: Time,
    /// When it was received; `None`: lost.
    pub receive: Option<Time>,
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
    let id = sheet.column("packet_id")?;
    let (send, receive) = (sheet.column("send_ns")?, sheet.column("recv_ns")?);
    while let Some(line) = sheet.next_line()? {
        line.needed(&id, "the id of a packet", |_| Some(()))?;
        each(PairRecord {
            packet_id: line.bytes(&id),
            send: line.needed(&send, TIME, Time::parse)?,
            receive: line.field(&receive, TIME, Time::parse)?,
        });
    }
    Ok(())
}

fn kind(text: &str) -> Option<Kind> {
    match text {
        "reference" => Some(Kind::Reference),
        "regular" => Some(Kind::Regular),
        "cross" => Some(Kind::Cross),
        _ => None,
    }
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
    /// When it was sent; no sooner than the one before it.
    pub send: Time,
    /// When it was received; `None`: dropped.
    pub receive: Option<Time>,
}

/// Reads a link's packets, one by one: columns `kind`, `flow`, `bytes`, `send_ns`, `recv_ns`.
///
/// # Errors
/// [`ReadError`]; also where packets are not in the order of sending.
pub fn read_link(
    file: &str,
    input: impl Read,
    mut each: impl FnMut(LinkPacket<'_>),
) -> Result<(), ReadError> {
    let mut sheet = Sheet::open(file, input, "kind,flow,bytes,send_ns,recv_ns")?;
    let (kind, flow) = (sheet.column("kind")?, sheet.column("flow")?);
    let bytes = sheet.column("bytes")?;
    let (send, receive) = (sheet.column("send_ns")?, sheet.column("recv_ns")?);
    let mut last: Option<Time> = None;
    while let Some(line) = sheet.next_line()? {
        let kind = line.needed(&kind, "reference, regular or cross", self::kind)?;
        let name = "the name of a flow in UTF-8, 256 bytes at most";
        let named = |text: &str| (text.len() <= 256).then_some(());
        match kind {
            Kind::Regular => line.needed(&flow, name, named)?,
            Kind::Reference | Kind::Cross => line.field(&flow, name, named)?.unwrap_or(()),
        }
        let packet = LinkPacket {
            kind,
            flow: str::from_utf8(line.bytes(&flow)).unwrap_or_default(),
            bytes: line.needed(&bytes, "a length in bytes, 0 to 16777216", length)?,
            send: line.needed(&send, TIME, Time::parse)?,
            receive: line.field(&receive, TIME, Time::parse)?,
        };
        if last.is_some_and(|last| packet.send < last) {
            return Err(line.contradiction(
                "sent sooner than the packet on the line before; sort the file by send_ns",
            ));
        }
        last = Some(packet.send);
        each(packet);
    }
    Ok(())
}

fn length(text: &str) -> Option<u32> {
    whole_u32(text).filter(|&bytes| bytes <= 1 << 24)
}
