//! Weights as codes: frozen weights, and the weights of a trained model.

use crate::{
    experiment::words::words,
    experiment::{
        Experiment,
        settings::{KERNELS, NOTHING, settings},
    },
};

words! {
    /// The form of the frozen dense layers of a decoder's blocks.
    pub enum BaseWeights {
        /// The type of computation.
        None = "none",
        /// Codes of 8 bits, with a scale for 256 of them.
        Int8 = "int8",
        /// The 4-bit NormalFloat, with a scale for 64 codes (Dettmers et al. 2023, "QLoRA").
        Nf4 = "nf4",
        /// The same as `nf4`, with its scales coded by 8 bits.
        Nf4Double = "nf4-double",
    }
}

words! {
    /// How a trained model becomes one of integers.
    pub enum QuantiseKind {
        /// The model does not become integers.
        None = "none",
        /// When training is over, by the ranges that its layers see in a few batches (Krishnamoorthi 2018, "Quantizing deep
        /// convolutional networks for efficient inference").
        After = "after",
        /// While it trains it computes with numbers that are rounded as codes would be (Jacob et al. 2018, "Quantization and
        /// training of neural networks for efficient integer-arithmetic-only inference").
        Aware = "aware",
    }
}

words! {
    /// The form that the weights of a trained model take.
    pub enum CodedWeights {
        /// 8-bit integers with a scale a row, and the inputs of layers with them: products of integers.
        WithInputs = "with-inputs",
        /// 8-bit integers with a scale for 256 of them. Inputs stay numbers.
        Int8 = "int8",
        /// 4-bit integers with a scale for 128 of them. Inputs stay numbers.
        Int4 = "int4",
    }
}

impl CodedWeights {
    /// Whether inputs become integers as well, which needs ranges.
    pub fn has_inputs(self) -> bool {
        self == Self::WithInputs
    }

    /// Bits of a weight's integer.
    pub fn bits(self) -> u64 {
        match self {
            Self::WithInputs | Self::Int8 => 8,
            Self::Int4 => 4,
        }
    }
}

impl BaseWeights {
    /// Whether weights are held as they are computed with.
    pub fn is_none(self) -> bool {
        self == Self::None
    }
}

impl QuantiseKind {
    /// Whether a trained model stays as it is.
    pub fn is_none(self) -> bool {
        self == Self::None
    }
}

settings! {
    /// The form of frozen weights ("QLoRA"), and whether a trained model is tested as one of integers.
    #[derive(Copy)]
    pub struct Quantise in quantise {
        /// The dense layers of the blocks; embeddings, norms and the head stay as they are. A product decodes a part of the
        /// weight at a time; the adapters next to it learn.
        pub base: BaseWeights = BaseWeights::None, KERNELS.quiet();
        /// Whether dense layers and convolutions become integers, and when.
        pub kind: QuantiseKind = QuantiseKind::None, KERNELS.quiet();
        /// The part that becomes integers when training is over: weights and inputs, or, for a decoder, its weights only.
        pub weights: CodedWeights = CodedWeights::WithInputs, KERNELS.when(is_after).quiet();
        /// Training batches by which the ranges of inputs are found when training is over.
        pub calibration: usize = 8, NOTHING.when(is_calibrated).counts(1, 10_000, "a number of batches").quiet();
    }
}

impl Quantise {
    /// The part that becomes integers. If training rounds for integers, inputs become integers too.
    pub fn coded(&self) -> CodedWeights {
        match self.kind {
            QuantiseKind::After => self.weights,
            QuantiseKind::None | QuantiseKind::Aware => CodedWeights::WithInputs,
        }
    }
}

fn is_after(e: &Experiment) -> bool {
    e.quantise.kind == QuantiseKind::After
}

fn is_calibrated(e: &Experiment) -> bool {
    is_after(e) && e.quantise.weights.has_inputs()
}
