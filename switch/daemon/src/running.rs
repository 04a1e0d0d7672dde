//! The configuration that holds, with its ports.

use contract::config::Config;
use contract::ids::GenerationId;
use dpdk_bindings::Port;
use switch::egress::EgressLayout;
use switch::wiring::lanes::layout;
use switch::wiring::plans::present;

/// The configuration that holds, and what was made of it.
pub struct Running<'pool> {
    /// The configuration, ports by index.
    pub config: Config,
    /// By port index.
    pub ports: Vec<Option<Port<'pool>>>,
    /// The egress side of each port, by index.
    pub layouts: Vec<Option<EgressLayout>>,
    /// Number of the generation.
    pub number: GenerationId,
}

impl<'pool> Running<'pool> {
    /// What holds at the start.
    pub fn new(config: &Config, ports: Vec<Port<'pool>>) -> Self {
        let layouts = present(config).map(|place| Some(layout(config, place, None)));
        Self {
            config: config.clone(),
            ports: ports.into_iter().map(Some).collect(),
            layouts: layouts.collect(),
            number: GenerationId::default(),
        }
    }
}
