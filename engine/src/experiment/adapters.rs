//! Low-rank adapters, and which dense layers have them.

use std::{fmt, ops::Range, str::FromStr};

use toml_edit::Value;

use crate::{
    experiment::words::words,
    experiment::{
        Model, ModelKind,
        limits::MAX_WIDTH,
        settings::{Bears, Field, KERNELS, Limits, settings},
    },
};

words! {
    /// A dense layer of a transformer's block, by the name that adapters know it by. Where several are one product here, such
    /// as queries, keys and values, each is some of its rows.
    pub enum Projection {
        /// Queries.
        Q = "q",
        /// Keys.
        K = "k",
        /// Values.
        V = "v",
        /// What attention gives back to the stream.
        O = "o",
        /// The gate of a gated unit.
        Gate = "gate",
        /// The first layer of the feed-forward part; next to a gate, the layer that is gated.
        Up = "up",
        /// The last layer of the feed-forward part.
        Down = "down",
    }
}

/// Which dense layers have adapters: all there are, or some projections of the blocks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Targets(u8);

impl Targets {
    /// Every dense layer, including the head's if everything is frozen.
    pub const ALL: Self = Self(u8::MAX);
    /// The form of its text, in words.
    pub(crate) const FORMS: &str = "\"all\", or some of q, k, v, o, gate, up and down, such as \"q,v\"";

    /// These projections alone.
    pub fn of(projections: &[Projection]) -> Self {
        Self(projections.iter().fold(0, |bits, projection| bits | 1 << *projection as u8))
    }

    /// Whether it is every dense layer.
    pub fn is_all(self) -> bool {
        self == Self::ALL
    }

    /// Whether the projection is among them.
    pub fn contains(self, projection: Projection) -> bool {
        self.0 & (1 << projection as u8) != 0
    }

    /// The same set with the projection in it, or without it. A set of every dense layer becomes a set of projections.
    #[must_use]
    pub fn with(self, projection: Projection, is_in: bool) -> Self {
        let own = self.0 & Self::of(&Projection::ALL).0;
        Self(if is_in { own | 1 << projection as u8 } else { own & !(1 << projection as u8) })
    }

    /// The projections among them.
    pub fn iter(self) -> impl Iterator<Item = Projection> {
        Projection::ALL.into_iter().filter(move |projection| self.contains(*projection))
    }

    /// Which of a dense layer's `out` rows have an adapter: runs that do not touch. The rows are those of `parts`, one after
    /// another; a layer without parts is not a projection.
    pub fn rows(self, parts: &[(Projection, usize)], out: usize) -> Vec<Range<usize>> {
        if self.is_all() {
            return std::iter::once(0..out).collect();
        }
        let mut runs: Vec<Range<usize>> = Vec::new();
        let mut end = 0;
        for (projection, rows) in parts {
            let begin = end;
            end += rows;
            if !self.contains(*projection) {
                continue;
            }
            match runs.last_mut().filter(|run| run.end == begin) {
                Some(run) => run.end = end,
                None => runs.push(begin..end),
            }
        }
        runs
    }
}

impl fmt::Display for Targets {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.is_all() {
            return f.pad("all");
        }
        f.pad(&self.iter().map(Projection::key).collect::<Vec<_>>().join(","))
    }
}

impl FromStr for Targets {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        if text.trim() == "all" {
            return Ok(Self::ALL);
        }
        let known = |word: &str| Projection::ALL.into_iter().find(|projection| projection.key() == word.trim());
        let named: Option<Vec<Projection>> = text.split(',').map(known).collect();
        named
            .map(|named| Self::of(&named))
            .ok_or_else(|| format!("`{text}` names no dense layers: write {}", Self::FORMS))
    }
}

impl Field for Targets {
    fn read(&mut self, value: &Value) -> bool {
        let read = value.as_str().and_then(|text| text.parse().ok());
        read.map(|read| *self = read).is_some()
    }

    fn valid(&self) -> String {
        format!("write {}", Self::FORMS)
    }

    fn write(&self) -> Option<String> {
        Some(Value::from(self.to_string()).to_string())
    }
}

