//! A run that goes on: it has all earlier measurements, and from its checkpoint on the new ones.
//!
//! Always holds: a step stands in its curves once. Earlier measurements after the checkpoint are shown until the first new
//! step, which replaces them.

use super::{RunRecord, counted};
use crate::unfinished::Came;

impl RunRecord {
    /// Takes over the name and all measurements of the run that this one goes on with.
    pub(in crate::session) fn goes_on_with(&mut self, earlier: Self) {
        let Self { shown_as, kept, when, told, own_name, train, test, trail, last, last_secs, .. } = earlier;
        (self.shown_as, self.kept, self.when) = (shown_as, kept, when);
        (self.told, self.own_name) = (told, own_name);
        (self.train, self.test, self.trail, self.last) = (train, test, trail, last);
        self.last_secs = last_secs;
        (self.steps_secs, self.measured_step) = (earlier.steps_secs, earlier.measured_step);
        (self.peak_load, self.best_accuracy) = (earlier.peak_load, earlier.best_accuracy);
        if let Some(resumed) = self.plan.as_ref().and_then(|plan| plan.resolved.resumed()) {
            // As it is kept: the best of the tests that are done again counts once it is reached again.
            self.best_of_tests(self.test.steps.partition_point(|known| *known <= resumed.step as f64));
        }
        (self.is_behind, self.has_checkpoint) = (true, true);
    }

    /// What it lacks beside steps if it was stopped, and how it is finished, to follow its result.
    pub(crate) fn lacks(&self) -> Option<String> {
        let gets_smaller = self.plan.as_ref().is_some_and(|plan| plan.smaller.is_some());
        let (steps, total) = (self.last.map_or(0, |step| step.step), self.total_steps);
        let is_tested = self.test.steps.last().is_some_and(|tested| *tested >= steps as f64);
        let goes_on = if self.has_checkpoint { ": Continue finishes it" } else { "" };
        let lacks = || format!("; {}{goes_on}", Came { steps, total, is_tested, gets_smaller }.lacks());
        (gets_smaller || steps >= total).then(lacks)
    }

    /// Gives it the name of that run of this session.
    pub(in crate::session) fn is_called_as(&mut self, own: &Self) {
        (self.shown_as, self.when, self.told) = (own.shown_as, own.when.clone(), own.told.clone());
        self.own_name.clone_from(&own.own_name);
    }

    /// A run that goes on has come to its first new step, which is number `step`, or to a test after `step - 1`: later steps
    /// than its checkpoint are measured again.
    pub(super) fn has_caught_up(&mut self, step: u64) {
        if !std::mem::take(&mut self.is_behind) {
            return;
        }
        let before = |steps: &[f64]| steps.partition_point(|known| *known < step as f64);
        let train = &mut self.train;
        let count = before(&train.steps);
        let counted = counted(&self.experiment);
        let again = train.throughput.raw().values()[count..].iter().filter(|rate| rate.is_finite());
        self.steps_secs -= again.map(|rate| counted / f64::from(*rate)).sum::<f64>();
        train.steps.truncate(count);
        train.secs.truncate(count);
        for curve in [&mut train.loss, &mut train.accuracy, &mut train.throughput, &mut train.gradient_norm] {
            curve.keep(count);
        }
        for curve in [&mut train.learning_rate, &mut train.live, &mut train.reserved, &mut train.process] {
            curve.keep(count);
        }
        let count = before(&self.test.steps);
        self.best_of_tests(count);
        let test = &mut self.test;
        test.steps.truncate(count);
        test.secs.truncate(count);
        test.loss.keep(count);
        test.accuracy.keep(count);
        self.trail.truncate(count);
    }

    /// Takes the best of the first `count` tests as the best of all: a test that is done again does not count until then.
    fn best_of_tests(&mut self, count: usize) {
        if count < self.test.steps.len() {
            let known = self.test.accuracy.values()[..count].iter().copied();
            self.best_accuracy = known.reduce(f32::max).map(f64::from);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use plimsoll_engine::{
        experiment::shipped,
        hardware::Machine,
        plan::{Resolved, predict},
    };

    use super::*;

    #[test]
    fn the_best_of_tests_that_are_done_again_is_forgotten() {
        let experiment = shipped::find("mlp-digits").expect("a shipped preset").expect("it can be read");
        let machine = Machine::nominal();
        let resolved = Resolved::new(&experiment, &machine).expect("it can be trained");
        let plan = Arc::new(predict(&resolved, &machine).expect("a plan"));
        let gone_on = |step| {
            let [mut earlier, mut run] = [1, 2].map(|run| RunRecord::new(run, Arc::clone(&plan)));
            earlier.evaluated(5, 1.0, 2.0, 0.25);
            earlier.evaluated(10, 2.0, 1.0, 0.75);
            run.goes_on_with(earlier);
            run.evaluated(step, 3.0, 1.5, 0.125);
            (run.best_accuracy, run.test.steps)
        };
        assert_eq!(gone_on(7), (Some(0.25), vec![5.0, 7.0]));
        assert_eq!(gone_on(20), (Some(0.75), vec![5.0, 10.0, 20.0]), "nothing was done again");
    }
}
