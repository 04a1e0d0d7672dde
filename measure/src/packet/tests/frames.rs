//! Frames for tests, built header by header.

use std::net::Ipv6Addr;

use crate::packet::header::{ipv4, ipv6, protocol, tcp, udp};

/// A transport header with payload.
#[derive(Debug, Clone)]
pub struct L4 {
    protocol: u8,
    bytes: Vec<u8>,
}

impl L4 {
    pub fn tcp(source: u16, destination: u16, payload: &[u8]) -> Self {
        let header = tcp::Repr {
            source_port: source,
            destination_port: destination,
            sequence: 0x1122_3344,
            acknowledgement: 0x5566_7788,
            flags: tcp::ACK | tcp::PSH,
            window: u16::MAX,
        };
        Self {
            protocol: protocol::TCP,
            bytes: [&header.emit()[..], payload].concat(),
        }
    }

    pub fn udp(source: u16, destination: u16, payload: &[u8]) -> Self {
        let header = udp::Repr::new(source, destination, payload.len());
        Self {
            protocol: protocol::UDP,
            bytes: [&header.emit()[..], payload].concat(),
        }
    }

    pub fn sctp(source: u16, destination: u16) -> Self {
        let mut bytes = [source.to_be_bytes(), destination.to_be_bytes()].concat();
        bytes.extend([0xde, 0xad, 0xbe, 0xef]); // verification tag
        bytes.extend([0xab, 0xcd, 0xab, 0xcd]); // checksum
        bytes.extend([
            0, 3, 0, 20, 0, 0, 0x12, 0x34, 0, 1, 0, 2, 0, 0, 0, 0, b'd', b'a', b't', b'a',
        ]);
        Self {
            protocol: 132,
            bytes,
        }
    }

    /// An echo request, as ICMP or `ICMPv6`.
    pub fn icmp(protocol: u8) -> Self {
        let mut bytes = vec![
            if protocol == 1 { 8 } else { 128 },
            0,
            0xab,
            0xcd,
            0x12,
            0x34,
            0,
            7,
        ];
        bytes.extend(0..56);
        Self { protocol, bytes }
    }

    pub fn other(protocol: u8) -> Self {
        Self {
            protocol,
            bytes: (100..140).collect(),
        }
    }
}

/// A frame whose IP header can still be changed.
#[derive(Debug, Clone)]
pub struct Frame {
    tags: Vec<u8>,
    ip: Vec<u8>,
    /// IPv6: extension headers; their types, innermost last.
    extensions: Vec<u8>,
    l4: Vec<u8>,
    patches: Vec<(usize, u8)>,
}

impl Frame {
    pub fn v4(l4: L4) -> Self {
        let [source, destination] = [[10, 0, 0, 1], [10, 0, 0, 2]].map(Into::into);
        let header = ipv4::Repr {
            id: 0x1234,
            ..ipv4::Repr::new(source, destination, l4.protocol, l4.bytes.len())
        };
        Self::new(header.emit().to_vec(), l4)
    }

    pub fn v6(l4: L4) -> Self {
        let [source, destination] =
            [1, 2].map(|last| Ipv6Addr::from_bits(0x2001_0db8 << 96 | last));
        let header = ipv6::Repr {
            flow_label: 0x1_2345,
            ..ipv6::Repr::new(source, destination, l4.protocol, l4.bytes.len())
        };
        Self::new(header.emit().to_vec(), l4)
    }

    fn new(ip: Vec<u8>, l4: L4) -> Self {
        Self {
            tags: Vec::new(),
            ip,
            extensions: Vec::new(),
            l4: l4.bytes,
            patches: Vec::new(),
        }
    }

    fn is_v6(&self) -> bool {
        self.ip[0] >> 4 == 6
    }

