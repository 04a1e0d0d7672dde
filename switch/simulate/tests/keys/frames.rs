//! Frames that hosts send.

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

    /// Its frame; `number` makes it one that was not there before.
    pub fn frame(&self, number: u32) -> Vec<u8> {
        let mut frame = vec![2, 0, 0, 0, 0, self.to, 2, 0, 0, 0, 0, self.from];
        if let Some((priority, vlan)) = self.tag {
            frame.extend([0x81, 0x00]);
            frame.extend((u16::from(priority) << 13 | vlan).to_be_bytes());
        }
        frame.extend([0x08, 0x00]);
        let ip = frame.len();
        let bytes = u16::try_from(self.len.max(60) - ip).unwrap();
        frame.extend([0x45, self.dscp << 2]);
        frame.extend(bytes.to_be_bytes());
        frame.extend(number.to_be_bytes()[2..].iter());
        frame.extend([0x40, 0, 64, self.protocol, 0, 0]);
        frame.extend([10, 0, 0, self.from, 10, 0, 1, self.to]);
        let words = frame[ip..].chunks(2);
        let sum: u32 = words
            .map(|word| u32::from(word[0]) << 8 | u32::from(word[1]))
            .sum();
        let sum = (sum & 0xffff) + (sum >> 16);
        let sum = !u16::try_from((sum & 0xffff) + (sum >> 16)).unwrap();
        frame[ip + 10..ip + 12].copy_from_slice(&sum.to_be_bytes());
        frame.extend(self.ports.0.to_be_bytes());
        frame.extend(self.ports.1.to_be_bytes());
        let udp_bytes = bytes - 20;
        match self.protocol {
            17 => frame.extend([udp_bytes.to_be_bytes(), [0, 0]].concat()),
            // Sequence and acknowledgement numbers, five words, ACK.
            _ => frame.extend(
                [
                    &number.to_be_bytes()[..],
                    &[0, 0, 0, 0, 0x50, 0x10, 1, 0, 0, 0, 0, 0],
                ]
                .concat(),
            ),
        }
        frame.extend(number.to_be_bytes());
        frame.resize(self.len.max(60), 0);
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
