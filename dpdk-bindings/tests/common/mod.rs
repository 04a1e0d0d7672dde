//! Shared by the tests: EAL without privileges, distinguishable frames, captures.
//!
//! EAL starts once per process, so each file is one test.

#![allow(dead_code, reason = "each test uses a part of it")]
#![allow(clippy::unwrap_used, reason = "a test that cannot set up fails")]

use std::path::Path;
use std::process::Command;

use dpdk_bindings::{ArrayVec, Eal, EalOptions, Mbuf, Mempool, Port, PortConfig, RxQueue};

/// As many packets as the switch moves at a time.
pub type Burst<'pool> = ArrayVec<Mbuf<'pool>, 32>;

/// Starts EAL without privileges.
pub fn eal() -> Eal {
    Eal::init(
        "test",
        &EalOptions {
            memory_mib: 64,
            ..EalOptions::default()
        },
    )
    .unwrap()
}

/// A pool of 2047 mbufs of 2 KiB.
pub fn pool(eal: &Eal) -> Mempool<'_> {
    eal.mempool("test", 2047, 128, 2048).unwrap()
}

/// Starts a device as a port with the defaults.
pub fn start<'p>(eal: &'p Eal, device: &str, pool: &'p Mempool<'p>) -> Port<'p> {
    let attached = eal.attach(device).unwrap();
    attached.start(&PortConfig::default(), pool).unwrap()
}

/// A frame of 60 bytes, whose first four have its number.
pub fn frame<'p>(pool: &'p Mempool<'_>, number: u32) -> Mbuf<'p> {
    pool.alloc_frame(&number.to_be_bytes(), 60).unwrap()
}

/// Returns the number of a frame.
pub fn number(mbuf: &Mbuf<'_>) -> u32 {
    u32::from_be_bytes(mbuf.head()[..4].try_into().unwrap())
}

/// Receives until the queue is empty.
pub fn receive_all<'pool>(rx: &mut RxQueue<'pool>) -> Vec<Mbuf<'pool>> {
    let mut all = Vec::new();
    let mut burst = Burst::new();
    while rx.receive(&mut burst) > 0 {
        all.extend(burst.drain(..));
    }
    all
}

/// Writes an Ethernet capture (libpcap format 2.4, microseconds) with these frames.
pub fn write_capture(path: &Path, frames: &[Vec<u8>]) {
    let mut bytes = Vec::new();
    for field in [0xa1b2_c3d4_u32, 0x0004_0002, 0, 0, 262_144, 1] {
        bytes.extend(field.to_le_bytes());
    }
    for (second, frame) in (0..).zip(frames) {
        let len = u32::try_from(frame.len()).unwrap();
        for field in [second, 0, len, len] {
            bytes.extend(field.to_le_bytes());
        }
        bytes.extend(frame);
    }
    std::fs::write(path, bytes).unwrap();
}

/// The frames of a capture of that format.
pub fn read_capture(path: &Path) -> Vec<Vec<u8>> {
    let bytes = std::fs::read(path).unwrap();
    let (mut frames, mut rest) = (Vec::new(), &bytes[24..]);
    while !rest.is_empty() {
        let len = u32::from_le_bytes(rest[8..12].try_into().unwrap()) as usize;
        frames.push(rest[16..16 + len].to_vec());
        rest = &rest[16 + len..];
    }
    frames
}

/// Runs `ip`; whether it succeeded.
pub fn ip(arguments: &str) -> bool {
    let status = Command::new("ip")
        .args(arguments.split_whitespace())
        .status();
    status.is_ok_and(|status| status.success())
}

/// A pair of interfaces, deleted when this value is dropped.
pub struct Veth {
    pub ours: String,
    pub theirs: String,
}

impl Veth {
    /// Creates the pair with this number for this process; `None` without root, and the test is skipped.
    pub fn new(number: usize) -> Option<Self> {
        let id = std::process::id();
        let [ours, theirs] = ["a", "b"].map(|end| format!("vb{id}{end}{number}"));
        let veth = Self { ours, theirs };
        let Self { ours, theirs } = &veth;
        let is_up = |name: &String| {
            // Keep the kernel from sending IPv6 packets.
            let quiet = format!("net.ipv6.conf.{name}.disable_ipv6=1");
            let _ = Command::new("sysctl").args(["-qw", &quiet]).status();
            ip(&format!("link set {name} up"))
        };
        let is_made = ip(&format!("link add {ours} type veth peer name {theirs}"));
        if is_made && is_up(ours) && is_up(theirs) {
            return Some(veth);
        }
        let in_ci = std::env::var_os("CI").is_some();
        assert!(!in_ci, "not to be skipped in CI: no veth");
        eprintln!("SKIPPED: a pair of interfaces needs root");
        None
    }
}

impl Drop for Veth {
    fn drop(&mut self) {
        ip(&format!("link del {}", self.ours));
    }
}
