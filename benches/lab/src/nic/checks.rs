//! The checks of each driver.

use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use measure::packet::header::ethernet;
use serde_json::{Value, json};
use testkit::process::wait;

use crate::bench::plugin::installed_drivers;
use crate::nic::flows::{FLOWS, PACKETS, Source};
use crate::nic::frames::{Way, exchange, of_all_kinds, try_receive, try_send};
use crate::nic::guest::{Guest, SOCKETS, address, device_id};
use crate::nic::image::Image;
use crate::nic::program::{Measured, Program};

/// Frames in each direction.
const FRAMES: usize = 300;

/// A driver, and properties of QEMU's model of its device.
#[derive(Debug, Clone, Copy)]
pub struct Driver {
    /// Its name on the command line and in the results.
    pub name: &'static str,
    /// DPDK's name for it.
    pub dpdk: &'static str,
    /// QEMU's device and its properties.
    pub model: &'static str,
    /// The largest MTU with which frames are received: QEMU's vmxnet3 passes no frames larger than a buffer of the
    /// switch (2048 bytes) to DPDK's driver.
    pub mtu: u16,
    /// Whether the device spreads flows over two receive queues when it is connected to the kernel's tap. Otherwise all
    /// packets arrive by the first queue, because the driver (e1000e) or QEMU's device (vmxnet3) does not spread flows.
    pub spreads_flows: bool,
}

pub const DRIVERS: [Driver; 3] = [
    Driver {
        name: "e1000e",
        dpdk: "net_e1000_em",
        model: "e1000e",
        mtu: 9000,
        spreads_flows: false,
    },
    Driver {
        name: "vmxnet3",
        dpdk: "net_vmxnet3",
        model: "vmxnet3",
        mtu: 2026,
        spreads_flows: false,
    },
    Driver {
        name: "virtio",
        dpdk: "net_virtio",
        model: "virtio-net-pci,disable-legacy=on,iommu_platform=on",
        mtu: 9000,
        spreads_flows: true,
    },
];

