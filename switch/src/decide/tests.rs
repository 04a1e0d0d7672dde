use std::time::Duration;

use contract::fdb::{FdbMaster, FdbSettings, MasterEnd, fdb_rings};
use proptest::prelude::*;

use super::*;

const EAST: PortIndex = PortIndex(0);
const WEST: PortIndex = PortIndex(1);
const NORTH: PortIndex = PortIndex(2);
const HZ: u64 = 1_000_000_000;
const BROADCAST: [u8; 6] = [0xff; 6];

fn mac(n: u8) -> [u8; 6] {
    [2, 0, 0, 0, 0, n]
}

fn frame(destination: [u8; 6], source: [u8; 6], ethertype: u16) -> Vec<u8> {
    [
        &destination[..],
        &source,
        &ethertype.to_be_bytes(),
        &[0; 46],
    ]
    .concat()
}

fn layout(lan: Lan) -> BridgeLayout {
    BridgeLayout {
        lan,
        stations_max: 1024,
        flood_limit_pps: 1_000_000,
        ..BridgeLayout::plain(0)
    }
}

fn decide_by(layout: BridgeLayout) -> Decide {
    Decide::bridge(layout, TickRate::from_hz(HZ))
}

fn bridge() -> Decide {
    decide_by(layout(Lan::of_plain(3)))
}

fn panel() -> Decide {
    Decide::patch(3, &[(EAST, WEST)])
}

impl Decide {
    fn burst(&mut self, from: PortIndex, frames: &[Vec<u8>]) -> (Vec<Verdict>, Option<PortIndex>) {
        let mut decisions = Decisions::new();
        let heads = frames.iter().map(Vec::as_slice);
        let all = self.decide_burst(from, heads, Ticks(0), &mut decisions);
        self.complete(&mut decisions, all, frames.len());
        (decisions.iter().map(|d| d.verdict()).collect(), all)
    }

    fn one(&mut self, from: PortIndex, frame: &[u8], now: u64) -> Verdict {
        let mut decisions = Decisions::new();
        let heads = std::iter::once(frame);
        let all = self.decide_burst(from, heads, Ticks(now), &mut decisions);
        self.complete(&mut decisions, all, 1);
        let [decision] = decisions[..] else {
            panic!("one verdict a frame")
        };
        let verdict = decision.verdict();
        let is_alone = matches!(verdict, Verdict::Forward(to) if all == Some(to));
        assert!(is_alone || all.is_none() || self.retags());
        verdict
    }
}

fn to(ports: &[PortIndex]) -> Verdict {
    Verdict::Flood(ports.iter().copied().collect())
}

const fn dropped(reason: DropReason) -> Verdict {
    Verdict::Drop(reason)
}

#[test]
fn a_patch_panel_passes_everything_but_mac_control() {
    let mut panel = panel();
    let lldp = frame([0x01, 0x80, 0xc2, 0, 0, 0x0e], mac(1), 0x88cc);
    assert_eq!(panel.one(EAST, &lldp, 0), Verdict::Forward(WEST));
    assert_eq!(panel.one(WEST, &lldp, 0), Verdict::Forward(EAST));
    assert_eq!(
        panel.one(NORTH, &lldp, 0),
        dropped(DropReason::NoDestination)
    );
    let pause = frame([0x01, 0x80, 0xc2, 0, 0, 1], mac(1), 0x8808);
    assert_eq!(panel.one(EAST, &pause, 0), dropped(DropReason::Pause));
    assert_eq!(panel.one(EAST, &pause[..13], 0), dropped(DropReason::Runt));
}

