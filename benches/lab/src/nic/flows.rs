//! Packets of many flows, which must leave in the order of their flow, whichever queue received them.

use std::net::{Ipv4Addr, UdpSocket};
use std::os::unix::net::UnixDatagram;
use std::process::Command;

use anyhow::{Context, Result, ensure};
use measure::packet::header::{ethernet, ipv4, udp};
use testkit::pcap::udp_frame;

use crate::nic::frames::{Way, exchange, try_send};
use crate::nic::guest::TAP;

pub const FLOWS: u16 = 16;

/// Packets of each.
pub const PACKETS: u32 = 20;

/// The host's address on the tap, and that of a station behind the switch.
const HOST: Ipv4Addr = Ipv4Addr::new(10, 99, 0, 1);
const STATION: Ipv4Addr = Ipv4Addr::new(10, 99, 0, 2);

/// Source port of the first flow, and the destination port of all.
const FIRST_PORT: u16 = 20_000;
const PORT: u16 = 9;

/// Offset of the payload.
const PAYLOAD_AT: usize = ethernet::BYTES + ipv4::BYTES + udp::BYTES;

/// Begins the payload.
const MARK: &[u8; 4] = b"VRNR";

/// Where packets of flows enter.
#[derive(Debug)]
pub enum Source<'e> {
    /// Made here, and sent as frames.
    Frames(&'e UnixDatagram),
    /// Sent by the kernel over the tap, a socket for each flow.
    Kernel(Vec<UdpSocket>),
}

impl Source<'_> {
    /// The kernel's, over the tap, which is in this process's network namespace.
    pub fn over_tap() -> Result<Self> {
        let setup = format!(
            "ip link set lo up; echo 1 >/proc/sys/net/ipv6/conf/{TAP}/disable_ipv6; \
             ip address replace {HOST}/24 dev {TAP} && ip link set {TAP} up && \
             ip neighbour replace {STATION} lladdr 02:00:00:00:00:02 dev {TAP}"
        );
        let done = Command::new("sh").args(["-c", &setup]).status()?;
        ensure!(done.success(), "the tap cannot be set up");
        let socket = |flow| -> Result<UdpSocket> {
            let socket = UdpSocket::bind((HOST, FIRST_PORT + flow))?;
            socket.connect((STATION, PORT))?;
            Ok(socket)
        };
        Ok(Self::Kernel((0..FLOWS).map(socket).collect::<Result<_>>()?))
    }

    fn send(&self, flow: u16, number: u32) -> Result<bool> {
        let mut payload = MARK.to_vec();
        payload.extend(flow.to_be_bytes());
        payload.extend(number.to_be_bytes());
        match self {
            Self::Frames(end) => try_send(end, &frame(flow, &payload)),
            Self::Kernel(sockets) => {
                sockets[usize::from(flow)].send(&payload)?;
                Ok(true)
            }
        }
    }

    /// Sends all packets of all flows in turn; each must leave at `to` after the earlier packets of its flow.
    pub fn send_all(&self, to: &UnixDatagram) -> Result<()> {
        let mut next = vec![0; usize::from(FLOWS)];
        let packets = (0..PACKETS).flat_map(|number| (0..FLOWS).map(move |flow| (flow, number)));
        let packets: Vec<(u16, u32)> = packets.collect();
        exchange(vec![Way {
            to,
            packets: packets.len(),
            send: Box::new(move |n| self.send(packets[n].0, packets[n].1)),
            check: Box::new(move |_, frame| {
                let Some((flow, number)) = parse(frame) else {
                    return Ok(false);
                };
                let due = next.get_mut(usize::from(flow)).context("no such flow")?;
                ensure!(
                    number == *due,
                    "packet {number} of flow {flow} arrived instead of {due}"
                );
                *due += 1;
                Ok(true)
            }),
        }])
    }
}

/// A packet of a flow.
fn frame(flow: u16, payload: &[u8]) -> Vec<u8> {
    let mut frame = udp_frame(0, (HOST, FIRST_PORT + flow), (STATION, PORT), payload);
    frame.resize(ethernet::FRAME_BYTES_MIN, 0);
    frame
}

/// Flow and number of a packet that was sent here.
fn parse(frame: &[u8]) -> Option<(u16, u32)> {
    let payload = frame.get(PAYLOAD_AT..)?;
    let rest = payload.strip_prefix(MARK)?;
    let flow = u16::from_be_bytes(rest.get(..2)?.try_into().ok()?);
    let number = u32::from_be_bytes(rest.get(2..6)?.try_into().ok()?);
    Some((flow, number))
}
