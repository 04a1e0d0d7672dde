//! Resources other than devices that a configuration names, opened before anything is started: captures, the HTTP
//! address, files of tokens and keys.

use api::http::Server;
use contract::config::document::{Check, Faults, Invalid, KeyPath, all};
use contract::config::{Config, WireKeys};
use report::sender::Sender;
use switch::source::Source;
use switch::wiring::open_source;

use crate::machine::Machine;

/// All open resources.
#[derive(Debug)]
pub struct Resources {
    /// By port.
    pub(crate) sources: Vec<Option<Source>>,
    pub(crate) server: Option<Server>,
    pub(crate) sender: Option<Sender>,
    pub(crate) wire_keys: WireKeys,
}

impl Resources {
    /// Checks what `config` names on this machine, and opens it. If `is_faulty_at` reports a fault anywhere, there
    /// are no resources.
    ///
    /// # Errors
    /// Everything that prevents a start here, as far as it can be known without DPDK.
    pub fn of(config: &Config, is_faulty_at: impl Fn(&KeyPath) -> bool) -> Check<Self> {
        let root = KeyPath::default();
        let mut faults = Vec::new();
        let sources = config.ports.iter().enumerate().map(|(index, port)| {
            let path = root.key("ports").index(index);
            if is_faulty_at(&path) {
                return None;
            }
            let path = path.key("device");
            let source =
                open_source(port).map_err(|error| Invalid::said(path, format!("{error:#}")));
            source.unwrap_or_else(|fault| {
                faults.push(fault);
                None
            })
        });
        let sources = sources.collect();
        let machine = Machine::here();
        let mut checks = vec![machine.check_named(config)];
        if !is_faulty_at(&root) {
            checks.push(machine.check_memory(config));
        }
        if let Err(missing) = all(checks) {
            faults.extend(missing.0);
        }
        let server = if is_faulty_at(&root.key("http")) {
            Ok(None)
        } else {
            Server::of(&config.http)
        };
        let server = server.map_err(|error| {
            let path = root.key("http").key(error.key);
            Faults::from(Invalid::said(path, error))
        });
        let sender = Sender::of(config.report.as_ref())
            .map_err(|error| Invalid::said(root.key("report").key("nats"), error).into());
        let (server, sender, wire_keys) = (
            taken(server, &mut faults),
            taken(sender, &mut faults),
            taken(config.read_wire_keys(), &mut faults),
        );
        if !faults.is_empty() {
            return Err(Faults(faults));
        }
        Ok(Self {
            sources,
            server,
            sender,
            wire_keys,
        })
    }
}

fn taken<T: Default>(resources: Check<T>, faults: &mut Vec<Invalid>) -> T {
    resources.unwrap_or_else(|Faults(more)| {
        faults.extend(more);
        T::default()
    })
}
