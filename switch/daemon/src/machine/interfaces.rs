//! Values that the drivers of kernel interfaces refuse: an MTU, a number of queues. Known from the drivers' sources.

use std::ops::RangeInclusive;
use std::process::Command;

use contract::config::device::argument;
use contract::config::document::{Check, KeyPath, all, ensure, within};
use contract::config::{Config, Device, Port};

/// Queues of a kernel interface, as shown by `ethtool -l`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Channels {
    /// The greater of the numbers of receive and transmit queues.
    queues: u16,
    /// Combined queues; 1 if the driver has none, as assumed by `net_af_xdp` (`xdp_get_channels_info`).
    combined: u16,
}

/// Reads the queues of an interface by name; `None` if unknown.
pub(super) type ReadChannels = fn(&str) -> Option<Channels>;

/// A driver of kernel interfaces.
#[derive(Debug)]
struct Driver {
    /// Prefix of its devices' names.
    name: &'static str,
    /// The argument for the number of queues of a device.
    queues_key: &'static str,
    /// The default number; `None` if it is the port's.
    queues: Option<u16>,
    /// Valid MTUs: `eth_dev_info`, in DPDK 22.11 to 24.11.
    mtus: RangeInclusive<u16>,
}

const DRIVERS: [Driver; 2] = [
    Driver {
        name: "net_af_packet",
        queues_key: "qpairs",
        queues: None,
        // Frames of ETH_FRAME_LEN, and RTE_ETHER_MIN_LEN without header and check sequence.
        mtus: 46..=1_500,
    },
    Driver {
        name: "net_af_xdp",
        queues_key: "queue_count",
        queues: Some(1),
        // A frame is in one page, behind the headers of its mempool object (24), mbuf (128), headroom (128) and XDP
        // (256), with 18 of its own. Pages have other sizes elsewhere.
        mtus: 68..=if cfg!(target_arch = "x86_64") {
            4_096 - 554
        } else {
            u16::MAX
        },
    },
];

/// Lists what the driver of the port at `index` will refuse.
pub(super) fn check(
    channels: ReadChannels,
    path: &KeyPath,
    index: usize,
    config: &Config,
) -> Check {
    let port = &config.ports[index];
    let Device::Dpdk(device) = &port.device else {
        return Ok(());
    };
    let mut drivers = DRIVERS.iter();
    let Some(driver) = drivers.find(|driver| device.starts_with(driver.name)) else {
        return Ok(());
    };
    let (least, most) = (driver.mtus.start(), driver.mtus.end());
    let mtu = ensure(
        driver.mtus.contains(&port.mtu),
        path.key("mtu"),
        format!("{least} to {most}, the MTUs of {}", driver.name),
        port.mtu,
    );
    // Only the driver with its own default uses queues of the interface.
    let interface = argument(device, "iface").filter(|_| driver.queues.is_some());
    let has = interface.and_then(channels);
    let queues = driver.check_queues(&path.key("device"), index, config, device, has);
    all([mtu, queues])
}

impl Driver {
    fn check_queues(
        &self,
        path: &KeyPath,
        index: usize,
        config: &Config,
        device: &str,
        channels: Option<Channels>,
    ) -> Check {
        let number = |key: &str| argument(device, key)?.parse::<u16>().ok();
        let has = number(self.queues_key).or(self.queues);
        let wanted = config.rx_queues(index);
        let enough = match has {
            Some(has) if is_named(config, &config.ports[index]) => {
                let key = self.queues_key;
                let expected = format!("{key}={wanted}, for the receive queues that are named");
                ensure(wanted <= has, path.clone(), expected, has)
            }
            _ => Ok(()),
        };
        let Some(channels) = channels else {
            return enough;
        };
        let (first, count) = (number("start_queue").unwrap_or(0), has.unwrap_or(1));
        let there = ensure(
            count <= channels.combined,
            path.clone(),
            format!(
                "queue_count={} at most, as many combined queues as the interface has (`ethtool -l`)",
                channels.combined
            ),
            count,
        );
        let last = first.saturating_add(count.max(1)) - 1;
        let last = within(path.clone(), last, 0..=channels.queues.saturating_sub(1));
        let last = last.map_err(|mut faults| {
            for fault in &mut faults.0 {
                fault.expected = format!("{} as a queue of the interface", fault.expected);
            }
            faults
        });
        all([enough, there, last])
    }
}

/// Whether receive queues of a port are configured, at the port or at workers.
fn is_named(config: &Config, port: &Port) -> bool {
    port.rx_queues.is_some() || config.workers.iter().any(|worker| worker.queues.is_some())
}

impl Channels {
    /// Parses the output of `ethtool -l`; `None` if it has no numbers.
    pub(super) fn of(interface: &str) -> Option<Self> {
        let output = Command::new("ethtool")
            .args(["-l", interface])
            .output()
            .ok()?;
        let is_there = output.status.success();
        is_there.then(|| Self::read(&String::from_utf8_lossy(&output.stdout)))
    }

