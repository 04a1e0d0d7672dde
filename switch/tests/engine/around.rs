//! Packets around a device that delays, drops, creates, repeats and rewrites them: each is counted by its fate, and
//! every delay is exact.
use std::collections::HashMap;

use contract::config::{Config, Stamps};
use contract::counters::{AroundCounters, Counter};
use measure::observation::SegmentIndex;
use measure::shard::Shard;
use measure::time::Epoch;
use rand::{RngExt, SeedableRng};
use rand_pcg::Pcg32;
use simulate::rack::{INTERVAL, Rack, config, port, udp};

const TIMEOUT_MS: u64 = 5;

/// `a` - `in` [device] `out` - `b`, and a third port of the device, `dmz` - `c`, where it has one.
fn around(workers: usize, ports: &[&str], packets: u32) -> Config {
    let names = ["a", "in", "out", "b", "dmz", "c"];
    let ports_json = names.map(|name| port(name, ""));
    let device: Vec<String> = ports.iter().map(|name| format!("{name:?}")).collect();
    let rest = format!(
        r#""forwarding": {{"mode": "patch", "pairs": [["a", "in"], ["out", "b"], ["dmz", "c"]]}},
        "measurement": {{"around": [{{"name": "fw", "ports": [{}], "timeout_ms": {TIMEOUT_MS},
            "packets": {packets}}}], "flows": {{"slots": 64}}}}"#,
        device.join(", ")
    );
    config(workers, &ports_json.join(", "), &rest)
}

/// A device's action on a packet.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Fate {
    /// It comes out by a port after so long.
    Passes(usize, u64),
    Dropped,
    /// Addresses are translated: another packet comes out.
    Translated(usize, u64),
    Repeated(usize, u64),
}

/// A router's changes: addresses of the link, a VLAN, DSCP, TTL, the checksum.
fn routed(frame: &[u8]) -> Vec<u8> {
    let mut routed = frame.to_vec();
    routed[..12].copy_from_slice(&[2, 9, 9, 9, 9, 9, 2, 8, 8, 8, 8, 8]);
    routed[15] ^= 0x28;
    routed[22] = routed[22].wrapping_sub(1);
    routed[24..26].fill(0);
    let sum: u32 = (routed[14..34].chunks(2))
        .map(|word| u32::from(word[0]) << 8 | u32::from(word[1]))
        .sum();
    let folded = (sum & 0xffff) + (sum >> 16);
    let sum = !u16::try_from((folded & 0xffff) + (folded >> 16)).unwrap();
    routed[24..26].copy_from_slice(&sum.to_be_bytes());
    routed.splice(12..12, [0x81, 0, 0, 42]);
    routed
}

/// The truth: by segment (from, to) packets and the sum of their delays; the rest by port.
#[derive(Debug, Default)]
struct Truth {
    passed: HashMap<(usize, usize), (u64, u64)>,
    entered: HashMap<usize, u64>,
    returned: HashMap<usize, u64>,
    lost: HashMap<usize, u64>,
    unknown: HashMap<usize, u64>,
    reordered: HashMap<usize, u64>,
    latest: HashMap<(usize, usize), u64>,
}

/// A packet inside: when it leaves, by which port, its frame, and by which port and when it entered, if it did.
type Held = (u64, usize, Vec<u8>, Option<(usize, u64)>);

/// A device: the packets in it, by time, and the truth.
struct Device {
    rng: Pcg32,
    ports: Vec<usize>,
    held: Vec<Held>,
    truth: Truth,
}

impl Device {
    fn fate(&mut self, from: usize) -> Fate {
        let others: Vec<usize> = self
            .ports
            .iter()
            .copied()
            .filter(|&port| port != from)
            .collect();
        let to = others[self.rng.random_range(0..others.len())];
        // Up to a third of the time-out, over epochs' ends.
        let delay = self.rng.random_range(0..INTERVAL * 3 / 2);
        match self.rng.random_range(0..100) {
            0..80 => Fate::Passes(to, delay),
            80..90 => Fate::Dropped,
            90..95 => Fate::Translated(to, delay),
            _ => Fate::Repeated(to, delay),
        }
    }

