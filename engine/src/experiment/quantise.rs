//! Frozen weights as codes.

use crate::{
    experiment::settings::{KERNELS, settings},
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

impl BaseWeights {
    /// Whether weights are held as they are computed with.
    pub fn is_none(self) -> bool {
        self == Self::None
    }
}

settings! {
    /// What frozen weights are held in ("QLoRA"). A product decodes a part of the weight at a time; adapters beside it learn.
    #[derive(Copy)]
    pub struct Quantise in quantise {
        /// The dense layers of the blocks; embeddings, norms and the head stay as they are.
        pub base: BaseWeights = BaseWeights::None, KERNELS.quiet();
    }
}
