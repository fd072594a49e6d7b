//! The names of networks for images: residual networks, MobileNetV2 and vision transformers.

use super::{
    layout::Layout::{Convolution, Depthwise, Led},
    names::{Naming, lying, row},
};
use crate::experiment::{Model, ModelKind};

/// Counts of batches, which nothing here reads.
const COUNTS: &[&str] = &[".num_batches_tracked"];

/// The stage and the place in it of residual block `number`, where the stem is block 1.
fn stage(counts: impl IntoIterator<Item = usize>, number: usize) -> Option<[usize; 2]> {
    let mut left = number.checked_sub(2)?;
    for (stage, count) in counts.into_iter().enumerate() {
        if left < count {
            return Some([stage, left]);
        }
        left -= count;
    }
    None
}

/// ResNet of torchvision, and of timm.
pub(super) const RESNET: Naming = Naming {
    title: "torchvision's and timm's ResNet",
    is_of: |model| model.kind == ModelKind::Resnet,
    rows: &[
        lying("block1.conv", &["conv1"], Convolution),
        row("block1.norm", &["bn1"]),
        lying("block#.a.conv", &["#.conv1"], Convolution),
        row("block#.a.norm", &["#.bn1"]),
        lying("block#.b.conv", &["#.conv2"], Convolution),
        row("block#.b.norm", &["#.bn2"]),
        lying("block#.c.conv", &["#.conv3"], Convolution),
        row("block#.c.norm", &["#.bn3"]),
        lying("block#.shortcut.conv", &["#.downsample.0"], Convolution),
        row("block#.shortcut.norm", &["#.downsample.1"]),
        row("head.classes", &["fc"]),
    ],
    block: |model, block| stage(model.stages(), block).map(|[stage, i]| format!("layer{}.{i}", stage + 1)),
    prefix: "",
    constants: COUNTS,
    head: &["head.classes"],
};

/// Inverted residuals of MobileNetV2 in each stage.
const STAGES: [usize; 7] = [1, 2, 3, 4, 3, 3, 1];

fn is_mobilenet(model: &Model) -> bool {
    model.kind == ModelKind::Mobilenetv2
}

/// MobileNetV2 of torchvision.
pub(super) const TORCHVISION_MOBILENET: Naming = Naming {
    title: "torchvision's MobileNetV2",
    is_of: is_mobilenet,
    rows: &[
        lying("block1.conv", &["features.0.0"], Convolution),
        row("block1.norm", &["features.0.1"]),
        // The first has nothing to expand.
        lying("block2.depthwise.conv", &["features.1.conv.0.0"], Depthwise),
        row("block2.depthwise.norm", &["features.1.conv.0.1"]),
        lying("block2.project.conv", &["features.1.conv.1"], Convolution),
        row("block2.project.norm", &["features.1.conv.2"]),
        lying("block#.expand.conv", &["#.conv.0.0"], Convolution),
        row("block#.expand.norm", &["#.conv.0.1"]),
        lying("block#.depthwise.conv", &["#.conv.1.0"], Depthwise),
        row("block#.depthwise.norm", &["#.conv.1.1"]),
        lying("block#.project.conv", &["#.conv.2"], Convolution),
        row("block#.project.norm", &["#.conv.3"]),
        lying("block19.conv", &["features.18.0"], Convolution),
        row("block19.norm", &["features.18.1"]),
        row("head.classes", &["classifier.1"]),
    ],
    block: |_, block| Some(format!("features.{}", block.checked_sub(1)?)),
    prefix: "",
    constants: COUNTS,
    head: &["head.classes"],
};

/// MobileNetV2 of timm.
pub(super) const TIMM_MOBILENET: Naming = Naming {
    title: "timm's MobileNetV2",
    is_of: is_mobilenet,
    rows: &[
        lying("block1.conv", &["conv_stem"], Convolution),
        row("block1.norm", &["bn1"]),
        lying("block2.depthwise.conv", &["blocks.0.0.conv_dw"], Depthwise),
        row("block2.depthwise.norm", &["blocks.0.0.bn1"]),
        lying("block2.project.conv", &["blocks.0.0.conv_pw"], Convolution),
        row("block2.project.norm", &["blocks.0.0.bn2"]),
        lying("block#.expand.conv", &["#.conv_pw"], Convolution),
        row("block#.expand.norm", &["#.bn1"]),
        lying("block#.depthwise.conv", &["#.conv_dw"], Depthwise),
        row("block#.depthwise.norm", &["#.bn2"]),
        lying("block#.project.conv", &["#.conv_pwl"], Convolution),
        row("block#.project.norm", &["#.bn3"]),
        lying("block19.conv", &["conv_head"], Convolution),
        row("block19.norm", &["bn2"]),
        row("head.classes", &["classifier"]),
    ],
    block: |_, block| stage(STAGES, block).map(|[stage, i]| format!("blocks.{stage}.{i}")),
    prefix: "",
    constants: COUNTS,
    head: &["head.classes"],
};

fn is_vit(model: &Model) -> bool {
    model.kind == ModelKind::Vit
}

/// Vision transformers of transformers (`ViTForImageClassification`).
pub(super) const VIT: Naming = Naming {
    title: "transformers' ViT",
    is_of: is_vit,
    rows: &[
        lying("patches", &["vit.embeddings.patch_embeddings.projection"], Convolution),
        lying("class-token", &["vit.embeddings.cls_token"], Led),
        lying("positions", &["vit.embeddings.position_embeddings"], Led),
        row("block#.attention.norm", &["#.layernorm_before"]),
        row(
            "block#.attention.qkv",
            &["#.attention.attention.query", "#.attention.attention.key", "#.attention.attention.value"],
        ),
        row("block#.attention.out", &["#.attention.output.dense"]),
        row("block#.feed-forward.norm", &["#.layernorm_after"]),
        row("block#.feed-forward.up", &["#.intermediate.dense"]),
        row("block#.feed-forward.down", &["#.output.dense"]),
        row("head.norm", &["vit.layernorm"]),
        row("head.classes", &["classifier"]),
    ],
    block: |_, block| Some(format!("vit.encoder.layer.{}", block.checked_sub(1)?)),
    prefix: "vit.",
    // The pooler belongs to another head than that of classes.
    constants: &["pooler.dense.weight", "pooler.dense.bias"],
    head: &["head.classes"],
};

/// Vision transformers of timm.
pub(super) const TIMM_VIT: Naming = Naming {
    title: "timm's ViT",
    is_of: is_vit,
    rows: &[
        lying("patches", &["patch_embed.proj"], Convolution),
        lying("class-token", &["cls_token"], Led),
        lying("positions", &["pos_embed"], Led),
        row("block#.attention.norm", &["#.norm1"]),
        row("block#.attention.qkv", &["#.attn.qkv"]),
        row("block#.attention.out", &["#.attn.proj"]),
        row("block#.feed-forward.norm", &["#.norm2"]),
        row("block#.feed-forward.up", &["#.mlp.fc1"]),
        row("block#.feed-forward.down", &["#.mlp.fc2"]),
        row("head.norm", &["norm"]),
        row("head.classes", &["head"]),
    ],
    block: |_, block| Some(format!("blocks.{}", block.checked_sub(1)?)),
    prefix: "",
    constants: &[],
    head: &["head.classes"],
};
