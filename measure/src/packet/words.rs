//! Bytes to words. Hashed words are read little-endian, whatever the machine; numbers that are
//! interpreted are read big-endian, as on the wire.

/// Two words that the hash multiplies.
pub(super) type Pair = (u64, u64);

/// `N` bytes at an offset, if they are there.
#[inline]
pub(super) fn chunk<const N: usize>(bytes: &[u8], at: usize) -> Option<&[u8; N]> {
    bytes.get(at..)?.first_chunk()
}

#[inline]
pub(super) fn be16(bytes: &[u8], at: usize) -> Option<u16> {
    chunk(bytes, at).copied().map(u16::from_be_bytes)
}

#[inline]
pub(super) fn be32(bytes: &[u8], at: usize) -> Option<u32> {
    chunk(bytes, at).copied().map(u32::from_be_bytes)
}

#[inline]
pub(super) fn le32(bytes: &[u8], at: usize) -> Option<u32> {
    chunk(bytes, at).copied().map(u32::from_le_bytes)
}

#[inline]
pub(super) fn le64(bytes: &[u8], at: usize) -> Option<u64> {
    chunk(bytes, at).copied().map(u64::from_le_bytes)
}

#[inline]
pub(super) fn le_pair<const N: usize>(bytes: &[u8; N], at: usize) -> Pair {
    halves(chunk(bytes, at).copied().map_or(0, u128::from_le_bytes))
}

#[inline]
#[expect(
    clippy::cast_possible_truncation,
    reason = "the lower half is what is meant"
)]
fn halves(bits: u128) -> Pair {
    (bits as u64, (bits >> 64) as u64)
}

/// The first 16 bytes of `bytes[start..end]`, zeros in place of those that are missing.
///
/// No branch depends on how many there are: payloads of different lengths come mixed, and a branch
/// that guesses wrong costs more than all of the hash.
#[inline(always)]
#[expect(clippy::inline_always, reason = "once a packet")]
pub(super) fn first_16(bytes: &[u8], start: usize, end: usize) -> Pair {
    (first_8(bytes, start, end), first_8(bytes, start + 8, end))
}

/// The first eight bytes likewise: one load of the eight that end where the word or the payload
/// does (in an IP packet there are always headers to read over), and a shift.
#[inline(always)]
#[expect(clippy::inline_always, reason = "twice a packet")]
fn first_8(bytes: &[u8], start: usize, end: usize) -> u64 {
    let last = end.min(start + 8);
    let missing = start + 8 - last;
    let word = last.checked_sub(8).and_then(|at| le64(bytes, at));
    match (word, HALF_BITS.get(missing)) {
        (Some(word), Some(half_bits)) => word >> half_bits >> half_bits,
        _ => first_8_at_front(bytes, start, last),
    }
}

/// Half the bits of so many missing bytes, to be shifted out twice: a whole word cannot be shifted
/// out at once. A table, since compilers make a branch of a minimum.
const HALF_BITS: [u8; 17] = [
    0, 4, 8, 12, 16, 20, 24, 28, 32, 36, 40, 44, 48, 52, 56, 60, 60,
];

/// The same where less than eight bytes come before the end, or `bytes` ends before it.
#[cold]
fn first_8_at_front(bytes: &[u8], start: usize, end: usize) -> u64 {
    let mut padded = [0; 8];
    let present = bytes.iter().take(end).skip(start);
    for (to, from) in padded.iter_mut().zip(present) {
        *to = *from;
    }
    u64::from_le_bytes(padded)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn missing_bytes_are_zeros(
            bytes in proptest::collection::vec(any::<u8>(), 0..64),
            start in 0_usize..80,
            end in 0_usize..80,
        ) {
            let mut expected = [0; 16];
            for (place, at) in (start..end.min(bytes.len())).take(16).enumerate() {
                expected[place] = bytes[at];
            }
            prop_assert_eq!(first_16(&bytes, start, end), le_pair(&expected, 0));
        }
    }
}
