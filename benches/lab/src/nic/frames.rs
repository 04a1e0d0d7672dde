//! Frames of many kinds, sent into devices and compared byte for byte where they come out.

use std::io::ErrorKind;
use std::os::unix::net::UnixDatagram;
use std::rc::Rc;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use measure::packet::header::ethernet::{self, FRAME_BYTES_MIN};
use rand::{RngExt, SeedableRng};
use rand_pcg::Pcg64;

/// Maximum frames in flight in each direction, because the kernel queues at most ten datagrams for a socket that is not
/// read.
const WINDOW: usize = 8;

/// How long a frame may be in flight.
const PATIENCE: Duration = Duration::from_secs(10);

/// Two stations.
const STATIONS: [[u8; 6]; 2] = [[2, 0, 0, 0, 0, 1], [2, 0, 0, 0, 0, 2]];

/// Destination addresses, and the bytes after the source address. Everything else is random, because no device may
/// change or drop frames that it does not understand. Frames that claim to be IP have a complete IP header; otherwise
/// QEMU's e1000e and vmxnet3 drop them when sending.
const KINDS: [([u8; 6], &[u8]); 10] = [
    // Local experiments.
    (STATIONS[1], &[0x88, 0xb5]),
    // IPv4 with UDP, its checksums wrong.
    (STATIONS[1], &[8, 0, 0x45, 0, 0, 46, 0, 0, 0x40, 0, 64, 17]),
    // IPv4 with TCP.
    (STATIONS[1], &[8, 0, 0x45, 0, 0, 46, 0, 0, 0x40, 0, 64, 6]),
    // A later fragment.
    (STATIONS[1], &[8, 0, 0x45, 0, 0, 46, 0, 1, 0, 9, 64, 17]),
    // IPv6 with UDP.
    (STATIONS[1], &[0x86, 0xdd, 0x60, 0, 0, 0, 0, 6, 17, 64]),
    // A VLAN tag, and two.
    (STATIONS[1], &[0x81, 0, 0x20, 10, 8, 0, 0x45]),
    (
        STATIONS[1],
        &[0x88, 0xa8, 0, 10, 0x81, 0, 0, 20, 0x88, 0xb5],
    ),
    // Broadcast ARP.
    ([0xff; 6], &[8, 6, 0, 1, 8, 0, 6, 4, 0, 1]),
    // LLDP, which a bridge never forwards, but a patch panel does.
    ([1, 0x80, 0xc2, 0, 0, 0x0e], &[0x88, 0xcc]),
    // A length in place of a type (spanning tree).
    ([1, 0x80, 0xc2, 0, 0, 0], &[0, 39, 0x42, 0x42, 3]),
];

/// `count` frames of all kinds, with payloads of up to `mtu` bytes; another `seed` gives others.
pub fn of_all_kinds(count: usize, mtu: usize, seed: u64) -> Vec<Vec<u8>> {
    let mut random = Pcg64::seed_from_u64(seed);
    let longest = mtu + ethernet::BYTES;
    // The ends of the range, sizes around that of a buffer, and any sizes in between.
    let special = [60, 61, 64, 65, 127, 128, 1514, 2047, 2048, 2049];
    let special = [&special[..], &[longest - 1, longest]].concat();
    let frame = |n: usize| {
        let len = match n % 3 {
            0 => special[n / 3 % special.len()].min(longest),
            _ => random.random_range(FRAME_BYTES_MIN..=longest),
        };
        let (destination, head) = KINDS[n % KINDS.len()];
        let mut frame = destination.to_vec();
        frame.extend(STATIONS[0]);
        frame.extend(head);
        frame.resize_with(len, || random.random());
        frame
    };
    (0..count).map(frame).collect()
}

type Send<'e> = Box<dyn FnMut(usize) -> Result<bool> + 'e>;
type Check<'e> = Box<dyn FnMut(usize, &[u8]) -> Result<bool> + 'e>;

/// One direction: packets that go in somewhere, and must come out in order.
pub struct Way<'e> {
    /// Where they come out.
    pub to: &'e UnixDatagram,
    pub packets: usize,
    /// Sends the packet with this number; returns whether there was room for it.
    pub send: Send<'e>,
    /// Checks a received frame against the packet with this number; returns whether it is one of these.
    pub check: Check<'e>,
}

impl<'e> Way<'e> {
    /// Frames, which must leave byte for byte as they entered.
    pub fn of_frames(from: &'e UnixDatagram, to: &'e UnixDatagram, frames: Vec<Vec<u8>>) -> Self {
        let frames = Rc::new(frames);
        let sent = Rc::clone(&frames);
        Self {
            to,
            packets: frames.len(),
            send: Box::new(move |n| try_send(from, &sent[n])),
            check: Box::new(move |n, frame| {
                let expected = frames
                    .get(n)
                    .context("a frame came out that was not sent")?;
                ensure!(
                    frame == expected,
                    "frame {n} went in as {} bytes {:02x?} and came out as {} bytes {:02x?}",
                    expected.len(),
                    &expected[..expected.len().min(32)],
                    frame.len(),
                    &frame[..frame.len().min(32)],
                );
                Ok(true)
            }),
        }
    }
}

/// Sends all packets of all directions at once. Each must come out as its direction says, none missing.
pub fn exchange(mut ways: Vec<Way<'_>>) -> Result<()> {
    let (mut sent, mut received) = (vec![0; ways.len()], vec![0; ways.len()]);
    let mut buffer = vec![0; 1 << 16];
    let mut moved = Instant::now();
    while (ways.iter().zip(&received)).any(|(way, received)| *received < way.packets) {
        let before = (sent.clone(), received.clone());
        for (n, way) in ways.iter_mut().enumerate() {
            while sent[n] < way.packets.min(received[n] + WINDOW) && (way.send)(sent[n])? {
                sent[n] += 1;
            }
            while let Some(frame) = try_receive(way.to, &mut buffer)? {
                let is_ours = (way.check)(received[n], frame);
                received[n] += usize::from(is_ours.with_context(|| format!("direction {n}"))?);
            }
        }
        if (&sent, &received) != (&before.0, &before.1) {
            moved = Instant::now();
            continue;
        }
        ensure!(
            moved.elapsed() < PATIENCE,
            "packets are missing: {sent:?} went in, {received:?} came out"
        );
        std::thread::sleep(Duration::from_micros(100));
    }
    Ok(())
}

/// Sends a frame if there is room.
pub fn try_send(end: &UnixDatagram, frame: &[u8]) -> Result<bool> {
    match end.send(frame) {
        Ok(_) => Ok(true),
        Err(error) if error.kind() == ErrorKind::WouldBlock => Ok(false),
        Err(error) => Err(error).context("a device takes no frames"),
    }
}

/// The next frame, if one waits.
pub fn try_receive<'b>(end: &UnixDatagram, buffer: &'b mut [u8]) -> Result<Option<&'b [u8]>> {
    match end.recv(buffer) {
        Ok(len) => Ok(Some(&buffer[..len])),
        Err(error) if error.kind() == ErrorKind::WouldBlock => Ok(None),
        Err(error) => Err(error.into()),
    }
}
