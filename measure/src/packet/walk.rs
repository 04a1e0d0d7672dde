//! Steps from header to header, shared by the parser and other readers of frames: tags and labels, checks
//! of IP headers, extension headers.

use super::Kind;
use super::header::{ethernet, ethertype, ipv4, ipv6, mpls, vlan};

const VLAN_TAGS_MAX: usize = 4;
const MPLS_LABELS_MAX: usize = 8;
/// Most extension headers of IPv6 that are skipped.
pub const EXTENSION_HEADERS_MAX: usize = 8;

/// The content behind Ethernet header, tags and labels.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Content {
    /// An IPv4 packet, by ethertype or by the first nibble below a label stack.
    Ipv4,
    /// An IPv6 packet, likewise.
    Ipv6,
    /// Anything else, or nothing.
    Other(Kind),
}

/// The link layer of a frame: Ethernet header, tags and labels.
#[derive(Debug, Clone, Copy)]
pub struct Link {
    /// The outermost tag.
    pub tag: Option<vlan::Control>,
    /// The ethertype behind the tags; 0 if the head ends before it.
    pub ethertype: u16,
    /// The content.
    pub content: Content,
    /// Offset of the content.
    pub at: usize,
}

impl Link {
    /// Parses the frame that begins with `head`.
    pub fn of(head: &[u8]) -> Self {
        let mut link = Self {
            tag: None,
            ethertype: 0,
            content: Content::Other(Kind::Truncated),
            at: ethernet::BYTES,
        };
        if let Some(content) = link.read(head) {
            link.content = content;
        }
        link
    }

    /// Skips tags and labels; `None` if the head ends within them.
    fn read(&mut self, head: &[u8]) -> Option<Content> {
        self.ethertype = ethernet::Header::of(head)?.ethertype();
        for _ in 0..VLAN_TAGS_MAX {
            if !vlan::is_tag(self.ethertype) {
                break;
            }
            if self.tag.is_none() {
                self.tag = Some(vlan::Control::at(head, self.at)?);
            }
            self.ethertype = vlan::Header::at(head, self.at)?.ethertype();
            self.at += vlan::BYTES;
        }
        Some(match self.ethertype {
            ethertype::IPV4 => Content::Ipv4,
            ethertype::IPV6 => Content::Ipv6,
            mpls if mpls::is_label(mpls) => self.read_labels(head)?,
            _ => Content::Other(Kind::NonIp),
        })
    }

    /// RFC 3032: the first nibble below the bottom of the stack identifies the content.
    fn read_labels(&mut self, head: &[u8]) -> Option<Content> {
        for _ in 0..MPLS_LABELS_MAX {
            let label = mpls::Header::at(head, self.at)?;
            self.at += mpls::BYTES;
            if label.is_bottom() {
                return Some(match head.get(self.at)? >> 4 {
                    ipv4::VERSION => Content::Ipv4,
                    ipv6::VERSION => Content::Ipv6,
                    _ => Content::Other(Kind::NonIp),
                });
            }
        }
        Some(Content::Other(Kind::NonIp))
    }
}

/// The bytes behind an IP header: from `at` to `end` by the IP header's length, as far as `head` contains
/// them.
#[derive(Debug, Clone, Copy)]
pub struct Upper<'h> {
    /// The frame's first segment.
    pub head: &'h [u8],
    /// Offset of the next header.
    pub at: usize,
    /// End of the packet.
    pub end: usize,
}

/// Parses the IPv4 header at `at`; returns what follows it.
///
/// # Errors
/// The kind of a frame whose IP header is truncated or contradicts itself.
#[inline]
pub fn ipv4(head: &[u8], at: usize) -> Result<(ipv4::Header<'_>, Upper<'_>), Kind> {
    let header = ipv4::Header::at(head, at).ok_or(Kind::Truncated)?;
    if !header.is_consistent() {
        return Err(Kind::Malformed);
    }
    let upper = Upper {
        head,
        at: at + header.header_bytes(),
        end: at + header.total_bytes(),
    };
    if upper.at > head.len() {
        return Err(Kind::Truncated);
    }
    Ok((header, upper))
}

/// Parses the IPv6 header at `at`; returns what follows it.
///
/// # Errors
/// The kind of a frame whose IP header is truncated or has a wrong version.
#[inline]
pub fn ipv6(head: &[u8], at: usize) -> Result<(ipv6::Header<'_>, Upper<'_>), Kind> {
    let header = ipv6::Header::at(head, at).ok_or(Kind::Truncated)?;
    if !header.is_consistent() {
        return Err(Kind::Malformed);
    }
    let at = at + ipv6::BYTES;
    // A jumbogram has no padding.
    let end = header
        .payload_bytes()
        .map_or(usize::MAX, |bytes| at + bytes);
    Ok((header, Upper { head, at, end }))
}

impl<'h> Upper<'h> {
    /// End of the packet or of the head.
    pub fn stop(&self) -> usize {
        self.end.min(self.head.len())
    }

    /// The next `N` bytes, if present.
    #[inline]
    pub fn next_bytes<const N: usize>(&self) -> Option<&'h [u8; N]> {
        let next = self.head.get(self.at..)?.first_chunk()?;
        (self.at + N <= self.end).then_some(next)
    }

    /// Whether the next `bytes` are present.
    pub fn has(&self, bytes: usize) -> bool {
        self.at + bytes <= self.stop()
    }

    /// The kind of a packet that ends within its next `bytes`.
    pub fn cut_kind(&self, bytes: usize) -> Kind {
        if self.at + bytes > self.end {
            Kind::Malformed
        } else {
            Kind::Truncated
        }
    }

    /// Skips the extension header announced by `protocol`, if it announces one.
    ///
    /// # Errors
    /// The kind of a packet that ends within the header.
    pub fn step(&mut self, protocol: u8) -> Result<Option<ipv6::Extension<'h>>, Kind> {
        if !ipv6::Extension::is_announced_by(protocol) {
            return Ok(None);
        }
        let extension = ipv6::Extension::at(self.head, self.at)
            .ok_or(self.cut_kind(ipv6::EXTENSION_BYTES_MIN))?;
        let bytes = extension.bytes(protocol);
        if !self.has(bytes) {
            return Err(self.cut_kind(bytes));
        }
        self.at += bytes;
        Ok(Some(extension))
    }
}
