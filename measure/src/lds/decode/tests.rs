mod synthetic;

use super::*;
use synthetic::{Case, Truth};

#[test]
fn few_flows_come_out_exact() {
    for seed in 0..5 {
        let case = Case {
            seed,
            flows: 700,
            columns: 1000 / 3,
            rows: 3,
            ..Case::default()
        };
        let truth = Truth::new(&case);
        let decoded = truth.decode(&DecodeOptions {
            sweeps: 40,
            ..DecodeOptions::default()
        });
        assert_eq!(decoded.fallback, None);
        let worst = truth.worst_error(&decoded);
        assert!(
            worst < 1e-9,
            "{worst}, {} sweeps, {}",
            decoded.sweeps,
            decoded.last_change
        );
    }
}
