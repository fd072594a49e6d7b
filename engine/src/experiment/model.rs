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
}

impl ModelKind {
    /// What it learns.
    pub fn task(self) -> Task {
        match self {
            Self::Mlp | Self::Cnn | Self::Sepcnn | Self::Resnet | Self::Mobilenetv1 | Self::Mobilenetv2 => Task::Class,
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

/// The architecture.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Model {
    /// The family.
    pub kind: ModelKind,
    /// Units of a hidden layer (mlp), or filters of the first block (cnn, sepcnn).
    pub width: usize,
    /// Hidden layers (mlp) or blocks (cnn, sepcnn).
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
            ModelKind::Mlp | ModelKind::Cnn | ModelKind::Sepcnn => self.depth,
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
        }
    }
}
