//! The rows of layers: the part of each layer in a step.

use super::dry::Dry;
use crate::{
    backend::DryRun,
    experiment::Precision,
    layer_path,
    memory::{Categories, Category, ledger::Recording, timeline::LayerId},
    models::Model,
    nn::{Layer, Param},
    plan::{HighPrecisionTensor, LayerRow, full_precision},
    step::Session,
};

/// The facts of a model, for any passes.
pub(super) struct ModelFacts {
    pub(super) parameters: u64,
    pub(super) trained: u64,
    /// Each layer with its parameters, and how many of them are trained.
    pub(super) leaves: Vec<(LayerId, [u64; 2])>,
    pub(super) high_precision: Vec<HighPrecisionTensor>,
}

impl ModelFacts {
    /// The facts of a session whose optimizer has made its state.
    pub(super) fn of(session: &Session<DryRun>, precision: Precision) -> Self {
        let (model, ledger) = (session.model(), session.executor().ledger());
        let leaf = |layer: &dyn Layer<DryRun>| {
            let [mut all, mut trained] = [0; 2];
            layer.each_param(&mut |param| {
                if param.layer() == layer.layer() {
                    all += param.numbers();
                    trained += if param.is_trained() { param.numbers() } else { 0 };
                }
            });
            (layer.layer(), [all, trained])
        };
        let path = |param: &Param<DryRun>| ledger.path_of(param.layer());
        Self {
            parameters: model.parameters(),
            trained: model.trained(),
            leaves: model.leaves().into_iter().map(leaf).collect(),
            high_precision: full_precision::of(model, precision, path),
        }
    }
}

/// The layers in forward order, between the batch and the loss, by a steady step and the pass of the run's `peak`.
pub(super) fn layer_rows(
    dry: &Dry<'_>,
    leaves: &[(LayerId, [u64; 2])],
    steady: &Recording,
    peak: &Recording,
) -> Vec<LayerRow> {
    let at_peak = peak.bytes_at_peak();
    let of = |id: LayerId| steady.layers.get(id.0 as usize).copied().unwrap_or_default();
    let bytes = |high: &Categories, categories: &[Category]| categories.iter().map(|c| high.get(*c).0).sum();
    let row = |id: LayerId, [parameters, trained]: [u64; 2]| {
        let usage = of(id);
        LayerRow {
            parameters,
            trained,
            weight_bytes: bytes(&usage.high, &[Category::Parameters, Category::MasterWeights]),
            saved_bytes: usage.saved.0,
            gradient_bytes: bytes(&usage.high, &[Category::Gradients]),
            optimizer_bytes: bytes(&usage.high, &[Category::OptimizerState]),
            peak_bytes: at_peak.get(id.0 as usize).copied().unwrap_or_default(),
            path: steady.timeline.layer(id).to_owned(),
        }
    };
    let model = leaves.iter().map(|(layer, parameters)| row(*layer, *parameters));
    // The batch and the loss are not layers of the model, but they have their share; so has a teacher, in one row.
    let ledger = dry.session.executor().ledger();
    // A teacher that was asked before the first step has nothing in a step, but may hold the blocks alive at the peak.
    let taught = dry.session.teacher();
    let of_teacher = taught.map(Model::parameters).or(dry.asked.map(|asked| asked.parameters));
    let teacher = of_teacher.map(|parameters| {
        let leaves = taught.into_iter().flat_map(Model::leaves);
        let rows: Vec<LayerRow> = leaves.map(|layer| row(layer.layer(), [0; 2])).collect();
        let at_peak = at_peak.iter().zip(&*peak.timeline.layers);
        let at_peak = at_peak.filter(|(_, path)| layer_path::in_teacher(path).is_some());
        LayerRow {
            path: layer_path::TEACHER.trim_end_matches('/').to_owned(),
            parameters,
            trained: 0,
            weight_bytes: rows.iter().map(|row| row.weight_bytes).sum(),
            saved_bytes: rows.iter().map(|row| row.saved_bytes).sum(),
            gradient_bytes: 0,
            optimizer_bytes: 0,
            peak_bytes: at_peak.map(|(bytes, _)| bytes).sum(),
        }
    });
    [ledger.layer_id("batch")]
        .into_iter()
        .map(|id| row(id, [0; 2]))
        .chain(teacher)
        .chain(model)
        .chain([row(ledger.layer_id("loss"), [0; 2])])
        .collect()
}
