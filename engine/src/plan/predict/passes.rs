//! The passes of a run, in its order: the first step, later steps and evaluations until they repeat, and the passes between.

use super::{dry::Dry, layer_rows::ModelFacts};
use crate::{error::Result, memory::tally};

/// The most steps and evaluations that are run until the pool is as it was before.
const PASSES: u64 = 16;

/// The recordings of a run's passes, by number. The pass in which a teacher is asked before the first step has number 0.
pub(super) struct Passes {
    /// The first step, with the making of the model; that alone if no step is left.
    pub(super) first: usize,
    /// The passes of the model as it is built, after the first step.
    pub(super) whole: OfModel,
    /// Taking channels out, and the passes of the model after that.
    pub(super) thinned: Option<(usize, OfModel)>,
    /// The pass in which the trained model becomes integers, the last of all; empty if there is none.
    pub(super) compress: usize,
}

/// The recordings of a model's passes.
pub(super) struct OfModel {
    /// The last step; `None` if there is none.
    pub(super) steady: Option<usize>,
    /// The first evaluation; `None` if none is due.
    pub(super) first_evaluate: Option<usize>,
    /// The last evaluation; `None` if none is due.
    pub(super) evaluate: Option<usize>,
    /// The writing of a checkpoint.
    pub(super) save: usize,
    /// Predicted seconds of the last step.
    pub(super) step_secs: f64,
    /// Predicted seconds of an evaluation; zero if none is due.
    pub(super) test_secs: f64,
}

/// Layouts of a pool that came up, few enough to look through.
#[derive(Default)]
pub(super) struct Layouts {
    hashes: [u64; PASSES as usize + 1],
    count: usize,
}

impl Layouts {
    /// The most that are looked at.
    pub(super) const MOST: usize = PASSES as usize;

    fn contains(&self, layout: u64) -> bool {
        self.hashes[..self.count].contains(&layout)
    }

    /// Whether it is a new one.
    pub(super) fn insert(&mut self, layout: u64) -> bool {
        let is_new = !self.contains(layout);
        if is_new {
            self.hashes[self.count] = layout;
            self.count += 1;
        }
        is_new
    }
}

impl Dry<'_> {
    /// The first step and those that follow, on the model before channels are taken out and on the one after that.
    pub(super) fn passes(&mut self) -> Result<Passes> {
        let left = self.resolved.steps_left();
        // A run may go on from its last step, with nothing left but a test.
        if left > 0 {
            self.step()?;
        }
        let first = self.take_recording();
        let will_be_thinned = left > 0 && !self.session.is_thinned();
        let Some(after) = self.resolved.thinned_after().filter(|_| will_be_thinned) else {
            let is_tested = left > 0 || !self.resolved.is_tested();
            let whole = self.until_repeated(left.saturating_sub(1), is_tested)?;
            return Ok(Passes { first, whole, thinned: None, compress: self.compressed()? });
        };
        let before = left.min(after.saturating_sub(self.resolved.steps_done())).max(1);
        // A run that should have done it already does it after its next step.
        let whole = self.until_repeated((before - 1).max(u64::from(left > 1)), self.resolved.tests_whole_model())?;
        self.whole = Some(tally::suspended(|| ModelFacts::of(&self.session, self.resolved.experiment().precision)));
        self.session.take_out_channels()?;
        let prune = self.take_recording();
        let thinned = self.until_repeated(left - before, true)?;
        Ok(Passes { first, whole, thinned: Some((prune, thinned)), compress: self.compressed()? })
    }

    /// Plans the change of the trained model into a smaller one. Returns the recording's number.
    fn compressed(&mut self) -> Result<usize> {
        self.compress()?;
        self.smaller = tally::suspended(|| self.session.smaller());
        Ok(self.take_recording())
    }

    /// Runs at most `left` steps, and evaluations in turn with them if the model `is_tested`, until both leave the pool as they
    /// did before.
    fn until_repeated(&mut self, left: u64, is_tested: bool) -> Result<OfModel> {
        let (mut after_steps, mut after_evaluations) = (Layouts::default(), Layouts::default());
        after_steps.insert(self.layout());
        let mut left = left.min(PASSES);
        let (mut steady, mut step_secs, mut test_secs, mut first_evaluate) = (None, 0.0, 0.0, None);
        loop {
            while left > 0 {
                left -= 1;
                step_secs = self.step()?;
                steady = Some(self.take_recording());
                if !after_steps.insert(self.layout()) {
                    break;
                }
            }
            let mut evaluate = None;
            if is_tested {
                test_secs = self.evaluate()?;
                evaluate = Some(self.take_recording());
                first_evaluate = first_evaluate.or(evaluate);
            }
            let layout = self.layout();
            if left == 0 || !is_tested || after_steps.contains(layout) || !after_evaluations.insert(layout) {
                self.save()?;
                let save = self.take_recording();
                return Ok(OfModel { steady, first_evaluate, evaluate, save, step_secs, test_secs });
            }
        }
    }

    /// Where the pool has room.
    fn layout(&self) -> u64 {
        self.session.executor().ledger().fingerprint()
    }
}
