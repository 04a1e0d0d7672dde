//! Rocketfuel's inferred weights (and latencies): `from to weight` a line. Names have no spaces; Rocketfuel writes `+`.

use super::{Network, Place, Problem, weight};

pub(super) fn parse(text: &str) -> Result<Network, Problem> {
    let mut network = Network::default();
    for (number, line) in (1..).zip(text.lines()) {
        add(&mut network, line).map_err(|problem| (Place::Line(number), problem))?;
    }
    Ok(network)
}

fn add(network: &mut Network, line: &str) -> Result<(), String> {
    let fields: Vec<_> = line.split_whitespace().collect();
    match fields[..] {
        [] => Ok(()),
        [from, to, cost] => {
            let cost = weight(cost)?;
            let (from, _) = network.router(from)?;
            let (to, _) = network.router(to)?;
            network.link(from, to, cost, false)
        }
        _ => Err(format!(
            "expected three fields, `from to weight`, not {}",
            fields.len()
        )),
    }
}
