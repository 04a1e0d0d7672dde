use super::*;
use crate::config::{Class, Flows, HostConfig, Rli, RliMethod, RliPolicy, SegmentPorts};

fn layout(config: &Config) -> ShardLayout {
    config
        .shard_layout(TickRate::from_hz(1_000_000_000))
        .unwrap()
}

#[test]
fn the_demo_keeps_an_lda_sketches_and_flows() {
    let layout = layout(&Config::demo().unwrap());
    assert_eq!(layout.segments(), 2);
    assert_eq!(layout.lda.map(|lda| lda.cells()), Some(1_024));
    assert_eq!(layout.lds.map(|lds| lds.cells()), Some(12_000));
    assert_eq!(layout.sketches, 2);
    assert_eq!((layout.flow_slots, layout.flow_estimates), (4_096, true));
}

#[test]
fn sketches_follow_egress_ports_and_weights_follow_classes() {
    let mut config = Config::demo().unwrap();
    config.classes = [("gold", 25), ("rest", 1)]
        .map(|(name, lds_weight)| Class {
            name: name.to_owned(),
            lds_weight,
        })
        .to_vec();
    config.measurement.lda = None;
    config.measurement.lds = Some(Lds::default());
    config.measurement.flows = Some(Flows::default());
    config.measurement.rli = Some(Rli {
        policy: RliPolicy::Count { packets: 100 },
        method: RliMethod::Auto,
    });
    let both = layout(&config);
    assert_eq!(config.sketch_ports(), [0, 1]);
    // east>west gold and rest, west>east gold and rest.
    assert_eq!((both.sketches, &both.sketch_of[..]), (2, &[1, 1, 0, 0][..]));
    assert_eq!((both.flow_slots, both.flow_estimates), (65_536, true));
    let lds = both.lds.unwrap();
    assert_eq!((lds.rows(), lds.columns()), (3, 23_333));
    let plain = config.measurement.lds.as_ref().unwrap().layout().unwrap();
    assert_eq!(lds, plain.with_weights(&[25, 1, 25, 1]).unwrap());

    config.measurement.segments = Some(vec![SegmentPorts {
        from: "west".to_owned(),
        to: "east".to_owned(),
    }]);
    let one = layout(&config);
    assert_eq!((one.sketches, &one.sketch_of[..]), (1, &[0, 0][..]));
}

#[test]
fn a_host_s_segments_are_in_the_order_of_egress_ports() {
    let mut host = HostConfig {
        classes: ["gold", "rest"]
            .map(|name| Class {
                name: name.to_owned(),
                lds_weight: if name == "gold" { 25 } else { 1 },
            })
            .to_vec(),
        ..HostConfig::default()
    };
    host.measurement.lds = Some(Lds::default());
    let ports = [("a", true), ("gone", false), ("b", true)];
    let config = host.config(&ports.map(|(name, there)| (name.to_owned(), there)));
    let segments = config.segments();
    let order: Vec<_> = segments
        .iter()
        .map(|s| (s.egress, s.ingress, s.class))
        .collect();
    let expected = [
        (0, 0, 0),
        (0, 0, 1),
        (0, 2, 0),
        (0, 2, 1),
        (2, 0, 0),
        (2, 0, 1),
        (2, 2, 0),
        (2, 2, 1),
    ];
    assert_eq!(order, expected);
    let of: Vec<_> = (0..4).map(|port| config.segments_of_egress(port)).collect();
    assert_eq!(of, [0..4, 0..0, 4..8, 0..0]);
    let whole = layout(&config);
    assert_eq!(
        (whole.sketches, &whole.sketch_of[..]),
        (2, &[0, 0, 0, 0, 1, 1, 1, 1][..])
    );
    let part = whole.part(config.segments_of_egress(2));
    assert_eq!(
        (part.first_segment, part.sketches, &part.sketch_of[..]),
        (4, 1, &[0; 4][..])
    );
    let (weights, index) = (part.lds.unwrap(), measure::observation::SegmentIndex(6));
    assert_eq!(weights.weight(index), 25, "they go by the index among all");
    assert_eq!(part.flow_slots, 16_384);
}

#[test]
fn nothing_is_kept_when_measurement_is_off() {
    let mut config = Config::demo().unwrap();
    config.measurement.enabled = false;
    config.measurement.flows = Some(Flows::default());
    assert_eq!(layout(&config).size_bytes().total(), 0);
}

#[test]
fn sizes_out_of_range_name_their_key() {
    let mut config = Config::demo().unwrap();
    config.measurement.lda = Some(Lda { banks: Vec::new() });
    let error = config.shard_layout(TickRate::from_hz(1)).unwrap_err();
    assert!(
        error
            .to_string()
            .starts_with("measurement.lda.banks: an LDA has 1 to"),
        "{error}"
    );
}
