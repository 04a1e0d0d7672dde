//! Whatever comes in, what comes out can be printed.

use proptest::prelude::*;

use crate::lds::{
    DecodeOptions, DelayCell, DelayCells, Fallback, FlowTable, KnownMean, LdsLayout, Source, decode,
};

fn cell() -> impl Strategy<Value = DelayCell> {
    let count = prop_oneof![Just(0_u64), 1..20_u64, Just(1_u64 << 40), Just(u64::MAX)];
    let sum = prop_oneof![-50_i64..2_000, Just(i64::MAX), Just(i64::MIN), any::<i64>()];
    let cell = (count, sum, 0..4_u8, 0..8_u8, 0..8_u8);
    cell.prop_map(|(count, delay_sum, usable, partial, missing)| DelayCell {
        sent: count,
        received: count,
        count: if usable == 0 { 0 } else { count },
        delay_sum,
        usable: usable != 0,
        partial: partial == 0,
        missing: missing == 0,
    })
}

fn packets() -> impl Strategy<Value = f64> {
    prop_oneof![
        1.0..20.0_f64,
        Just(0.0),
        Just(1e-300),
        Just(f64::MAX),
        Just(1e12),
        Just(f64::NAN)
    ]
}

fn feature() -> impl Strategy<Value = f64> {
    prop_oneof![
        0.0..2_000.0_f64,
        Just(0.0),
        Just(f64::NAN),
        Just(f64::INFINITY),
        Just(f64::MAX),
        Just(f64::MIN),
        Just(f64::MIN_POSITIVE)
    ]
}

fn known_mean() -> impl Strategy<Value = KnownMean> {
    [feature(), feature(), feature()].prop_map(|[mean_ticks, error_ticks2, packets_ticks2]| {
        KnownMean {
            mean_ticks,
            error_ticks2,
            packets_ticks2,
        }
    })
}

fn weight() -> impl Strategy<Value = f64> {
    prop_oneof![
        Just(1.0),
        Just(65_535.0),
        Just(f64::MIN_POSITIVE),
        Just(f64::MAX)
    ]
}

#[derive(Debug, Clone)]
struct Input {
    layout: LdsLayout,
    cells: Vec<DelayCell>,
    columns: Vec<u32>,
    packets: Vec<f64>,
    weights: Vec<f64>,
    features: Vec<f64>,
    known: Vec<KnownMean>,
}

fn input() -> impl Strategy<Value = Input> {
    let probability = prop_oneof![Just(1.0), Just(0.1), Just(1.0 / 4_294_967_296.0)];
    let shape = (
        1_u32..6,
        0_usize..8,
        proptest::collection::vec(probability, 1..=4),
    );
    let shape = shape.prop_flat_map(|(columns, flows, rows)| {
        (1..=columns).prop_map(move |cells| (columns, flows, rows.clone(), cells))
    });
    shape.prop_flat_map(|(columns, flows, rows, virtual_cells)| {
        let layout = LdsLayout::new(columns, virtual_cells, &rows).unwrap();
        let list = |values| proptest::collection::vec(values, flows);
        (
            proptest::collection::vec(cell(), layout.cells()),
            proptest::collection::vec(0..columns, flows * rows.len()),
            list(packets().boxed()),
            list(weight().boxed()),
            proptest::collection::vec(feature(), flows * 2),
            proptest::collection::vec(known_mean(), flows),
        )
            .prop_map(
                move |(cells, columns, packets, weights, features, known)| Input {
                    layout: layout.clone(),
                    cells,
                    columns,
                    packets,
                    weights,
                    features,
                    known,
                },
            )
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1_500))]

    #[test]
    fn nothing_breaks_it(
        input in input(),
        components in 1_usize..=3,
        use_features in any::<bool>(),
        use_known in any::<bool>(),
        use_weights in any::<bool>(),
        use_packets in any::<bool>(),
    ) {
        let cells = DelayCells::new(input.layout, input.cells).unwrap();
        let table = FlowTable {
            columns: &input.columns,
            packets: use_packets.then_some(&input.packets),
            weights: use_weights.then_some(&input.weights),
            features: if use_features { &input.features } else { &[] },
            features_per_flow: if use_features { 2 } else { 0 },
            known: use_known.then_some(&input.known),
        };
        let options = DecodeOptions { components, ..DecodeOptions::default() };
        let decoded = decode(&cells, table, &options, || false).unwrap();
        prop_assert_eq!(decoded.flows.len(), input.packets.len());
        for flow in &decoded.flows {
            prop_assert!(flow.mean_ticks.is_finite(), "{:?}", flow);
            prop_assert!(flow.variance_ticks2 >= 0.0, "{:?}", flow);
            prop_assert!(flow.packets.is_finite() && flow.packets >= 0.0, "{:?}", flow);
        }
        prop_assert!(decoded.last_change.is_finite());
        let usable = cells.cells().iter().any(|cell| cell.usable && cell.count > 0);
        prop_assert_eq!(decoded.fallback == Some(Fallback::NoUsableCell), !usable);
        if !usable {
            prop_assert!(decoded.flows.iter().all(|flow| flow.source == Source::Nothing));
        }
    }
}
