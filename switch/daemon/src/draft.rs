//! A changed configuration, and the files that it names.

use std::path::PathBuf;

use anyhow::{Result, bail};
use contract::config::{Change, Config, WireKeys};
use contract::ids::PortIndex;

use switch::source::Source;
use switch::wiring::plans::{open_source, present};
use switch::wiring::{budget, wires};

/// A configuration that may be taken up, with everything that is read from files for it.
pub struct Draft {
    /// The configuration, each port in its place.
    pub config: Config,
    /// The keys that changed.
    pub keys: Vec<String>,
    /// New ports, and what they receive where they have a source.
    pub come: Vec<(PortIndex, Option<Source>)>,
    /// Ports that are no longer used.
    pub gone: Vec<PortIndex>,
    /// Places of wires that are new, or have changed, or end.
    pub wires: Vec<usize>,
    /// Keys of the wires, where one of them changes.
    pub wire_keys: WireKeys,
}

impl Draft {
    /// Reads `file` for a switch that runs `running`; nothing, if nothing has changed.
    ///
    /// # Errors
    /// What cannot be read or means nothing, what cannot change while the switch runs, what takes more memory than
    /// `budget_mib`.
    pub fn read(
        file: &PathBuf,
        running: &Config,
        budget_mib: Option<usize>,
    ) -> Result<Option<Self>> {
        let config = Config::load_again(file, running)?;
        let changes = running.diff(&config);
        if changes.is_empty() {
            return Ok(None);
        }
        refuse_fixed(&changes)?;
        budget::keep(&config, budget_mib)?;

        let come = present(&config).filter(|&place| !is_present(running, place));
        let come = come.map(|place| {
            let source = open_source(&config.ports[place])?;
            Ok((PortIndex::new(place), source))
        });
        let come = come.collect::<Result<_>>()?;
        let gone = present(running).filter(|&place| !is_present(&config, place));
        let gone = gone.map(PortIndex::new).collect();
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
            keys: changes.into_iter().map(|change| change.path).collect(),
            come,
            gone,
            wires,
            wire_keys,
            config,
        }))
    }
}

/// Whether `config` has a port at `place`.
pub fn is_present(config: &Config, place: usize) -> bool {
    present(config).any(|present| present == place)
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
