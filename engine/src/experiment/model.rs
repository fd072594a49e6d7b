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

impl ModelKind {
    /// What it learns.
    pub fn task(self) -> Task {
        match self {
            Self::Mlp | Self::Cnn | Self::Sepcnn | Self::Resnet | Self::Mobilenetv1 | Self::Mobilenetv2 => Task::Class,
            Self::Vit | Self::Mixer => Task::Class,
            Self::Gpt2 | Self::Llama => Task::Next,
            Self::Unet => Task::Mask,
        }
    }

    /// Whether it has a hidden dense layer and blocks of a chosen number, width and kernel.
    pub fn is_plain_cnn(self) -> bool {
        matches!(self, Self::Cnn | Self::Sepcnn)
    }

    /// Whether it has a stem, and batch norms.
    pub fn has_stem(self) -> bool {
        matches!(self, Self::Resnet | Self::Mobilenetv1 | Self::Mobilenetv2)
    }

    /// Whether it reads tokens, and tells the next one at each position.
    pub fn is_decoder(self) -> bool {
        matches!(self, Self::Gpt2 | Self::Llama)
    }

    /// Whether it has heads of attention.
    pub fn has_attention(self) -> bool {
        self == Self::Vit || self.is_decoder()
    }

    /// Whether it cuts images into patches.
    pub fn has_patches(self) -> bool {
        matches!(self, Self::Vit | Self::Mixer)
    }

    /// Whether its blocks have a feed-forward layer of a chosen size, and dropout.
    pub fn has_feed_forward(self) -> bool {
        self.has_patches() || self.is_decoder()
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
        match self.kind {
            ModelKind::Mlp
            | ModelKind::Cnn
            | ModelKind::Sepcnn
            | ModelKind::Vit
            | ModelKind::Mixer
            | ModelKind::Gpt2
            | ModelKind::Llama => self.depth,
            ModelKind::Unet => 2 * self.depth + 1,
            ModelKind::Resnet => 1 + self.stages().iter().sum::<usize>(),
            ModelKind::Mobilenetv1 => 14,
            ModelKind::Mobilenetv2 => 19,
        }
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