    fn enters(&mut self, from: usize, at: u64, frame: &[u8]) {
        *self.truth.entered.entry(from).or_default() += 1;
        let out = routed(frame);
        match self.fate(from) {
            Fate::Passes(to, delay) => self.held.push((at + delay, to, out, Some((from, at)))),
            Fate::Dropped => *self.truth.lost.entry(from).or_default() += 1,
            Fate::Translated(to, delay) => {
                let mut other = out;
                other[33] ^= 0x55;
                *self.truth.lost.entry(from).or_default() += 1;
                self.held.push((at + delay, to, other, None));
            }
            Fate::Repeated(to, delay) => {
                self.held
                    .push((at + delay, to, out.clone(), Some((from, at))));
                self.held.push((at + delay + 1_000, to, out, None));
            }
        }
    }

    /// Packets that leave by `now`, in order: at each port as many as the switch reads at once.
    fn leave(&mut self, rack: &mut Rack, now: u64) {
        self.held.sort_by_key(|held| held.0);
        let mut read: HashMap<usize, usize> = HashMap::new();
        for (when, to, frame, entered) in std::mem::take(&mut self.held) {
            let read = read.entry(to).or_default();
            if when > now || *read == 64 {
                self.held.push((when, to, frame, entered));
                continue;
            }
            *read += 1;
            let truth = &mut self.truth;
            match entered {
                Some((from, at)) => {
                    *truth.returned.entry(to).or_default() += 1;
                    let passed = truth.passed.entry((from, to)).or_default();
                    *passed = (passed.0 + 1, passed.1 + now - at);
                    let latest = truth.latest.entry((from, to)).or_default();
                    *truth.reordered.entry(to).or_default() += u64::from(at < *latest);
                    *latest = at.max(*latest);
                }
                None => *truth.unknown.entry(to).or_default() += 1,
            }
            rack.arrive(to, frame);
        }
    }
}

/// Runs a switch with a device for some epochs; `each` may do more at every pass.
fn run(
    config: &Config,
    seed: u64,
    epochs: u64,
    mut each: impl FnMut(&mut Rack, u64),
) -> (Rack, Truth, Vec<(u64, Shard)>) {
    let mut rack = Rack::new(config);
    let ports = config.measurement.around[0].ports.iter();
    let ports: Vec<usize> = ports.map(|name| config.port_index(name).unwrap()).collect();
    let mut device = Device {
        rng: Pcg32::seed_from_u64(seed),
        ports: ports.clone(),
        held: Vec::new(),
        truth: Truth::default(),
    };
    let outside: Vec<usize> = ["a", "b", "c"]
        .map(|name| config.port_index(name).unwrap())
        .into();
    let (mut n, mut now) = (0_u32, 0);
    while now < epochs * INTERVAL {
        now += device.rng.random_range(1_000..60_000);
        let is_over = now > (epochs - 12) * INTERVAL;
        for &from in &outside[..ports.len()] {
            for _ in 0..if is_over {
                0
            } else {
                device.rng.random_range(0..30)
            } {
                n += 1;
                rack.arrive(from, udp(u16::try_from(n % 50).unwrap(), n, 100));
            }
        }
        device.leave(&mut rack, now);
        each(&mut rack, now);
        rack.pass_at(now);
        for &from in &ports {
            for (at, frame) in rack.departed(from) {
                device.enters(from, at, &frame);
            }
        }
        for &port in &outside {
            rack.departed(port);
        }
    }
    rack.settle();
    rack.assert_conserved();
    assert!(device.held.is_empty());
    let shards = rack.take_epochs();
    (rack, device.truth, shards)
}

fn assert_true(rack: &Rack, truth: &Truth, shards: &[(u64, Shard)]) {
    let is_around = |segment: &&(u16, contract::config::Segment)| segment.1.around.is_some();
    let segments: Vec<_> = (0..).zip(rack.running.config.segments()).collect();
    for (index, segment) in segments.iter().filter(is_around) {
        let (mut packets, mut ticks) = (0, 0);
        for synopsis in shards
            .iter()
            .filter_map(|(_, shard)| shard.segment(SegmentIndex(*index)))
        {
            packets += synopsis.tally.received;
            ticks += u64::try_from(synopsis.moments.sum_ticks()).unwrap();
            assert_eq!(synopsis.tally.received, synopsis.moments.count());
        }
        let pair = (segment.ingress, segment.egress);
        let (expected, expected_ticks) = truth.passed.get(&pair).copied().unwrap_or_default();
        assert_eq!((packets, ticks), (expected, expected_ticks), "{segment:?}");
    }
    for port in (0..rack.running.config.ports.len())
        .filter(|&port| rack.running.config.around(port).is_some())
    {
        let at = |of: &HashMap<usize, u64>| of.get(&port).copied().unwrap_or_default();
        let counters: [fn(&AroundCounters) -> &Counter; 4] = [
            |c| &c.entered_packets,
            |c| &c.returned_packets,
            |c| &c.lost_packets,
            |c| &c.unknown_packets,
        ];
        let counted = counters.map(|of| rack.sum_at(port, |port| of(&port.around).get()));
        let expected = [&truth.entered, &truth.returned, &truth.lost, &truth.unknown].map(at);
        let name = rack.running.config.port_name(port);
        assert_eq!(
            counted, expected,
            "{name}: entered, returned, lost, unknown"
        );
        let displaced = rack.sum_at(port, |port| port.around.displaced_packets.get());
        assert_eq!(displaced, 0, "{name}: displaced");
    }
}

