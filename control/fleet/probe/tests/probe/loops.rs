//! Reflectors that would answer each other for ever, from one forged packet on.

use std::net::{SocketAddr, SocketAddrV4};
use std::path::Path;

use probe::wire::{ErrorEstimate, Format, Key, Mode, Request, UnixNs, sign_base};
use rustix::net::{AddressFamily, SendFlags, SocketType, ipproto, sendto, socket};
use serde_json::json;
use testkit::namespace::own_network;
use testkit::process::{PATIENCE, until};

use crate::support::{Daemon, faketime, folder, set_clock, with_clock};

/// A request, signed if there is a key.
fn request(key: Option<&Path>) -> Vec<u8> {
    let mode = key.map_or(Mode::Open, |_| Mode::Authenticated);
    let request = Request {
        sequence: 0,
        timestamp: Format::Ntp.encode(UnixNs::now()),
        error: ErrorEstimate::new(false, Format::Ntp, 1_000),
        ssid: 0,
    };
    let mut packet = vec![0; mode.bytes()];
    request.write(mode, &mut packet);
    if let Some(file) = key {
        sign_base(&Key::load(file).unwrap(), &mut packet);
    }
    packet
}

/// Sends a packet with the source address of another host.
fn forge(from: SocketAddrV4, to: SocketAddrV4, payload: &[u8]) {
    let bytes = |length: usize| u16::try_from(length).unwrap().to_be_bytes();
    let ip = [
        &[0x45, 0][..],
        &bytes(28 + payload.len()),
        // Identification, no fragment, time to live, UDP; the system fills in the checksum.
        &[0, 1, 0, 0, 64, 17, 0, 0],
        &from.ip().octets(),
        &to.ip().octets(),
    ];
    let udp = [
        &from.port().to_be_bytes()[..],
        &to.port().to_be_bytes(),
        &bytes(8 + payload.len()),
        // No checksum.
        &[0, 0],
        payload,
    ];
    let packet = [ip.concat(), udp.concat()].concat();
    let raw = socket(AddressFamily::INET, SocketType::RAW, Some(ipproto::RAW)).unwrap();
    sendto(&raw, &packet, SendFlags::empty(), &SocketAddr::V4(to)).unwrap();
}

/// What reflectors have answered in all: once a loop has ended with two replies, or went on.
fn answered(reflectors: &[Daemon]) -> u64 {
    let ask = || {
        let counts = reflectors.iter().map(|reflector| {
            let answer = reflector.json("/api/v1/reflector");
            let count = |name: &str| answer["reflector"][name].as_u64().unwrap_or_default();
            (count("answered"), count("looped"))
        });
        let (answered, looped) = counts.fold((0, 0), |sum, one| (sum.0 + one.0, sum.1 + one.1));
        // There is one packet: once it is refused, nothing is under way.
        let is_over = answered > 2 || (answered > 0 && looped == 1);
        Ok(is_over.then_some(answered))
    };
    until(PATIENCE, "neither a loop nor its end", ask).unwrap()
}

fn start(
    folder: &Path,
    listen: SocketAddrV4,
    key: Option<&Path>,
    offset: Option<(&Path, &Path)>,
) -> Daemon {
    let config = json!({ "reflector": { "listen": [listen.to_string()], "key_file": key } });
    Daemon::start(folder, config, |command| {
        if let Some((library, offset)) = offset {
            with_clock(command, library, offset);
        }
    })
}

/// Forges a packet from `b` to `a`, which are two reflectors or one, and counts the replies.
fn replies(ports: (u16, u16), is_authenticated: bool, offset_s: Option<f64>) -> u64 {
    let (folder, key) = folder();
    let key = is_authenticated.then_some(key.as_path());
    let a = SocketAddrV4::new([127, 0, 0, 11].into(), ports.0);
    let b = SocketAddrV4::new([127, 0, 0, 12].into(), ports.1);
    let offset = folder.path().join("offset");
    let library = offset_s.and_then(|offset_s| {
        set_clock(&offset, offset_s);
        faketime()
    });
    let clock = library
        .as_deref()
        .map(|library| (library, offset.as_path()));
    let reflectors = [
        start(folder.path(), a, key, None),
        start(folder.path(), b, key, clock),
    ];
    forge(b, a, &request(key));
    answered(&reflectors)
}

#[test]
fn a_forged_packet_between_two_reflectors_gets_two_replies() {
    if !own_network().unwrap() {
        return;
    }
    for is_authenticated in [false, true] {
        for ports in [(862, 862), (4_000, 5_000)] {
            let replies = replies(ports, is_authenticated, None);
            assert!(
                replies <= 2,
                "{replies} replies, {ports:?}, {is_authenticated}"
            );
        }
    }
}

#[test]
fn clocks_that_are_an_hour_apart_do_not_hide_a_loop() {
    if !own_network().unwrap() {
        return;
    }
    for offset_s in [-3_600.0, 3_600.0] {
        let replies = replies((862, 862), false, Some(offset_s));
        assert!(replies <= 2, "{replies} replies, {offset_s}");
    }
}

#[test]
fn a_reflector_does_not_answer_itself_for_ever() {
    if !own_network().unwrap() {
        return;
    }
    let (folder, key) = folder();
    for (port, key) in [(862, None), (863, Some(key.as_path()))] {
        let listen = SocketAddrV4::new([127, 0, 0, 11].into(), port);
        let reflectors = [start(folder.path(), listen, key, None)];
        forge(listen, listen, &request(key));
        let replies = answered(&reflectors);
        assert!(replies <= 2, "{replies} replies, {key:?}");
    }
}
