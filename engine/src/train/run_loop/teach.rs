//! The beginning of a run whose teacher is asked once: about every training sample, before the student is made.

use std::{cell::Cell, sync::Arc};

use super::RunLoop;
use crate::{
    backend::{Backend, Executor},
    bytes::Bytes,
    data::{Answers, Loader, Split},
    error::{Error, Result},
    memory::probe::{counted_on, uncounted},
    step::Teaching,
    train::{command::Inbox, event::Event},
};

/// How many times the progress of the teacher is reported.
const TOLD: usize = 100;

impl RunLoop<'_, '_> {
    /// Asks the teacher about every training sample, frees it, and feeds the run with its answers. Does nothing without a
    /// teacher, or if it is asked in every step. Commands are obeyed between micro-batches.
    pub(super) fn ask<B: Backend>(&mut self, executor: &Executor<B>, inbox: &mut Inbox<'_>) -> Result<()> {
        let (spec, dataset, resolved) = (self.spec, &self.spec.dataset, &self.spec.plan.resolved);
        let Some((sizes, teacher)) = resolved.answers().zip(resolved.teacher()) else { return Ok(()) };
        let gone = || Error::Misused("the teacher's weights were loaded before it is asked".to_owned());
        let mut weights = spec.teacher.lock().take().ok_or_else(gone)?;
        let (samples, micro, meter) = (dataset.count(Split::Train), self.experiment.batch.micro, dataset.meter());
        let mut answers = Answers::new(&self.experiment.data, sizes.of_samples(samples), meter)?;
        let made = Teaching::new(executor.clone(), teacher, self.experiment, resolved.info(), &mut weights);
        uncounted(|| drop(weights));
        self.sampler.read(Bytes::ZERO);
        let mut teaching = made?;
        teaching.upload_dataset(dataset)?;
        let (loader, mut number, at) = (&mut self.loader, 0, Cell::new(0));
        let next = || {
            inbox.listen(spec.events)?;
            let from = Loader::lesson_from(number, micro, samples);
            let done = from.map_or(samples, |_| number * micro);
            let is_news = done == samples || done * TOLD / samples != done.saturating_sub(micro) * TOLD / samples;
            if is_news || number == 0 {
                spec.events.send(Event::Teaching { done, of: samples });
            }
            number += 1;
            at.set(from.unwrap_or(samples) as u64 * sizes.each() as u64);
            loader.recv()
        };
        teaching.ask(next, &mut |_, bytes| {
            answers.write(at.get(), bytes)?;
            at.set(at.get() + bytes.len() as u64);
            Ok(())
        })?;
        self.sampler.read(Bytes::ZERO);
        teaching.end()?;
        self.answers_on_disk = answers.on_disk();
        self.loader.end();
        self.loader = counted_on(Some(meter), || spec.training_loader(Some(Arc::new(answers))))?;
        Ok(())
    }
}
