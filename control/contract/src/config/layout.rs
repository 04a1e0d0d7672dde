//! From the configuration to the layout of synopses.

use measure::lda::{self, Bank, LdaLayout};
use measure::lds::{self, LdsLayout};
use measure::shard::ShardLayout;
use measure::time::TickRate;

use super::{Config, Lda, Lds};

/// Sizes that make no synopsis; a configuration that was parsed has none such.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum LayoutError {
    /// Of the LDA.
    #[error("measurement.lda.banks: {0}")]
    Lda(#[from] lda::LayoutError),
    /// Of the LDS.
    #[error("measurement.lds: {0}")]
    Lds(#[from] lds::LayoutError),
}

impl Config {
    /// What one worker keeps of one epoch; `rate` is that of the time stamp counter.
    ///
    /// There is a sketch for each port of [`Config::sketch_ports`]. Its packets weigh what their
    /// class does.
    ///
    /// # Errors
    /// [`LayoutError`] for sizes out of range.
    pub fn shard_layout(&self, rate: TickRate) -> Result<ShardLayout, LayoutError> {
        let measurement = &self.measurement;
        let segments = self.segments();
        let mut layout = ShardLayout::new(rate, segments.len());
        if !measurement.enabled {
            return Ok(layout);
        }
        layout.lda = measurement.lda.as_ref().map(Lda::layout).transpose()?;
        if let Some(lds) = &measurement.lds {
            let ports = self.sketch_ports();
            layout.sketches = ports.len();
            for (sketch, segment) in layout.sketch_of.iter_mut().zip(&segments) {
                let position = ports.iter().position(|&port| port == segment.egress);
                *sketch = position.and_then(|n| n.try_into().ok()).unwrap_or(u16::MAX);
            }
            let weight_of =
                |class: usize| self.classes.get(class).map_or(1, |class| class.lds_weight);
            let weights: Vec<u32> = segments.iter().map(|s| weight_of(s.class)).collect();
            layout.lds = Some(lds.layout()?.with_weights(&weights)?);
        }
        if let Some(flows) = &measurement.flows {
            layout.flow_slots = flows.slots as usize;
            layout.flow_estimates = measurement.rli.is_some();
        }
        Ok(layout)
    }

    /// The ports that have an LDS, in the order of the shards' sketches: those by which packets of
    /// measured segments leave.
    pub fn sketch_ports(&self) -> Vec<usize> {
        let segments = self.segments();
        let is_egress = |&port: &usize| segments.iter().any(|segment| segment.egress == port);
        (0..self.ports.len()).filter(is_egress).collect()
    }
}

impl Lda {
    /// Its banks, laid out.
    ///
    /// # Errors
    /// [`lda::LayoutError`] for sizes out of range.
    pub fn layout(&self) -> Result<LdaLayout, lda::LayoutError> {
        let bank = |bank: &super::LdaBank| Bank {
            rows: bank.rows,
            probability: bank.probability,
        };
        LdaLayout::new(&self.banks.iter().map(bank).collect::<Vec<_>>())
    }
}

impl Lds {
    /// Its rows, without weights and without bytes: `cells` rounded down to whole rows.
    ///
    /// # Errors
    /// [`lds::LayoutError`] for sizes out of range.
    pub fn layout(&self) -> Result<LdsLayout, lds::LayoutError> {
        let rows = u32::try_from(self.rows.len()).unwrap_or(u32::MAX).max(1);
        LdsLayout::new(self.cells / rows, self.virtual_cells, &self.rows)
    }
}

#[cfg(test)]
mod tests {
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
        assert_eq!((layout.flow_slots, layout.flow_estimates), (4_096, false));
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
}