/// Results for one driver: a figure or a short text for each check.
pub type Shown = Vec<(&'static str, String)>;

/// Runs all checks of one driver in one guest. Stops at the first failure.
pub fn all(
    driver: &Driver,
    image: &Image,
    programs: &Path,
    folder: &Path,
    shown: &mut Shown,
) -> Result<()> {
    let has_tap = driver.spreads_flows;
    let mut guest = Guest::boot(image, programs, driver.model, has_tap, folder)?;
    guest.bind(SOCKETS + usize::from(has_tap))?;
    let mut say = |what, figure: String| {
        eprintln!("{:8} {what}: {figure}", driver.name);
        shown.push((what, figure));
    };
    say("guest boots", format!("{:.1} s", guest.boot.as_secs_f64()));
    guest.run("echo 96 >/proc/sys/vm/nr_hugepages")?;
    several_queues(driver, &mut guest, &mut say)?;
    forwarding(driver, &mut guest, &mut say)?;
    plugin(&mut guest, &mut say)?;
    guest.power_off()
}

/// Where figures go.
type Say<'s> = &'s mut dyn FnMut(&'static str, String);

/// The configuration of two patched pairs, and of a worker that sleeps.
fn config(ports: &Value, pairs: &Value, workers: &Value, hugepages: bool) -> Value {
    json!({
        "ports": ports,
        "forwarding": { "mode": "patch", "pairs": pairs, "link_loss_forwarding": true },
        "dpdk": { "hugepages": hugepages, "memory_mib": 96, "mbufs": 16_383 },
        "measurement": { "interval_ms": 250 },
        "workers": workers,
    })
}

/// Writes the configuration to the guest; returns the command that runs the switch with it.
fn vernierd(guest: &mut Guest, config: &Value) -> Result<&'static str> {
    guest.run(&format!("echo '{config}' >/tmp/config.json"))?;
    Ok("/vernier/vernierd --config /tmp/config.json")
}

/// Flows over two receive queues, each served by a worker, with hugepages.
fn several_queues(driver: &Driver, guest: &mut Guest, say: Say<'_>) -> Result<()> {
    let many = if driver.spreads_flows { SOCKETS } else { 0 };
    let ports = json!([
        { "name": "many", "device": address(many), "rx_queues": 2 },
        { "name": "one", "device": address(2), "rx_queues": 1 },
    ]);
    let workers = json!([
        { "core": 1, "idle": "sleep", "queues": [["many", 0], ["one", 0]] },
        { "core": 2, "idle": "sleep", "queues": [["many", 1]] },
    ]);
    let pairs = json!([["many", "one"]]);
    let command = vernierd(guest, &config(&ports, &pairs, &workers, true))?;
    let free = "grep HugePages_Free /proc/meminfo";
    let before = guest.run(free)?;
    let mut program = Program::start(guest, command)?;
    let is_in_use = program.guest.run(free)? != before;
    ensure!(is_in_use, "no hugepages are in use");
    let start = program.start.as_secs_f64();
    say("start with hugepages", format!("{start:.1} s"));
    let packets = usize::from(FLOWS) * PACKETS as usize;
    let measured = program.measure(&[("many", "one")], packets, |program| {
        let source = if driver.spreads_flows {
            Source::over_tap()?
        } else {
            Source::Frames(program.guest.end(many)?)
        };
        source.send_all(program.guest.end(2)?)
    })?;
    let sent = measured.tries * packets;
    program.counts("many", sent, 0)?;
    program.counts("one", 0, sent)?;
    let workers = &program.snapshot()?.status.workers;
    let by_worker: Vec<u64> = workers.iter().map(|of| of.counts.busy_packets).collect();
    let total: u64 = by_worker.iter().sum();
    ensure!(total == sent as u64, "{sent} packets came by {by_worker:?}");
    let is_spread = by_worker.iter().filter(|packets| **packets > 0).count() > 1;
    let is_expected = is_spread == driver.spreads_flows;
    ensure!(is_expected, "{by_worker:?} packets by queue");
    let figure = if is_spread {
        "2, flows spread over both"
    } else {
        "2 set up, the first used"
    };
    say("receive queues", figure.to_owned());
    let counts: Vec<String> = by_worker.iter().map(ToString::to_string).collect();
    let (counts, note) = (counts.join(" + "), measured.note());
    let figure = format!("{counts} ({FLOWS} flows of {PACKETS}, each in order){note}");
    say("packets by queue", figure);
    let (_, log) = program.end()?;
    ensure!(!log.contains("ERROR"), "{log}");
    Ok(())
}

/// The plugin in testpmd.
fn plugin(guest: &mut Guest, say: Say<'_>) -> Result<()> {
    guest.run("mkfifo /tmp/prompt; sleep 600 >/tmp/prompt & true")?;
    let pmds = installed_drivers()?;
    let devices = [0, 1].map(|n| format!("-a {}", address(n))).join(" ");
    let command = format!(
        "dpdk-testpmd --lcores=0@0,1@1 -m 96 --in-memory --no-telemetry {devices} \
         -d /vernier/librte_vernier.so -d {} -- --interactive --auto-start --forward-mode=io \
         --total-num-mbufs=8192 </tmp/prompt",
        pmds.display()
    );
    let mut program = Program::start(guest, &command)?;
    let (a, b) = (address(0), address(1));
    // A transmit queue is measured from the first epoch that begins after the program has set it up.
    let mut since = (None, 0);
    program.until("its measurement keeps changing", |program| {
        let are_up = are_up(program, [&a, &b]).unwrap_or(false);
        let status = program.snapshot()?.status;
        let generation = Some(status.generation).filter(|_| are_up);
        let epoch = status.epoch.unwrap_or(0);
        if generation != since.0 {
            since = (generation, epoch);
        }
        Ok((generation.is_some() && epoch >= since.1 + 3).then_some(()))
    })?;
    let measured = both_ways_counted(&mut program, (&a, &b), 1500, 3)?;
    program.guest.run("echo quit >/tmp/prompt")?;
    let goes_on = program.until("", |_| Ok(None::<()>));
    goes_on.err().context("testpmd goes on")?;
    let code = program.guest.run("cat /tmp/code")?;
    ensure!(code.trim() == "0", "testpmd ended with {code}");
    let note = measured.note();
    let figure = format!("{FRAMES} frames each way; all counts exact{note}");
    say("plugin in testpmd", figure);
    Ok(())
}

/// Whether the links of these ports are up.
fn are_up(program: &mut Program<'_>, names: [&str; 2]) -> Result<bool> {
    let [a, b] = names.map(|name| program.port(name));
    Ok(a?.facts.is_up && b?.facts.is_up)
}

/// Frames of all kinds in both directions between the first two devices.
fn both_ways(program: &mut Program<'_>, mtu: usize, seed: u64) -> Result<()> {
    let (a, b) = (program.guest.end(0)?, program.guest.end(1)?);
    let way = |from, to, seed| Way::of_frames(from, to, of_all_kinds(FRAMES, mtu, seed));
    exchange(vec![way(a, b, seed), way(b, a, seed + 1)])
}

/// The same, with exact counts of both ports and both segments.
fn both_ways_counted(
    program: &mut Program<'_>,
    (a, b): (&str, &str),
    mtu: usize,
    seed: u64,
) -> Result<Measured> {
    let measured = program.measure(&[(a, b), (b, a)], FRAMES, |program| {
        both_ways(program, mtu, seed)
    })?;
    let frames = measured.tries * FRAMES;
    for name in [a, b] {
        program.counts(name, frames, frames)?;
    }
    Ok(measured)
}

/// A patch panel without hugepages: frames, counters, the largest MTU, links, and a device that is
/// pulled.
fn forwarding(driver: &Driver, guest: &mut Guest, say: Say<'_>) -> Result<()> {
    let mtu = usize::from(driver.mtu);
    let ports = json!([
        { "name": "a", "device": address(0), "mtu": mtu },
        { "name": "b", "device": address(1), "mtu": mtu },
        { "name": "c", "device": address(2) },
        { "name": "drain", "device": "sink" },
    ]);
    let pairs = json!([["a", "b"], ["c", "drain"]]);
    let workers = json!([{ "core": 1, "idle": "sleep" }]);
    let command = vernierd(guest, &config(&ports, &pairs, &workers, false))?;
    let mut program = Program::start(guest, command)?;
    let start = program.start.as_secs_f64();
    say("start without hugepages", format!("{start:.1} s"));
    let driver_name = program.port("a")?.facts.driver;
    ensure!(driver_name == driver.dpdk, "the driver is {driver_name:?}");

    let measured = both_ways_counted(&mut program, ("a", "b"), mtu, 5)?;
    let longest = mtu + ethernet::BYTES;
    let figure = format!("{FRAMES} each way, 60 to {longest} bytes, in order");
    say("frames byte for byte", figure);
    let (there_us, back_us) = (measured.mean_us[0], measured.mean_us[1]);
    let note = measured.note();
    let figure = format!("exact; mean delay {there_us:.0} and {back_us:.0} us{note}");
    say("counters and segments", figure);
    links(&mut program, say)?;
    pulled(&mut program, say)?;
    let (end, log) = program.end()?;
    ensure!(!log.contains("panic"), "{log}");
    let figure = format!("exit code 0 in {:.1} s", end.as_secs_f64());
    say("end by SIGTERM", figure);
    Ok(())
}

/// The link of the first device goes, and comes back.
fn links(program: &mut Program<'_>, say: Say<'_>) -> Result<()> {
    let set = |program: &mut Program<'_>, up: bool| {
        let arguments = json!({ "name": device_id(0), "up": up });
        program.guest.qmp.execute("set_link", &arguments).map(drop)
    };
    let frame = of_all_kinds(1, 100, 7).remove(0);
    let before = program.port("a")?.facts.link_flaps;
    let began = Instant::now();
    set(program, false)?;
    program.says("port a is down")?;
    let down = began.elapsed().as_secs_f64();
    let log = program.says("port b: link")?;
    let forwarded = if log.contains("port b: link taken down with its partner's") {
        "the partner's link goes down"
    } else {
        ensure!(log.contains("cannot set its link up or down"), "{log}");
        "the driver cannot take a link down; the log says so"
    };
    ensure!(try_send(program.guest.end(1)?, &frame)?, "no room");
    wait(Duration::from_millis(500))?;
    let came = try_receive(program.guest.end(0)?, &mut [0; 1_514])?.is_some();
    ensure!(!came, "a frame arrived over a link that is down");
    let began = Instant::now();
    set(program, true)?;
    program.until("port b does not come back", |program| {
        Ok(are_up(program, ["a", "b"])?.then_some(()))
    })?;
    let up = began.elapsed().as_secs_f64();
    let flaps = program.port("a")?.facts.link_flaps;
    ensure!(flaps == before + 1, "one flap is counted");
    both_ways(program, 1500, 9)?;
    let figure = format!("in {down:.1} s, and {up:.1} s; {FRAMES} frames each way after it");
    say("link down, and up", figure);
    say("link-loss forwarding", forwarded.to_owned());
    Ok(())
}

