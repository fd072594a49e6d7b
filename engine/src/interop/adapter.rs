//! Low-rank adapters: merged into the weights that they belong to, or in a file of their own in the form of PEFT.
//!
//! Always holds: the adapter of a layer that is several layers elsewhere (queries, keys and values) becomes one adapter for each
//! of them. They share the first matrix and have their rows of the second, so they add the same to every row.

use std::{ops::Range, path::Path};

use serde_json::{Value, json};

use super::{
    export::{Exported, Run, as_it_is},
    layout::Layout,
    slots::Slot,
    written::{self, Elements, Entry},
};
use crate::{
    error::{Problem, Result},
    experiment::{Experiment, Frozen, weights::ADAPTERS},
    tensor::DType,
};

const WEIGHTS: &str = "adapter_model.safetensors";
const DOWN: &str = ".adapter_down";
const UP: &str = ".adapter_up";

/// The addition of an adapter to one weight.
#[derive(Clone)]
pub(super) struct Adapter<'a> {
    down: (&'a [u8], DType), // [rank, in]
    up: (&'a [u8], DType),   // [adapted rows, rank]
    rank: usize,
    scale: f64,
    /// Rows and columns of the weight.
    sizes: [usize; 2],
    /// The rows that are adapted.
    rows: Vec<Range<usize>>,
    /// The type of the sum.
    dtype: DType,
}

/// The adapter of the tensor of `slot`, if it has one.
pub(super) fn of<'a>(run: &Run<'a>, slot: &Slot) -> Result<Option<Adapter<'a>>> {
    let (Some(layer), [out, inner]) = (slot.name.strip_suffix(".weight"), &slot.shape[..]) else { return Ok(None) };
    let name = |what: &str| format!("{layer}{what}");
    if !run.slots.iter().any(|slot| slot.name == name(DOWN)) {
        return Ok(None);
    }
    let lora = &run.experiment.lora;
    Ok(Some(Adapter {
        down: run.elements(&name(DOWN))?,
        up: run.elements(&name(UP))?,
        rank: lora.rank,
        scale: lora.scale(),
        sizes: [*out, *inner],
        rows: rows(run.experiment, layer, *out),
        dtype: run.experiment.weight_type(),
    }))
}

/// Which of a layer's `out` rows are adapted.
fn rows(experiment: &Experiment, layer: &str, out: usize) -> Vec<Range<usize>> {
    experiment.lora.targets.rows(&experiment.model.projections(layer), out)
}

/// The place of a layer's row among the adapted ones.
fn place(rows: &[Range<usize>], row: usize) -> Option<usize> {
    let mut before = 0;
    for run in rows {
        if run.contains(&row) {
            return Some(before + row - run.start);
        }
        before += run.len();
    }
    None
}

fn numbers((bytes, dtype): (&[u8], DType), count: usize) -> Vec<f64> {
    let mut wide = vec![0; 8 * count];
    as_it_is(&[count], 0).convert(bytes, dtype, 0, &mut wide, DType::F64);
    wide.chunks_exact(8).map(|e| e.try_into().map_or(0.0, f64::from_le_bytes)).collect()
}

impl Adapter<'_> {
    /// The weight plus the adapter's product: summed in f64, rounded once.
    pub(super) fn merged(&self, weight: &[u8], dtype: DType) -> Vec<u8> {
        let [out, inner] = self.sizes;
        let adapted: usize = self.rows.iter().map(Range::len).sum();
        let (down, up) = (numbers(self.down, self.rank * inner), numbers(self.up, adapted * self.rank));
        let mut merged = vec![0; out * inner * self.dtype.size()];
        for (row, to) in merged.chunks_exact_mut(inner * self.dtype.size()).enumerate() {
            let mut sums = numbers((&weight[row * inner * dtype.size()..], dtype), inner);
            let place = place(&self.rows, row).map_or(0..0, |place| place * self.rank..(place + 1) * self.rank);
            for (factor, down) in up[place].iter().zip(down.chunks_exact(inner)) {
                sums.iter_mut().zip(down).for_each(|(sum, down)| *sum += self.scale * factor * down);
            }
            let sums: Vec<u8> = sums.into_iter().flat_map(f64::to_le_bytes).collect();
            as_it_is(&[inner], 0).convert(&sums, DType::F64, 0, to, self.dtype);
        }
        merged
    }
}

