//! Layers as products of smaller ones: which layers, and of what ranks.
//!
//! Owns [`LowRank`], the sizes of a layer's factors ([`WholeLayer`], [`Ranks`]), and the text in which found ranks travel
//! with an experiment. Always holds: a layer is factored only where its factors have fewer weights than it has. Found ranks
//! are valid as long as the inputs of the search for them are the same.

use std::{fmt, str::FromStr};

use crate::experiment::{
    Experiment,
    limits::MAX_WIDTH,
    settings::{self, Bears, KERNELS, settings},
};

settings! {
    /// Dense layers and convolutions as products of smaller ones: two of a low rank in place of a dense layer or of a 1 x 1
    /// convolution, and up to three in place of a larger one (Kim et al. 2016, "Compression of deep convolutional neural
    /// networks for fast and low power mobile applications"). The layer that gives the classes, embeddings, patches, depthwise
    /// and up-convolutions stay whole.
    pub struct LowRank in low_rank {
        /// The rank of every layer; 0: not chosen by rank.
        pub rank: usize = 0, KERNELS.counts(0, MAX_WIDTH as u64, "a rank").quiet();
        /// The share of a layer's squared singular values that its rank holds at the least; 0: not chosen by energy.
        pub energy: f64 = 0.0, KERNELS.numbers(0.0, 1.0, "a share of squared singular values").quiet();
        /// The share of the whole model's weights that the factored model has at most; 0: not chosen by size.
        pub size: f64 = 0.0, KERNELS.numbers(0.0, 1.0, "a share of the weights").quiet();
        /// The ranks that were found by energy or size, with a checksum of the inputs of the search. The program writes
        /// them, so that a run goes on without the weights that it began with.
        pub ranks: String = String::new(), KERNELS
            .bears(Bears::Derived)
            .when(|e| e.low_rank.is_sought())
            .quiet();
    }
}

/// A layer that may be factored: a dense layer, or a convolution with a square kernel.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct WholeLayer {
    /// Inputs, or input channels.
    pub inner: usize,
    /// Outputs, or filters.
    pub out: usize,
    /// Side of the kernel; 1 for a dense layer.
    pub size: usize,
}

/// The ranks of a factored layer. For a dense layer or a 1 x 1 convolution both are the same.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Ranks {
    /// Channels between the first factor and the kernel.
    pub inner: usize,
    /// Channels between the kernel and the last factor.
    pub out: usize,
}

/// One of the layers that take the place of a factored one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Factor {
    /// The factor from the inputs to the first rank.
    In,
    /// The kernel, between the ranks.
    Core,
    /// The factor from the last rank to the outputs.
    Out,
}

impl Factor {
    /// Every factor, from the inputs to the outputs.
    pub const ALL: [Self; 3] = [Self::In, Self::Core, Self::Out];

    /// The name of its layer below the path of the layer that it stands for.
    pub const fn name(self) -> &'static str {
        match self {
            Self::In => "in",
            Self::Core => "core",
            Self::Out => "out",
        }
    }
}

impl WholeLayer {
    /// Weights, without the bias.
    pub fn weights(self) -> usize {
        self.inner * self.out * self.size * self.size
    }

    /// Whether it has one rank: a dense layer, or a 1 x 1 convolution.
    pub fn is_matrix(self) -> bool {
        self.size == 1
    }

    /// Weights of its factors, without the bias.
    pub fn factored_weights(self, ranks: Ranks) -> usize {
        self.factors(ranks).map(|factor| self.weights_of(factor, ranks)).sum()
    }

    /// The factors that take the layer's place, from the inputs to the outputs. A rank that is not less than the extent that it
    /// stands for needs no factor.
    pub fn factors(self, ranks: Ranks) -> impl Iterator<Item = Factor> {
        Factor::ALL.into_iter().filter(move |factor| match factor {
            Factor::In => self.is_matrix() || ranks.inner < self.inner,
            Factor::Core => !self.is_matrix(),
            Factor::Out => self.is_matrix() || ranks.out < self.out,
        })
    }

    /// Extents of a factor, as `[out, size, size, in]` of a convolution and `[out, in]` of a matrix have them in order.
    pub fn extents_of(self, factor: Factor, ranks: Ranks) -> [usize; 4] {
        match factor {
            Factor::In => [ranks.inner, 1, 1, self.inner],
            Factor::Core => [ranks.out, self.size, self.size, ranks.inner],
            Factor::Out => [self.out, 1, 1, ranks.out],
        }
    }