    /// Pushes a VLAN tag in front of the existing tags.
    pub fn tag(mut self, ethertype: u16, id: u16) -> Self {
        let inner = self.ethertype();
        let inner_tags = std::mem::take(&mut self.tags);
        self.tags.extend(ethertype.to_be_bytes());
        self.tags.extend((0xa000 | id).to_be_bytes());
        if inner_tags.is_empty() {
            self.tags.extend(inner);
        } else {
            self.tags.extend(inner_tags);
        }
        self
    }

    pub fn mpls(mut self, labels: u8) -> Self {
        self.tags = vec![0x88, 0x47];
        for label in 1..=labels {
            self.tags.extend([0, label, u8::from(label == labels), 64]);
        }
        self
    }

    pub fn options(mut self, words: u8) -> Self {
        self.ip[0] += words;
        self.ip.extend(vec![1; usize::from(words) * 4]);
        self
    }

    /// Pushes an extension header of `bytes` bytes in front of the existing headers.
    pub fn extension(mut self, kind: u8, bytes: usize) -> Self {
        let mut header = vec![0; bytes];
        header[0] = self.ip[6];
        header[1] = match kind {
            44 => 0,
            51 => u8::try_from(bytes / 4 - 2).unwrap(),
            _ => u8::try_from(bytes / 8 - 1).unwrap(),
        };
        self.ip[6] = kind;
        header.extend(&self.extensions);
        self.extensions = header;
        self
    }

    /// Fills in the fragment field, or the innermost extension header, which must be of that kind.
    pub fn fragment(mut self, offset: u16, more: bool) -> Self {
        if self.is_v6() {
            let header = self.extensions.len() - 8;
            let field = offset << 3 | u16::from(more);
            self.extensions[header + 2..header + 4].copy_from_slice(&field.to_be_bytes());
            self.extensions[header + 4..].copy_from_slice(&[1, 2, 3, 4]);
        } else {
            let field = offset | u16::from(more) << 13;
            self.ip[6..8].copy_from_slice(&field.to_be_bytes());
        }
        self
    }

    /// Overwrites a byte of the finished frame.
    pub fn patch(mut self, at: usize, byte: u8) -> Self {
        self.patches.push((at, byte));
        self
    }

    fn ethertype(&self) -> [u8; 2] {
        if self.is_v6() {
            [0x86, 0xdd]
        } else {
            [0x08, 0x00]
        }
    }

    pub fn bytes(&self) -> Vec<u8> {
        let mut ip = self.ip.clone();
        let above = self.extensions.len() + self.l4.len();
        let (at, length) = if self.is_v6() {
            (4, above)
        } else {
            (2, ip.len() + above)
        };
        ip[at..at + 2].copy_from_slice(&u16::try_from(length).unwrap().to_be_bytes());

        let mut frame = vec![2, 0, 0, 0, 0, 2, 2, 0, 0, 0, 0, 1];
        if self.tags.is_empty() {
            frame.extend(self.ethertype());
        } else {
            frame.extend(&self.tags);
        }
        for part in [&ip, &self.extensions, &self.l4] {
            frame.extend(part);
        }
        frame.resize(frame.len().max(60), 0);
        for &(at, byte) in &self.patches {
            frame[at] = byte;
        }
        frame
    }
}

pub fn ethernet(ethertype: u16, payload: &[u8]) -> Vec<u8> {
    let mut frame = vec![2, 0, 0, 0, 0, 2, 2, 0, 0, 0, 0, 1];
    frame.extend(ethertype.to_be_bytes());
    frame.extend(payload);
    frame.resize(frame.len().max(60), 0);
    frame
}

pub fn arp() -> Vec<u8> {
    let mut request = vec![0, 1, 8, 0, 6, 4, 0, 1, 2, 0, 0, 0, 0, 1, 10, 0, 0, 1];
    request.extend([0, 0, 0, 0, 0, 0, 10, 0, 0, 2]);
    let mut frame = ethernet(0x0806, &request);
    frame[..6].fill(0xff);
    frame
}
