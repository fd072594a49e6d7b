//! The architecture: which family, and its sizes.

mod sizes;

use crate::{
    experiment::words::words,
    experiment::{
        Experiment, Projection, Task,
        limits::{MAX_DEPTH, MAX_HEADS, MAX_MULTIPLIER, MAX_WIDTH, MIN_MULTIPLIER, RESNETS},
        settings::{Bears, KERNELS, Limits, SIZES, settings},
    },
};

words! {
    /// The architecture's family.
    pub enum ModelKind {
        /// Dense layers: `depth` hidden layers of `width`.
        Mlp = "mlp",
        /// `depth` blocks of convolution, activation and 2 x 2 max-pool (width doubles from block to block), then a
        /// hidden dense layer.
        Cnn = "cnn",
        /// A CNN with depthwise-separable convolutions and no pool after the last block (MobileNet's block, Howard et al.
        /// 2017).
        Sepcnn = "sepcnn",
        /// Residual networks of 18 to 101 layers (He et al. 2015).
        Resnet = "resnet",
        /// MobileNetV1 (Howard et al. 2017).
        Mobilenetv1 = "mobilenetv1",
        /// MobileNetV2 (Sandler et al. 2018).
        Mobilenetv2 = "mobilenetv2",
        /// Vision transformers (Dosovitskiy et al. 2021).
        Vit = "vit",
        /// MLP-Mixer (Tolstikhin et al. 2021).
        Mixer = "mixer",
        /// Decoders with learned positions, layer norm and GELU (Radford et al. 2019).
        Gpt2 = "gpt2",
        /// Decoders with rotary positions, RMS norm and gated units (Touvron et al. 2023).
        Llama = "llama",
        /// U-Net for a class a pixel (Ronneberger et al. 2015).
        Unet = "unet",
    }
}

/// The unit of [`Model::width`] in a family.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum WidthUnit {
    /// Units of a hidden layer.
    Units,
    /// Filters of the first block.
    Filters,
    /// Filters of the topmost level.
    LevelFilters,
    /// Numbers that stand for a token or a patch.
    Embedding,
}

/// The unit of [`Model::depth`] in a family.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum DepthUnit {
    /// The setting of the number of hidden layers.
    HiddenLayers,
    /// Blocks that grow wider.
    Blocks,
    /// Blocks of one size.
    SameBlocks,
    /// Levels below the first.
    Levels,
}

/// A setting that only some families use, by the field of [`Model`] that it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[expect(missing_docs, reason = "the fields are documented")]
pub enum ModelSetting {
    Width(WidthUnit),
    Depth(DepthUnit),
    Activation,
    Kernel,
    Dense,
    Layers,
    Multiplier,
    Stem,
    Heads,
    KvHeads,
    HeadDim,
    Hidden,
    Patch,
    Tied,
    QkvBias,
    QkNorm,
    Dropout,
    Attention,
    Window,
    RotaryBase,
    NormEpsilon,
}

/// The facts of a family that are known without building a model.
#[derive(Debug, Clone, Copy)]
pub struct FamilyTraits {
    /// The task that it learns.
    pub task: Task,
    /// The settings that it uses, in the order in which they are shown.
    pub settings: &'static [ModelSetting],
    /// Blocks of a model of these sizes.
    blocks: fn(&Model) -> usize,
}

impl ModelKind {
    /// Whether its blocks have dense layers, next to which adapters learn. Those of the others are in the head alone.
    pub fn has_dense_blocks(self) -> bool {
        match self {
            Self::Mlp | Self::Vit | Self::Mixer | Self::Gpt2 | Self::Llama => true,
            Self::Cnn | Self::Sepcnn | Self::Resnet | Self::Mobilenetv1 | Self::Mobilenetv2 | Self::Unet => false,
        }
    }