#[test]
fn a_port_without_a_link_gets_nothing_until_it_is_back() {
    let link = |is_up| FdbDelta::Link {
        port: PortIndex(WEST.0),
        is_up,
    };
    let hello = frame(BROADCAST, mac(1), 0x0800);
    let mut panel = panel();
    panel.apply(link(false), Ticks(0));
    assert_eq!(panel.burst(EAST, std::slice::from_ref(&hello)).1, None);
    assert_eq!(panel.one(EAST, &hello, 0), dropped(DropReason::LinkDown));
    panel.apply(link(true), Ticks(0));
    assert_eq!(panel.one(EAST, &hello, 0), Verdict::Forward(WEST));

    let mut layout = layout(Lan::of_plain(3));
    layout.statics = vec![(StationKey::new(0, 0x0200_0000_0009), WEST)];
    let mut bridge = decide_by(layout);
    let (reply, to_static) = (frame(mac(2), mac(1), 0x0800), frame(mac(9), mac(1), 0x0800));
    bridge.one(WEST, &frame(mac(1), mac(2), 0x0800), 0);
    assert_eq!(bridge.one(EAST, &reply, 0), Verdict::Forward(WEST));
    bridge.apply(link(false), Ticks(0));
    assert_eq!(
        bridge.one(EAST, &reply, 0),
        to(&[NORTH]),
        "flushed, and flooded past it"
    );
    assert_eq!(
        bridge.one(EAST, &to_static, 0),
        dropped(DropReason::LinkDown)
    );
    // Frames that still waited there teach nothing.
    bridge.one(WEST, &frame(mac(1), mac(2), 0x0800), 0);
    assert_eq!(bridge.one(EAST, &reply, 0), to(&[NORTH]));
    bridge.apply(
        FdbDelta::Link {
            port: PortIndex(NORTH.0),
            is_up: false,
        },
        Ticks(0),
    );
    assert_eq!(bridge.one(EAST, &reply, 0), dropped(DropReason::LinkDown));
    bridge.apply(link(true), Ticks(0));
    assert_eq!(bridge.one(EAST, &to_static, 0), Verdict::Forward(WEST));
}

#[test]
fn a_bridge_floods_learns_forwards_and_never_hairpins() {
    let [a, b, c] = [1, 2, 3].map(mac);
    let mut bridge = bridge();
    let steps = [
        (EAST, b, a, to(&[WEST, NORTH])),
        (WEST, a, b, Verdict::Forward(EAST)),
        (EAST, b, a, Verdict::Forward(WEST)),
        (EAST, a, c, dropped(DropReason::Hairpin)),
        // The station moved: the newest observation counts.
        (NORTH, BROADCAST, a, to(&[EAST, WEST])),
        (WEST, a, b, Verdict::Forward(NORTH)),
    ];
    for (now, (from, destination, source, verdict)) in (0..).zip(steps) {
        let frame = frame(destination, source, 0x0800);
        assert_eq!(bridge.one(from, &frame, now), verdict, "step {now}");
    }
}

#[test]
fn a_bridge_drops_what_no_bridge_forwards() {
    for last in 0..16 {
        let reserved = frame([0x01, 0x80, 0xc2, 0, 0, last], mac(1), 0x88cc);
        assert_eq!(
            bridge().one(EAST, &reserved, 0),
            dropped(DropReason::LinkLocal)
        );
    }
    let beyond = frame([0x01, 0x80, 0xc2, 0, 0, 0x10], mac(1), 0x0800);
    assert_eq!(bridge().one(EAST, &beyond, 0), to(&[WEST, NORTH]));
    for source in [BROADCAST, [0; 6], [1, 0, 0, 0, 0, 0]] {
        let frame = frame(mac(1), source, 0x0800);
        assert_eq!(
            bridge().one(EAST, &frame, 0),
            dropped(DropReason::BadSource)
        );
    }
    let mut alone = decide_by(layout(Lan::of_plain(1)));
    let hello = frame(BROADCAST, mac(1), 0x0800);
    assert_eq!(
        alone.one(EAST, &hello, 0),
        dropped(DropReason::NoDestination)
    );
}

#[test]
fn floods_of_a_port_are_limited_and_known_stations_are_not() {
    let mut layout = layout(Lan::of_plain(3));
    layout.flood_limit_pps = 1_000;
    let mut bridge = decide_by(layout);
    bridge.one(WEST, &frame(BROADCAST, mac(2), 0x0800), 0);
    let hello = frame(BROADCAST, mac(1), 0x0800);
    let flooded = |bridge: &mut Decide, from, now| {
        (0..1000)
            .filter(|_| bridge.one(from, &hello, now) != dropped(DropReason::Storm))
            .count()
    };
    assert_eq!(flooded(&mut bridge, EAST, 1), 64);
    assert_eq!(
        flooded(&mut bridge, EAST, 1 + HZ / 20),
        49,
        "1,000 a second, rounded down"
    );
    assert_eq!(
        flooded(&mut bridge, NORTH, 2),
        64,
        "another port's storm is its own"
    );
    let known = frame(mac(2), mac(1), 0x0800);
    assert_eq!(
        bridge.one(EAST, &known, 1 + HZ / 20),
        Verdict::Forward(WEST)
    );
}

