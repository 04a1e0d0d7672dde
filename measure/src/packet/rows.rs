//! From a hash to a row.

/// Odd constants, one for each row function: multipliers of good spectral quality modulo 2^64
/// (Steele and Vigna, "Computationally easy, spectrally good multipliers", 2021).
pub const ROW_MULTIPLIERS: [u64; 4] = [
    0xd134_2543_de82_ef95,
    0xaf25_1af3_b0f0_25b5,
    0xb564_ef22_ec7a_ece5,
    0xf7c2_ebc0_8f67_f2b5,
];

/// The row of a hash, 0 to `rows - 1` (0 where `rows` is 0): multiply-shift, then the range
/// reduced by a second multiplication. `multiplier` is one of [`ROW_MULTIPLIERS`].
#[inline]
pub const fn row_of(hash: u64, multiplier: u64, rows: u32) -> u32 {
    let uniform = hash.wrapping_mul(multiplier) >> 32;
    ((uniform * rows as u64) >> 32) as u32
}
