//! The architecture: which family, and its sizes.

use serde::{Deserialize, Serialize};

use crate::experiment::Task;

/// The architecture's family.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum ModelKind {
    /// Dense layers with ReLU: `depth` hidden layers of `width`.
    Mlp,
    /// `depth` blocks of convolution, ReLU and 2 x 2 max-pool (width doubles from block to block), then a hidden dense layer.
    Cnn,
    /// The same with depthwise-separable convolutions and no pool after the last block (MobileNet's block, Howard et al. 2017).
    Sepcnn,
    /// Residual networks of 18 to 101 layers (He et al. 2015).
    Resnet,
    /// MobileNetV1 (Howard et al. 2017).
    Mobilenetv1,
    /// MobileNetV2 (Sandler et al. 2018).
    Mobilenetv2,
    /// Vision transformers (Dosovitskiy et al. 2021).
    Vit,
    /// MLP-Mixer (Tolstikhin et al. 2021).
    Mixer,
    /// Decoders with learned positions, layer norm and GELU (Radford et al. 2019).
    Gpt2,
    /// Decoders with rotary positions, RMS norm and gated units (Touvron et al. 2023).
    Llama,
    /// U-Net for a class a pixel (Ronneberger et al. 2015).
    Unet,
}

/// What [`Model::width`] counts in a family.
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

/// What [`Model::depth`] counts in a family.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum DepthUnit {
    /// Hidden layers.
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
    Kernel,
    Dense,
    Layers,
    Multiplier,
    Stem,
    Heads,
    KvHeads,
    Hidden,
    Patch,
    Tied,
    QkvBias,
    Dropout,
    Attention,
    Window,
    RotaryBase,
}

/// What can be said of a family without building a model.
#[derive(Debug, Clone, Copy)]
pub struct FamilyTraits {
    /// What it learns.
    pub task: Task,
    /// The settings that it uses, in the order in which they are shown.
    pub settings: &'static [ModelSetting],
    /// Blocks of a model of these sizes.
    blocks: fn(&Model) -> usize,
}

impl ModelKind {
    /// Its row in the table of all families: the one place that tells them apart without building a model.
    pub const fn traits(self) -> &'static FamilyTraits {
        use DepthUnit::{Blocks, HiddenLayers, Levels, SameBlocks};
        use ModelSetting::{
            Attention, Dense, Depth, Dropout, Heads, Hidden, Kernel, KvHeads, Layers, Multiplier, Patch, QkvBias,
            RotaryBase, Stem, Tied, Width, Window,
        };
        use Task::{Class, Mask, Next};
        use WidthUnit::{Embedding, Filters, LevelFilters, Units};
        const fn of(task: Task, settings: &'static [ModelSetting], blocks: fn(&Model) -> usize) -> FamilyTraits {
            FamilyTraits { task, settings, blocks }
        }
        const PLAIN_CNN: FamilyTraits = of(Class, &[Width(Filters), Depth(Blocks), Kernel, Dense], |model| model.depth);
        match self {
            Self::Mlp => const { &of(Class, &[Width(Units), Depth(HiddenLayers)], |model| model.depth) },
            Self::Cnn | Self::Sepcnn => &PLAIN_CNN,
            Self::Resnet => const { &of(Class, &[Layers, Stem], |model| 1 + model.stages().iter().sum::<usize>()) },
            Self::Mobilenetv1 => const { &of(Class, &[Multiplier, Stem], |_| 14) },
            Self::Mobilenetv2 => const { &of(Class, &[Multiplier, Stem], |_| 19) },
            Self::Vit => {
                const {
                    &of(
                        Class,
                        &[Patch, Width(Embedding), Depth(SameBlocks), Heads, Hidden, Attention, Dropout],
                        |model| model.depth,
                    )
                }
            }
            Self::Mixer => {
                const { &of(Class, &[Patch, Width(Embedding), Depth(SameBlocks), Hidden, Dropout], |model| model.depth) }
            }
            Self::Gpt2 => {
                const {
                    &of(
                        Next,
                        &[Width(Embedding), Depth(SameBlocks), Heads, Hidden, Attention, Window, Tied, Dropout],
                        |model| model.depth,
                    )
                }
            }
            Self::Llama => {
                const {
                    &of(
                        Next,
                        &[
                            Width(Embedding),
                            Depth(SameBlocks),
                            Heads,
                            KvHeads,
                            Hidden,
                            Attention,
                            Window,
                            Tied,
                            QkvBias,
                            RotaryBase,
                            Dropout,
                        ],
                        |model| model.depth,
                    )
                }
            }
            Self::Unet => const { &of(Mask, &[Width(LevelFilters), Depth(Levels)], |model| 2 * model.depth + 1) },
        }
    }

    /// Whether it uses a setting, in whatever unit.
    pub fn uses(self, setting: ModelSetting) -> bool {
        self.traits().settings.iter().any(|own| std::mem::discriminant(own) == std::mem::discriminant(&setting))
    }

    /// What it learns.
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

    /// Whether it reads tokens, and tells the next one at each position.
    pub fn is_decoder(self) -> bool {
        self.task() == Task::Next
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

/// The first layers of a network for images.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Stem {
    /// Keeps the resolution: for images of 32 x 32 or so.
    Small,
    /// Reduces it at once: for images of 224 x 224 or so.
    Imagenet,
}

