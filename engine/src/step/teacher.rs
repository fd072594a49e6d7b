//! The teacher of a session: a frozen model whose answers are part of the loss.
//!
//! Always holds: it runs forward without a tape, as a test does, so that it keeps nothing for a backward pass, and its weights
//! are neither updated nor saved. Its layers are named apart, and so is what they hold.

use std::ops::Range;

use super::{
    Session,
    load::{Source, taken},
    loss::rows,
};
use crate::{
    autograd::Tape,
    backend::{Backend, Executor, Tensor, ops},
    error::Result,
    experiment::{Distil, Experiment},
    memory::Phase,
    models::Model,
    nn::Layer,
};

/// A model that teaches.
pub(super) struct Teacher<B: Backend> {
    model: Model<B>,
    lesson: ops::Lesson,
}

/// What the teacher says to a micro-batch.
pub(super) struct Lesson<'a, B: Backend> {
    teacher: &'a Teacher<B>,
    /// Logits `[rows, classes]`, or features from which they are made some rows at a time.
    output: Tensor<B>,
    are_features: bool,
}

/// What the teacher says to some rows.
pub(super) struct Taught<B: Backend> {
    /// The teacher's logits, `[rows, classes]`.
    pub(super) logits: Tensor<B>,
    pub(super) lesson: ops::Lesson,
}

impl<B: Backend> Teacher<B> {
    /// Answers `inputs`, in features where the logits of all rows are not to be there at once.
    pub(super) fn asked(&self, executor: &Executor<B>, inputs: Tensor<B>, in_features: bool) -> Result<Lesson<'_, B>> {
        let tape = &mut Tape::no_grad(executor);
        let output = if in_features { self.model.features(tape, inputs)? } else { self.model.forward(tape, inputs)? };
        Ok(Lesson { teacher: self, output: rows(output.tensor), are_features: in_features })
    }
}

impl<B: Backend> Lesson<'_, B> {
    /// The teacher's logits of some rows.
    pub(super) fn of(&self, executor: &Executor<B>, rows: Range<usize>) -> Result<Taught<B>> {
        let part = self.output.rows_view(rows);
        let logits = if self.are_features {
            let classes = self.teacher.model.classes();
            let _layer = executor.enter(classes.layer());
            classes.output(executor, &part)?
        } else {
            part
        };
        Ok(Taught { logits, lesson: self.teacher.lesson })
    }

    /// The teacher's logits of all rows.
    pub(super) fn whole(&self, executor: &Executor<B>) -> Result<Taught<B>> {
        self.of(executor, 0..self.output.shape().rows())
    }
}

impl<B: Backend> Session<B> {
    /// Lets the model of `teacher`, whose weights `from` has, teach in addition to the labels from the next step on.
    ///
    /// # Errors
    /// [`crate::Error::Budget`] where its weights would cross the budget; the errors of [`Model::build`] and of `from`.
    pub fn teach(&mut self, teacher: &Experiment, from: &mut dyn Source) -> Result<()> {
        let (executor, ledger) = (self.executor.clone(), self.executor.ledger());
        ledger.set_phase(Phase::Loading);
        ledger.name_teachers(true);
        let model = if teacher.lacks_channels() {
            Model::thinned(&executor, teacher, &self.info)
        } else {
            Model::replaced(&executor, teacher, &self.info, Some(&|_, _| true))
        };
        ledger.name_teachers(false);
        let model = model?;
        taken(&executor, &model, &self.experiment.optimizer, from)?;
        let Distil { temperature, weight, .. } = self.experiment.distil;
        self.teacher = Some(Teacher { model, lesson: ops::Lesson { temperature, weight } });
        Ok(())
    }

    /// The model that teaches, if one does.
    pub fn teacher(&self) -> Option<&Model<B>> {
        self.teacher.as_ref().map(|teacher| &teacher.model)
    }
}
