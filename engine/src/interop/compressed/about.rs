//! The description of a compressed file in the words of the `compressed-tensors` library: `quantization_config`.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use super::Form;
use crate::{
    experiment::{Experiment, PruneKind},
    step::stored::{self, Stored},
};

/// The `quantization_config` of a model with these tensors; `None` of one whose tensors are as they were trained, but fewer or
/// smaller.
pub(super) fn config(experiment: &Experiment, stored: &[Stored], form: Form, sparsity: f64) -> Option<Value> {
    let layer = |stored: &Stored| stored.name.trim_end_matches(".weight").to_owned();
    let stays = |stored: &&Stored| stored.name.ends_with(".weight") && stored.shape.len() > 1;
    let others = |is_other: fn(&Stored) -> bool| -> Vec<String> {
        stored.iter().filter(stays).filter(|stored| is_other(stored)).map(layer).collect()
    };
    let mut config = json!({ "quant_method": "compressed-tensors", "quantization_status": "compressed" });
    if let Some(format) = form.quantised() {
        config["format"] = format.into();
        config["config_groups"] = groups(stored, form, layer);
        config["ignore"] = others(|stored| !stored.is_integer).into();
    } else if form.is_sparse() {
        config["format"] = "dense".into();
        config["config_groups"] = json!({});
    } else {
        return None;
    }
    if form.is_sparse() {
        let structure = match experiment.prune.kind {
            PruneKind::Groups => format!("{}:{}", experiment.prune.n, experiment.prune.m),
            PruneKind::None | PruneKind::Magnitude | PruneKind::Channels => "unstructured".to_owned(),
        };
        config["sparsity_config"] = json!({
            "format": "sparse-bitmask",
            "global_sparsity": sparsity,
            "sparsity_structure": structure,
            "targets": stored.iter().filter(|stored| stored.mask.is_some()).map(layer).collect::<Vec<_>>(),
            "ignore": others(|stored| stored.mask.is_none()),
        });
    }
    Some(config)
}

/// The layers that share a form, by the size of their groups.
fn groups(stored: &[Stored], form: Form, layer: impl Fn(&Stored) -> String) -> Value {
    let mut targets: BTreeMap<Option<usize>, Vec<String>> = BTreeMap::new();
    for stored in stored.iter().filter(|stored| stored.is_integer) {
        let group = form.code().map(|code| stored::group(code, stored.shape.last().copied().unwrap_or(1)));
        targets.entry(group).or_default().push(layer(stored));
    }
    let integers = |bits: usize, is_symmetric: bool, strategy: &str| json!({ "num_bits": bits, "type": "int", "symmetric": is_symmetric, "strategy": strategy, "dynamic": false });
    let of = |(number, (group, targets)): (usize, (Option<usize>, Vec<String>))| {
        let (weights, inputs) = match (group, form.code()) {
            (Some(group), Some(code)) => {
                let mut weights = integers(stored::bits(code), true, "group");
                weights["group_size"] = group.into();
                (weights, Value::Null)
            }
            _ => (integers(8, true, "channel"), integers(8, false, "tensor")),
        };
        (format!("group_{number}"), json!({ "targets": targets, "weights": weights, "input_activations": inputs }))
    };
    targets.into_iter().enumerate().map(of).collect::<serde_json::Map<_, _>>().into()
}
