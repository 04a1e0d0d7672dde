//! The ways out: for each worker a lane for each port, and rings from those that receive to the one
//! that owns a port.

use contract::config::{Config, Device, RING_PACKETS};
use measure::time::TickRate;
use rtrb::{Consumer, Producer};

use crate::egress::EgressLayout;
use crate::egress::{Lane, Relayed};

/// How one worker reaches one port.
#[derive(Debug)]
pub enum Way<P> {
    /// By itself; others pass it their packets through these rings.
    Own(Vec<Consumer<Relayed<P>>>),
    /// Through the worker that owns the port.
    Owner(Producer<Relayed<P>>),
    /// There is no port in that place.
    Closed,
}

/// How each worker reaches the port at `place`.
pub fn ways<P>(config: &Config, place: usize) -> Vec<Way<P>> {
    let workers = 0..config.workers.len();
    if config.ports[place].device == Device::Absent {
        return workers.map(|_| Way::Closed).collect();
    }
    let Some(owner) = config.owner(place) else {
        return workers.map(|_| Way::Own(Vec::new())).collect();
    };
    let mut entrances = Vec::with_capacity(workers.len());
    let mut ways: Vec<Way<P>> = workers
        .map(|worker| {
            if worker == owner {
                return Way::Closed;
            }
            let (ring, entrance) = Lane::ring(RING_PACKETS);
            entrances.push(entrance);
            Way::Owner(ring)
        })
        .collect();
    ways[owner] = Way::Own(entrances);
    ways
}

impl<P> Way<P> {
    /// The lane to the port at `place`. Where it replaces another, `old` is that one's layout; `seed`
    /// is for random drops.
    pub fn lane(
        self,
        config: &Config,
        place: usize,
        old: Option<&EgressLayout>,
        rate: TickRate,
        seed: u64,
    ) -> Lane<P> {
        let mtu = config.ports[place].mtu;
        match self {
            Self::Own(entrances) => {
                Lane::own(&layout(config, place, old), mtu, rate, seed, entrances)
            }
            Self::Owner(ring) => Lane::relay(ring, mtu),
            Self::Closed => Lane::closed(),
        }
    }
}

/// The egress side of the port at `place`; where it replaces another, `old` is that one's.
pub fn layout(config: &Config, place: usize, old: Option<&EgressLayout>) -> EgressLayout {
    let port = &config.ports[place];
    let layout = EgressLayout::from_config(&port.egress, port.mtu, &config.classes);
    match old {
        Some(old) => layout.to_succeed(old),
        None => layout,
    }
}
