//! The Internet checksum (RFC 1071).

/// A sum of big-endian 16-bit words; 65,535 bytes at most cannot overflow it.
#[derive(Debug, Clone, Copy, Default)]
pub struct Sum(u32);

impl Sum {
    /// With `bytes`, an odd one at the end padded with zero.
    #[inline]
    #[must_use]
    #[expect(clippy::should_implement_trait, reason = "bytes are no sum")]
    pub fn add(self, bytes: &[u8]) -> Self {
        let (words, odd) = bytes.as_chunks::<2>();
        let odd = odd.first().map_or(0, |&byte| u32::from(byte) << 8);
        Self(words.iter().fold(self.0 + odd, |sum, &word| {
            sum + u32::from(u16::from_be_bytes(word))
        }))
    }

    /// With one word.
    #[inline]
    #[must_use]
    pub fn add_word(self, word: u16) -> Self {
        Self(self.0 + u32::from(word))
    }

    /// What TCP and UDP add of the IP header (RFC 9293, 3.1; RFC 8200, 8.1): both addresses as in the
    /// header, the protocol, and the length of the segment.
    #[inline]
    pub fn pseudo_header(addresses: &[u8], protocol: u8, segment_bytes: u16) -> Self {
        Self::default()
            .add(addresses)
            .add_word(protocol.into())
            .add_word(segment_bytes)
    }

    /// The checksum: 0 over a header or segment that holds the right one.
    #[inline]
    #[expect(clippy::cast_possible_truncation, reason = "folded to 16 bits")]
    pub fn finish(self) -> u16 {
        let folded = (self.0 & 0xffff) + (self.0 >> 16);
        !((folded & 0xffff) + (folded >> 16)) as u16
    }
}
