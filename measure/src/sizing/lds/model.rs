//! How likely a flow is to have no good cell.

/// What may befall a flow's cells in one row.
#[derive(Debug, Clone, Copy)]
pub(super) struct Row {
    /// Probability that no large flow has its first cell at a given column.
    pub clear: f64,
    /// Probability that no lost packet of other flows is in a given cell.
    pub intact: f64,
    /// Lost packets of the flow itself that the row sampled, for each of its cells.
    pub own_losses: f64,
}

/// Probability that a flow has no good cell: none without a large flow and without a lost packet.
///
/// Rows are independent but for the flow's own losses. A packet has the same offset among the k
/// cells in each row, and what a row samples, rows that sample more do too: its loss spoils that
/// offset in all of these. So the number of offsets that own losses left intact goes down from the
/// row that samples least to that which samples most, and this goes through all its ways.
pub(super) fn miss_share(k: u32, rows: &mut [Row]) -> f64 {
    rows.sort_by(|a, b| a.own_losses.total_cmp(&b.own_losses));
    let offsets = k as usize;
    let mut reached = vec![0.0; offsets + 1];
    reached[offsets] = 1.0;
    let mut before = 0.0;
    for row in rows {
        let survives = (before - row.own_losses).exp();
        before = row.own_losses;
        let mut next = vec![0.0; offsets + 1];
        for (from, &probability) in reached.iter().enumerate() {
            for (to, next) in next.iter_mut().enumerate().take(from + 1) {
                *next += probability * binomial(from, to, survives);
            }
        }
        let free = free_offsets(offsets, row.clear);
        for (left, probability) in next.iter_mut().enumerate() {
            *probability *= row_misses(&free, left, row);
        }
        reached = next;
    }
    reached.iter().sum()
}

/// Probability that a row has no good cell where own losses left `left` offsets intact. `free[u]`:
/// that large flows leave u neighbouring offsets.
fn row_misses(free: &[f64], left: usize, row: &Row) -> f64 {
    let offsets = free.len() - 1;
    let spoiled = 1.0 - row.intact;
    let missed = |free: usize| -> f64 {
        (0..=free.min(left))
            .map(|both| {
                let ways = choose(left, both) * choose(offsets - left, free - both);
                ways / choose(offsets, free) * spoiled.powf(both as f64)
            })
            .sum()
    };
    free.iter()
        .enumerate()
        .map(|(free, &probability)| probability * missed(free))
        .sum()
}

/// Probabilities that large flows leave 0, 1, .. k offsets. Each covers the offsets from its first
/// cell on: those that start before mine cover a prefix, those that start after a suffix, one that
/// starts with mine all.
fn free_offsets(k: usize, clear: f64) -> Vec<f64> {
    let longest = |covered: usize| {
        let none_longer = clear.powf((k - 1 - covered) as f64);
        if covered == 0 {
            none_longer
        } else {
            (1.0 - clear) * none_longer
        }
    };
    let mut free = vec![0.0; k + 1];
    free[0] = 1.0 - clear;
    for prefix in 0..k {
        for suffix in 0..k {
            free[k.saturating_sub(prefix + suffix)] += clear * longest(prefix) * longest(suffix);
        }
    }
    free
}

/// Probability of `hits` of `trials`, each with probability `share`.
fn binomial(trials: usize, hits: usize, share: f64) -> f64 {
    let misses = (trials - hits) as f64;
    choose(trials, hits) * share.powf(hits as f64) * (1.0 - share).powf(misses)
}

/// Ways to choose `few` of `many`; 0 where there are not so many.
fn choose(many: usize, few: usize) -> f64 {
    if few > many {
        return 0.0;
    }
    (0..few).fold(1.0, |ways, i| ways * (many - i) as f64 / (i + 1) as f64)
}
