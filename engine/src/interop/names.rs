//! Names: which published tensor is which tensor here, family by family.
//!
//! Owns [`Naming`], a table of layers for each way in which others name a family's tensors, and [`Part`], the part of a
//! published tensor that makes a tensor here. Always holds: a table has the other name of every layer with parameters and
//! the layout of its weight, and no two tensors here are one there. A family without a table has its own names only.

use super::{layout::Layout, vision};
use crate::experiment::{Model, ModelKind};

/// A layer here and there. `#` stands for the number of a block here, and for its name there.
#[derive(Debug, Clone, Copy)]
pub(super) struct Row {
    pub(super) ours: &'static str,
    /// Several names if one layer here is several layers there, in the order of its rows.
    pub(super) theirs: &'static [&'static str],
    pub(super) layout: Layout,
}

/// A way to name the tensors of a family.
#[derive(Debug)]
pub(super) struct Naming {
    /// The library or program that uses these names.
    pub(super) title: &'static str,
    /// The families whose models have these names.
    pub(super) is_of: fn(&Model) -> bool,
    pub(super) rows: &'static [Row],
    /// The name of a block with this number, counted from 1; `None` for one with rows of its own.
    pub(super) block: fn(&Model, usize) -> Option<String>,
    /// The prefix of names. Files of the model without its head lack it.
    pub(super) prefix: &'static str,
    /// Ends of names that hold nothing to load: constants, and counts of batches.
    pub(super) constants: &'static [&'static str],
    /// The layer that gives the logits, and the token layer if it has the same number of rows.
    pub(super) head: &'static [&'static str],
}

/// Some elements of a tensor here, and where they lie there.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Part {
    /// The published tensor.
    pub(super) name: String,
    /// The tensor's extents.
    pub(super) shape: Vec<usize>,
    /// The extents of the part here.
    pub(super) here: Vec<usize>,
    pub(super) layout: Layout,
    /// The first element of the part in the tensor here.
    pub(super) begin: usize,
}

