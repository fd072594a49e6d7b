//! The tensors of an experiment's model, as a file of it would have them.

use crate::{
    backend::{DryRun, Executor, Rates, Shape},
    device::{Processor, Target},
    error::Result,
    experiment::{DatasetInfo, Experiment},
    memory::{Bookkeeping, Ledger},
    step::{Session, load::Source},
    tensor::DType,
};

/// How the range of a layer's inputs is called, which a model learns that is to become one of integers.
pub(super) const RANGE: &str = ".input_range";

/// A tensor of a model, as a file of it would have it.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Slot {
    pub(super) name: String,
    pub(super) shape: Vec<usize>,
    pub(super) dtype: DType,
}

/// The tensors of the experiment's model, made dry.
pub(super) fn slots(experiment: &Experiment, info: &DatasetInfo) -> Result<Vec<Slot>> {
    struct Listed(Vec<Slot>);
    impl Source for Listed {
        fn find(&mut self, name: &str, shape: Shape, dtype: DType) -> Result<bool> {
            self.0.push(Slot { name: name.to_owned(), shape: shape.dims().to_vec(), dtype });
            Ok(false)
        }

        fn read(&mut self, _: &mut [u8]) -> Result<()> {
            Ok(())
        }
    }
    let mut listed = Listed(Vec::new());
    let mut session = dry(experiment, info)?;
    if experiment.lacks_channels() {
        session.thin()?;
    }
    session.load(&mut listed)?;
    Ok(listed.0)
}

/// Whether the experiment's model has the same tensors for data of both kinds.
///
/// # Errors
/// Fails when the model cannot be built for one of them.
pub(crate) fn are_alike(experiment: &Experiment, [first, second]: [&DatasetInfo; 2]) -> Result<bool> {
    Ok(slots(experiment, first)? == slots(experiment, second)?)
}

/// A session of the experiment's model that has no elements.
pub(super) fn dry(experiment: &Experiment, info: &DatasetInfo) -> Result<Session<DryRun>> {
    let ledger = Ledger::new(None, false);
    // The bookkeeping of a run of it is not computed.
    ledger.keep_books(Bookkeeping::default());
    let executor = Executor::new(DryRun::new(Target::Cpu(Processor::with_threads(1)), Rates::NOMINAL), ledger);
    Session::new(executor, experiment, info)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::experiment::{Frozen, Input, Lora, Model, ModelKind, Task, check::hints};

    #[test]
    fn adapters_that_no_layer_has_are_hinted_at() {
        for kind in ModelKind::ALL {
            let image = Input::Image { height: 32, width: 32, channels: 3 };
            let info = match kind.traits().task {
                Task::Next => DatasetInfo::label_each_token(8, 16, 100, 10),
                Task::Class | Task::Value => DatasetInfo::one_label(image, 10, 100, 10),
                Task::Mask => {
                    let one = DatasetInfo::one_label(image, 10, 100, 10);
                    DatasetInfo { labels_per_sample: 32 * 32, scored_labels: 32 * 32, ..one }
                }
            };
            for frozen in [Frozen::None, Frozen::AllButHead, Frozen::All] {
                let model = Model { kind, width: 8, heads: 2, kv_heads: 2, hidden: 8, ..Model::default() };
                let without = Experiment { model, frozen, ..Experiment::default() };
                let with = Experiment { lora: Lora { rank: 2, ..Lora::default() }, ..without.clone() };
                let [before, now] = [&without, &with].map(|e| slots(e, &info).expect("it can be built").len());
                let is_hinted = hints(&with, Some(&info)).iter().any(|hint| hint.problem.key == "lora.rank");
                assert_eq!(is_hinted, now == before, "{kind:?} {frozen:?}");
                assert!(hints(&without, Some(&info)).is_empty(), "{kind:?} {frozen:?}");
            }
        }
    }
}
