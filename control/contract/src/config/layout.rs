//! From the configuration to the layout of synopses.

use measure::InvalidArgument;
use measure::lda::{Bank, LdaLayout};
use measure::lds::LdsLayout;
use measure::shard::ShardLayout;
use measure::time::TickRate;

use super::{Config, Lda, Lds};

/// Sizes that make no synopsis; a configuration that was parsed has none such.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum LayoutError {
    /// Of the LDA.
    #[error("measurement.lda.banks: {0}")]
    Lda(InvalidArgument),
    /// Of the LDS.
    #[error("measurement.lds: {0}")]
    Lds(InvalidArgument),
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
        if let Some(lda) = &measurement.lda {
            layout.lda = Some(lda.layout().map_err(LayoutError::Lda)?);
        }
        if let Some(lds) = &measurement.lds {
            let ports = self.sketch_ports();
            layout.sketches = ports.len();
            for (sketch, segment) in layout.sketch_of.iter_mut().zip(&segments) {
                let position = ports.iter().position(|&port| port == segment.egress);
                let position = position.filter(|_| segment.is_inside());
                *sketch = position.and_then(|n| n.try_into().ok()).unwrap_or(u16::MAX);
            }
            let weight_of =
                |class: usize| self.classes.get(class).map_or(1, |class| class.lds_weight);
            let weights: Vec<u32> = segments.iter().map(|s| weight_of(s.class)).collect();
            layout.lds = Some(
                lds.layout()
                    .and_then(|layout| layout.with_weights(&weights))
                    .map_err(LayoutError::Lds)?,
            );
        }
        if let Some(flows) = &measurement.flows {
            layout.flow_slots = flows.slots as usize;
            layout.flow_estimates = measurement.rli.is_some();
            layout.flow_histograms = self.prometheus.top_flows as usize;
        }
        Ok(layout)
    }

    /// The ports that have an LDS, in the order of the shards' sketches: those by which packets of
    /// measured segments leave.
    pub fn sketch_ports(&self) -> Vec<usize> {
        let segments = self.segments();
        let inside = segments.iter().filter(|segment| segment.is_inside());
        let is_egress = |&port: &usize| inside.clone().any(|segment| segment.egress == port);
        (0..self.ports.len()).filter(is_egress).collect()
    }
}

impl Lda {
    /// Its banks, laid out.
    ///
    /// # Errors
    /// [`InvalidArgument`] for sizes out of range.
    pub fn layout(&self) -> Result<LdaLayout, InvalidArgument> {
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
    /// [`InvalidArgument`] for sizes out of range.
    pub fn layout(&self) -> Result<LdsLayout, InvalidArgument> {
        let rows = u32::try_from(self.rows.len()).unwrap_or(u32::MAX).max(1);
        LdsLayout::new(self.cells / rows, self.virtual_cells, &self.rows)
    }
}

#[cfg(test)]
mod tests;