pub(super) const fn row(ours: &'static str, theirs: &'static [&'static str]) -> Row {
    Row { ours, theirs, layout: Layout::Same }
}

pub(super) const fn lying(ours: &'static str, theirs: &'static [&'static str], layout: Layout) -> Row {
    Row { ours, theirs, layout }
}

/// Blocks that are counted from 0, after a word.
fn counted(prefix: &str, block: usize) -> Option<String> {
    block.checked_sub(1).map(|number| format!("{prefix}{number}"))
}

/// GPT-2 (`GPT2LMHeadModel`): dense layers lie as `[in, out]`.
const GPT2: Naming = Naming {
    title: "transformers' GPT-2",
    is_of: |model| model.kind == ModelKind::Gpt2,
    rows: &[
        row("embedding", &["transformer.wte"]),
        row("positions", &["transformer.wpe"]),
        row("block#.attention.norm", &["#.ln_1"]),
        lying("block#.attention.qkv", &["#.attn.c_attn"], Layout::Transposed),
        lying("block#.attention.out", &["#.attn.c_proj"], Layout::Transposed),
        row("block#.feed-forward.norm", &["#.ln_2"]),
        lying("block#.feed-forward.up", &["#.mlp.c_fc"], Layout::Transposed),
        lying("block#.feed-forward.down", &["#.mlp.c_proj"], Layout::Transposed),
        row("head.norm", &["transformer.ln_f"]),
        row("head.classes", &["lm_head"]),
    ],
    block: |_, block| counted("transformer.h.", block),
    prefix: "transformer.",
    constants: &[".attn.bias", ".attn.masked_bias"],
    head: &["head.classes", "embedding"],
};

/// Llama and its kind (`LlamaForCausalLM`, Mistral, Qwen2, Qwen3).
const LLAMA: Naming = Naming {
    title: "transformers' Llama",
    is_of: |model| model.kind == ModelKind::Llama,
    rows: &[
        row("embedding", &["model.embed_tokens"]),
        row("block#.attention.norm", &["#.input_layernorm"]),
        row("block#.attention.qkv", &["#.self_attn.q_proj", "#.self_attn.k_proj", "#.self_attn.v_proj"]),
        row("block#.attention.qk-norm.queries", &["#.self_attn.q_norm"]),
        row("block#.attention.qk-norm.keys", &["#.self_attn.k_norm"]),
        row("block#.attention.out", &["#.self_attn.o_proj"]),
        row("block#.feed-forward.norm", &["#.post_attention_layernorm"]),
        row("block#.feed-forward.up", &["#.mlp.gate_proj", "#.mlp.up_proj"]),
        row("block#.feed-forward.down", &["#.mlp.down_proj"]),
        row("head.norm", &["model.norm"]),
        row("head.classes", &["lm_head"]),
    ],
    block: |_, block| counted("model.layers.", block),
    prefix: "model.",
    constants: &[".rotary_emb.inv_freq"],
    head: &["head.classes", "embedding"],
};

/// Every way in which the tensors of `model` are named elsewhere, the one to write first.
pub(super) fn of(model: &Model) -> impl Iterator<Item = &'static Naming> {
    const ALL: [&Naming; 7] = [
        &GPT2,
        &LLAMA,
        &vision::RESNET,
        &vision::TIMM_MOBILENET,
        &vision::TORCHVISION_MOBILENET,
        &vision::VIT,
        &vision::TIMM_VIT,
    ];
    ALL.into_iter().filter(move |naming| (naming.is_of)(model))
}

impl Naming {
    /// The parts of the tensor `ours`, with the extents `here`; `None` if this naming has no place for it.
    pub(super) fn parts(&self, model: &Model, ours: &str, here: &[usize]) -> Option<Vec<Part>> {
        let (layer, what) = ours.rsplit_once('.')?;
        let (row, block) = self.row_of(model, layer)?;
        let what = match what {
            "running_variance" => "running_var",
            other @ ("weight" | "bias" | "running_mean") => other,
            _ => return None,
        };
        let layout = if what == "weight" { row.layout } else { Layout::Same };
        let rows = rows(model, row.theirs.len(), *here.first()?);
        let width: usize = here[1..].iter().product();
        let mut begin = 0;
        let parts = row.theirs.iter().zip(rows).map(|(theirs, rows)| {
            let theirs = theirs.replace('#', block.as_deref().unwrap_or_default());
            // A bare row or table has no name of a tensor after the layer's.
            let name = if row.layout == Layout::Led { theirs } else { format!("{theirs}.{what}") };
            let here: Vec<usize> = std::iter::once(rows).chain(here[1..].iter().copied()).collect();
            let part = Part { name, shape: layout.there(&here), here, layout, begin };
            begin += rows * width;
            part
        });
        Some(parts.collect())
    }

    /// The row of the layer `ours`, and the name of its block.
    pub(super) fn row_of(&self, model: &Model, ours: &str) -> Option<(&'static Row, Option<String>)> {
        if let Some(row) = self.rows.iter().find(|row| row.ours == ours) {
            return Some((row, None));
        }
        let (number, rest) = ours.strip_prefix("block")?.split_once('.')?;
        let number = number.parse().ok()?;
        let row = self.rows.iter().find(|row| row.ours.strip_prefix("block#.") == Some(rest))?;
        Some((row, Some((self.block)(model, number)?)))
    }

    /// Whether the tensor `ours` may have another number of rows than the model there, and is then made afresh.
    pub(super) fn is_head(&self, ours: &str) -> bool {
        ours.rsplit_once('.').is_some_and(|(layer, _)| self.head.contains(&layer))
    }
}

/// How `all` rows of one layer here are shared out among `count` there: queries, keys and values, or halves.
fn rows(model: &Model, count: usize, all: usize) -> Vec<usize> {
    match count {
        3 => {
            let kv_heads = if model.kind == ModelKind::Llama { model.kv_heads } else { model.heads };
            let others = (kv_heads * model.head_width()).min(all / 2);
            vec![all - 2 * others, others, others]
        }
        2 => vec![all / 2, all - all / 2],
        _ => vec![all],
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;
    use crate::{
        experiment::{DatasetInfo, Experiment, Input, Stem},
        interop::slots::slots,
    };

    /// The published tensors of a model, by each of its namings.
    fn published(model: Model, input: Input) -> Vec<(&'static str, HashSet<String>)> {
        let labels = if let Input::Tokens { length, .. } = input { length } else { 1 };
        let one = DatasetInfo::one_label(input, 1000, 9, 9);
        let info = DatasetInfo { labels_per_sample: labels, scored_labels: labels, ..one };
        let experiment = Experiment { model, ..Experiment::default() };
        let slots = slots(&experiment, &info).expect("a model");
        let by = |naming: &'static Naming| {
            let mut names = HashSet::new();
            for slot in &slots {
                let parts = naming.parts(&experiment.model, &slot.name, &slot.shape);
                let parts = parts.unwrap_or_else(|| panic!("{} has no place in {}", slot.name, naming.title));
                let elements: usize = parts.iter().map(|part| part.shape.iter().product::<usize>()).sum();
                assert_eq!(elements, slot.shape.iter().product::<usize>(), "{}", slot.name);
                parts.into_iter().for_each(|part| assert!(names.insert(part.name.clone()), "{} twice", part.name));
            }
            (naming.title, names)
        };
        of(&experiment.model).map(by).collect()
    }

    #[test]
    fn every_tensor_of_a_network_for_images_is_one_of_the_published() {
        let large = Input::Image { height: 224, width: 224, channels: 3 };
        let imagenet = |kind| Model { kind, stem: Stem::Imagenet, multiplier: 1.0, ..Model::default() };
        // As many as a state has, without the counts of batches.
        for (layers, count) in [(18, 122 - 20), (34, 218 - 36), (50, 320 - 53), (101, 626 - 104)] {
            let namings = published(Model { layers, ..imagenet(ModelKind::Resnet) }, large);
            assert_eq!(namings[0].1.len(), count, "resnet of {layers} layers");
            let known = ["conv1.weight", "layer2.0.downsample.1.running_var", "layer4.1.conv2.weight", "fc.bias"];
            assert!(known.iter().all(|name| namings[0].1.contains(*name)));
        }
        let namings = published(imagenet(ModelKind::Mobilenetv2), large);
        assert!(namings.iter().all(|(_, names)| names.len() == 314 - 52), "MobileNetV2");
        assert!(namings[0].1.contains("blocks.5.2.conv_pwl.weight") && namings[0].1.contains("bn2.running_mean"));
        assert!(namings[1].1.contains("features.17.conv.3.bias") && namings[1].1.contains("classifier.1.weight"));
        let vit = Model { width: 192, depth: 12, heads: 3, hidden: 768, patch: 16, ..imagenet(ModelKind::Vit) };
        let namings = published(vit, large);
        assert_eq!(namings.iter().map(|(_, names)| names.len()).collect::<Vec<_>>(), [200, 152]);
    }

    #[test]
    fn every_tensor_of_a_decoder_is_one_of_the_published() {
        let tokens = Input::Tokens { length: 16, vocabulary: 1000 };
        let model = |kind| Model { kind, width: 12, depth: 12, heads: 2, kv_heads: 1, hidden: 20, ..Model::default() };
        assert_eq!(published(model(ModelKind::Gpt2), tokens)[0].1.len(), 148);
        let llama = Model { tied: false, ..model(ModelKind::Llama) };
        assert_eq!(published(llama.clone(), tokens)[0].1.len(), 3 + 12 * 9);
        let qwen3 = &published(Model { qk_norm: true, ..llama }, tokens)[0].1;
        assert!(qwen3.len() == 3 + 12 * 11 && qwen3.contains("model.layers.11.self_attn.k_norm.weight"));
    }
}