    /// Its row in the table of all families: the one place that describes them without building a model.
    pub const fn traits(self) -> &'static FamilyTraits {
        use DepthUnit::{Blocks, HiddenLayers, Levels, SameBlocks};
        use ModelSetting::{
            Activation, Attention, Dense, Depth, Dropout, HeadDim, Heads, Hidden, Kernel, KvHeads, Layers, Multiplier,
            NormEpsilon, Patch, QkNorm, QkvBias, RotaryBase, Stem, Tied, Width, Window,
        };
        use Task::{Class, Mask, Next};
        use WidthUnit::{Embedding, Filters, LevelFilters, Units};
        const VIT: &[ModelSetting] =
            &[Patch, Width(Embedding), Depth(SameBlocks), Heads, Hidden, Attention, NormEpsilon, Dropout];
        const GPT2: &[ModelSetting] =
            &[Width(Embedding), Depth(SameBlocks), Heads, Hidden, Attention, Window, Tied, NormEpsilon, Dropout];
        #[rustfmt::skip]
        const LLAMA: &[ModelSetting] = &[
            Width(Embedding), Depth(SameBlocks), Heads, KvHeads, HeadDim, Hidden, Attention, Window, Tied, QkvBias, QkNorm,
            RotaryBase, NormEpsilon, Dropout,
        ];
        const fn of(task: Task, settings: &'static [ModelSetting], blocks: fn(&Model) -> usize) -> FamilyTraits {
            FamilyTraits { task, settings, blocks }
        }
        const fn deep(task: Task, settings: &'static [ModelSetting]) -> FamilyTraits {
            of(task, settings, |model| model.depth)
        }
        match self {
            Self::Mlp => const { &deep(Class, &[Width(Units), Depth(HiddenLayers), Activation]) },
            Self::Cnn | Self::Sepcnn => {
                const { &deep(Class, &[Width(Filters), Depth(Blocks), Kernel, Dense, Activation]) }
            }
            Self::Resnet => const { &of(Class, &[Layers, Stem], |model| 1 + model.stages().iter().sum::<usize>()) },
            Self::Mobilenetv1 => const { &of(Class, &[Multiplier, Stem], |_| 14) },
            Self::Mobilenetv2 => const { &of(Class, &[Multiplier, Stem], |_| 19) },
            Self::Vit => const { &deep(Class, VIT) },
            Self::Mixer => const { &deep(Class, &[Patch, Width(Embedding), Depth(SameBlocks), Hidden, Dropout]) },
            Self::Gpt2 => const { &deep(Next, GPT2) },
            Self::Llama => const { &deep(Next, LLAMA) },
            Self::Unet => const { &of(Mask, &[Width(LevelFilters), Depth(Levels)], |model| 2 * model.depth + 1) },
        }
    }

    /// Whether it uses a setting, in any unit.
    pub fn uses(self, setting: ModelSetting) -> bool {
        self.traits().settings.iter().any(|own| std::mem::discriminant(own) == std::mem::discriminant(&setting))
    }

    /// The task that it learns.
    pub fn task(self) -> Task {
        self.traits().task
    }

    /// Whether it has a hidden dense layer and blocks of a chosen number, width and kernel.
    pub fn is_plain_cnn(self) -> bool {
        self.uses(ModelSetting::Dense)
    }

    /// Whether it has a stem, and batch norms.
    pub fn has_stem(self) -> bool {
        self.uses(ModelSetting::Stem)
    }

    /// Whether it reads tokens and predicts the next one at each position.
    pub fn is_decoder(self) -> bool {
        self.task() == Task::Next
    }

    /// Whether channels can be taken out of it: each layer's outputs are the next one's inputs, with nothing between that
    /// looks across them.
    pub fn has_channels(self) -> bool {
        match self {
            Self::Mlp | Self::Cnn | Self::Sepcnn | Self::Resnet | Self::Mobilenetv1 | Self::Mobilenetv2 => true,
            Self::Vit | Self::Mixer | Self::Gpt2 | Self::Llama | Self::Unet => false,
        }
    }

    /// The projections of its blocks, which adapters are chosen by; empty for a model without them.
    pub fn projections(self) -> &'static [Projection] {
        use Projection::{Down, Gate, K, O, Q, Up, V};
        match self {
            Self::Llama => &[Q, K, V, O, Gate, Up, Down],
            Self::Gpt2 | Self::Vit => &[Q, K, V, O, Up, Down],
            Self::Mlp
            | Self::Cnn
            | Self::Sepcnn
            | Self::Resnet
            | Self::Mobilenetv1
            | Self::Mobilenetv2
            | Self::Mixer
            | Self::Unet => &[],
        }
    }

    /// Whether it has convolutions, which on a GPU have a library of their own.
    pub fn convolves(self) -> bool {
        match self {
            Self::Mlp | Self::Gpt2 | Self::Llama => false,
            Self::Cnn
            | Self::Sepcnn
            | Self::Resnet
            | Self::Mobilenetv1
            | Self::Mobilenetv2
            | Self::Vit
            | Self::Mixer
            | Self::Unet => true,
        }
    }

    /// The term that the row norms of published models add to the variance; any number for a family without such norms.
    pub(super) fn published_epsilon(self) -> f64 {
        match self {
            Self::Llama | Self::Gpt2 => 1e-5,
            Self::Vit | Self::Mixer => 1e-6,
            Self::Mlp
            | Self::Cnn
            | Self::Sepcnn
            | Self::Resnet
            | Self::Mobilenetv1
            | Self::Mobilenetv2
            | Self::Unet => 1e-6,
        }
    }

    /// Whether it has heads of attention.
    pub fn has_attention(self) -> bool {
        self.uses(ModelSetting::Attention)
    }

    /// Whether it cuts images into patches.
    pub fn has_patches(self) -> bool {
        self.uses(ModelSetting::Patch)
    }

    /// Whether its blocks have a feed-forward layer of a chosen size, and dropout.
    pub fn has_feed_forward(self) -> bool {
        self.uses(ModelSetting::Hidden)
    }
}

