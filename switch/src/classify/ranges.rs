//! Which rules' ranges a number is in.

/// A number that ranges are made of.
pub(super) trait Word: Copy + Ord {
    /// The least.
    const ZERO: Self;

    /// The next number, if there is one.
    fn next(self) -> Option<Self>;
}

impl Word for u32 {
    const ZERO: Self = 0;

    fn next(self) -> Option<Self> {
        self.checked_add(1)
    }
}

impl Word for u128 {
    const ZERO: Self = 0;

    fn next(self) -> Option<Self> {
        self.checked_add(1)
    }
}

/// Numbers to the sets of rules whose range has them.
#[derive(Debug)]
pub(super) struct RangeMap<K, const W: usize> {
    /// Numbers at which the set changes, ascending.
    bounds: Box<[K]>,
    /// The set from each bound on, before them that from zero on.
    sets: Box<[[u64; W]]>,
}

impl<K: Word, const W: usize> RangeMap<K, W> {
    /// Of these ranges, first and last number of each, in the order of rules; `None` has no number.
    pub fn new(ranges: impl Iterator<Item = Option<(K, K)>>) -> Self {
        let ranges: Vec<_> = ranges.collect();
        let given = ranges.iter().flatten();
        let mut bounds: Vec<K> = given
            .flat_map(|&(first, last)| [Some(first), last.next()])
            .flatten()
            .filter(|&bound| bound > K::ZERO)
            .collect();
        bounds.sort_unstable();
        bounds.dedup();
        let set_at = |number: K| {
            let mut set = [0; W];
            for (rule, range) in ranges.iter().enumerate() {
                if range.is_some_and(|(first, last)| first <= number && number <= last) {
                    super::insert(&mut set, rule);
                }
            }
            set
        };
        let sets = std::iter::once(K::ZERO)
            .chain(bounds.iter().copied())
            .map(set_at)
            .collect();
        Self {
            bounds: bounds.into_boxed_slice(),
            sets,
        }
    }

    /// The rules that have `number`.
    #[inline]
    pub fn get(&self, number: K) -> &[u64; W] {
        // The search of the standard library takes no branch that depends on what it compares.
        let index = self.bounds.partition_point(|&bound| bound <= number);
        self.sets.get(index).unwrap_or(&[0; W])
    }

    pub fn size_bytes(&self) -> usize {
        size_of_val(&*self.bounds) + size_of_val(&*self.sets)
    }
}
