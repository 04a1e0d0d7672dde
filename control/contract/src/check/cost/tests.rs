use super::*;
use crate::config::{Flows, Lds, Stamps};

#[test]
fn only_what_is_on_is_paid_for() {
    let mut config = Config::demo().unwrap();
    let names = |config: &Config| {
        steps(config)
            .iter()
            .map(|step| step.name)
            .collect::<Vec<_>>()
    };
    assert_eq!(
        names(&config),
        [
            PATCH.name,
            QUEUE.name,
            STAMP.name,
            STAMP_EACH.name,
            LDA.name,
            PARSE.name,
            LDS.name,
            FLOWS.name,
            RLI.name
        ]
    );
    for port in &mut config.ports {
        port.egress.capacity_bps = None;
    }
    config.measurement.lds = Some(Lds::default());
    config.measurement.lda = None;
    config.measurement.rli = None;
    config.measurement.stamps = Stamps::Burst;
    config.measurement.flows = Some(Flows::default());
    let on = names(&config);
    assert_eq!(on, [PATCH.name, STAMP.name, PARSE.name, FLOWS.name]);
    config.measurement.flows = None;
    let on = names(&config);
    assert_eq!(on, [PATCH.name, STAMP.name, PARSE.name, LDS.name]);
    config.measurement.enabled = false;
    assert_eq!(names(&config), [PATCH.name]);
    let rate = rate_mpps(&steps(&config));
    assert!((rate * PATCH.ns - 1e3).abs() < 1e-6);
}