words! {
    /// The first layers of a network for images.
    pub enum Stem {
        /// Keeps the resolution: for images of 32 x 32 or so.
        Small = "small",
        /// Reduces it at once: for images of 224 x 224 or so.
        Imagenet = "imagenet",
    }
}

words! {
    /// The function after a hidden layer.
    pub enum ActivationKind {
        /// `max(x, 0)`. It is written over its input.
        Relu = "relu",
        /// The Gaussian error linear unit, exact (Hendrycks & Gimpel 2016).
        Gelu = "gelu",
        /// The sigmoid-weighted linear unit (Elfwing, Uchibe & Doya 2017).
        Silu = "silu",
        /// `x * tanh(softplus(x))` (Misra 2019).
        Mish = "mish",
    }
}

words! {
    /// The tensors that attention keeps for its gradient. The numbers are the same.
    pub enum AttentionKind {
        /// The probabilities, of the size length x length for each head.
        Plain = "plain",
        /// Attention keeps its output and a number a row; the probabilities are made again, block by block (Dao et al. 2022).
        Efficient = "efficient",
    }
}

settings! {
    /// The architecture.
    pub struct Model in model {
        /// The family.
        pub kind: ModelKind = ModelKind::Mlp, KERNELS;
        /// Units of a hidden layer (mlp), filters of the first block (cnn, sepcnn, unet), or numbers that stand for a token
        /// or a patch (vit, mixer, gpt2, llama).
        pub width: usize = 256, SIZES
            .counts(1, MAX_WIDTH as u64, "a width")
            .when(|e| uses(e, ModelSetting::Width(WidthUnit::Units)));
        /// Hidden layers (mlp), blocks (cnn, sepcnn, vit, mixer, gpt2, llama), or levels below the first (unet).
        pub depth: usize = 2, SIZES
            .counts(1, MAX_DEPTH as u64, "a depth")
            .when(|e| uses(e, ModelSetting::Depth(DepthUnit::Blocks)));
        /// Side of the convolution kernel, odd (cnn, sepcnn).
        pub kernel: usize = 3, SIZES.counts(1, 31, "a kernel").when(|e| uses(e, ModelSetting::Kernel));
        /// Units of the hidden dense layer before the classes (cnn, sepcnn).
        pub dense: usize = 64, SIZES.counts(1, MAX_WIDTH as u64, "a width").when(|e| uses(e, ModelSetting::Dense));
        /// The function after each hidden layer (mlp, cnn, sepcnn).
        pub activation: ActivationKind = ActivationKind::Relu, KERNELS
            .quiet()
            .when(|e| uses(e, ModelSetting::Activation));
        /// Layers: 18, 34, 50 or 101 (resnet).
        pub layers: usize = 18, SIZES.when(|e| uses(e, ModelSetting::Layers)).limits(Limits::OneOf {
            numbers: &RESNETS, what: "a residual network's number of layers here",
        });
        /// Multiplies every width (mobilenetv1, mobilenetv2).
        pub multiplier: f64 = 1.0, SIZES
            .numbers(MIN_MULTIPLIER, MAX_MULTIPLIER, "a width multiplier")
            .when(|e| uses(e, ModelSetting::Multiplier));
        /// The first layers (resnet, mobilenetv1, mobilenetv2).
        pub stem: Stem = Stem::Small, KERNELS.when(|e| uses(e, ModelSetting::Stem));
        /// Heads of attention; they divide the width (vit, gpt2, llama).
        pub heads: usize = 8, SIZES
            .counts(1, MAX_HEADS as u64, "a number of heads")
            .when(|e| uses(e, ModelSetting::Heads));
        /// Heads of keys and values; they divide the heads, and fewer are shared (llama).
        pub kv_heads: usize = 8, SIZES
            .counts(1, MAX_HEADS as u64, "a number of heads")
            .when(|e| uses(e, ModelSetting::KvHeads));
        /// Numbers of a head; 0: the width over the heads (llama).
        pub head_dim: usize = 0, SIZES
            .bears(Bears::Effect)
            .counts(0, MAX_WIDTH as u64, "a head's size")
            .when(|e| uses(e, ModelSetting::HeadDim))
            .quiet();
        /// Units of the feed-forward layer (vit, gpt2, llama), or of the one over channels (mixer).
        pub hidden: usize = 1024, SIZES
            .counts(1, MAX_WIDTH as u64, "a width")
            .when(|e| uses(e, ModelSetting::Hidden));
        /// Side of a patch; it divides the image (vit, mixer).
        pub patch: usize = 4, SIZES.counts(1, MAX_WIDTH as u64, "a patch").when(|e| uses(e, ModelSetting::Patch));
        /// The classes layer uses the embedding's weight (gpt2, llama).
        pub tied: bool = true, KERNELS.when(|e| uses(e, ModelSetting::Tied));
        /// Queries, keys and values have a bias, as in Qwen2 (llama).
        pub qkv_bias: bool = false, KERNELS.when(|e| uses(e, ModelSetting::QkvBias)).quiet();
        /// Each head's queries and keys are normalised before their positions, as in Qwen3 (llama).
        pub qk_norm: bool = false, KERNELS.when(|e| uses(e, ModelSetting::QkNorm)).quiet();
        /// The probability with which dropout zeroes a number, after the embedding and after each branch of a block (vit,
        /// mixer, gpt2, llama).
        pub dropout: f64 = 0.0, SIZES
            .bears(Bears::Training)
            .switch()
            .quiet()
            .when(|e| uses(e, ModelSetting::Dropout))
            .limits(Limits::Fraction { what: "a probability to drop", example: "0.1" });
        /// The tensors that attention keeps for its gradient (vit, gpt2, llama).
        pub attention: AttentionKind = AttentionKind::Efficient, KERNELS
            .bears(Bears::Computing)
            .when(|e| uses(e, ModelSetting::Attention));
        /// Positions that one sees, itself and those before it; 0: all (gpt2, llama).
        pub window: usize = 0, SIZES.switch().quiet().when(|e| uses(e, ModelSetting::Window));
        /// The term that norms over rows add to the variance; 0: as published, 1e-5 (gpt2, llama) or 1e-6 (vit, and
        /// normalised queries and keys).
        pub norm_epsilon: f64 = 0.0, SIZES
            .bears(Bears::Effect)
            .quiet()
            .numbers(0.0, 0.1, "what a norm adds to the variance")
            .when(|e| uses(e, ModelSetting::NormEpsilon));
        /// Base of the rotary positions' angles (llama).
        pub rotary_base: f64 = 10_000.0, SIZES.when(|e| uses(e, ModelSetting::RotaryBase)).limits(Limits::Positive {
            high: 1e12, what: "a base", example: "10000",
        });
    }
}

fn uses(e: &Experiment, setting: ModelSetting) -> bool {
    e.model.kind.uses(setting)
}
