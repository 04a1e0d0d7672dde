//! A changed configuration, and the files that it names.

use std::path::Path;

use anyhow::{Result, bail};
use contract::config::memory::keep_budget;
use contract::config::{Change, Config, WireKeys};
use contract::ids::PortIndex;

use super::Difference;
use crate::source::Source;
use crate::wiring::plans::{is_present, open_source, present};
use crate::wiring::wires;

/// A configuration that may be taken up, with everything that is read from files for it.
pub struct Draft {
    /// The configuration, each port in its place.
    pub config: Config,
    /// What it changes.
    pub difference: Difference,
    /// What new ports receive, where they have a source.
    pub sources: Vec<Option<Source>>,
    /// Places of wires that are new, or have changed, or end.
    pub wires: Vec<usize>,
    /// Keys of the wires, where one of them changes.
    pub wire_keys: WireKeys,
}

impl Draft {
    /// Reads `file` for a switch that runs `running`; nothing, if nothing has changed.
    ///
    /// # Errors
    /// What cannot be read or means nothing, and as [`Draft::of`].
    pub fn read(file: &Path, running: &Config, budget_mib: Option<usize>) -> Result<Option<Self>> {
        Self::of(Config::load_again(file, running)?, running, budget_mib)
    }

    /// Reads the files that `config` names, whose ports are in the order of those of `running`; nothing, if nothing has
    /// changed.
    ///
    /// # Errors
    /// What cannot be read, what cannot change while the switch runs, what takes more memory than `budget_mib`.
    pub fn of(config: Config, running: &Config, budget_mib: Option<usize>) -> Result<Option<Self>> {
        let changes = running.diff(&config);
        if changes.is_empty() {
            return Ok(None);
        }
        refuse_fixed(&changes)?;
        keep_budget(&config, budget_mib)?;

        let places = |of: &Config, not_of: &Config| -> Vec<PortIndex> {
            let places = present(of).filter(|&place| !is_present(not_of, place));
            places.map(PortIndex::new).collect()
        };
        let come = places(&config, running);
        let sources = come.iter();
        let sources = sources.map(|port| open_source(&config.ports[port.index()]));
        let sources = sources.collect::<Result<_>>()?;
        let wires = wires::changed(running, &config);
        // Wires that go on may have other keys.
        let are_wires_other = running.wire != config.wire || running.wires().ne(config.wires());
        let is_any_new = wires.iter().any(|&place| config.wire(place).is_some());
        let wire_keys = if is_any_new || are_wires_other {
            config.read_wire_keys()?
        } else {
            WireKeys::default()
        };
        Ok(Some(Self {
            difference: Difference {
                keys: changes.into_iter().map(|change| change.path).collect(),
                gone: places(running, &config),
                come,
            },
            sources,
            wires,
            wire_keys,
            config,
        }))
    }
}

/// Names what cannot change while the switch runs.
fn refuse_fixed(changes: &[Change]) -> Result<()> {
    let fixed: Vec<String> = changes
        .iter()
        .filter(|change| !change.is_live())
        .map(ToString::to_string)
        .collect();
    if !fixed.is_empty() {
        bail!("{}", fixed.join("; "));
    }
    Ok(())
}