    fn read(text: &str) -> Self {
        let (most, now) = text
            .split_once("Current hardware settings")
            .unwrap_or_default();
        let number = |text: &str, key: &str| {
            let mut lines = text.lines();
            let value = lines.find_map(|line| line.trim().strip_prefix(key)?.strip_prefix(':'));
            value
                .and_then(|value| value.trim().parse::<u16>().ok())
                .unwrap_or(0)
        };
        let combined = number(now, "Combined");
        let queues = number(now, "RX")
            .max(number(now, "TX"))
            .saturating_add(combined);
        Self {
            queues: queues.max(1),
            combined: match number(most, "Combined") {
                0 => 1,
                _ => combined,
            },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const VETH: &str = "Channel parameters for pa:\nPre-set maximums:\nRX:\t\t2\nTX:\t\t2\nOther:\t\tn/a\nCombined:\tn/a\n\
                        Current hardware settings:\nRX:\t\t2\nTX:\t\t1\nOther:\t\tn/a\nCombined:\tn/a\n";
    const NIC: &str = "Channel parameters for eth1:\nPre-set maximums:\nRX:\t\t0\nTX:\t\t0\nOther:\t\t1\nCombined:\t8\n\
                       Current hardware settings:\nRX:\t\t0\nTX:\t\t0\nOther:\t\t1\nCombined:\t4\n";

    #[test]
    fn channels_are_read_from_ethtool() {
        let channels = |queues, combined| Channels { queues, combined };
        assert_eq!(Channels::read(VETH), channels(2, 1));
        assert_eq!(Channels::read(NIC), channels(4, 4));
        assert_eq!(Channels::read(""), channels(1, 1));
    }

    /// Errors for a port with this device and these members.
    fn faults(device: &str, more: &str) -> Vec<String> {
        let text = format!(
            r#"{{ "ports": [{{ "name": "a", "device": "{device}"{more} }}, {{ "name": "b", "device": "sink" }}],
                "forwarding": {{ "mode": "bridge" }}, "workers": [{{}}] }}"#
        );
        let config = Config::parse(&text, "").unwrap();
        let channels = |interface: &str| match interface {
            "pa" => Some(Channels::read(VETH)),
            "eth1" => Some(Channels::read(NIC)),
            _ => None,
        };
        let checked = check(channels, &KeyPath::default(), 0, &config);
        let faults = checked.err().map_or_else(Vec::new, |faults| faults.0);
        faults.iter().map(ToString::to_string).collect()
    }

    #[test]
    fn what_a_driver_refuses_is_said_before() {
        for (device, more, wanted) in [
            ("net_af_packet0,iface=pa", "", None),
            (
                "net_af_packet0,iface=pa",
                r#", "mtu": 9000"#,
                Some("mtu: expected 46 to 1500, the MTUs of net_af_packet, got 9000"),
            ),
            ("net_af_packet0,iface=pa", r#", "rx_queues": 2"#, None),
            (
                "net_af_packet0,iface=pa,qpairs=1",
                r#", "rx_queues": 2"#,
                Some("device: expected qpairs=2"),
            ),
            (
                "net_af_packet0,iface=pa,qpairs=2",
                r#", "rx_queues": 2"#,
                None,
            ),
            ("net_af_xdp0,iface=pa", "", None),
            (
                "net_af_xdp0,iface=pa",
                r#", "mtu": 9000"#,
                Some("the MTUs of net_af_xdp, got 9000"),
            ),
            (
                "net_af_xdp0,iface=pa",
                r#", "rx_queues": 2"#,
                Some("device: expected queue_count=2"),
            ),
            ("net_af_xdp0,iface=pa,start_queue=1", "", None),
            (
                "net_af_xdp0,iface=pa,start_queue=5",
                "",
                Some("device: expected 0 to 1 as a queue of the interface, got 5"),
            ),
            (
                "net_af_xdp0,iface=pa,queue_count=2",
                "",
                Some("device: expected queue_count=1 at most"),
            ),
            ("net_af_xdp0,iface=eth1,queue_count=4", "", None),
            (
                "net_af_xdp0,iface=eth1,queue_count=5",
                "",
                Some("device: expected queue_count=4 at most"),
            ),
            (
                "net_af_xdp0,iface=eth1,start_queue=1,queue_count=4",
                "",
                Some("expected 0 to 3 as a queue"),
            ),
            ("net_af_xdp0,iface=other,start_queue=5", "", None),
            ("net_null0", r#", "mtu": 9000"#, None),
            ("sink", r#", "mtu": 9000"#, None),
        ] {
            let faults = faults(device, more);
            match wanted {
                None => assert_eq!(faults, [""; 0], "{device}{more}"),
                Some(wanted) => assert!(
                    faults.iter().any(|fault| fault.contains(wanted)),
                    "{device}{more}: {faults:?}"
                ),
            }
        }
    }
}