/// What attention keeps for its gradient. The numbers are the same.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum AttentionKind {
    /// The probabilities, of the size length x length for each head.
    Plain,
    /// Its output and a number a row; the probabilities are made again, block by block (Dao et al. 2022).
    Efficient,
}

/// The architecture.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Model {
    /// The family.
    pub kind: ModelKind,
    /// Units of a hidden layer (mlp), filters of the first block (cnn, sepcnn, unet), or numbers that stand for a token or
    /// a patch (vit, mixer, gpt2, llama).
    pub width: usize,
    /// Hidden layers (mlp), blocks (cnn, sepcnn, vit, mixer, gpt2, llama), or levels below the first (unet).
    pub depth: usize,
    /// Side of the convolution kernel, odd (cnn, sepcnn).
    pub kernel: usize,
    /// Units of the hidden dense layer before the classes (cnn, sepcnn).
    pub dense: usize,
    /// Layers: 18, 34, 50 or 101 (resnet).
    pub layers: usize,
    /// Multiplies every width (mobilenetv1, mobilenetv2).
    pub multiplier: f64,
    /// The first layers (resnet, mobilenetv1, mobilenetv2).
    pub stem: Stem,
    /// Heads of attention; they divide the width (vit, gpt2, llama).
    pub heads: usize,
    /// Heads of keys and values; they divide the heads, and fewer are shared (llama).
    pub kv_heads: usize,
    /// Units of the feed-forward layer (vit, gpt2, llama), or of the one over channels (mixer).
    pub hidden: usize,
    /// Side of a patch; it divides the image (vit, mixer).
    pub patch: usize,
    /// The classes layer uses the embedding's weight (gpt2, llama).
    pub tied: bool,
    /// Queries, keys and values have a bias, as in Qwen2 (llama).
    pub qkv_bias: bool,
    /// Share that dropout drops after the embedding and after each branch of a block (vit, mixer, gpt2, llama).
    pub dropout: f64,
    /// What attention keeps for its gradient (vit, gpt2, llama).
    pub attention: AttentionKind,
    /// Positions that one sees, itself and those before it; 0: all (gpt2, llama).
    pub window: usize,
    /// Base of the rotary positions' angles (llama).
    pub rotary_base: f64,
}

impl Model {
    /// Residual blocks in each stage of a resnet.
    pub fn stages(&self) -> [usize; 4] {
        match self.layers {
            ..=18 => [2, 2, 2, 2],
            19..=50 => [3, 4, 6, 3],
            _ => [3, 4, 23, 3],
        }
    }

    /// Blocks that checkpointing can keep or compute again.
    pub fn blocks(&self) -> usize {
        (self.kind.traits().blocks)(self)
    }
}

impl Default for Model {
    fn default() -> Self {
        Self {
            kind: ModelKind::Mlp,
            width: 256,
            depth: 2,
            kernel: 3,
            dense: 64,
            layers: 18,
            multiplier: 1.0,
            stem: Stem::Small,
            heads: 8,
            kv_heads: 8,
            hidden: 1024,
            patch: 4,
            tied: true,
            qkv_bias: false,
            dropout: 0.0,
            attention: AttentionKind::Efficient,
            window: 0,
            rotary_base: 10_000.0,
        }
    }
}