#[test]
fn a_burst_that_leaves_whole_by_one_port_is_told() {
    let mut bridge = bridge();
    bridge.one(WEST, &frame(BROADCAST, mac(2), 0x0800), 0);
    let known = frame(mac(2), mac(1), 0x0800);
    let unknown = frame(mac(3), mac(1), 0x0800);
    let (verdicts, all) = bridge.burst(EAST, &[known.clone(), known.clone()]);
    assert_eq!(
        (verdicts, all),
        (vec![Verdict::Forward(WEST); 2], Some(WEST))
    );
    let (verdicts, all) = bridge.burst(EAST, &[known.clone(), unknown, known]);
    assert_eq!(verdicts[1], to(&[WEST, NORTH]));
    assert_eq!(all, None);
    assert_eq!(bridge.burst(EAST, &[]), (vec![], None));
}

fn vlans() -> Vec<Option<contract::config::Vlan>> {
    use contract::config::{Vlan, VlanIds};
    let trunk = |ids: &[u16], native| Vlan::Trunk {
        vlans: VlanIds::Listed(ids.to_vec()),
        native,
    };
    vec![
        Some(Vlan::Access { vlan: 1 }),
        Some(Vlan::Access { vlan: 2 }),
        Some(trunk(&[1, 2], None)),
        Some(trunk(&[2, 3], Some(1))),
        None,
        None,
    ]
}

fn vlan_bridge() -> Decide {
    let vlans = vlans();
    let ports = (0..).map(PortIndex).zip(vlans.iter().map(Option::as_ref));
    decide_by(layout(Lan::of(ports)))
}

#[test]
fn one_address_in_two_vlans_is_two_stations() {
    let mut bridge = vlan_bridge();
    let untagged = |to, from| frame(to, from, 0x0800);
    let tagged = |vlan: u16, to: [u8; 6], from: [u8; 6]| {
        let tci = vlan.to_be_bytes();
        [&to[..], &from, &[0x81, 0, tci[0], tci[1], 8, 0], &[0; 46]].concat()
    };
    assert_eq!(
        bridge.one(PortIndex(0), &untagged(BROADCAST, mac(1)), 0),
        to(&[PortIndex(2), PortIndex(3)])
    );
    assert_eq!(
        bridge.one(PortIndex(1), &untagged(BROADCAST, mac(1)), 0),
        to(&[PortIndex(2), PortIndex(3)])
    );
    for (vlan, port) in [(1, 0), (2, 1)] {
        let frame = tagged(vlan, mac(1), mac(9));
        assert_eq!(
            bridge.one(PortIndex(2), &frame, 0),
            Verdict::Forward(PortIndex(port))
        );
        assert_eq!(
            bridge.burst(PortIndex(2), &[frame]).1,
            None,
            "its tag must be removed"
        );
    }
    assert_eq!(
        bridge.one(PortIndex(0), &tagged(1, mac(1), mac(9)), 0),
        dropped(DropReason::Vlan)
    );
    assert_eq!(
        bridge.one(PortIndex(4), &tagged(1, mac(1), mac(9)), 0),
        to(&[PortIndex(5)])
    );
}

fn joined() -> (Decide, MasterEnd) {
    let (replica, master) = fdb_rings(64, 64);
    let mut decide = bridge();
    decide.end = Some(replica);
    (decide, master)
}

#[test]
fn what_one_worker_learns_the_others_know_after_one_poll_and_one_pass() {
    let ((mut a, a_end), (mut b, b_end)) = (joined(), joined());
    let mut master = FdbMaster::new(
        FdbSettings::new(1024, Duration::from_mins(5)),
        vec![a_end, b_end],
    );
    a.one(WEST, &frame(BROADCAST, mac(2), 0x0800), 0);
    let reply = frame(mac(2), mac(1), 0x0800);
    assert_eq!(b.one(EAST, &reply, 0), to(&[WEST, NORTH]));
    master.poll(Duration::ZERO);
    b.tick(Ticks(1));
    assert_eq!(b.one(EAST, &reply, 1), Verdict::Forward(WEST));
    master.set_link(PortIndex(WEST.0), false);
    master.poll(Duration::ZERO);
    b.tick(Ticks(2));
    assert_eq!(b.one(EAST, &reply, 2), to(&[NORTH]));
}