/// Unplugs the third device while packets arrive at all.
fn pulled(program: &mut Program<'_>, say: Say<'_>) -> Result<()> {
    let id = device_id(2);
    let frame = of_all_kinds(1, 100, 11).remove(0);
    let began = Instant::now();
    let asked = json!({ "id": id });
    program.guest.qmp.execute("device_del", &asked)?;
    let mut seed = 13;
    let mut flow = |program: &mut Program<'_>| -> Result<()> {
        // As many as there is room for; packets sent after the device is gone are lost.
        for _ in 0..4 {
            let _ = try_send(program.guest.end(2)?, &frame);
        }
        seed += 2;
        both_ways(program, 1500, seed)
    };
    program.until("the switch does not see it", |program| {
        flow(program)?;
        let facts = program.port("c")?.facts;
        Ok((facts.is_removed && !facts.is_up).then_some(()))
    })?;
    program.says("port c: its device is being removed")?;
    program.says("port c: its device is released")?;
    program.until("QEMU does not release it", |program| {
        flow(program)?;
        let is_gone = program.guest.qmp.has_event("DEVICE_DELETED", &id)?;
        Ok(is_gone.then_some(()))
    })?;
    let took = began.elapsed().as_secs_f64();
    let is_there = format!("test -e /sys/bus/pci/devices/{}", address(2));
    let gone = program.guest.try_run(&is_there)?;
    ensure!(gone.0 != 0, "the guest's kernel still has it");
    let unready = program.snapshot()?.unready();
    let removed = "port c: device was removed".to_owned();
    ensure!(unready.contains(&removed), "{unready:?}");
    both_ways(program, 1500, 12)?;
    let figure = format!("released in {took:.1} s; no frame lost between the others");
    say("device unplugged", figure);
    Ok(())
}
