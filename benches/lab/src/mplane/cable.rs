//! Cables whose delay, loss and rate can be changed while packets pass.
//!
//! ```text
//!  ... ==== left [tc: redirect] right ==== ...              plain: packets that enter one end leave the other
//!  ... ==== left ==> box-l' == box-l [impair] box-r == box-r' ==> right ==== ...         with the box in it
//! ```
//!
//! Both ends are interfaces in the testbed's own namespace. The filter with the smallest number applies, so the box can
//! be inserted and removed between two packets.

use std::fs;
use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result};
use testkit::namespace::{inside, set_up, veth};
use testkit::process::{Process, output};

use crate::mplane::favoured;
use crate::testbed::start_box;

/// The box's interfaces, and the peers through which packets reach it.
const BOX: [[&str; 2]; 2] = [["box-l", "box-l2"], ["box-r", "box-r2"]];
/// Numbers of filters: for the box, and for the plain cable.
const INSIDE: u8 = 1;
const PLAIN: u8 = 2;

/// A cable, by the interfaces at its ends.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Cable {
    /// Interfaces where packets of either direction enter.
    pub ends: [String; 2],
}

impl Cable {
    /// Connects two existing interfaces.
    pub fn join(left: &str, right: &str) -> Result<Self> {
        let cable = Self {
            ends: [left.to_owned(), right.to_owned()],
        };
        for end in &cable.ends {
            open(end)?;
        }
        tc(&[redirect(left, right, PLAIN), redirect(right, left, PLAIN)])?;
        Ok(cable)
    }

    /// Bytes that have left through an end.
    pub fn bytes(&self, end: usize) -> Result<u64> {
        let file = format!("/sys/class/net/{}/statistics/tx_bytes", self.ends[end]);
        let text = fs::read_to_string(&file).with_context(|| format!("cannot read {file}"))?;
        Ok(text.trim().parse()?)
    }

    /// Limits the rate at which packets leave through an end.
    pub fn limit(&self, end: usize, rate_bps: u64, queue_bytes: u64) -> Result<()> {
        tc(&[format!(
            "qdisc add dev {} root tbf rate {rate_bps}bit burst 3200 limit {queue_bytes}",
            self.ends[end]
        )])
    }

    /// Removes the limit.
    pub fn unlimit(&self, end: usize) -> Result<()> {
        tc(&[format!("qdisc del dev {} root", self.ends[end])])
    }

    /// Leads packets to these ends (0 left, 1 right) through the running box; others are not affected.
    pub fn insert(&self, to: &[usize]) -> Result<()> {
        let way = |&end: &usize| {
            let [[_, here], [_, there]] = [BOX[end], BOX[1 - end]];
            [
                redirect(here, &self.ends[end], PLAIN),
                redirect(&self.ends[1 - end], there, INSIDE),
            ]
        };
        tc(&to.iter().flat_map(way).collect::<Vec<_>>())
    }

    /// Removes the box from the cable; packets inside it still come out.
    pub fn remove(&self, to: &[usize]) -> Result<()> {
        let ends = to.iter().map(|end| &self.ends[1 - end]);
        tc(&ends.map(|end| unredirect(end, INSIDE)).collect::<Vec<_>>())
    }
}

/// Makes the box's interfaces.
pub fn prepare_box() -> Result<()> {
    for [inner, outer] in BOX {
        veth(inner, outer)?;
        open(inner)?;
        open(outer)?;
    }
    Ok(())
}

/// Starts `vernier-lab impair` between its two interfaces, with its arguments for rules, and waits until it is ready.
pub fn start_impair(folder: &Path, rules: &[String], seed: u64) -> Result<Process> {
    let devices = BOX.map(|[inner, _]| format!("af_packet:{inner}"));
    let command = favoured(&std::env::current_exe()?);
    let arguments = [rules, &[format!("--seed={seed}")]].concat();
    start_box(command, folder, devices, &arguments)
}

/// Removes the filters that lead the box's packets to the ends.
pub fn clear_box(to: &[usize]) -> Result<()> {
    let outer = to.iter().map(|&end| BOX[end][1]);
    tc(&outer.map(|end| unredirect(end, PLAIN)).collect::<Vec<_>>())
}

/// Takes an interface up, ready for filters.
fn open(interface: &str) -> Result<()> {
    set_up(interface)?;
    tc(&[format!("qdisc add dev {interface} clsact")])
}

fn redirect(from: &str, to: &str, number: u8) -> String {
    format!(
        "filter add dev {from} ingress protocol all prio {number} u32 match u32 0 0 action mirred egress redirect dev {to}"
    )
}

fn unredirect(from: &str, number: u8) -> String {
    format!("filter del dev {from} ingress protocol all prio {number}")
}

/// Calls `tc` once with many commands.
pub fn tc(commands: &[String]) -> Result<()> {
    tc_by(&mut Command::new("sh"), commands)
}

/// As [`tc`], by a shell that may be in a namespace.
pub fn tc_by(shell: &mut Command, commands: &[String]) -> Result<()> {
    let script = ["-c", "echo \"$0\" | tc -batch -", &commands.join("\n")];
    output(shell.args(script)).with_context(|| format!("tc: {commands:?}"))?;
    Ok(())
}

/// Calls `nft` in a namespace.
pub fn nft(space: &str, arguments: &str) -> Result<()> {
    output(inside(space, "nft").args(arguments.split(' '))).map(drop)
}
