//! Reports of a run's steps: their numbers, their measured memory, how they were fed and which were skipped.

use std::{
    hash::{DefaultHasher, Hash, Hasher},
    sync::Arc,
    time::Instant,
};

use super::{Queued, RunLoop};
use crate::{
    backend::Backend,
    bytes::Bytes,
    data::Split,
    error::{DeviceLost, Error, Problem, Result},
    memory::{Phase, Timeline, probe::uncounted},
    step::Session,
    train::{
        event::{Event, Feeding, Latest, RanBy, StepRecord},
        fed::{Fed, next},
    },
};

/// The ways of a step that were told last, by their hash.
#[derive(Debug, Default)]
pub(super) struct ToldWays(Option<u64>);

impl ToldWays {
    /// Whether these are others, which are the last ones from now on.
    fn are_news(&mut self, ways: &[&'static str]) -> bool {
        let mut hasher = DefaultHasher::new();
        ways.hash(&mut hasher);
        let hash = Some(hasher.finish());
        std::mem::replace(&mut self.0, hash) != hash
    }
}

impl RunLoop<'_, '_> {
    /// Sums up how the model was fed so far.
    pub(super) fn tell_how_fed(&mut self) {
        self.summary.data_secs = self.fed.waited.as_secs_f64();
        self.summary.data_bytes = self.loader.bytes_read();
        self.summary.batches_ready = self.fed.mean_ready();
    }

    /// Ends the run where its data took more of host memory than their budget: they were predicted to keep to it.
    pub(super) fn hold_host_budget(&self) -> Result<()> {
        let (plan, held) = (self.spec.plan, self.spec.dataset.most_bytes());
        past_host_budget(self.experiment.data.host_line(), held, plan.host.total())
            .map_or(Ok(()), |past| Err(past.into()))
    }

    /// Reports the steps whose numbers have come, and waits for those before the last `ahead`.
    pub(super) fn tell<B: Backend>(&mut self, session: &mut Session<B>, ahead: usize) -> Result<()> {
        while self.pending.len() > ahead || self.pending.front().is_some_and(|queued| queued.pending.is_ready()) {
            let Some(queued) = self.pending.pop_front() else { break };
            self.tell_of(session, queued)?;
        }
        Ok(())
    }

    fn tell_of<B: Backend>(&mut self, session: &mut Session<B>, queued: Queued) -> Result<()> {
        let Queued { step, learning_rate, pending, began, memory } = queued;
        let output = pending.wait().map_err(|error| match error {
            Error::DeviceLost(lost) => DeviceLost { place: format!("step {step}"), ..lost }.into(),
            error => error,
        })?;
        // A step that was queued behind another began when that one was done.
        let now = Instant::now();
        let secs = now.duration_since(began.max(self.came)).as_secs_f64();
        self.came = now;
        self.trained_secs += secs;
        self.summary.steps = step;
        self.summary.train_loss = Some(output.loss);
        self.summary.skipped_steps += u64::from(output.skipped);
        let (accuracy, _) = self.spec.dataset.score(Split::Train, (output.loss, output.accuracy));
        self.spec.events.send(Event::Step(StepRecord {
            step,
            loss: output.loss,
            accuracy,
            learning_rate,
            gradient_norm: output.gradient_norm,
            loss_scale: output.loss_scale,
            skipped: output.skipped,
            at_secs: self.secs(),
            secs,
            live: memory.live,
            reserved: memory.reserved,
            process: memory.process,
        }));
        if output.skipped {
            let half = output.loss_scale / 2.0;
            self.warn(|| format!("step {step}: a gradient overflowed f16, so the update was skipped and the loss scale halved to {half}"));
        }
        if output.loss.is_finite() && (output.gradient_norm.is_finite() || output.skipped) {
            return Ok(());
        }
        let batch = next(&mut self.loader, &mut Fed::default())?;
        Err(Error::NotFinite(uncounted(|| session.not_finite(step, batch))))
    }

