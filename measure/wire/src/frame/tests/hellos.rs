//! Ends that can be paired, and ends that cannot.

use super::*;

#[test]
fn ends_that_differ_are_told_apart() {
    let own = hello();
    assert_eq!(own.agree(&own), Ok(()));
    let other = |change: fn(&mut Hello)| {
        let mut other = hello();
        change(&mut other);
        assert_eq!(own.agree(&other), other.agree(&own));
        own.agree(&other).unwrap_err()
    };
    assert_eq!(other(|hello| hello.hash_version = 2), Mismatch::HashVersion);
    assert_eq!(other(|hello| hello.seed_check ^= 1), Mismatch::Seed);
    assert_eq!(other(|hello| hello.epoch_ns = 1), Mismatch::EpochLength);
    assert_eq!(other(|hello| hello.tai_utc_s = 36), Mismatch::TaiOffset);
    assert_eq!(other(|hello| hello.ptp_domain = 0), Mismatch::PtpDomain);
    assert_eq!(
        other(|hello| hello.clock = ClockState::Free),
        Mismatch::FreeClock
    );
    assert_eq!(other(|hello| hello.stash_packets = 0), Mismatch::Stash);
    assert_eq!(other(|hello| drop(hello.shapes.pop())), Mismatch::Shapes);

    let mut adapted = hello();
    let other_shares = LdaLayout::from_bank_shares(&[(4, 1), (8, 2)]).unwrap();
    adapted.shapes[0] = Shape::Lda(other_shares);
    assert_eq!(
        own.agree(&adapted),
        Ok(()),
        "probabilities follow the losses"
    );
    let other_rows = LdaLayout::from_bank_shares(&[(5, 1 << 29), (8, 7 << 29)]).unwrap();
    adapted.shapes[0] = Shape::Lda(other_rows);
    assert_eq!(own.agree(&adapted), Err(Mismatch::Shapes));
}
