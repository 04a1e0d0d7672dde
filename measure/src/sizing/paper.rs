//! Sanjuas-Cuxart et al. 2011, section 3: dimensioning as the paper has it.
//!
//! Good for a first look and for comparing; [`LdsPlan`](super::LdsPlan) knows more, and says where
//! the paper errs.

use std::f64::consts::E;

/// Q(R) = 1 - (z R)^R: share of large flows with small collisions only, in `rows` rows that share
/// the cells (section 3.1). `load` is z = n P / C: flows of more than x packets for each cell of
/// all rows. 0 where the approximation comes out under it.
pub fn small_collisions(load: f64, rows: u32) -> f64 {
    let rows = f64::from(rows);
    (1.0 - (load * rows).powf(rows)).max(0.0)
}

/// The rows for which [`small_collisions`] is greatest, before rounding: 1 / (e z), 1 at least.
pub fn best_rows(load: f64) -> f64 {
    (1.0 / (E * load)).max(1.0)
}

/// Rows for a share `miss_share` of large collisions: max(1, round(-ln eps / k)) (section 3.2;
/// too few for k > 1).
pub fn rows_for(miss_share: f64, virtual_cells: u32) -> u32 {
    let rows = (-miss_share.ln() / f64::from(virtual_cells)).round();
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "casts saturate"
    )]
    let rows = rows.max(1.0) as u32;
    rows
}

/// Share of packets to sample for `losses` lost packets a flow: min(1, k / L) (section 4.1, where
/// L / k is printed; its numbers, 0.01 for k = 5 and L = 500, need k / L).
pub fn sampled_share(virtual_cells: u32, losses: f64) -> f64 {
    (f64::from(virtual_cells) / losses).min(1.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_papers_example_comes_out() {
        // Section 3.1: z = 0.0875 has its best at 4.20 rows; 0.91 in one row, 0.9850 in four.
        let load = 0.0875;
        assert!((best_rows(load) - 4.20).abs() < 0.005);
        assert!((small_collisions(load, 1) - 0.9125).abs() < 1e-9);
        assert!((small_collisions(load, 4) - 0.9850).abs() < 5e-5);
        assert_eq!(rows_for(0.015, 1), 4);
        assert_eq!(rows_for(0.02, 5), 1);
    }

    #[test]
    fn overload_is_no_less_than_nothing() {
        assert!(small_collisions(3.0, 4) == 0.0);
        assert!((best_rows(3.0) - 1.0).abs() < 1e-12);
        assert_eq!(rows_for(0.9, 1), 1);
    }

    #[test]
    fn sampling_is_by_cells_over_losses() {
        assert!((sampled_share(5, 500.0) - 0.01).abs() < 1e-12);
        assert!((sampled_share(5, 0.0) - 1.0).abs() < 1e-12);
    }
}