#[test]
fn a_generation_takes_over_what_was_learnt_or_asks_for_it() {
    let (mut old, end) = joined();
    let mut master = FdbMaster::new(FdbSettings::new(1024, Duration::from_mins(5)), vec![end]);
    old.one(WEST, &frame(BROADCAST, mac(2), 0x0800), 0);
    old.apply(
        FdbDelta::Link {
            port: PortIndex(NORTH.0),
            is_up: false,
        },
        Ticks(0),
    );
    let reply = frame(mac(2), mac(1), 0x0800);
    let mut same = bridge();
    same.adopt(&mut old);
    assert_eq!(same.one(EAST, &reply, 0), Verdict::Forward(WEST));
    assert_eq!(
        same.one(EAST, &frame(BROADCAST, mac(1), 0x0800), 0),
        to(&[WEST])
    );

    let mut larger = decide_by(BridgeLayout {
        stations_max: 10_000,
        ..layout(Lan::of_plain(3))
    });
    larger.adopt(&mut same);
    assert_eq!(larger.one(EAST, &reply, 0), to(&[WEST]));
    master.set_link(PortIndex(NORTH.0), false);
    for now in 0..2 {
        master.poll(Duration::ZERO);
        larger.tick(Ticks(now));
    }
    assert_eq!(larger.one(EAST, &reply, 2), Verdict::Forward(WEST));
}

/// A bridge as simple as can be.
#[derive(Default)]
struct Naive {
    stations: std::collections::HashMap<(u16, u8), u8>,
}

impl Naive {
    /// Members of a VLAN, and the VLAN of a frame, derived again from the configuration.
    fn members(vlan: u16) -> Vec<u8> {
        let is_member = |port: &Option<contract::config::Vlan>| match port {
            None => vlan == 0,
            Some(contract::config::Vlan::Access { vlan: own }) => vlan == *own,
            Some(contract::config::Vlan::Trunk { vlans, native }) => {
                let contract::config::VlanIds::Listed(ids) = vlans else {
                    return vlan != 0;
                };
                ids.contains(&vlan) || *native == Some(vlan)
            }
        };
        let vlans = vlans();
        (0..6)
            .filter(|&n| is_member(&vlans[usize::from(n)]))
            .collect()
    }

    fn vlan_of(from: u8, tag: Option<u16>) -> Option<u16> {
        match (&vlans()[usize::from(from)], tag) {
            (None, _) => Some(0),
            (Some(contract::config::Vlan::Access { vlan }), None | Some(0)) => Some(*vlan),
            (Some(contract::config::Vlan::Access { .. }), _) => None,
            (Some(contract::config::Vlan::Trunk { native, .. }), None | Some(0)) => *native,
            (Some(contract::config::Vlan::Trunk { .. }), tag) => tag,
        }
        .filter(|&vlan| Self::members(vlan).contains(&from))
    }

    fn decide(&mut self, from: u8, tag: Option<u16>, destination: u8, source: u8) -> Verdict {
        let Some(vlan) = Self::vlan_of(from, tag) else {
            return dropped(DropReason::Vlan);
        };
        self.stations.insert((vlan, source), from);
        let others: PortSet = Self::members(vlan)
            .into_iter()
            .filter(|&to| to != from)
            .map(PortIndex)
            .collect();
        match self.stations.get(&(vlan, destination)) {
            Some(&to) if to == from => dropped(DropReason::Hairpin),
            Some(&to) => Verdict::Forward(PortIndex(to)),
            None if others.is_empty() => dropped(DropReason::NoDestination),
            None => Verdict::Flood(others),
        }
    }
}