settings! {
    /// Low-rank adapters (Hu et al. 2021, "LoRA"): a dense layer's weight is frozen, and the scaled product of two small
    /// matrices, which learn, is added to it. The head's dense layers learn whole, unless everything is frozen.
    #[derive(Copy)]
    pub struct Lora in lora {
        /// The rank: rows of the first matrix, columns of the second; 0 means no adapter.
        pub rank: usize = 0, KERNELS.counts(0, MAX_WIDTH as u64, "a rank").quiet();
        /// Scales what the adapters add: by `alpha / rank`.
        pub alpha: f64 = 16.0, KERNELS.when(|e| e.lora.rank > 0).limits(Limits::Positive {
            high: 1e6, what: "a scale", example: "16",
        });
        /// Which dense layers have adapters. The others learn whole, unless they are frozen.
        pub targets: Targets = Targets::ALL, KERNELS.when(|e| e.lora.rank > 0).quiet();
        /// The share of an adapter's inputs that training drops, in the blocks.
        pub dropout: f64 = 0.0, KERNELS.bears(Bears::Training).when(|e| e.lora.rank > 0).numbers(0.0, 0.99, "a share").quiet();
        /// Scales by `alpha` over the root of the rank instead (Kalajdzievski 2023, "rsLoRA"), so that a high rank learns as
        /// fast as a low one.
        pub rslora: bool = false, KERNELS.when(|e| e.lora.rank > 0).quiet();
    }
}

impl Lora {
    /// The factor by which the product of an adapter's matrices is multiplied.
    pub fn scale(&self) -> f64 {
        let rank = self.rank.max(1) as f64;
        self.alpha / if self.rslora { rank.sqrt() } else { rank }
    }
}

impl Model {
    /// The projections that the rows of the dense layer `layer` are, in order, each with its rows; empty for other layers. The
    /// layer is named by the end of its path, such as `attention/qkv`, or of its name in files, `attention.qkv`.
    pub(crate) fn projections(&self, layer: &str) -> Vec<(Projection, usize)> {
        let is_llama = self.kind == ModelKind::Llama;
        if self.kind.projections().is_empty() {
            return Vec::new();
        }
        let ends = |part: &str, name: &str| {
            layer.strip_suffix(name).is_some_and(|rest| rest.trim_end_matches(['/', '.']).ends_with(part))
        };
        if ends("attention", "qkv") {
            let own = self.head_width();
            let others = own * if is_llama { self.kv_heads } else { self.heads };
            vec![(Projection::Q, own * self.heads), (Projection::K, others), (Projection::V, others)]
        } else if ends("attention", "out") {
            vec![(Projection::O, self.width)]
        } else if ends("feed-forward", "up") {
            let up = (Projection::Up, self.hidden);
            if is_llama { vec![(Projection::Gate, self.hidden), up] } else { vec![up] }
        } else if ends("feed-forward", "down") {
            vec![(Projection::Down, self.width)]
        } else {
            Vec::new()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_choice_of_targets_reads_back_and_the_rest_is_refused() {
        use Projection::{Down, K, Q, V};
        for targets in [Targets::ALL, Targets::of(&[Q, V]), Targets::of(&[Down]), Targets::of(&Projection::ALL)] {
            assert_eq!(targets.to_string().parse(), Ok(targets));
        }
        assert_eq!("v, q".parse(), Ok(Targets::of(&[Q, V])));
        for text in ["", "q,", "query", "all,q"] {
            assert!(text.parse::<Targets>().expect_err(text).contains("such as \"q,v\""));
        }
        assert_eq!(Targets::ALL.with(K, false).to_string(), "q,v,o,gate,up,down");
        assert_eq!(Targets::of(&[Q]).with(V, true), Targets::of(&[Q, V]));
    }

    #[test]
    fn the_rows_of_a_layer_are_those_of_its_projections() {
        use Projection::{K, Q, V};
        let model = Model { kind: ModelKind::Llama, width: 12, heads: 3, kv_heads: 1, hidden: 20, ..Model::default() };
        let parts = model.projections("block2/attention/qkv");
        assert_eq!(parts, [(Q, 12), (K, 4), (V, 4)]);
        assert_eq!(Targets::of(&[Q, V]).rows(&parts, 20), [0..12, 16..20]);
        assert_eq!(Targets::of(&[K, V]).rows(&parts, 20).as_slice(), std::slice::from_ref(&(12..20)));
        assert_eq!(Targets::ALL.rows(&[], 20).as_slice(), std::slice::from_ref(&(0..20)));
        assert!(Targets::of(&[K, V]).rows(&[], 20).is_empty());
        assert_eq!(model.projections("block1.feed-forward.up").len(), 2);
        assert_eq!(model.projections("head/classes"), []);
    }
}
