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

/// The first 32 bytes of `bytes[start..end]`, zeros in place of those that are missing.
#[inline(always)]
#[expect(clippy::inline_always, reason = "the common case is four loads")]
pub(super) fn first_32(bytes: &[u8], start: usize, end: usize) -> [Pair; 2] {
    let whole = bytes
        .get(start..end)
        .and_then(|payload| payload.first_chunk::<32>());
    match whole {
        Some(whole) => [le_pair(whole, 0), le_pair(whole, 16)],
        None if end <= start + 16 => [first_16(bytes, start, end), (0, 0)],
        None => [
            first_16(bytes, start, end),
            first_16(bytes, start + 16, end),
        ],
    }
}

/// The first 16 bytes likewise.
///
/// One load of the 16 bytes before the end and a shift bring them without a branch on how many
/// there are: in an IP packet there are always headers to read over.
#[inline]
fn first_16(bytes: &[u8], start: usize, end: usize) -> Pair {
    let count = end.saturating_sub(start).min(16);
    let before_end = (start + count)
        .checked_sub(16)
        .and_then(|at| chunk::<16>(bytes, at));
    match before_end {
        Some(_) if count == 0 => (0, 0),
        Some(before_end) => halves(u128::from_le_bytes(*before_end) >> (8 * (16 - count))),
        None => first_16_at_front(bytes, start, count),
    }
}

/// The same where less than 16 bytes come before the end, or `bytes` ends before it.
#[cold]
fn first_16_at_front(bytes: &[u8], start: usize, count: usize) -> Pair {
    let mut padded = [0; 16];
    for (to, from) in padded.iter_mut().zip(bytes.iter().skip(start).take(count)) {
        *to = *from;
    }
    le_pair(&padded, 0)
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
            let mut expected = [0; 32];
            for (place, at) in (start..end.min(bytes.len())).take(32).enumerate() {
                expected[place] = bytes[at];
            }
            let expected = [le_pair(&expected, 0), le_pair(&expected, 16)];
            prop_assert_eq!(first_32(&bytes, start, end), expected);
        }
    }
}
