use super::*;
use reporting::statistics::mean;

fn small(seed: u64) -> Trace {
    Trace::generate(&Scenario::ACCEPTANCE, seed, 0.05)
}

#[test]
fn the_trace_is_as_the_paper_describes_it() {
    let trace = Trace::generate(&Scenario::ACCEPTANCE, 1, 1.0);
    assert_eq!(trace.flows(), 146_000);
    let packets = trace.packets() as f64;
    assert!((packets / 7.76e6 - 1.0).abs() < 0.01, "{packets}");
    let rate = packets / (trace.duration_ns as f64 / 1e9);
    assert!((rate / 27_000.0 - 1.0).abs() < 0.01, "{rate}");
    // LDS paper, section 5.1: flows of under 100 packets hold a fifth of all packets.
    let sizes = (0..trace.flows()).map(|flow| trace.of_flow(flow).count());
    let in_small: usize = sizes.filter(|&size| size < 100).sum();
    let share = in_small as f64 / packets;
    assert!((0.18..0.22).contains(&share), "{share}");
}

#[test]
fn a_seed_names_one_trace() {
    let (one, same, other) = (small(1), small(1), small(2));
    assert_eq!(one.packets, same.packets);
    assert_eq!(one.references, same.references);
    assert_ne!(one.packets, other.packets);
    assert_ne!(one.flow_hash(0), other.flow_hash(0));
}

#[test]
fn packets_lie_in_the_epoch_and_delays_around_their_modes() {
    let trace = small(3);
    let mut delays = Vec::new();
    for flow in 0..trace.flows() {
        for (_, packet) in trace.of_flow(flow) {
            assert!(packet.sent_ns < trace.duration_ns);
            delays.push(f64::from(packet.delay_ns().unwrap()));
        }
    }
    assert_eq!(delays.len(), trace.packets());
    // Modes 1.0 and 1.6, one queue and noise of .15 each, in units of 100 us.
    assert!(delays.iter().all(|&delay| delay > 80_000.0));
    let middle = median(delays);
    assert!((120_000.0..200_000.0).contains(&middle), "{middle}");
}

#[test]
fn references_see_the_first_queue() {
    let trace = Trace::generate(&Scenario::FIFO, 4, 0.02);
    let seen = mean(trace.references.iter().map(|reference| reference.delay_ns));
    // 1.0 + .6 + .03 units; the backlog wanders, so its mean over a few seconds is not exact.
    assert!((seen / 163_000.0 - 1.0).abs() < 0.1, "{seen}");
    let truth = Truth::of(&trace, &Losses::None.on(&trace, 0));
    let all = mean(truth.mean_ns.iter().copied());
    assert!((seen / all - 1.0).abs() < 0.1, "{seen} {all}");
}

#[test]
fn losses_take_the_share_asked_for() {
    let trace = small(5);
    for (losses, share, slack) in [
        (Losses::None, 0.0, 1e-12),
        (Losses::Uniform(0.01), 0.01, 0.001),
        (Losses::Episodes(0.05), 0.05, 0.01),
    ] {
        let truth = Truth::of(&trace, &losses.on(&trace, 7));
        let (sent, received): (f64, f64) = (truth.sent.iter().sum(), truth.received.iter().sum());
        let lost = 1.0 - received / sent;
        assert!((lost - share).abs() <= slack, "{losses:?}: {lost}");
    }
}

#[test]
fn episodes_take_neighbours_together() {
    let trace = small(6);
    let mask = Losses::Episodes(0.01).on(&trace, 8);
    let mut packets: Vec<_> = (0..trace.flows()).flat_map(|f| trace.of_flow(f)).collect();
    packets.sort_by_key(|(_, packet)| packet.sent_ns);
    let lost: Vec<bool> = packets
        .iter()
        .map(|&(hash, packet)| mask.takes(hash, packet.sent_ns))
        .collect();
    let begun = lost.windows(2).filter(|pair| !pair[0] && pair[1]).count();
    let per_episode = lost.iter().filter(|&&lost| lost).count() as f64 / begun as f64;
    assert!((60.0..160.0).contains(&per_episode), "{per_episode}");
}

#[test]
fn truth_is_exact() {
    let crossings = [
        (7, 10, Some(110)),
        (9, 20, None),
        (7, 30, Some(430)),
        (9, 5, Some(6)),
    ]
    .map(|(flow, sent_ns, received_ns)| Crossing::of_ns(flow, sent_ns, received_ns));
    let trace = Trace::from_crossings(&crossings, Vec::new(), 1);
    let truth = Truth::of(&trace, &Losses::None.on(&trace, 0));
    assert_eq!(truth.mean_ns, [250.0, 1.0]);
    assert_eq!(truth.stddev_ns, [150.0, 0.0]);
    assert_eq!(truth.received, [2.0, 1.0]);
    assert_eq!(truth.sent, [2.0, 2.0]);
    assert_eq!(
        truth.flows((2.0, f64::INFINITY)).collect::<Vec<_>>(),
        [0, 1]
    );
    assert_eq!(truth.flows((0.0, 2.0)).count(), 0);
}

#[test]
fn no_packets_make_an_empty_trace() {
    let trace = Trace::from_crossings(&[], Vec::new(), 1);
    assert_eq!((trace.flows(), trace.packets()), (0, 0));
    let mask = Losses::Episodes(0.5).on(&trace, 1);
    assert_eq!(Truth::of(&trace, &mask).flows(ALL).count(), 0);
}
