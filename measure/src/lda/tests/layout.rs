use super::*;

fn bank(rows: u32, probability: f64) -> Bank {
    Bank { rows, probability }
}

/// Share of 1,000,000 spread hashes in each bank and in each of its rows.
fn shares(layout: &LdaLayout) -> (Vec<f64>, Vec<u32>) {
    const COUNT: u64 = 1_000_000;
    let mut cells = vec![0_u32; layout.cells()];
    let hasher = crate::packet::Hasher::new([3; 16]);
    let mut frame = [0_u8; 60];
    frame[12] = 0x88;
    for n in 0..COUNT {
        frame[20..28].copy_from_slice(&n.to_be_bytes());
        if let Some(cell) = layout.cell_of(hasher.parse(&frame, 60).packet) {
            cells[cell] += 1;
        }
    }
    let mut first = 0;
    let mut shares = Vec::new();
    for bank in layout.banks() {
        let rows = bank.rows as usize;
        let count: u32 = cells[first..first + rows].iter().sum();
        shares.push(f64::from(count) / COUNT as f64);
        first += rows;
    }
    (shares, cells)
}

#[test]
fn banks_sample_what_they_were_told_to() {
    let layout = LdaLayout::new(&[bank(512, 0.5), bank(300, 0.07), bank(256, 0.003)]).unwrap();
    let (shares, cells) = shares(&layout);
    for (share, expected) in shares.iter().zip([0.003, 0.07, 0.5]) {
        let deviation = (expected * (1.0 - expected) / 1e6_f64).sqrt();
        assert!(
            (share - expected).abs() < 5.0 * deviation,
            "{share} for {expected}"
        );
    }
    // Rows of a bank are alike: chi-square over the 512 rows of the last.
    let last = &cells[556..];
    let expected = 500_000.0 / 512.0;
    let chi_square: f64 = last
        .iter()
        .map(|&count| (f64::from(count) - expected).powi(2) / expected)
        .sum();
    assert!(
        (chi_square - 511.0).abs() < 5.0 * (2.0 * 511.0_f64).sqrt(),
        "{chi_square}"
    );
}

#[test]
fn the_last_bank_gets_the_rest() {
    let layout = LdaLayout::new(&[bank(10, 1.0), bank(10, 0.25)]).unwrap();
    let probabilities: Vec<_> = layout.banks().map(|bank| bank.probability).collect();
    assert_eq!(probabilities, [0.25, 0.75]);
    assert!((layout.sampled_share() - 1.0).abs() < f64::EPSILON);
    let (shares, _) = shares(&layout);
    assert!(
        (shares[0] + shares[1] - 1.0).abs() < 1e-9,
        "no packet is left out"
    );
}

#[test]
fn impossible_banks_are_refused() {
    let wrong = |probability| vec![bank(1, 0.5), bank(1, probability)];
    for (banks, wanted) in [
        (vec![], "1 to 16 banks, not 0"),
        (vec![bank(1, 0.01); 17], "1 to 16 banks, not 17"),
        (vec![bank(0, 1.0)], "bank 0 has 0 rows;"),
        (vec![bank(65_537, 1.0)], "bank 0 has 65537 rows;"),
        (wrong(0.0), "bank 1 samples with probability 0;"),
        (wrong(-1.0), "bank 1 samples with probability -1;"),
        (wrong(1.1), "bank 1 samples with probability 1.1;"),
        (
            wrong(1e-10),
            "bank 1 samples with probability 0.0000000001;",
        ),
        (wrong(f64::INFINITY), "bank 1 samples with probability inf;"),
        (wrong(f64::NAN), "bank 1 samples with probability NaN;"),
        (vec![bank(1, 1.0); 2], "bank 1 would get no packets"),
        (
            vec![bank(1, 0.9), bank(1, 0.5), bank(1, 0.5)],
            "bank 0 would get no packets",
        ),
    ] {
        let error = LdaLayout::new(&banks).unwrap_err().to_string();
        assert!(error.contains(wanted), "{error}");
    }
}

#[test]
fn banks_are_designed_for_losses() {
    let tuned = Bank::for_losses(1024, 2047, 0.5);
    assert_eq!(tuned, bank(1024, 0.25));
    assert_eq!(Bank::for_losses(1024, 0, 0.75), bank(1024, 1.0));
}

proptest! {
    #[test]
    fn cells_are_in_range(layout in layouts(), hash: u64) {
        if let Some(cell) = layout.cell_of(PacketHash(hash)) {
            prop_assert!(cell < layout.cells());
        }
    }
}