#[test]
fn every_packet_is_accounted_for_with_one_worker_and_with_two() {
    for (workers, seed) in [(1, 1), (1, 2), (2, 3), (2, 4)] {
        let config = around(workers, &["in", "out"], 65_536);
        let (rack, truth, shards) = run(&config, seed, 60, |_, _| ());
        assert_true(&rack, &truth, &shards);
        assert!(truth.lost.values().sum::<u64>() > 1_000);
        // Of a device with two ports, segments have the losses.
        for (index, segment) in (0..)
            .zip(config.segments())
            .filter(|(_, segment)| segment.around.is_some())
        {
            let all = shards
                .iter()
                .filter_map(|(_, shard)| shard.segment(SegmentIndex(index)));
            let lost: u64 = all.map(|synopsis| synopsis.tally.dropped).sum();
            assert_eq!(lost, truth.lost[&segment.ingress]);
        }
        if workers == 1 {
            for (port, reordered) in &truth.reordered {
                let counted = rack.sum_at(*port, |port| port.around.reordered_packets.get());
                assert_eq!(counted, *reordered);
            }
        }
    }
}

#[test]
fn a_device_with_three_ports_has_a_segment_from_each_to_each() {
    let config = around(2, &["in", "out", "dmz"], 65_536);
    assert_eq!(
        config
            .segments()
            .iter()
            .filter(|segment| segment.around.is_some())
            .count(),
        6
    );
    let (rack, truth, shards) = run(&config, 5, 60, |_, _| ());
    assert_eq!(truth.passed.len(), 6);
    assert_true(&rack, &truth, &shards);
}

#[test]
fn what_the_driver_refuses_has_not_entered() {
    let config = around(1, &["in", "out"], 65_536);
    let mut rng = Pcg32::seed_from_u64(6);
    let ports = [1, 2];
    let (rack, truth, shards) = run(&config, 6, 60, |rack, now| {
        for port in ports {
            let room = (now < 40 * INTERVAL).then(|| rng.random_range(0..12));
            rack.set_room(port, room);
        }
    });
    assert!(truth.entered.values().sum::<u64>() > 1_000);
    assert_true(&rack, &truth, &shards);
}

#[test]
fn a_change_of_the_configuration_loses_no_packet() {
    let config = around(2, &["in", "out"], 65_536);
    let mut number = 0;
    let (rack, truth, shards) = run(&config, 7, 60, |rack, now| {
        if now / (10 * INTERVAL) <= number || now > 45 * INTERVAL {
            return;
        }
        number += 1;
        let mut config = rack.running.config.clone();
        config.measurement.stamps = [Stamps::Burst, Stamps::Packet][usize::from(number % 2 == 1)];
        assert!(rack.reload(config, Epoch(now / INTERVAL + 1)));
    });
    assert!(number > 3);
    assert_true(&rack, &truth, &shards);
}

#[test]
fn a_table_that_is_full_says_which_packets_it_forgot() {
    let config = around(1, &["in", "out"], 64);
    let (rack, truth, _) = run(&config, 8, 60, |_, _| ());
    let sum = |of: fn(&AroundCounters) -> &Counter| rack.sum(|port| of(&port.around).get());
    let displaced = sum(|c| &c.displaced_packets);
    assert!(displaced > 100, "{displaced}");
    let known = sum(|c| &c.returned_packets) + sum(|c| &c.lost_packets) + displaced;
    assert_eq!(sum(|c| &c.entered_packets), known);
    assert_eq!(
        sum(|c| &c.entered_packets),
        truth.entered.values().sum::<u64>()
    );
}
