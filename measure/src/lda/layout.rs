//! How packets are spread over banks and rows.

use arrayvec::ArrayVec;

use crate::argument::{InvalidArgument, ensure};
use crate::packet::{PacketHash, ROW_MULTIPLIERS, row_of};
use crate::synopsis::ShapeMismatch;

/// The scale of probabilities: a bank is chosen by 32 bits of the hash.
const SCALE: f64 = 4_294_967_296.0;

/// A requested bank.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Bank {
    /// Rows, 1 to 65,536.
    pub rows: u32,
    /// Share of packets sampled into it, 2^-32 to 1.
    pub probability: f64,
}

impl Bank {
    /// A bank of `rows` rows prepared for `losses` lost packets an epoch: p = alpha m / (L + 1),
    /// at most 1 (Kompella et al. 2012, section III-D).
    ///
    /// `alpha` (over 0 to 1) is the number of sampled losses for each row. 1 gives the most
    /// samples for the mean, 0.5 serves the deviation, 0.75 is a fair choice.
    pub fn for_losses(rows: u32, losses: u64, alpha: f64) -> Self {
        let probability = alpha * f64::from(rows) / (losses as f64 + 1.0);
        Self {
            rows,
            probability: probability.min(1.0),
        }
    }
}

/// Banks prepared for several numbers of losses at once: rows and losses of each, in any order.
///
/// A bank takes at most its share by rows of the packets left by banks for heavier losses. If there are
/// fewer packets than the losses require, all are sampled, equally many in each row.
pub(crate) fn prepare_banks(alpha: f64, demands: &[(u32, f64)]) -> Vec<Bank> {
    let mut order = demands.to_vec();
    order.sort_by(|(_, a), (_, b)| b.total_cmp(a));
    let mut rows_left: f64 = order.iter().map(|&(rows, _)| f64::from(rows)).sum();
    let mut share_left = 1.0;
    order
        .into_iter()
        .map(|(rows, losses)| {
            let wanted = alpha * f64::from(rows) / (losses + 1.0);
            let fair = share_left * f64::from(rows) / rows_left;
            let probability = wanted.min(fair).max(1.0 / SCALE);
            rows_left -= f64::from(rows);
            share_left -= probability;
            Bank { rows, probability }
        })
        .collect()
}

/// Banks in ascending order of probability, with disjoint samples.
///
/// Probabilities are assigned in this order; the last is capped at one minus the rest, so that a bank that
/// requests every packet gets those that no other bank samples.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LdaLayout {
    spans: ArrayVec<Span, { Self::BANKS_MAX }>,
}

/// A bank in the layout.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Span {
    /// Packets belong to the first bank whose bound is over the lower 32 bits of their hash.
    bound: u64,
    rows: u32,
    first_cell: u32,
}

/// The row of a packet in a bank of `rows`.
#[inline]
pub(super) fn row(PacketHash(hash): PacketHash, rows: u32) -> usize {
    row_of(hash, ROW_MULTIPLIERS[0], rows) as usize
}

impl LdaLayout {
    /// Most banks.
    pub const BANKS_MAX: usize = 16;
    /// Most rows of a bank.
    pub const ROWS_MAX: u32 = 65_536;

