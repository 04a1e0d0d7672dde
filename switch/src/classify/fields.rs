//! The fields of a packet that rules name.

/// Priority code point of a frame without a tag.
pub(super) const NO_PCP: usize = 8;
/// Code point of what is not IP.
pub(super) const NO_DSCP: usize = 64;
/// Protocol of what is not IP.
pub(super) const NO_PROTOCOL: usize = 256;
/// Port of what has none.
pub(super) const NO_PORT: u32 = 0x1_0000;

/// As many as `measure::packet` steps over.
const VLAN_TAGS_MAX: usize = 4;
const MPLS_LABELS_MAX: usize = 8;
const EXTENSION_HEADERS_MAX: usize = 8;

/// What rules can tell of a frame.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Fields {
    /// Of the outer tag, or [`NO_PCP`].
    pub pcp: usize,
    pub ip: Option<Ip>,
}

/// What they can tell of IP.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Ip {
    pub dscp: usize,
    /// Above IP, behind the extension headers of IPv6.
    pub protocol: usize,
    pub addresses: Addresses,
    /// [`NO_PORT`] where there is none: not TCP, UDP or SCTP, a later fragment, or cut off.
    pub source_port: u32,
    pub destination_port: u32,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Addresses {
    V4 { source: u32, destination: u32 },
    V6 { source: u128, destination: u128 },
}

impl Fields {
    /// Reads a frame, as far as its first segment goes. IP that is cut within its header or
    /// contradicts itself is no IP.
    #[inline]
    pub fn of(head: &[u8]) -> Self {
        match be16(head, 12) {
            Some(0x0800) => Self {
                pcp: NO_PCP,
                ip: ipv4(head, 14),
            },
            _ => Self::of_any(head),
        }
    }

    fn of_any(head: &[u8]) -> Self {
        let mut pcp = NO_PCP;
        let ip = Self::read(head, &mut pcp);
        Self { pcp, ip }
    }

    /// Steps over tags and labels. What a label stack has below it shows in its first nibble
    /// (RFC 3032).
    fn read(head: &[u8], pcp: &mut usize) -> Option<Ip> {
        let mut at = 14;
        let mut ethertype = be16(head, 12)?;
        for _ in 0..VLAN_TAGS_MAX {
            if !matches!(ethertype, 0x8100 | 0x88a8 | 0x9100) {
                break;
            }
            if *pcp == NO_PCP {
                *pcp = usize::from(*head.get(14)? >> 5);
            }
            ethertype = be16(head, at + 2)?;
            at += 4;
        }
        if matches!(ethertype, 0x8847 | 0x8848) {
            for _ in 0..MPLS_LABELS_MAX {
                let is_bottom = *head.get(at + 2)? & 1 != 0;
                at += 4;
                if is_bottom {
                    ethertype = match *head.get(at)? >> 4 {
                        4 => 0x0800,
                        6 => 0x86dd,
                        _ => 0,
                    };
                    break;
                }
            }
        }
        match ethertype {
            0x0800 => ipv4(head, at),
            0x86dd => ipv6(head, at),
            _ => None,
        }
    }
}

/// RFC 791.
#[inline]
fn ipv4(head: &[u8], at: usize) -> Option<Ip> {
    let header: &[u8; 20] = head.get(at..)?.first_chunk()?;
    let header_bytes = usize::from(header[0] & 0x0f) * 4;
    let total_bytes = usize::from(u16::from_be_bytes([header[2], header[3]]));
    let holds = header[0] >> 4 == 4 && header_bytes >= 20 && total_bytes >= header_bytes;
    if !holds || head.len() < at + header_bytes {
        return None;
    }
    let is_later_fragment = u16::from_be_bytes([header[6], header[7]]) & 0x1fff != 0;
    let upper = Upper {
        at: at + header_bytes,
        end: at + total_bytes,
    };
    let (source_port, destination_port) = upper.ports(head, header[9], is_later_fragment);
    Some(Ip {
        dscp: usize::from(header[1] >> 2),
        protocol: usize::from(header[9]),
        addresses: Addresses::V4 {
            source: be32(header, 12)?,
            destination: be32(header, 16)?,
        },
        source_port,
        destination_port,
    })
}

