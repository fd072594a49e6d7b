//! The teacher of a session: a frozen model whose answers are part of the loss; and a teacher that is asked before the session
//! is made, and is gone by then.
//!
//! Always holds: it runs forward without a tape, as a test does, so that it keeps nothing for a backward pass, and its
//! weights are neither updated nor saved. Its layers have names of their own, and so has their memory. The same code makes
//! its logits whenever it is asked, in chunks if the loss is in chunks.

use std::ops::Range;

use super::{
    MicroBatch, Session,
    load::{Source, taken},
    loss::{See, rows, shown},
    loss_scale::LossScale,
    on_device::OnDevice,
    session::workspace,
};
use crate::{
    autograd::Tape,
    backend::{Backend, Executor, Tensor, ops},
    data::{Dataset, DatasetInfo, Split},
    error::Result,
    experiment::{Distil, Experiment, Placement, Prune},
    memory::{Part, Phase},
    models::Model,
    nn::Layer,
    step::device_dataset::DeviceDataset,
};

/// A model that teaches in every micro-batch.
pub(super) struct Teacher<B: Backend> {
    model: Model<B>,
}

/// The teacher's answer to a micro-batch.
pub(super) struct Lesson<'a, B: Backend> {
    /// Logits `[rows, classes]`, or features from which they are made some rows at a time.
    output: Tensor<B>,
    /// The model whose head turns features into logits, if the output is features.
    classes: Option<&'a Model<B>>,
    lesson: ops::Lesson,
}

/// The teacher's answer to some rows.
pub(super) struct Taught<B: Backend> {
    /// The teacher's logits, `[rows, classes]`. A row may have columns behind its classes.
    pub(super) logits: Tensor<B>,
    pub(super) lesson: ops::Lesson,
}

/// Asks `model`; the answer is features if the logits of all rows must not be there at once.
fn asked<'a, B: Backend>(
    model: &'a Model<B>,
    executor: &Executor<B>,
    inputs: Tensor<B>,
    in_features: bool,
    lesson: ops::Lesson,
) -> Result<Lesson<'a, B>> {
    let tape = &mut Tape::no_grad(executor);
    let output = if in_features { model.features(tape, inputs)? } else { model.forward(tape, inputs)? };
    Ok(Lesson { output: rows(output.tensor), classes: in_features.then_some(model), lesson })
}

impl<B: Backend> Lesson<'_, B> {
    /// The teacher's logits of some rows.
    pub(super) fn of(&self, executor: &Executor<B>, rows: Range<usize>) -> Result<Taught<B>> {
        let part = self.output.rows_view(rows);
        let logits = match self.classes {
            Some(model) => {
                let classes = model.classes();
                let _layer = executor.enter(classes.layer());
                classes.output(executor, &part)?
            }
            None => part,
        };
        Ok(Taught { logits, lesson: self.lesson })
    }

    /// The teacher's logits of all rows.
    pub(super) fn whole(&self, executor: &Executor<B>) -> Result<Taught<B>> {
        self.of(executor, 0..self.output.shape().rows())
    }
}

/// The model of `teacher`, with the weights that `from` has.
fn built<B: Backend>(
    executor: &Executor<B>,
    teacher: &Experiment,
    info: &DatasetInfo,
    from: &mut dyn Source,
) -> Result<Model<B>> {
    let ledger = executor.ledger();
    ledger.name_teachers(true);
    let model = if teacher.lacks_channels() {
        Model::thinned(executor, teacher, info)
    } else {
        Model::replaced(executor, teacher, info, Some(&|_, _| true))
    };
    ledger.name_teachers(false);
    let model = model?;
    taken(executor, &model, &teacher.optimizer, from)?;
    Ok(model)
}

impl<B: Backend> Session<B> {
    /// Lets the model of `teacher`, whose weights `from` has, teach in addition to the labels from the next step on.
    ///
    /// # Errors
    /// [`crate::Error::Budget`] where its weights would cross the budget; the errors of [`Model::build`] and of `from`.
    pub fn teach(&mut self, teacher: &Experiment, from: &mut dyn Source) -> Result<()> {
        self.executor.ledger().set_phase(Phase::Loading);
        let model = built(&self.executor, teacher, &self.info, from)?;
        self.teacher = Some(Teacher { model });
        Ok(())
    }

    /// The model that teaches in every micro-batch, if one does.
    pub fn teacher(&self) -> Option<&Model<B>> {
        self.teacher.as_ref().map(|teacher| &teacher.model)
    }

