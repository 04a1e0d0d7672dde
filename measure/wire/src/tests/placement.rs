//! Where packets count: both ends of a wire may be of different versions, and have to agree on every cell.

use std::hash::Hasher;

use siphasher::sip::SipHasher24;

use super::*;
use measure::cell::CellPair;

/// A number for each place, without a generator that a crate may change.
fn scattered(place: u64, salt: u64) -> u64 {
    let mut hasher = SipHasher24::new_with_keys(salt, 0);
    hasher.write_u64(place);
    hasher.finish()
}

/// Sums, counts and digests of all cells of the sender's half, as one number.
fn digest<'c>(cells: impl Iterator<Item = &'c CellPair>) -> u64 {
    let mut hasher = SipHasher24::new();
    for cell in cells {
        let cell = cell.sender;
        hasher.write_u64(cell.sum);
        hasher.write_u32(cell.count);
        hasher.write_u32(cell.digest);
    }
    hasher.finish()
}

/// The numbers were made by 78f1034 (0.1.0, protocol version 2, hash version 2). A change of them is a new protocol or
/// hash version: the ends of a wire would find no usable cell.
#[test]
fn packets_count_in_the_cells_of_the_first_version() {
    let bank = |rows, probability| Bank { rows, probability };
    let layout = WireLayout {
        segments: 1,
        lda: LdaLayout::new(&[bank(26, 0.2), bank(3, 0.5), bank(3, 0.05)]).unwrap(),
        lds: Some(LdsLayout::new(400, 5, &[0.01, 0.1, 0.5, 1.0]).unwrap()),
        stash_packets: 16,
        flows: 500,
        references: None,
    };
    let mut shard = WireShard::new(&layout, End::Sender);
    for place in 0..10_000 {
        shard.record(
            End::Sender,
            &[Observation {
                flow: FlowHash(scattered(place % 300, 1)),
                ..observation(
                    scattered(place, 2),
                    0,
                    1_800_000_000_000_000_000 + 10_000 * place,
                )
            }],
        );
    }
    let lda = digest(shard.segments[0].lda.cells().iter());
    let lds = digest(shard.lds.as_ref().unwrap().cells().iter());
    assert_eq!(
        (lda, lds),
        (0x9056_9d60_fe47_c2b5, 0x8c64_11b8_3bb5_685c),
        "{lda:#018x} {lds:#018x}"
    );
}
