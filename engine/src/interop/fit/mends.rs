//! The settings under which weights would fit: what a file shows of the model that its tensors belong to.
//!
//! Always holds: settings are named only where the model that they make was compared with the file, and fits. What extents do
//! not show, such as the number of heads, stays as the experiment has it, unless a configuration lies next to the weights.

use std::fs;

use super::{
    super::{
        mapped::Mapped,
        names::Naming,
        slots::{Slot, slots},
    },
    matching::Match,
};
use crate::{
    experiment::{
        DataKind, DatasetInfo, Experiment, Input, Model, ModelKind, Stem, hugging_face,
        limits::RESNETS,
        preset,
        settings::{self, Bears},
    },
    header::Place,
};

/// The widths that MobileNetV2 is published with.
const MULTIPLIERS: [f64; 6] = [0.35, 0.5, 0.75, 1.0, 1.3, 1.4];

impl Mapped {
    /// The changes of `experiment`, over data of these facts, under which the tensors by `naming` would fit; `None` if the file
    /// does not show them.
    pub(super) fn settings_that_fit(
        &self,
        naming: Option<&'static Naming>,
        experiment: &Experiment,
        info: &DatasetInfo,
    ) -> Option<Vec<String>> {
        let models = match naming {
            None => self.model_of_run().into_iter().collect(),
            Some(_) => self.model_of_config().into_iter().chain(self.models_by_extents(&experiment.model)).collect(),
        };
        let models: Vec<Model> = models;
        models.into_iter().find_map(|model| {
            let mut other = Experiment { model, ..experiment.clone() };
            // What its tensors do not show is not asked for.
            let hidden = settings::all().filter(|s| matches!(s.bears(), Bears::Training | Bears::Computing));
            hidden.for_each(|setting| setting.copy(experiment, &mut other));
            let info = self.sizes(&mut other, naming, info);
            let made: Vec<Slot> = slots(&other, &info).ok()?;
            let found: Match = self.matched(&made, naming, &other).ok()?;
            let fits = self.wrongs(&found, naming, &other).ok()?.1.is_empty();
            // As they are written after `--set`.
            let changes: Vec<String> =
                preset::changes(experiment, &other).iter().map(|change| change.replace('"', "")).collect();
            (fits && !changes.is_empty()).then_some(changes)
        })
    }

    /// The model of the run that saved them; the one of fewer channels that a run may have left, if all layers lost the same
    /// share.
    fn model_of_run(&self) -> Option<Model> {
        let own = self.experiment()?;
        if !self.prunes_channels() {
            return Some(own.model);
        }
        let share = 1.0 - own.prune.final_sparsity;
        let (width, dense) = (own.prune.kept(own.model.width), own.prune.kept(own.model.dense));
        Some(Model { width, dense, multiplier: own.model.multiplier * share, ..own.model })
    }

    fn model_of_config(&self) -> Option<Model> {
        let path = self.config.as_deref()?;
        hugging_face::published(&fs::read_to_string(path).ok()?, path).ok().map(|published| published.model)
    }

    /// What the model may be, by the extents of its tensors.
    fn models_by_extents(&self, model: &Model) -> Vec<Model> {
        match model.kind {
            ModelKind::Resnet => {
                let stem = if self.extent("conv1.weight", 2) == Some(7) { Stem::Imagenet } else { Stem::Small };
                RESNETS.map(|layers| Model { layers, stem, ..model.clone() }).into()
            }
            ModelKind::Mobilenetv2 => MULTIPLIERS.map(|multiplier| Model { multiplier, ..model.clone() }).into(),
            ModelKind::Gpt2 => self.gpt2(model).into_iter().collect(),
            ModelKind::Llama => self.llama(model).into_iter().collect(),
            ModelKind::Vit => self.vit(model).into_iter().collect(),
            // Only this program writes files of these, and such a file says its model.
            ModelKind::Mlp
            | ModelKind::Cnn
            | ModelKind::Sepcnn
            | ModelKind::Mobilenetv1
            | ModelKind::Mixer
            | ModelKind::Unet => Vec::new(),
        }
    }

    fn gpt2(&self, model: &Model) -> Option<Model> {
        let table = ["transformer.wte.weight", "wte.weight"];
        Some(Model {
            width: self.first_extent(&table, 1)?,
            hidden: self.first_extent(&["transformer.h.0.mlp.c_fc.weight", "h.0.mlp.c_fc.weight"], 1)?,
            depth: self.blocks(&["transformer.h.#.ln_1.weight", "h.#.ln_1.weight"]),
            tied: !self.tensors.contains_key("lm_head.weight"),
            ..model.clone()
        })
    }