/// Refuses a run whose adapters alone do not make its model.
pub(super) fn can_stand_alone(experiment: &Experiment) -> Result<()> {
    let refuse = |key: &str, message: &str| {
        Err(Problem::new(key, message, "write --merge for the whole model, its adapters merged into it").into())
    };
    if !experiment.model.kind.is_decoder() {
        return refuse("model.kind", "adapters alone are written for language models, and not for models of images");
    }
    if experiment.frozen != Frozen::All {
        return refuse("frozen", "the run trained more than its adapters, and an adapter's file has no place for that");
    }
    if experiment.weights.chosen().is_none() {
        return refuse(
            "weights.path",
            "the run began from nothing, so no file has the weights that its adapters belong to",
        );
    }
    Ok(())
}

/// A matrix with these `rows`, of this many bytes each, with zeros for missing rows.
fn filled(rows: &[Option<usize>], from: &[u8], bytes: usize) -> Vec<u8> {
    let mut whole = vec![0; rows.len() * bytes];
    for (to, row) in whole.chunks_exact_mut(bytes).zip(rows) {
        if let Some(row) = row {
            to.copy_from_slice(&from[row * bytes..][..bytes]);
        }
    }
    whole
}

/// Writes the adapters as PEFT loads them.
pub(super) fn write(run: &Run<'_>, folder: &Path, exported: &mut Exported) -> Result<()> {
    let experiment = run.experiment;
    let (mut entries, mut targets, mut is_transposed) = (Vec::new(), Vec::new(), false);
    for slot in &run.slots {
        let Some(layer) = slot.name.strip_suffix(UP) else { continue };
        let weight = format!("{layer}.weight");
        let Some(weight) = run.slots.iter().find(|slot| slot.name == weight) else { continue };
        let Some(parts) = run.naming.parts(&experiment.model, &weight.name, &weight.shape) else { continue };
        let (down, down_type) = run.elements(&format!("{layer}{DOWN}"))?;
        let (up, up_type) = run.elements(&slot.name)?;
        let (rank, inner) = (experiment.lora.rank, weight.shape[1]);
        let rows = rows(experiment, layer, weight.shape[0]);
        for part in parts {
            let own: Vec<Option<usize>> = (0..part.here[0]).map(|row| place(&rows, part.begin / inner + row)).collect();
            let Some(first) = own.iter().flatten().next() else { continue };
            let module = part.name.strip_suffix(".weight").unwrap_or(&part.name);
            let target = module.rsplit('.').next().unwrap_or(module).to_owned();
            if !targets.contains(&target) {
                targets.push(target);
            }
            is_transposed |= part.layout == Layout::Transposed;
            let name = |matrix: &str| format!("base_model.model.{module}.lora_{matrix}.weight");
            let entry = |matrix, shape: [usize; 2], begin, from, dtype| Entry {
                name: name(matrix),
                shape: shape.to_vec(),
                dtype,
                view: as_it_is(&shape, begin),
                from,
            };
            entries.push(entry("A", [rank, inner], 0, Elements::There(down, down_type), down_type));
            // A module there that is adapted in part has zeros in its other rows.
            let is_whole = own.iter().all(Option::is_some);
            let (begin, from) = match is_whole {
                true => (first * rank, Elements::There(up, up_type)),
                false => (0, Elements::Made(Box::new(move || filled(&own, up, rank * up_type.size())))),
            };
            entries.push(entry("B", [part.here[0], rank], begin, from, up_type));
        }
    }
    let path = folder.join(WEIGHTS);
    exported.bytes = written::write(&path, &entries)?;
    exported.files.push(path);
    let fields = configuration(experiment, &targets, is_transposed);
    exported.put_json(folder, ADAPTERS, fields.as_object().cloned().unwrap_or_default())
}

/// The configuration that PEFT reads next to the adapters.
fn configuration(experiment: &Experiment, targets: &[String], is_transposed: bool) -> Value {
    let base = experiment.weights.chosen().and_then(|path| if path.is_dir() { Some(path) } else { path.parent() });
    // The program that loads it may run in another folder.
    let base = base.map(|base| std::path::absolute(base).unwrap_or_else(|_| base.to_owned()));
    json!({
        "peft_type": "LORA",
        "task_type": "CAUSAL_LM",
        "base_model_name_or_path": base.as_deref().map(|base| base.to_string_lossy()),
        "r": experiment.lora.rank,
        "lora_alpha": experiment.lora.alpha,
        "lora_dropout": experiment.lora.dropout,
        "use_rslora": experiment.lora.rslora,
        "bias": "none",
        "target_modules": targets,
        "fan_in_fan_out": is_transposed,
        "inference_mode": true,
    })
}