/// RFC 8200.
fn ipv6(head: &[u8], at: usize) -> Option<Ip> {
    let header: &[u8; 40] = head.get(at..)?.first_chunk()?;
    if header[0] >> 4 != 6 {
        return None;
    }
    let payload_bytes = usize::from(u16::from_be_bytes([header[4], header[5]]));
    // A jumbogram (RFC 2675) says 0 here, and its length in a hop-by-hop option.
    let is_jumbo = payload_bytes == 0 && header[6] == 0;
    let end = if is_jumbo {
        usize::MAX
    } else {
        at + 40 + payload_bytes
    };
    let mut upper = Upper { at: at + 40, end };
    let (protocol, is_later_fragment) = upper.step_over(head, header[6]);
    let (source_port, destination_port) = upper.ports(head, protocol, is_later_fragment);
    Some(Ip {
        dscp: usize::from((header[0] & 0x0f) << 2 | header[1] >> 6),
        protocol: usize::from(protocol),
        addresses: Addresses::V6 {
            source: be128(header, 8)?,
            destination: be128(header, 24)?,
        },
        source_port,
        destination_port,
    })
}

/// What lies above IP: from `at` on, to `end` by the IP header's length.
struct Upper {
    at: usize,
    end: usize,
}

impl Upper {
    /// Steps over extension headers, as far as they are whole: the protocol behind them, and whether
    /// this is a fragment but not the first.
    fn step_over(&mut self, head: &[u8], mut protocol: u8) -> (u8, bool) {
        for _ in 0..EXTENSION_HEADERS_MAX {
            let stop = self.end.min(head.len());
            let Some(&[next, length, high, low]) =
                head.get(self.at..).and_then(<[u8]>::first_chunk)
            else {
                break;
            };
            let bytes = match protocol {
                // Fragment.
                44 => 8,
                // Authentication (RFC 4302).
                51 => (usize::from(length) + 2) * 4,
                // Hop-by-hop, routing, destination options, mobility, HIP, shim6.
                0 | 43 | 60 | 135 | 139 | 140 => (usize::from(length) + 1) * 8,
                _ => break,
            };
            if self.at + bytes > stop {
                break;
            }
            let is_later_fragment = protocol == 44 && u16::from_be_bytes([high, low]) >> 3 != 0;
            self.at += bytes;
            protocol = next;
            if is_later_fragment {
                return (protocol, true);
            }
        }
        (protocol, false)
    }

    #[inline]
    fn ports(&self, head: &[u8], protocol: u8, is_later_fragment: bool) -> (u32, u32) {
        let has_ports = matches!(protocol, 6 | 17 | 132) && !is_later_fragment;
        let bytes = head.get(self.at..).and_then(<[u8]>::first_chunk::<4>);
        match bytes {
            Some(&[a, b, c, d]) if has_ports && self.at + 4 <= self.end => {
                let port = |high, low| u32::from(u16::from_be_bytes([high, low]));
                (port(a, b), port(c, d))
            }
            _ => (NO_PORT, NO_PORT),
        }
    }
}

#[inline]
fn be16(bytes: &[u8], at: usize) -> Option<u16> {
    bytes
        .get(at..)?
        .first_chunk()
        .copied()
        .map(u16::from_be_bytes)
}

#[inline]
fn be32(bytes: &[u8], at: usize) -> Option<u32> {
    bytes
        .get(at..)?
        .first_chunk()
        .copied()
        .map(u32::from_be_bytes)
}

#[inline]
fn be128(bytes: &[u8], at: usize) -> Option<u128> {
    bytes
        .get(at..)?
        .first_chunk()
        .copied()
        .map(u128::from_be_bytes)
}
