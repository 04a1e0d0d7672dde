//! Maps hashes to rows, and generates pseudo-random hashes for packets that were not hashed.

use super::PacketHash;

/// Odd constants, one for each row function: multipliers of good spectral quality modulo 2^64
/// (Steele and Vigna, "Computationally easy, spectrally good multipliers", 2021).
pub const ROW_MULTIPLIERS: [u64; 4] = [
    0xd134_2543_de82_ef95,
    0xaf25_1af3_b0f0_25b5,
    0xb564_ef22_ec7a_ece5,
    0xf7c2_ebc0_8f67_f2b5,
];

/// The row of a hash, 0 to `rows - 1` (0 if `rows` is 0): multiply-shift, then a second multiplication
/// reduces the range. `multiplier` is one of [`ROW_MULTIPLIERS`].
#[inline]
pub const fn row_of(hash: u64, multiplier: u64, rows: u32) -> u32 {
    let uniform = hash.wrapping_mul(multiplier) >> 32;
    ((uniform * rows as u64) >> 32) as u32
}

/// A sequence of pseudo-random hashes, for an LDA whose two ends are recorded at one point: it needs hashes
/// only to spread packets evenly over rows, regardless of their delays.
#[derive(Debug, Clone, Default)]
pub struct RandomHashes(u64);

impl RandomHashes {
    /// The upper half of a linear congruential generator modulo 2^64 (Steele and Vigna 2021); its lower
    /// bits have short periods.
    #[inline]
    fn next_bits(&mut self) -> u64 {
        self.0 = self.0.wrapping_mul(ROW_MULTIPLIERS[0]).wrapping_add(1);
        self.0 >> 32
    }

    /// The row of the next packet, 0 to `rows - 1` (0 if `rows` is 0).
    #[inline]
    pub fn next_row(&mut self, rows: u32) -> usize {
        ((self.next_bits() * u64::from(rows)) >> 32) as usize
    }

    /// The hash of the next packet.
    #[inline]
    pub fn next_hash(&mut self) -> PacketHash {
        let high = self.next_bits();
        // The lower half chooses a bank.
        PacketHash(self.0 ^ high)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ROWS: u32 = 1_024;

    /// Whether 10 packets a row spread as by chance: chi-squared within five deviations of
    /// its mean.
    fn spreads(mut next_row: impl FnMut(&mut RandomHashes) -> usize) {
        let mut hashes = RandomHashes::default();
        let mut rows = [0_i32; ROWS as usize];
        for _ in 0..10 * ROWS {
            rows[next_row(&mut hashes)] += 1;
        }
        let squares: i32 = rows.iter().map(|count| (count - 10).pow(2)).sum();
        let chi = f64::from(squares) / 10.0;
        let freedom = f64::from(ROWS - 1);
        let off = (chi - freedom) / (2.0 * freedom).sqrt();
        assert!(off.abs() < 5.0, "{off} deviations off");
    }

    #[test]
    fn rows_are_taken_evenly() {
        spreads(|hashes| hashes.next_row(ROWS));
    }

    #[test]
    fn banks_and_their_rows_are_taken_evenly() {
        // The bits that choose a bank, and those that choose its row.
        spreads(|hashes| (hashes.next_hash().0 >> 22 & 1_023) as usize);
        spreads(|hashes| row_of(hashes.next_hash().0, ROW_MULTIPLIERS[0], ROWS) as usize);
    }

    #[test]
    fn one_row_tells_nothing_of_the_next() {
        // Which couples of rows, of 32 each, follow on each other.
        spreads(|hashes| hashes.next_row(32) * 32 + hashes.next_row(32));
        let mut last = 0;
        spreads(|hashes| {
            let row = hashes.next_row(32);
            std::mem::replace(&mut last, row) * 32 + row
        });
    }

    #[test]
    fn no_rows_are_no_fault() {
        assert_eq!(RandomHashes::default().next_row(0), 0);
    }
}
