//! Weights as codes: those that are frozen, and those of a trained model.

use crate::{
    experiment::{
        Experiment,
        settings::{KERNELS, NOTHING, settings},
    },
    words::words,
};

words! {
    /// What the frozen dense layers of a decoder's blocks are held in.
    pub enum BaseWeights {
        /// The type of computation.
        None = "none",
        /// Codes of 8 bits, with a scale for 256 of them.
        Int8 = "int8",
        /// The 4-bit NormalFloat, with a scale for 64 codes (Dettmers et al. 2023, "QLoRA").
        Nf4 = "nf4",
        /// The same, its scales coded by 8 bits.
        Nf4Double = "nf4-double",
    }
}

words! {
    /// How a trained model becomes one of 8-bit integers.
    pub enum QuantiseKind {
        /// It does not.
        None = "none",
        /// When training is over, by the ranges that its layers see in a few batches (Krishnamoorthi 2018, "Quantizing deep
        /// convolutional networks for efficient inference").
        After = "after",
        /// While it trains it computes with numbers that are rounded as codes would be (Jacob et al. 2018, "Quantization and
        /// training of neural networks for efficient integer-arithmetic-only inference").
        Aware = "aware",
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
    /// What frozen weights are held in ("QLoRA"), and whether a trained model is tested as one of 8-bit integers.
    #[derive(Copy)]
    pub struct Quantise in quantise {
        /// The dense layers of the blocks; embeddings, norms and the head stay as they are. A product decodes a part of the
        /// weight at a time; adapters beside it learn.
        pub base: BaseWeights = BaseWeights::None, KERNELS.quiet();
        /// Whether dense layers and convolutions become 8-bit integers, and when.
        pub kind: QuantiseKind = QuantiseKind::None, KERNELS.quiet();
        /// Training batches by which the ranges of inputs are found when training is over.
        pub calibration: usize = 8, NOTHING.when(is_calibrated).counts(1, 10_000, "a number of batches").quiet();
    }
}

fn is_calibrated(e: &Experiment) -> bool {
    e.quantise.kind == QuantiseKind::After
}