    fn weights_of(self, factor: Factor, ranks: Ranks) -> usize {
        self.extents_of(factor, ranks).into_iter().product()
    }

    /// These ranks, limited to the layer's extents; `None` if the factors would not have fewer weights than the layer.
    pub fn ranks(self, ranks: Ranks) -> Option<Ranks> {
        let ranks = match self.is_matrix() {
            true => {
                let rank = ranks.inner.min(self.inner).min(self.out);
                Ranks { inner: rank, out: rank }
            }
            false => Ranks { inner: ranks.inner.min(self.inner), out: ranks.out.min(self.out) },
        };
        (ranks.inner > 0 && ranks.out > 0 && self.factored_weights(ranks) < self.weights()).then_some(ranks)
    }
}

impl Ranks {
    /// The same rank at both ends.
    pub fn both(rank: usize) -> Self {
        Self { inner: rank, out: rank }
    }
}

impl fmt::Display for Ranks {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self { inner, out } if inner == out => write!(f, "{inner}"),
            Self { inner, out } => write!(f, "{inner}x{out}"),
        }
    }
}

impl FromStr for Ranks {
    type Err = ();

    fn from_str(text: &str) -> Result<Self, ()> {
        let rank = |text: &str| text.parse().ok().filter(|rank| (1..=MAX_WIDTH).contains(rank)).ok_or(());
        match text.split_once('x') {
            Some((inner, out)) => Ok(Self { inner: rank(inner)?, out: rank(out)? }),
            None => rank(text).map(Self::both),
        }
    }
}

/// The ranks of layers by their names in a file, such as `block1.conv`, in the order of the names.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct RankTable(Vec<(String, Ranks)>);

impl RankTable {
    /// Collects the ranks of these layers.
    pub fn new(layers: impl IntoIterator<Item = (String, Ranks)>) -> Self {
        let mut layers: Vec<_> = layers.into_iter().collect();
        layers.sort_by(|a, b| a.0.cmp(&b.0));
        Self(layers)
    }

    /// The ranks of the layer of this name; `None` if it stays whole.
    pub fn of(&self, name: &str) -> Option<Ranks> {
        let at = self.0.binary_search_by(|(own, _)| own.as_str().cmp(name)).ok()?;
        Some(self.0[at].1)
    }

    /// Reads the text that [`Display`](fmt::Display) writes.
    fn read(text: &str) -> Option<Self> {
        let layer = |entry: &str| {
            let (name, ranks) = entry.split_once('=')?;
            Some((name.to_owned(), ranks.parse().ok()?))
        };
        text.split_whitespace().map(layer).collect::<Option<Vec<_>>>().map(Self::new)
    }
}

impl fmt::Display for RankTable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (at, (name, ranks)) in self.0.iter().enumerate() {
            let gap = if at == 0 { "" } else { " " };
            write!(f, "{gap}{name}={ranks}")?;
        }
        Ok(())
    }
}

impl LowRank {
    /// Whether layers are factored.
    pub fn is_chosen(&self) -> bool {
        self.rank > 0 || self.is_sought()
    }

    /// Whether the ranks are to be found from weights.
    pub fn is_sought(&self) -> bool {
        self.energy > 0.0 || self.size > 0.0
    }

    /// The choice of the ranks, as it is written.
    pub fn words(&self) -> String {
        let LowRank { rank, energy, size, .. } = self;
        let chosen = [("rank", *rank as f64), ("energy", *energy), ("size", *size)];
        let written = chosen.into_iter().find(|(_, value)| *value > 0.0);
        written.map_or_else(|| "low_rank.rank = 0".to_owned(), |(key, value)| format!("low_rank.{key} = {value}"))
    }

    /// The ranks that were found, by any method.
    pub(crate) fn table(&self) -> RankTable {
        let text = if self.is_sought() { self.ranks.as_str() } else { "" };
        text.split_once(' ').and_then(|(_, table)| RankTable::read(table)).unwrap_or_default()
    }
}

impl Experiment {
    /// The same choice with every layer whole.
    #[must_use]
    pub fn whole(&self) -> Self {
        Self { low_rank: LowRank::default(), ..self.clone() }
    }