    /// Lays out `banks`, given in any order.
    ///
    /// # Errors
    /// [`InvalidArgument`] if a number is out of range, or a bank other than the last would be capped or
    /// get nothing.
    pub fn new(banks: &[Bank]) -> Result<Self, InvalidArgument> {
        ensure((1..=Self::BANKS_MAX).contains(&banks.len()), || {
            let (most, given) = (Self::BANKS_MAX, banks.len());
            format!("an LDA has 1 to {most} banks, not {given}")
        })?;
        for (bank, &Bank { rows, probability }) in banks.iter().enumerate() {
            ensure((1..=Self::ROWS_MAX).contains(&rows), || {
                let most = Self::ROWS_MAX;
                format!("bank {bank} has {rows} rows; give it 1 to {most}")
            })?;
            ensure((1.0 / SCALE..=1.0).contains(&probability), || {
                format!("bank {bank} samples with probability {probability}; give it 2^-32 to 1")
            })?;
        }

        let mut order: Vec<_> = banks.iter().enumerate().collect();
        order.sort_by(|(_, a), (_, b)| a.probability.total_cmp(&b.probability));
        let mut spans = ArrayVec::new();
        let (mut bound, mut first_cell) = (0, 0);
        for (bank, &Bank { rows, probability }) in order {
            #[expect(
                clippy::cast_possible_truncation,
                clippy::cast_sign_loss,
                reason = "between 1 and 2^32"
            )]
            let share = (probability * SCALE).round() as u64;
            ensure(bound < 1 << 32, || {
                format!(
                    "bank {bank} would get no packets: probabilities of the banks that sample less or come before it \
                     add up to 1 or more; lower them"
                )
            })?;
            bound = (bound + share).min(1 << 32);
            spans.push(Span {
                bound,
                rows,
                first_cell,
            });
            first_cell += rows;
        }
        Ok(Self { spans })
    }

    /// The banks as laid out, in ascending order of probability, the last one capped.
    pub fn banks(&self) -> impl Iterator<Item = Bank> + '_ {
        self.shares().zip(&self.spans).map(|(share, span)| Bank {
            rows: span.rows,
            probability: share as f64 / SCALE,
        })
    }

    /// Rows of all banks.
    pub fn cells(&self) -> usize {
        self.rows().sum()
    }

    /// Share of packets sampled by any bank, over 0 to 1.
    pub fn sampled_share(&self) -> f64 {
        self.spans
            .last()
            .map_or(0.0, |span| span.bound as f64 / SCALE)
    }

    /// The cell of a packet, below [`cells`](Self::cells); `None` if no bank samples it.
    #[inline]
    pub fn cell_of(&self, PacketHash(hash): PacketHash) -> Option<usize> {
        let choice = hash & 0xffff_ffff;
        let span = self.spans.iter().find(|span| choice < span.bound)?;
        Some(span.first_cell as usize + row(PacketHash(hash), span.rows))
    }

    /// Rows of the single bank that takes every packet, if that is the layout.
    #[inline]
    pub(super) fn only_bank_rows(&self) -> Option<u32> {
        match self.spans[..] {
            [Span { bound, rows, .. }] if bound == 1 << 32 => Some(rows),
            _ => None,
        }
    }

    /// Rows of each bank.
    pub(super) fn rows(&self) -> impl Iterator<Item = usize> + '_ {
        self.spans.iter().map(|span| span.rows as usize)
    }

    /// Whether it has the same banks and rows as another, regardless of probabilities.
    pub fn has_sizes_of(&self, other: &Self) -> bool {
        self.rows().eq(other.rows())
    }

    /// Rows of each bank, and its share in units of 2^-32.
    pub fn bank_shares(&self) -> impl Iterator<Item = (u32, u64)> + '_ {
        self.spans.iter().map(|span| span.rows).zip(self.shares())
    }

    /// The layout of exactly these banks, in this order, as returned by [`bank_shares`](Self::bank_shares);
    /// `None` if no layout has them: shares rise, except that the last may be capped.
    pub fn from_bank_shares(banks: &[(u32, u64)]) -> Option<Self> {
        let mut spans = ArrayVec::new();
        let (mut bound, mut first_cell, mut share_before) = (0_u64, 0, 0);
        for &(rows, share) in banks {
            let full = bound >= 1 << 32;
            bound = bound.checked_add(share)?;
            let rises = share >= share_before || bound == 1 << 32;
            let fits = spans.len() < Self::BANKS_MAX && (1..=Self::ROWS_MAX).contains(&rows);
            if full || share == 0 || bound > 1 << 32 || !rises || !fits {
                return None;
            }
            spans.push(Span {
                bound,
                rows,
                first_cell,
            });
            first_cell += rows;
            share_before = share;
        }
        (!spans.is_empty()).then_some(Self { spans })
    }

    /// Share of each bank in units of 2^-32.
    fn shares(&self) -> impl Iterator<Item = u64> + '_ {
        let before = std::iter::once(0).chain(self.spans.iter().map(|span| span.bound));
        self.spans
            .iter()
            .zip(before)
            .map(|(span, before)| span.bound - before)
    }

    pub(super) fn same_shape(&self, other: &Self) -> Result<(), ShapeMismatch> {
        let equal = ShapeMismatch::check;
        let (mine, theirs) = (self.spans.len(), other.spans.len());
        equal("number of banks", mine as u64, theirs as u64)?;
        for (mine, theirs) in self.spans.iter().zip(&other.spans) {
            equal("rows of a bank", mine.rows.into(), theirs.rows.into())?;
            equal("sampled share in 2^-32", mine.bound, theirs.bound)?;
        }
        Ok(())
    }
}
