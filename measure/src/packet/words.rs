//! Converts bytes to words. Hashed words are little-endian on every machine; interpreted numbers are
//! big-endian, as on the wire.

/// Two words that the hash multiplies.
pub(super) type Pair = (u64, u64);

/// `N` bytes at an offset, if present.
#[inline]
pub(super) fn chunk<const N: usize>(bytes: &[u8], at: usize) -> Option<&[u8; N]> {
    bytes.get(at..)?.first_chunk()
}

#[inline]
pub(super) fn be16(bytes: &[u8], at: usize) -> Option<u16> {
    chunk(bytes, at).copied().map(u16::from_be_bytes)
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
pub(super) const fn halves(bits: u128) -> Pair {
    (bits as u64, (bits >> 64) as u64)
}

/// The first 16 bytes of `bytes[start..end]`, preceded by zeros if there are fewer. `end` is within
/// `bytes`.
///
/// There is no branch on their number: payloads of different lengths are mixed, and a mispredicted branch
/// costs more than the whole hash. Instead the last 16 bytes up to the payload's end are loaded (in an IP
/// packet headers always precede it), and masked.
#[inline(always)]
#[expect(clippy::inline_always, reason = "once a packet")]
pub(super) fn first_16(bytes: &[u8], start: usize, end: usize) -> Pair {
    let last = end.min(start + 16);
    // Wraps if the payload begins beyond its end; then it is not in the table.
    let present = last.wrapping_sub(start);
    let window = last.checked_sub(16).and_then(|at| chunk::<16>(bytes, at));
    match (window, PRESENT.get(present)) {
        (Some(window), Some(mask)) => {
            let window = le_pair(window, 0);
            (window.0 & mask.0, window.1 & mask.1)
        }
        _ => first_16_at_front(bytes, start, last),
    }
}

/// Mask for the last so many bytes of a pair of words.
const PRESENT: [Pair; 17] = {
    let mut masks = [(0, 0); 17];
    let (mut present, mut mask) = (1, 0);
    while present <= 16 {
        mask = mask >> 8 | 0xff << 120;
        masks[present] = halves(mask);
        present += 1;
    }
    masks
};

/// The same if fewer than 16 bytes precede the end, or if it precedes the beginning.
#[cold]
fn first_16_at_front(bytes: &[u8], start: usize, end: usize) -> Pair {
    let mut padded = [0; 16];
    let present = bytes.iter().take(end).skip(start);
    for (to, from) in padded.iter_mut().rev().zip(present.rev()) {
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
            let mut expected = [0; 16];
            let end = end.min(bytes.len());
            let payload: Vec<u8> = (start..end).take(16).map(|at| bytes[at]).collect();
            expected[16 - payload.len()..].copy_from_slice(&payload);
            prop_assert_eq!(first_16(&bytes, start, end), le_pair(&expected, 0));
        }
    }
}
