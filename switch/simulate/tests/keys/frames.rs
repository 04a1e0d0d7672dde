//! Frames sent by hosts.

use std::net::Ipv4Addr;

use measure::packet::header::{ethernet, ethertype, ipv4, protocol, tcp, udp};

/// A packet of UDP or TCP over IPv4, `len` bytes long with its Ethernet header.
#[derive(Clone, Copy)]
pub struct Packet {
    /// The last octet of the hosts' Ethernet and IP addresses.
    pub from: u8,
    pub to: u8,
    pub ports: (u16, u16),
    pub protocol: u8,
    pub dscp: u8,
    /// Priority and VLAN.
    pub tag: Option<(u8, u16)>,
    pub len: usize,
}

impl Packet {
    pub const UDP: Self = Self {
        from: 1,
        to: 2,
        ports: (1_000, 53),
        protocol: 17,
        dscp: 0,
        tag: None,
        len: 200,
    };

    /// Returns its frame; `number` makes it unique.
    pub fn frame(&self, number: u32) -> Vec<u8> {
        let address = |host| [2, 0, 0, 0, 0, host];
        let ethernet = ethernet::Repr {
            destination: address(self.to),
            source: address(self.from),
            ethertype: ethertype::IPV4,
        };
        let mut frame = ethernet.emit().to_vec();
        if let Some((priority, vlan)) = self.tag {
            let tag = [ethertype::VLAN, u16::from(priority) << 13 | vlan];
            frame.splice(12..12, tag.map(u16::to_be_bytes).concat());
        }
        let len = self.len.max(60);
        let payload = len - frame.len() - ipv4::BYTES;
        let hosts = [[10, 0, 0, self.from], [10, 0, 1, self.to]].map(Ipv4Addr::from);
        let [.., high, low] = number.to_be_bytes();
        let ip = ipv4::Repr {
            dscp: self.dscp,
            id: u16::from_be_bytes([high, low]),
            ..ipv4::Repr::new(hosts[0], hosts[1], self.protocol, payload)
        };
        frame.extend(ip.emit());
        let (source_port, destination_port) = self.ports;
        if self.protocol == protocol::UDP {
            let udp = udp::Repr::new(source_port, destination_port, payload - udp::BYTES);
            frame.extend(udp.emit());
        } else {
            let tcp = tcp::Repr {
                source_port,
                destination_port,
                sequence: number,
                acknowledgement: 0,
                flags: 0x10,
                window: 256,
            };
            frame.extend(tcp.emit());
        }
        frame.extend(number.to_be_bytes());
        frame.resize(len, 0);
        frame
    }
}

/// A mix of forty flows: UDP and TCP, of two sources and four destinations, with three code points, of many sizes.
pub fn mix(number: u32) -> Packet {
    let flow = number * 7 % 40;
    let octet = |n: u32| u8::try_from(n).unwrap();
    let port = |n: u32| u16::try_from(n).unwrap();
    Packet {
        from: octet(1 + flow % 2),
        to: octet(11 + flow % 4),
        ports: (port(1_000 + flow), [53, 80, 443][(flow % 3) as usize]),
        protocol: [17, 6][(flow / 4 % 2) as usize],
        dscp: [0, 46, 10][(flow / 8 % 3) as usize],
        tag: None,
        len: 60 + (number * 97 % 1_440) as usize,
    }
}
