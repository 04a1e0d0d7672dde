use super::*;
use crate::queue::cross;
use crate::traffic::Profile;

fn packet(flow: u32, sent_ps: u64, delay_ps: u64) -> Crossing {
    Crossing {
        sent_ps,
        received_ps: Some(sent_ps + delay_ps),
        ..Crossing::of_ns(flow, 0, None)
    }
}

fn queue() -> (Vec<Crossing>, Truth) {
    let profile = Profile {
        utilisation: 0.9,
        modulation: 0.25,
        duration_s: 0.1,
    };
    let traffic = profile.draw(1);
    let crossings = cross(&traffic, &LinkConfig::ACCEPTANCE, 1, |_| None);
    let truth = Truth::of(&crossings, traffic.flows);
    (crossings, truth)
}

#[test]
fn probes_see_the_time_average_of_the_queue() {
    let (crossings, truth) = queue();
    let probes = Probes::send(&crossings, 200_000.0, 1);
    // The mean backlog over time, from the busy link: what an arrival at random would wait.
    let mut wait = 0.0;
    let mut free_ps = 0_u64;
    let slots = 100_000;
    let mut next = crossings.iter().peekable();
    for slot in 0..slots {
        let at_ps = slot * (PS_PER_S / 10 / slots);
        while let Some(crossing) = next.next_if(|c| c.sent_ps <= at_ps) {
            free_ps = crossing.received_ps.unwrap_or(free_ps);
        }
        wait += free_ps.saturating_sub(at_ps) as f64 / 1e3 / slots as f64;
    }
    let everything = Truth {
        flows: vec![truth.segment],
        ..truth
    };
    let estimate = probes.estimates_ns(&everything).next().unwrap();
    assert!(
        (estimate / (wait + 51.2) - 1.0).abs() < 0.03,
        "{estimate}, {wait}"
    );
}

#[test]
fn probes_speak_for_the_life_of_a_flow() {
    // The link is busy for the first half only.
    let second = PS_PER_S;
    let busy = [packet(0, 0, second), packet(1, second + 2, 51_200)];
    let mut crossings = busy.to_vec();
    crossings.push(packet(1, 2 * second, 51_200));
    let truth = Truth::of(&crossings, 2);
    let probes = Probes::send(&crossings, 1_000.0, 3);
    let estimates: Vec<f64> = probes.estimates_ns(&truth).collect();
    // Flow 0 has one packet and no probe at its instant: the mean of all, a quarter of a second.
    assert!((estimates[0] / 0.25e9 - 1.0).abs() < 0.1, "{estimates:?}");
    assert!((estimates[1] / 51.2 - 1.0).abs() < 1e-5, "{estimates:?}");
}

#[test]
fn samples_of_everything_are_the_truth() {
    let (crossings, truth) = queue();
    let flows = u32::try_from(truth.flows.len()).unwrap();
    let all = trajectories_ns(&crossings, flows, 1.0, 1);
    let errors = truth.errors(all, FlowTruth::mean_ns);
    assert!(errors.iter().all(|&error| error < 1e-9));
    // A flow without samples has the mean of all samples, so that none is missing.
    let few = trajectories_ns(&crossings, flows, 0.01, 1);
    assert!(few.iter().all(|estimate| estimate.is_finite()));
    let means: std::collections::HashSet<u64> = few.iter().map(|e| e.to_bits()).collect();
    assert!(means.len() > 10 && means.len() < few.len() / 2);
}

#[test]
fn the_multi_point_line_is_averaged_over_a_flows_life() {
    // Flow 0 lives from 0 to 40 and flow 1 gives it a point at 10 and 30: areas 15, 30, 25.
    let crossings = [
        packet(0, 0, 1_000),
        packet(1, 10, 2_000),
        packet(0, 20, 99_000),
        packet(1, 30, 1_000),
        packet(0, 40, 4_000),
    ];
    // Flow by flow or in order of time.
    let mut packets = crossings.map(|c| (c.flow, c.sent_ps, c.delay_ns().unwrap()));
    for _ in 0..2 {
        let got = multi_point_ns(packets.into_iter(), 3, 1.0, 1);
        assert!((got[0] - 70.0 / 40.0).abs() < 1e-12, "{got:?}");
        assert!((got[1] - 1.5).abs() < 1e-12, "{got:?}");
        // Flow 2 lost its packets: the mean over the run.
        assert!((got[2] - 70.0 / 40.0).abs() < 1e-12, "{got:?}");
        packets.sort_by_key(|&(flow, ..)| flow);
    }
}
