//! A virtual machine with an IOMMU and network devices, and the channel for its commands.

use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::os::unix::net::{UnixDatagram, UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use testkit::process::Process;

use crate::nic::image::Image;
use crate::nic::qmp::Qmp;

pub const QEMU: &str = "qemu-system-x86_64";

/// Time limit for a boot, and for a command.
const PATIENCE: Duration = Duration::from_mins(1);

/// Marks the end of a command's output; its exit code follows.
const END_OF_OUTPUT: u8 = 4;

/// Network devices that are connected to a socket of the host: a frame is a datagram.
pub const SOCKETS: usize = 3;

/// The interface of the kernel's, of two pairs of queues, that another device may be connected to.
pub const TAP: &str = "vernier-tap";

/// A running guest. Dropping it stops it.
#[derive(Debug)]
pub struct Guest {
    pub qmp: Qmp,
    /// The host's ends of the devices that are connected to sockets.
    pub ends: Vec<UnixDatagram>,
    /// How long it took to boot.
    pub boot: Duration,
    agent: BufReader<UnixStream>,
    folder: PathBuf,
    process: Process,
}

/// The PCI address of device `n` in the guest: each is behind a root port of its own.
pub fn address(n: usize) -> String {
    format!("0000:{:02x}:00.0", n + 1)
}

/// The device's name in QEMU.
pub fn device_id(n: usize) -> String {
    format!("nic{n}")
}

impl Guest {
    /// Boots with network devices of `model`: [`SOCKETS`], and where `has_tap` one more, connected to [`TAP`]. `programs` is what the
    /// guest has at `/vernier`.
    pub fn boot(
        image: &Image,
        programs: &Path,
        model: &str,
        has_tap: bool,
        folder: &Path,
    ) -> Result<Self> {
        let began = Instant::now();
        fs::create_dir_all(folder)?;
        let listen = |name: &str| -> Result<UnixListener> {
            let listener = UnixListener::bind(folder.join(name))?;
            listener.set_nonblocking(true)?;
            Ok(listener)
        };
        let (monitor, agent) = (listen("monitor")?, listen("agent")?);
        let end = |n: usize| -> Result<_> {
            let end = UnixDatagram::bind(folder.join(format!("far{n}")))?;
            end.set_nonblocking(true)?;
            Ok(end)
        };
        let ends = (0..SOCKETS).map(end).collect::<Result<_>>()?;
        let mut command = Command::new("timeout");
        // If this process is killed, QEMU ends soon after it.
        command.args(["--kill-after=1", "180", QEMU]);
        add_machine(&mut command, image, programs, folder);
        for n in 0..SOCKETS + usize::from(has_tap) {
            add_network_device(&mut command, model, n, folder);
        }
        let mut process = Process::start_quiet(&mut command, folder.join("qemu.log"))?;
        let mut accept = |listener: &UnixListener| {
            process.until("QEMU did not connect", |_| {
                Ok(listener.accept().ok().map(|(stream, _)| stream))
            })
        };
        let (monitor, agent) = (accept(&monitor)?, accept(&agent)?);
        for stream in [&monitor, &agent] {
            stream.set_nonblocking(false)?;
        }
        agent.set_read_timeout(Some(PATIENCE))?;
        let mut guest = Self {
            qmp: Qmp::new(monitor)?,
            ends,
            boot: Duration::ZERO,
            agent: BufReader::new(agent),
            folder: folder.to_owned(),
            process,
        };
        let mut ready = String::new();
        let greeted = guest.agent.read_line(&mut ready);
        greeted.with_context(|| format!("the guest does not boot: {}", guest.console()))?;
        ensure!(ready == "ready\n", "the guest says {ready:?}");
        for (n, end) in guest.ends.iter().enumerate() {
            end.connect(folder.join(format!("near{n}")))?;
        }
        guest.boot = began.elapsed();
        Ok(guest)
    }

    /// Log of the guest's kernel.
    pub fn console(&self) -> String {
        fs::read_to_string(self.folder.join("console.log")).unwrap_or_default()
    }

    /// Runs a one-line shell command in the guest; returns its exit code and output.
    pub fn try_run(&mut self, command: &str) -> Result<(i32, String)> {
        ensure!(!command.contains('\n'), "a command is one line");
        writeln!(self.agent.get_mut(), "{command}")?;
        let mut said = Vec::new();
        let read = self.agent.read_until(END_OF_OUTPUT, &mut said);
        read.with_context(|| format!("{command}: no answer: {}", self.console()))?;
        let has_ended = said.pop() != Some(END_OF_OUTPUT);
        ensure!(
            !has_ended,
            "{command}: the guest has ended: {}",
            self.console()
        );
        let mut code = String::new();
        self.agent.read_line(&mut code)?;
        let said = String::from_utf8_lossy(&said).into_owned();
        Ok((code.trim().parse()?, said))
    }

    /// Runs a command that must succeed; returns its output.
    pub fn run(&mut self, command: &str) -> Result<String> {
        let (code, said) = self.try_run(command)?;
        ensure!(code == 0, "{command}: exit code {code}: {said}");
        Ok(said)
    }

    /// Binds the first `count` devices to vfio-pci.
    pub fn bind(&mut self, count: usize) -> Result<()> {
        for device in (0..count).map(address) {
            let folder = format!("/sys/bus/pci/devices/{device}");
            self.run(&format!(
                "echo vfio-pci >{folder}/driver_override; \
                 [ ! -e {folder}/driver ] || echo {device} >{folder}/driver/unbind; \
                 echo {device} >/sys/bus/pci/drivers_probe; \
                 readlink {folder}/driver | grep -q vfio-pci"
            ))?;
        }
        Ok(())
    }

    /// The host's end of a device that has one.
    pub fn end(&self, n: usize) -> Result<&UnixDatagram> {
        let end = self.ends.get(n);
        end.with_context(|| format!("device {n} has no socket"))
    }

    /// Ends the guest, and QEMU with it.
    pub fn power_off(mut self) -> Result<()> {
        writeln!(self.agent.get_mut(), "poweroff -f")?;
        self.process.wait()
    }
}

/// The machine, without network devices. Without KVM, because KVM inside a virtual machine starts, but then its guest
/// hangs.
fn add_machine(command: &mut Command, image: &Image, programs: &Path, folder: &Path) {
    let words = "-nodefaults -no-user-config -display none -no-reboot -accel tcg,thread=multi -cpu max -smp 3 \
                 -m 1024 -machine q35,kernel-irqchip=off -device intel-iommu,intremap=on,caching-mode=on \
                 -device virtio-serial-pci -device virtserialport,chardev=agent \
                 -mon chardev=monitor,mode=control";
    for id in ["agent", "monitor"] {
        let path = folder.join(id);
        let socket = format!("socket,id={id},path={}", path.display());
        command.args(["-chardev", &socket]);
    }
    command.args(words.split_whitespace());
    for (tag, path) in [("usr", Path::new("/usr")), ("vernier", programs)] {
        let path = path.display();
        let share = format!("local,id={tag},path={path},security_model=none,readonly=on");
        let device = format!("virtio-9p-pci,fsdev={tag},mount_tag={tag}");
        command.args(["-fsdev", &share, "-device", &device]);
    }
    let console = folder.join("console.log");
    command.args(["-serial", &format!("file:{}", console.display())]);
    command.arg("-kernel").arg(&image.kernel);
    command.arg("-initrd").arg(&image.initrd);
    // On a busy machine the kernel's check of its timer may fail, and so the boot.
    let boot = "console=ttyS0 quiet loglevel=4 intel_iommu=on panic=-1 no_timer_check";
    command.args(["-append", boot]);
}

fn add_network_device(command: &mut Command, model: &str, n: usize, folder: &Path) {
    let at = |name: &str| folder.join(format!("{name}{n}")).display().to_string();
    let (netdev, more) = if n < SOCKETS {
        let (near, far) = (at("near"), at("far"));
        let ends = format!("local.path={near},remote.type=unix,remote.path={far}");
        (format!("dgram,id=net{n},local.type=unix,{ends}"), "")
    } else {
        (
            format!("tap,id=net{n},ifname={TAP},queues=2,script=no,downscript=no,vhost=off"),
            ",mq=on,rss=on,vectors=6",
        )
    };
    let id = device_id(n);
    let port = format!("pcie-root-port,id=root{n},chassis={}", n + 1);
    let device =
        format!("{model},id={id},netdev=net{n},bus=root{n},mac=52:54:00:00:00:{n:02x}{more}");
    command.args(["-device", &port, "-netdev", &netdev, "-device", &device]);
}