    /// Shows the measured memory of the step, op by op; returns its highest value, the idle level included.
    pub(super) fn show_sample<B: Backend>(&mut self, session: &Session<B>, step: u64) -> Bytes {
        let mut samples = session.executor().take_samples();
        let highest = samples.iter().map(|sample| sample.high).max().unwrap_or_default();
        uncounted(|| {
            // A long accumulation is predicted by its first micro-batches: the repetitions before the update go.
            let plan = self.spec.plan;
            let timeline = plan.timeline(plan.pass_of(step));
            let points = &timeline.points;
            let update = points.iter().position(|p| p.phase == Phase::Optimizer).unwrap_or(points.len());
            let repeated = samples.len().saturating_sub(points.len());
            samples.drain(update.min(samples.len())..(update + repeated).min(samples.len()));
            let idle = self.sampler.idle();
            let measured_step: Arc<[Bytes]> = samples.iter().map(|sample| sample.high.saturating_sub(idle)).collect();
            let has_ways = samples.iter().any(|sample| !sample.way.is_empty());
            let ways: Arc<[&str]> =
                if has_ways { samples.iter().map(|sample| sample.way).collect() } else { Arc::default() };
            if has_ways && self.told_ways.are_news(&ways) {
                self.spec.events.send(Event::Ways { step, ways: ran_by(timeline, &ways) });
            }
            drop(samples);
            let waiting = self.summary.data_secs / self.trained_secs.max(f64::MIN_POSITIVE);
            let (read, held) = (self.summary.data_bytes, self.spec.dataset.most_bytes());
            let feeding = Feeding { ready: self.fed.ready, room: self.loader.ready().1, read, held };
            self.spec.events.set_latest(Latest {
                run: self.spec.id,
                measured_step,
                ways,
                measured_in_step: step,
                waiting,
                feeding,
            });
        });
        highest
    }

    /// Reports which data could not be read, when it is more than was reported before.
    pub(super) fn report_skipped(&mut self) {
        uncounted(|| {
            if let Some(skipped) = self.spec.dataset.skipped().filter(|skipped| skipped.count > self.skipped) {
                self.skipped = skipped.count;
                self.spec.events.send(Event::Warning(skipped.to_string()));
            }
        });
    }

    pub(super) fn warn(&self, text: impl FnOnce() -> String) {
        uncounted(|| self.spec.events.send(Event::Warning(text())));
    }
}

/// The ops of a timeline that ran in one of several ways, each with its own.
fn ran_by(timeline: &Timeline, ways: &[&'static str]) -> Arc<[RanBy]> {
    let ran = timeline.points.iter().zip(ways).filter(|(_, way)| !way.is_empty());
    ran.map(|(point, way)| RanBy { layer: timeline.layer(point.layer).to_owned(), op: point.op, way }).collect()
}

/// The problem that data hold more of host memory than their budget `line`, for which they were predicted to take less.
fn past_host_budget(line: Option<Bytes>, held: Bytes, predicted: Bytes) -> Option<Problem> {
    let line = line.filter(|line| held > *line)?;
    let [held, line] = held.beside(line);
    let message = format!(
        "data, batches and the threads that make them took {held} of host memory, more than the budget of {line}; {predicted} was \
         predicted"
    );
    Some(Problem::new("data.host_budget", message, "raise it, or take fewer or smaller samples"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ways_are_news_until_they_repeat() {
        let mut told = ToldWays::default();
        let steps = [["", "cuDNN"], ["", "cuDNN"], ["cuDNN", ""], ["", "cuDNN"]];
        assert_eq!(steps.map(|ways| told.are_news(&ways)), [true, false, true, true]);
    }

    #[test]
    fn data_past_their_budget_are_a_problem_with_both_figures() {
        let past = |line: Option<u64>| past_host_budget(line.map(Bytes::mib), Bytes::mib(5), Bytes::mib(4));
        assert_eq!((past(None), past(Some(5))), (None, None));
        let problem = past(Some(4)).expect("past it").to_string();
        assert!(problem.starts_with("data.host_budget: ") && problem.contains("5.00 MiB of host memory"), "{problem}");
        assert!(problem.contains("budget of 4.00 MiB"), "{problem}");
    }
}