    /// The same choice with ranks that were found for it.
    #[must_use]
    pub(crate) fn ranked(mut self, table: &RankTable) -> Self {
        self.low_rank.ranks = format!("{:08x} {table}", self.rank_mark());
        self
    }

    /// Whether its ranks are to be found and were not yet, or by something else.
    pub(crate) fn lacks_ranks(&self) -> bool {
        let text = &self.low_rank.ranks;
        let mark = text.split_once(' ').and_then(|(mark, _)| u32::from_str_radix(mark, 16).ok());
        self.low_rank.is_sought() && mark != Some(self.rank_mark())
    }

    /// A checksum of the inputs of the search for ranks: the weights, the model, and how many ranks are wanted.
    fn rank_mark(&self) -> u32 {
        const BY: [&str; 3] = ["low_rank.energy", "low_rank.size", "weights.path"];
        let decides = |key: &str| key.starts_with("model.") || BY.contains(&key);
        let mut hasher = crc32fast::Hasher::new();
        for setting in settings::all().filter(|setting| decides(setting.key)) {
            hasher.update(setting.key.as_bytes());
            hasher.update(setting.line(self).unwrap_or_default().as_bytes());
        }
        hasher.finalize()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_layer_is_factored_where_its_factors_are_smaller() {
        let dense = WholeLayer { inner: 64, out: 32, size: 1 };
        // r (64 + 32) < 64 * 32, so r <= 21.
        assert_eq!(dense.ranks(Ranks::both(21)), Some(Ranks::both(21)));
        assert_eq!((dense.ranks(Ranks::both(22)), dense.ranks(Ranks::both(0))), (None, None));
        assert_eq!(dense.factored_weights(Ranks::both(21)), 21 * 96);
        assert_eq!(dense.factors(Ranks::both(21)).collect::<Vec<_>>(), [Factor::In, Factor::Out]);

        let conv = WholeLayer { inner: 16, out: 32, size: 3 };
        assert_eq!(conv.ranks(Ranks::both(8)), Some(Ranks::both(8)));
        assert_eq!(conv.factored_weights(Ranks::both(8)), 16 * 8 + 9 * 64 + 8 * 32);
        // The first rank is that of all channels, and needs no factor.
        assert_eq!(conv.ranks(Ranks::both(20)), Some(Ranks { inner: 16, out: 20 }));
        assert_eq!(conv.factors(Ranks { inner: 16, out: 20 }).collect::<Vec<_>>(), [Factor::Core, Factor::Out]);
        assert_eq!(conv.ranks(Ranks::both(32)), None);
        let of_colours = WholeLayer { inner: 1, out: 32, size: 3 };
        assert_eq!(of_colours.ranks(Ranks::both(4)), Some(Ranks { inner: 1, out: 4 }));
    }

    #[test]
    fn ranks_that_were_found_read_back_and_count_while_what_they_were_found_by_is_the_same() {
        let both = Ranks { inner: 3, out: 12 };
        let table = RankTable::new([("block2.conv".to_owned(), both), ("block1.dense".to_owned(), Ranks::both(7))]);
        assert_eq!(table.to_string(), "block1.dense=7 block2.conv=3x12");
        let mut experiment = Experiment::default();
        experiment.low_rank.energy = 0.9;
        assert!(experiment.lacks_ranks());
        let ranked = experiment.ranked(&table);
        assert!(!ranked.lacks_ranks());
        assert_eq!(ranked.low_rank.table(), table);
        assert_eq!((table.of("block2.conv"), table.of("block2")), (Some(both), None));
        let changed = |change: fn(&mut Experiment)| {
            let mut other = ranked.clone();
            change(&mut other);
            other.lacks_ranks()
        };
        assert!(changed(|e| e.low_rank.energy = 0.8) && changed(|e| e.model.width += 1));
        assert!(changed(|e| e.weights.path = Some("other".into())) && !changed(|e| e.batch.micro += 1));
        assert!(!changed(|e| e.low_rank = LowRank { rank: 3, ..LowRank::default() }), "by rank none are found");
        for broken in ["", "12", "x", "0000 a=0", "0000 a=1x", "0000 =", "0000 a"] {
            let low_rank = LowRank { ranks: broken.to_owned(), energy: 0.5, ..LowRank::default() };
            assert_eq!(low_rank.table(), RankTable::default(), "{broken}");
        }
    }
}