    fn llama(&self, model: &Model) -> Option<Model> {
        let of = |name: &str, extent| {
            self.first_extent(&[&format!("model.layers.0.{name}"), &format!("layers.0.{name}")], extent)
        };
        let width = self.first_extent(&["model.embed_tokens.weight", "embed_tokens.weight"], 1)?;
        let (queries, keys) = (of("self_attn.q_proj.weight", 0)?, of("self_attn.k_proj.weight", 0)?);
        let of_norm = of("self_attn.q_norm.weight", 0);
        let head = of_norm.unwrap_or_else(|| queries / model.heads.max(1)).max(1);
        let (heads, kv_heads) = ((queries / head).max(1), (keys / head).max(1));
        let is_usual = queries == width && width / heads == head;
        Some(Model {
            width,
            heads,
            kv_heads,
            head_dim: if is_usual { 0 } else { head },
            hidden: of("mlp.gate_proj.weight", 0)?,
            depth: self.blocks(&["model.layers.#.input_layernorm.weight", "layers.#.input_layernorm.weight"]),
            tied: !self.tensors.contains_key("lm_head.weight"),
            qkv_bias: of("self_attn.q_proj.bias", 0).is_some(),
            qk_norm: of_norm.is_some(),
            ..model.clone()
        })
    }

    fn vit(&self, model: &Model) -> Option<Model> {
        const PATCHES: [&str; 3] = [
            "vit.embeddings.patch_embeddings.projection.weight",
            "embeddings.patch_embeddings.projection.weight",
            "patch_embed.proj.weight",
        ];
        const UP: [&str; 3] = [
            "vit.encoder.layer.0.intermediate.dense.weight",
            "encoder.layer.0.intermediate.dense.weight",
            "blocks.0.mlp.fc1.weight",
        ];
        const NORMS: [&str; 3] = [
            "vit.encoder.layer.#.layernorm_before.weight",
            "encoder.layer.#.layernorm_before.weight",
            "blocks.#.norm1.weight",
        ];
        Some(Model {
            width: self.first_extent(&PATCHES, 0)?,
            patch: self.first_extent(&PATCHES, 2)?,
            hidden: self.first_extent(&UP, 0)?,
            depth: self.blocks(&NORMS),
            ..model.clone()
        })
    }

    /// Gives `other` the length or the side that its learned positions are for, where its data have it from a setting; the
    /// facts of its data then.
    fn sizes(&self, other: &mut Experiment, naming: Option<&Naming>, info: &DatasetInfo) -> DatasetInfo {
        const POSITIONS: [&str; 6] = [
            "positions.weight",
            "transformer.wpe.weight",
            "wpe.weight",
            "vit.embeddings.position_embeddings",
            "embeddings.position_embeddings",
            "pos_embed",
        ];
        let is_own = naming.is_none();
        let row = if is_own || other.model.kind == ModelKind::Gpt2 { 0 } else { 1 };
        let Some(positions) = self.first_extent(&POSITIONS, row) else { return *info };
        match (info.input, other.model.kind, other.data.kind) {
            (
                Input::Tokens { length, vocabulary },
                ModelKind::Gpt2,
                DataKind::Tokens | DataKind::Text | DataKind::Jsonl,
            ) if positions < length => {
                other.data.length = positions;
                DatasetInfo::label_each_token(positions, vocabulary, info.train, info.test)
            }
            (Input::Image { channels, .. }, ModelKind::Vit, DataKind::Shapes | DataKind::Images) => {
                let side = positions.saturating_sub(1).isqrt() * other.model.patch;
                other.data.side = side;
                DatasetInfo { input: Input::Image { height: side, width: side, channels }, ..*info }
            }
            _ => *info,
        }
    }

    /// An extent of a tensor, if it has this many extents.
    fn extent(&self, name: &str, extent: usize) -> Option<usize> {
        let Place { shape, .. } = self.tensors.get(name)?;
        shape.get(extent).and_then(|extent| usize::try_from(*extent).ok()).filter(|extent| *extent > 0)
    }

    /// The same extent of the first of these tensors that is there.
    fn first_extent(&self, names: &[&str], extent: usize) -> Option<usize> {
        names.iter().find_map(|name| self.extent(name, extent))
    }

    /// How many blocks there are, by a tensor of each whose name has `#` in place of the block's number.
    fn blocks(&self, names: &[&str]) -> usize {
        let count = |name: &&str| {
            (0..self.tensors.len())
                .take_while(|i| self.tensors.contains_key(&name.replace('#', &i.to_string())))
                .count()
        };
        names.iter().map(count).max().unwrap_or(0)
    }
}
