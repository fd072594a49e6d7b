//! Facts about a setting in addition to its field: its effect, its limits, when it is used, and its earlier name.

use super::{Limits, Number};
use crate::experiment::Experiment;

/// The effect of a setting on a training step.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Decides {
    /// Neither a kernel nor the size of a tensor.
    Nothing,
    /// Sizes of tensors. Kernels of this program are the same at any size; libraries choose theirs by it.
    Sizes,
    /// Which kernels run, or when memory is freed.
    Kernels,
}

/// The relation of a setting to samples and answers. Checks of checkpoints and of weights go by it.
///
/// A setting without another one is [`Meaning`](Self::Meaning), which every check compares.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Bears {
    /// It decides what a sample is, or what a model answers, or something apart from both.
    Meaning,
    /// How samples get to the model, and not their content.
    Feeding,
    /// How training samples differ from the samples of the data.
    Variation,
    /// The scale of pixels.
    Scale,
    /// Which samples and labels are taken from the same texts, and their tokens.
    Reading,
    /// How a model trains, and not what it answers.
    Training,
    /// How the same answer is computed.
    Computing,
    /// A number with a value that stands for another one, so that its effect is compared and not the number.
    Effect,
    /// It follows from other settings, or from weights.
    Derived,
}

/// The facts about a setting in addition to its field.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Rule {
    pub(super) decides: Decides,
    pub(super) bears: Bears,
    /// Zero turns something off, and every other value leaves the kernels the same.
    pub(super) is_switch: bool,
    pub(super) limits: Limits,
    pub(super) is_used: fn(&Experiment) -> bool,
    /// Whether its default needs no line in a preset.
    pub(super) is_quiet: bool,
    pub(super) is_paragraph: bool,
    pub(super) former_key: Option<&'static str>,
    pub(super) former_words: &'static [(&'static str, &'static str)],
}

/// A setting that decides nothing of a step.
pub(crate) const NOTHING: Rule = Rule {
    decides: Decides::Nothing,
    bears: Bears::Meaning,
    is_switch: false,
    limits: Limits::None,
    is_used: |_| true,
    is_quiet: false,
    is_paragraph: false,
    former_key: None,
    former_words: &[],
};
/// A setting that decides sizes of tensors.
pub(crate) const SIZES: Rule = Rule { decides: Decides::Sizes, ..NOTHING };
/// A setting that decides which kernels run, or when memory is freed.
pub(crate) const KERNELS: Rule = Rule { decides: Decides::Kernels, ..NOTHING };

impl Rule {
    /// Its relation to samples and answers.
    pub(crate) const fn bears(self, bears: Bears) -> Self {
        Self { bears, ..self }
    }

    /// Zero turns something off; how far from zero the value is chooses no kernel.
    pub(crate) const fn switch(self) -> Self {
        Self { is_switch: true, ..self }
    }

    /// Marks the setting as used, and checked, only where this holds.
    pub(crate) const fn when(self, is_used: fn(&Experiment) -> bool) -> Self {
        Self { is_used, ..self }
    }

    /// Left out of a preset at its default.
    pub(crate) const fn quiet(self) -> Self {
        Self { is_quiet: true, ..self }
    }

    /// Text that is written over several lines.
    pub(crate) const fn paragraph(self) -> Self {
        Self { is_paragraph: true, ..self }
    }

    /// The key it had before, which is still read.
    pub(crate) const fn formerly(self, key: &'static str) -> Self {
        Self { former_key: Some(key), ..self }
    }

    /// Words it had before, which are still read, each with the value that it means now.
    pub(crate) const fn words_were(self, words: &'static [(&'static str, &'static str)]) -> Self {
        Self { former_words: words, ..self }
    }

    /// A whole number from `low` to `high`, which is `what`.
    pub(crate) const fn counts(self, low: u64, high: u64, what: &'static str) -> Self {
        Self { limits: Limits::Within { low: Number::Whole(low), high: Number::Whole(high), what }, ..self }
    }

    /// A number from `low` to `high`, which is `what`.
    pub(crate) const fn numbers(self, low: f64, high: f64, what: &'static str) -> Self {
        Self { limits: Limits::Within { low: Number::Real(low), high: Number::Real(high), what }, ..self }
    }

    /// Judged by `limits`.
    pub(crate) const fn limits(self, limits: Limits) -> Self {
        Self { limits, ..self }
    }
}
