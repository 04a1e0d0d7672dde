//! Effects of a configuration before anything runs, and packets of its sources.

use std::fmt::Write;
use std::time::{Duration, Instant};

use contract::config::Config;
use contract::config::memory::{Held, Memory};
use switch::idle::IdlePolicy;
use switch::source::Source;
use switch::wiring::cpus::{Cpu, Wish, place};
use switch::wiring::devices::eal_options;

/// Who serves and owns which port, on which CPU; which ports lose their links together; how much memory is held; how
/// EAL is started; whether a worker without packets sleeps.
pub fn planned(config: &Config) -> String {
    let mut plan = format!(
        "{:?}\n{:?}\n{:?}\n",
        config.assignment(),
        Held::of(config),
        Memory::of(config)
    );
    for port in 0..config.ports.len() {
        let (owner, partner) = (config.owner(port), config.partner(port));
        let _ = writeln!(plan, "{port}: owner {owner:?}, partner {partner:?}");
    }
    let cpus = (0..4).map(|number| Cpu {
        number,
        core: number,
        node: None,
    });
    let wishes = config.workers.iter().map(|worker| Wish {
        cpu: worker.core,
        node: None,
    });
    let cpus = place(&wishes.collect::<Vec<_>>(), &cpus.collect::<Vec<_>>()).unwrap();
    let _ = writeln!(plan, "CPUs {cpus:?}, {:?}", eal_options(config));
    let mut policy = IdlePolicy::new(config.workers[0].idle);
    let began = Instant::now();
    (0..10_000).for_each(|_| policy.rest());
    let _ = writeln!(
        plan,
        "sleeps: {}",
        began.elapsed() > Duration::from_millis(250)
    );
    plan
}

/// The first packets of the first port's source, each with the millisecond in which it was due.
pub fn sourced(config: &Config) -> String {
    let port = &config.ports[0];
    let mut source = Source::open(&port.device, port.mtu).unwrap().unwrap();
    let mut frames = Vec::new();
    for ms in 0..200 {
        source.poll(ms * 1_000_000, 100, |frame| {
            frames.push((ms, frame.len_bytes, frame.head.to_vec()));
            true
        });
    }
    format!("{frames:?}, is over: {}", source.exhausted())
}
