//! The shape of an attention over packed queries, keys and values.

use std::ops::Range;

/// The shape of an attention over `qkv [batch * length, (heads + 2 kv_heads) * head_dim]`, as one dense layer makes it: a
/// row holds the queries of all heads, then the keys, then the values. Query head h meets key head `h / (heads / kv_heads)`
/// (Ainslie et al. 2023).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct AttentionShape {
    /// The number of sequences.
    pub batch: usize,
    /// Positions of a sequence.
    pub length: usize,
    /// The number of query heads.
    pub heads: usize,
    /// Key and value heads; they divide the query heads.
    pub kv_heads: usize,
    /// Elements of one head.
    pub head_dim: usize,
    /// A position sees none after it.
    pub is_causal: bool,
    /// A position sees only those fewer than this many places away; 0: all.
    pub window: usize,
}

impl AttentionShape {
    /// The same shape over `rows`, with as many sequences as these make.
    #[must_use]
    pub fn over(self, rows: usize) -> Self {
        Self { batch: rows / self.length.max(1), ..self }
    }

    /// Whether there is something to attend to, and query heads share key heads evenly.
    pub fn is_valid(&self) -> bool {
        self.rows() * self.packed() > 0
            && self.kv_heads > 0
            && self.heads.is_multiple_of(self.kv_heads)
            && self.head_dim > 0
    }

    /// Rows of every operand.
    pub fn rows(&self) -> usize {
        self.batch * self.length
    }

    /// Elements of a row of `qkv`.
    pub fn packed(&self) -> usize {
        (self.heads + 2 * self.kv_heads) * self.head_dim
    }

    /// Elements of a row of the result.
    pub fn width(&self) -> usize {
        self.heads * self.head_dim
    }

    /// The positions that the positions `queries` see between them: positions that no query sees are outside.
    pub fn seen_by(&self, queries: &Range<usize>) -> Range<usize> {
        let reach = self.reach();
        let first = (queries.start + 1).saturating_sub(reach);
        let last = if self.is_causal { queries.end } else { (queries.end - 1).saturating_add(reach) };
        first..last.min(self.length)
    }

    /// The positions that see any of the positions `keys`.
    pub fn that_see(&self, keys: &Range<usize>) -> Range<usize> {
        let reach = self.reach();
        let first = if self.is_causal { keys.start } else { (keys.start + 1).saturating_sub(reach) };
        first..(keys.end - 1).saturating_add(reach).min(self.length)
    }

    /// Whether the position `query` sees the position `key`.
    pub fn sees(&self, query: usize, key: usize) -> bool {
        self.seen_by(&(query..query + 1)).contains(&key)
    }

    /// Pairs of positions of one sequence in which the first sees the second.
    pub fn pairs(&self) -> usize {
        let (n, reach) = (self.length, self.reach().min(self.length));
        // A position sees itself, and those 1, 2, ... places before it as far as there are any.
        let before = (reach * n).saturating_sub(reach * reach.saturating_sub(1) / 2);
        if self.is_causal { before } else { (2 * before).saturating_sub(n) }
    }

    /// The distance at which positions are out of sight.
    fn reach(&self) -> usize {
        if self.window == 0 { usize::MAX } else { self.window }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_and_counts_are_those_of_the_pairs_one_by_one() {
        for (length, window, is_causal) in
            (1..9).flat_map(|n| (0..11).flat_map(move |w| [false, true].map(|causal| (n, w, causal))))
        {
            let shape = AttentionShape { batch: 1, length, heads: 1, kv_heads: 1, head_dim: 1, is_causal, window };
            let sees = |i: usize, j: usize| (!is_causal || j <= i) && (window == 0 || i.abs_diff(j) < window);
            let all = || (0..length).flat_map(|i| (0..length).map(move |j| (i, j)));
            assert!(all().all(|(i, j)| shape.sees(i, j) == sees(i, j)), "{shape:?}");
            assert_eq!(shape.pairs(), all().filter(|&(i, j)| sees(i, j)).count(), "{shape:?}");
            for block in (0..length).flat_map(|start| (start + 1..=length).map(move |end| start..end)) {
                let any = |f: &dyn Fn(usize) -> bool| {
                    let seen: Vec<usize> = (0..length).filter(|&j| f(j)).collect();
                    seen[0]..seen[seen.len() - 1] + 1
                };
                assert_eq!(shape.seen_by(&block), any(&|j| block.clone().any(|i| sees(i, j))), "{shape:?}");
                assert_eq!(shape.that_see(&block), any(&|i| block.clone().any(|j| sees(i, j))), "{shape:?}");
            }
        }
    }
}