    /// The teacher's answers to `inputs`, as a lesson. If it has answered before, they are `answers`.
    pub(super) fn lesson(&self, inputs: &Tensor<B>, answers: Option<Tensor<B>>) -> Result<Option<Lesson<'_, B>>> {
        let Distil { temperature, weight, .. } = self.experiment.distil;
        let lesson = ops::Lesson { temperature, weight };
        match (answers, &self.teacher) {
            (Some(output), _) => Ok(Some(Lesson { output, classes: None, lesson })),
            (None, Some(Teacher { model })) => {
                let in_features = self.experiment.loss_chunk > 0;
                asked(model, &self.executor, inputs.clone(), in_features, lesson).map(Some)
            }
            (None, None) => Ok(None),
        }
    }
}

/// A teacher alone, which is asked about every training sample before the session of its student is made.
pub struct Teaching<B: Backend> {
    session: Session<B>,
    /// Rows of logits that are made at a time; 0: all at once.
    chunk: usize,
}

impl<B: Backend> Teaching<B> {
    /// The model of `teacher`, whose weights `from` has, for one that learns as `student` says.
    ///
    /// # Errors
    /// [`crate::Error::Budget`] where its weights would cross the budget; the errors of [`Model::build`] and of `from`.
    pub fn new(
        executor: Executor<B>,
        teacher: &Experiment,
        student: &Experiment,
        info: &DatasetInfo,
        from: &mut dyn Source,
    ) -> Result<Self> {
        executor.ledger().set_phase(Phase::Teach);
        executor.ledger().enter(Part::Teaching);
        let is_gpu = executor.backend().target().is_gpu();
        let workspace = if is_gpu { workspace(&executor, student.gpu.workspace)? } else { None };
        let model = built(&executor, teacher, info, from)?;
        let device_dataset = match student.data.placement {
            Placement::Device => Some(DeviceDataset::new(&executor, &student.data, info)?),
            Placement::Host | Placement::Streamed => None,
        };
        // Its channels were taken out before, and no more are.
        let experiment = Experiment { prune: Prune::default(), ..teacher.clone() };
        let session = Session {
            loss_scale: LossScale::new(experiment.precision),
            executor,
            experiment,
            info: *info,
            device_dataset,
            model,
            pruning: None,
            whole: None,
            teacher: None,
            updates: 0,
            looks_ahead: false,
            ahead: None,
            _workspace: workspace,
        };
        Ok(Self { session, chunk: student.loss_chunk })
    }

    /// Copies the training set to the device, if it is to lie there.
    ///
    /// # Errors
    /// Fails for files that cannot be read, and when the device fails.
    pub fn upload_dataset(&mut self, dataset: &Dataset) -> Result<()> {
        self.session.upload_dataset(dataset)
    }

    /// The model that teaches.
    pub fn model(&self) -> &Model<B> {
        self.session.model()
    }

    /// Asks about every micro-batch that `next` gives; `see` gets the logits of each before the next one is asked for,
    /// `[samples * labels of a sample, classes]`.
    ///
    /// # Errors
    /// [`crate::Error::Budget`] when an allocation would cross the budget, the failures of the device, and the errors of
    /// `next` and `see`.
    pub fn ask<M: MicroBatch>(&self, mut next: impl FnMut() -> Result<Option<M>>, see: &mut See<'_>) -> Result<()> {
        let Session { executor, info, model, .. } = &self.session;
        // Only its logits are used.
        let lesson = ops::Lesson { temperature: 1.0, weight: 1.0 };
        while let Some(batch) = next()? {
            executor.ledger().enter(Part::Lesson);
            let names = [info.input.label(), "labels"];
            let OnDevice { inputs, .. } = self.session.upload(batch, Split::Train, names)?;
            let said = asked(model, executor, inputs, self.chunk > 0, lesson)?;
            let rows = said.output.shape().rows();
            let each = if self.chunk == 0 { rows } else { self.chunk };
            for start in (0..rows).step_by(each.max(1)) {
                let taught = said.of(executor, start..(start + each).min(rows))?;
                let _layer = executor.enter(model.classes().layer());
                shown(executor, &taught.logits, info.classes, see)?;
            }
        }
        Ok(())
    }

    /// Frees the teacher.
    ///
    /// # Errors
    /// Fails when the device does.
    pub fn end(self) -> Result<()> {
        let executor = self.session.executor.clone();
        drop(self);
        executor.step_ended()
    }
}
