//! Settings for the tensors that are saved between the passes, and for the parts that are not trained.

use std::{fmt, str::FromStr};

use crate::{experiment::words::words, layer_path::Scope};

words! {
    /// Which activations the backward pass recomputes instead of reading them from memory (Korthikanti et al. 2022,
    /// "selective activation recomputation").
    pub enum Recompute {
        /// No recomputation: every tensor that a gradient needs is saved.
        None = "none",
        /// Recompute the tensors that a few fast kernels compute from tensors that are saved anyway: the outputs of
        /// normalisations, of activation functions and of the sums after them, and of convolutions with few taps.
        Cheap = "cheap",
    } switched None Cheap
}

/// Which parameters are not trained.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Frozen {
    /// No layer is frozen.
    None,
    /// All layers but the head are frozen.
    AllButHead,
    /// The first blocks are frozen, and the layers before them.
    Blocks(usize),
    /// All layers are frozen: for adapters only.
    All,
}

impl Frozen {
    /// Whether the parameters of the layers in `scope` are among them.
    pub fn contains(self, scope: Scope) -> bool {
        match (self, scope) {
            (Self::None, _) => false,
            (Self::AllButHead | Self::Blocks(_), Scope::Head) => false,
            (Self::AllButHead, Scope::Stem | Scope::Block(_)) | (Self::Blocks(_), Scope::Stem) => true,
            (Self::Blocks(count), Scope::Block(number)) => number <= count,
            (Self::All, _) => true,
        }
    }
}

impl fmt::Display for Frozen {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::None => f.pad("none"),
            Self::AllButHead => f.pad("all-but-head"),
            Self::Blocks(count) => f.pad(&format!("blocks:{count}")),
            Self::All => f.pad("all"),
        }
    }
}

impl FromStr for Frozen {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text.split_once(':') {
            None if text == "none" => Some(Self::None),
            None if text == "all-but-head" => Some(Self::AllButHead),
            None if text == "all" => Some(Self::All),
            Some(("blocks", count)) => count.parse().ok().filter(|n| *n >= 1).map(Self::Blocks),
            _ => None,
        }
        .ok_or_else(|| format!("`{text}` freezes nothing: write {}", Self::FORMS))
    }
}

impl Frozen {
    /// The forms of its text, in words.
    pub(crate) const FORMS: &str = "\"none\", \"all-but-head\", \"all\", or \"blocks:N\" with N at least 1";
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_form_of_freezing_reads_back_and_the_rest_is_refused() {
        for choice in [Frozen::None, Frozen::AllButHead, Frozen::Blocks(3), Frozen::All] {
            assert_eq!(choice.to_string().parse(), Ok(choice));
        }
        for text in ["", "blocks", "blocks:0", "blocks:x", "head"] {
            assert!(text.parse::<Frozen>().expect_err(text).contains("blocks:N"));
        }
    }

    #[test]
    fn what_stands_before_the_blocks_is_frozen_with_the_first() {
        let frozen = |choice: Frozen| {
            ["embedding", "block1/a", "block2", "block12/b", "head/classes"].map(|p| choice.contains(Scope::of(p)))
        };
        assert_eq!(frozen(Frozen::None), [false; 5]);
        assert_eq!(frozen(Frozen::Blocks(2)), [true, true, true, false, false]);
        assert_eq!(frozen(Frozen::AllButHead), [true, true, true, true, false]);
        assert_eq!(frozen(Frozen::All), [true; 5]);
    }
}