proptest! {
    #[test]
    fn a_bridge_agrees_with_a_naive_one(
        frames in prop::collection::vec(
            (0u8..6, prop::option::of(0u16..5), 0u8..6, 1u8..6), 1..200),
    ) {
        let (mut bridge, mut naive) = (vlan_bridge(), Naive::default());
        for (from, tag, destination, source) in frames {
            let expected = naive.decide(from, tag, destination, source);
            // Address 0 stands for everybody's.
            let to = if destination == 0 { BROADCAST } else { mac(destination) };
            let mut bytes = frame(to, mac(source), 0x0800);
            if let Some(vlan) = tag {
                let tci = (vlan | 0x6000).to_be_bytes();
                bytes.splice(12..12, [0x81, 0, tci[0], tci[1]]);
            }
            prop_assert_eq!(bridge.one(PortIndex(from), &bytes, 0), expected);
        }
    }

    #[test]
    fn a_burst_gets_the_verdicts_of_its_frames(
        steps in prop::collection::vec(
            (0u8..3, prop::collection::vec((1u8..5, 1u8..5), 0..6), 0u64..3, prop::option::of(0u8..3)),
            1..60,
        ),
    ) {
        // The fourth station is static; the others age after three units.
        let layout = || BridgeLayout {
            ageing: std::time::Duration::from_millis(300),
            statics: vec![(StationKey::new(0, 0x0200_0000_0004), NORTH)],
            ..layout(Lan::of_plain(3))
        };
        let (mut whole, mut single) = (decide_by(layout()), decide_by(layout()));
        let mut now = Ticks(1 << 40);
        for (from, pairs, units, flushed) in steps {
            now = now.plus(units << 28);
            for decide in [&mut whole, &mut single] {
                decide.tick(now);
                if let Some(port) = flushed {
                    decide.apply(FdbDelta::Flush(PortIndex(port)), now);
                }
            }
            let frames: Vec<_> = (pairs.iter())
                .map(|&(destination, source)| frame(mac(destination), mac(source), 0x0800))
                .collect();
            let mut decisions = Decisions::new();
            let heads = frames.iter().map(Vec::as_slice);
            let all = whole.decide_burst(PortIndex(from), heads, now, &mut decisions);
            whole.complete(&mut decisions, all, frames.len());
            let verdicts = decisions.iter().map(|decision| decision.verdict());
            let expected = frames.iter().map(|frame| single.one(PortIndex(from), frame, now.0));
            prop_assert_eq!(verdicts.collect::<Vec<_>>(), expected.collect::<Vec<_>>());
        }
    }

    #[test]
    fn any_bytes_get_a_verdict(
        bytes in prop::collection::vec(any::<u8>(), 0..80),
        is_tagged in any::<bool>(),
        from in 0u8..70,
    ) {
        let mut bytes = bytes;
        if is_tagged && bytes.len() >= 14 {
            bytes[12..14].copy_from_slice(&[0x81, 0]);
        }
        for decide in [&mut vlan_bridge(), &mut bridge(), &mut panel()] {
            let verdict = decide.one(PortIndex(from), &bytes, 0);
            if let Verdict::Flood(ports) = verdict {
                prop_assert!(!ports.is_empty() && !ports.contains(PortIndex(from)));
                for to in ports.ports() {
                    decide.rewrite(PortIndex(from), to, &bytes);
                }
            }
        }
    }
}

proptest! {
    /// As many as a bucket with real numbers passes, apart from rounding.
    #[test]
    fn the_rate_is_kept(
        frames_per_s in 1u32..10_000_000,
        pauses in prop::collection::vec(0u64..30_000_000, 1..100),
    ) {
        let rate = TickRate::from_hz(3_000_000_000);
        let mut limit = StormLimit::new(frames_per_s, rate);
        let burst = f64::from((frames_per_s / 100).max(64));
        let (mut now, mut level, mut spent) = (0, burst, 0.0);
        for pause in pauses {
            now += pause;
            level = (level + f64::from(frames_per_s) * pause as f64 / rate.hz() as f64).min(burst);
            // No more than the model has, and no less than a frame under it; the rate is rounded
            // down to a multiple of 0.7 frames a second.
            let rounding = 1.0 + now as f64 / rate.hz() as f64;
            let mut passed = 0.0;
            while limit.takes(Ticks(now)) {
                passed += 1.0;
            }
            prop_assert!(passed <= level + 1e-6, "{} of {}", passed, level);
            prop_assert!(passed > level - rounding, "{} of {}", passed, level);
            level -= passed;
            spent += passed;
        }
        prop_assert!(spent <= burst + f64::from(frames_per_s) * now as f64 / rate.hz() as f64 + 1e-6);
    }
}

#[test]
fn a_quiet_time_saves_up_no_more_than_the_burst() {
    let mut limit = StormLimit::new(1_000, TickRate::from_hz(1_000_000_000));
    let flooded =
        |limit: &mut StormLimit, now| (0..10_000).filter(|_| limit.takes(Ticks(now))).count();
    assert_eq!(flooded(&mut limit, 0), 64);
    assert_eq!(
        flooded(&mut limit, 10_000_000),
        9,
        "10 ms, and the rate is rounded down"
    );
    assert_eq!(flooded(&mut limit, u64::MAX / 2), 64);
}
