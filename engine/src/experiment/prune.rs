//! Pruning: which weights become zero or are taken out, how many and when.

use crate::{
    experiment::words::words,
    experiment::{
        Experiment,
        limits::MAX_STEPS,
        settings::{KERNELS, NOTHING, settings},
    },
};

words! {
    /// Which weights of dense layers and convolutions go.
    pub enum PruneKind {
        /// No weights become zero.
        None = "none",
        /// The weights of least magnitude become zero.
        Magnitude = "magnitude",
        /// All but the largest `prune.n` of every `prune.m` neighbours become zero, as sparse tensor cores want them with 2 of
        /// 4 (Mishra et al. 2021, "Accelerating sparse deep neural networks").
        Groups = "n:m",
        /// Whole channels, which are taken out of the model in the middle of the run (Li et al. 2017, "Pruning filters for
        /// efficient convnets").
        Channels = "channels",
    }
}

words! {
    /// Among which weights the least are looked for.
    pub enum PruneScope {
        /// Each layer's own: every layer is as sparse as the others.
        Layer = "layer",
        /// The weights of all layers are compared together: a layer with larger weights keeps more of them.
        Global = "global",
    }
}

words! {
    /// How many weights are zero over the steps.
    pub enum PruneSchedule {
        /// The same share from the first pruning on.
        Constant = "constant",
        /// More and more, quickly at first (Zhu & Gupta 2017, "To prune, or not to prune").
        Polynomial = "polynomial",
    }
}

impl PruneKind {
    /// Whether nothing is pruned.
    pub fn is_none(self) -> bool {
        self == Self::None
    }

    /// Whether weights become zero and stay where they are.
    pub fn sets_to_zero(self) -> bool {
        match self {
            Self::Magnitude | Self::Groups => true,
            Self::None | Self::Channels => false,
        }
    }
}

settings! {
    /// Weights that become zero while a run trains, or channels that are taken out of it. A mask of one bit an element says
    /// which weights are zero; it is applied after each update, and training gets no smaller by it. Channels are taken out
    /// once, and training is smaller from there on.
    #[derive(Copy)]
    pub struct Prune in prune {
        /// Which weights become zero, or go.
        pub kind: PruneKind = PruneKind::None, KERNELS.quiet();
        /// Among which the least are looked for.
        pub scope: PruneScope = PruneScope::Layer, NOTHING.when(is_by_magnitude).quiet();
        /// The share of zeros from the last pruning on; of channels, the share of each layer's that is taken out.
        pub final_sparsity: f64 = 0.5, NOTHING.when(has_share).numbers(0.0, 0.999, "a share of weights").quiet();
        /// How the share grows.
        pub schedule: PruneSchedule = PruneSchedule::Polynomial, NOTHING.when(is_by_magnitude).quiet();
        /// The share of zeros at the first pruning.
        pub initial_sparsity: f64 = 0.0, NOTHING.when(grows).numbers(0.0, 0.999, "a share of weights").quiet();
        /// This many of every `prune.m` neighbours stay.
        pub n: usize = 2, NOTHING.when(is_in_groups).counts(1, 31, "a number of weights").quiet();
        /// Neighbours of a group.
        pub m: usize = 4, NOTHING.when(is_in_groups).counts(2, 32, "a number of weights").quiet();
        /// The update after which the first are pruned. Channels go after it, at the earliest after the second; 0: after half of
        /// the run.
        pub begin_step: u64 = 0, NOTHING.when(prunes).counts(0, MAX_STEPS, "a number of steps").quiet();
        /// The update after which the last are; 0: three quarters of the run.
        pub end_step: u64 = 0, NOTHING.when(sets_to_zero).counts(0, MAX_STEPS, "a number of steps").quiet();
        /// Updates from one pruning to the next.
        pub every: u64 = 10, NOTHING.when(sets_to_zero).counts(1, MAX_STEPS, "a number of steps").quiet();
    }
}

fn prunes(e: &Experiment) -> bool {
    !e.prune.kind.is_none()
}

fn sets_to_zero(e: &Experiment) -> bool {
    e.prune.kind.sets_to_zero()
}

fn has_share(e: &Experiment) -> bool {
    matches!(e.prune.kind, PruneKind::Magnitude | PruneKind::Channels)
}

fn is_by_magnitude(e: &Experiment) -> bool {
    e.prune.kind == PruneKind::Magnitude
}

fn grows(e: &Experiment) -> bool {
    is_by_magnitude(e) && e.prune.schedule == PruneSchedule::Polynomial
}

fn is_in_groups(e: &Experiment) -> bool {
    e.prune.kind == PruneKind::Groups
}

impl Prune {
    /// The step, in a run of `steps`, after which channels are taken out, whether f16 skipped its update or not; `None` if none
    /// are.
    pub fn thins_after(&self, steps: u64) -> Option<u64> {
        let after = if self.begin_step == 0 { steps / 2 } else { self.begin_step };
        // The first step differs from all others: at least one of those is made with the whole model.
        (self.kind == PruneKind::Channels).then_some(after.max(2))
    }

    /// How many of a layer's `channels` stay: at least one.
    pub fn kept(&self, channels: usize) -> usize {
        ((channels as f64 * (1.0 - self.final_sparsity)).round() as usize).clamp(1, channels.max(1))
    }

    /// The first and the last update after which weights are pruned, in a run of `steps`.
    pub fn span(&self, steps: u64) -> (u64, u64) {
        let end = if self.end_step == 0 { steps - steps / 4 } else { self.end_step };
        (self.begin_step.max(1), end.max(1))
    }

    /// The step by which pruning of a run of `steps` is over.
    pub fn last_step(&self, steps: u64) -> u64 {
        if self.kind == PruneKind::Channels { steps } else { self.span(steps).1.min(steps) }
    }

    /// Whether a run of `steps` ends before anything is pruned that should be.
    pub fn never_begins(&self, steps: u64) -> bool {
        let begin = self.thins_after(steps).unwrap_or_else(|| self.span(steps).0);
        !self.kind.is_none() && begin > self.last_step(steps)
    }

    /// The same pruning for a run of few `steps`: what would begin or end after it does so at the time that follows from the
    /// length of the run.
    #[must_use]
    pub fn within(self, steps: u64) -> Self {
        let in_time = |step: u64| if step > steps { 0 } else { step };
        let short = Self { begin_step: in_time(self.begin_step), end_step: in_time(self.end_step), ..self };
        if short.never_begins(steps) { Self { begin_step: 0, ..short } } else { short }
    }

    /// The share of zeros that the last pruning of a run of `steps` updates makes; `None` if nothing is pruned in them.
    pub fn last_sparsity(&self, steps: u64) -> Option<f64> {
        let ((begin, end), every) = (self.span(steps), self.every.max(1));
        let last = if end <= steps { end } else { begin + steps.checked_sub(begin)? / every * every };
        self.sparsity_at(last, steps)
    }

    /// The share of zeros that the pruning after update `step` of a run of `steps` makes; `None` if none follows that update.
    pub fn sparsity_at(&self, step: u64, steps: u64) -> Option<f64> {
        let (begin, end) = self.span(steps);
        let is_due = step == end || (step - begin.min(step)).is_multiple_of(self.every.max(1));
        if !self.kind.sets_to_zero() || step < begin || step > end || !is_due {
            return None;
        }
        Some(match (self.kind, self.schedule) {
            (PruneKind::None | PruneKind::Channels, _) => 0.0,
            (PruneKind::Groups, _) => 1.0 - self.n as f64 / self.m as f64,
            (PruneKind::Magnitude, PruneSchedule::Constant) => self.final_sparsity,
            (PruneKind::Magnitude, PruneSchedule::Polynomial) => {
                let left = 1.0 - (step - begin) as f64 / (end - begin).max(1) as f64;
                let left = if begin == end { 0.0 } else { left };
                self.final_sparsity + (self.initial_sparsity - self.final_sparsity) * left.powi(3)
            }
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_share_grows_along_the_cubic_and_ends_at_the_final_one() {
        let prune = Prune {
            kind: PruneKind::Magnitude,
            final_sparsity: 0.8,
            begin_step: 10,
            end_step: 50,
            every: 20,
            ..Prune::default()
        };
        let at = |step| prune.sparsity_at(step, 100);
        assert_eq!((at(9), at(10), at(11), at(50), at(51), at(70)), (None, Some(0.0), None, Some(0.8), None, None));
        // Zhu & Gupta: s = s_f + (s_i - s_f) (1 - (t - t_0) / (n dt))^3.
        assert!((at(30).expect("due") - 0.8 * (1.0 - 0.125)).abs() < 1e-12);
        let constant = Prune { schedule: PruneSchedule::Constant, ..prune };
        assert_eq!([10, 30, 50].map(|step| constant.sparsity_at(step, 100)), [Some(0.8); 3]);
        let groups = Prune { kind: PruneKind::Groups, ..prune };
        assert_eq!(groups.sparsity_at(30, 100), Some(0.5));
        assert_eq!(Prune::default().sparsity_at(10, 100), None);
    }

    #[test]
    fn the_last_share_is_that_of_the_last_pruning_that_the_run_comes_to() {
        let prune = Prune { kind: PruneKind::Magnitude, final_sparsity: 0.8, every: 7, ..Prune::default() };
        for (begin_step, end_step) in [(0, 0), (10, 50), (10, 300), (99, 300), (100, 300), (101, 300), (50, 50)] {
            let prune = Prune { begin_step, end_step, ..prune };
            let last = (1..=100).rev().find_map(|step| prune.sparsity_at(step, 100));
            assert_eq!(prune.last_sparsity(100), last, "{begin_step} to {end_step}");
        }
        assert_eq!(Prune::default().last_sparsity(100), None);
    }

    #[test]
    fn pruning_never_begins_where_no_step_is_pruned_after_and_begins_in_a_short_run_that_was_made_for_it() {
        for kind in [PruneKind::Magnitude, PruneKind::Groups, PruneKind::Channels] {
            for (begin_step, end_step) in
                [(0, 0), (1, 0), (3, 0), (4, 0), (75, 0), (76, 0), (100, 0), (101, 0), (50, 60)]
            {
                for steps in [2, 4, 100, 101] {
                    let prune = Prune { kind, begin_step, end_step, ..Prune::default() };
                    let is_pruned = |prune: Prune| match prune.thins_after(steps) {
                        Some(after) => after <= steps,
                        None => (1..=steps).any(|step| prune.sparsity_at(step, steps).is_some()),
                    };
                    assert_eq!(prune.never_begins(steps), !is_pruned(prune), "{prune:?} in {steps}");
                    assert!(is_pruned(prune.within(steps)), "{prune:?} in {steps}");
                    let is_kept = prune.within(steps) == prune;
                    assert_eq!(is_kept, is_pruned(prune) && end_step <= steps, "{prune:?} in {steps}");
                }
            }
        }
        assert!(!Prune::default().never_begins(1));
    }

    #[test]
    fn channels_go_once_and_one_of_them_always_stays() {
        let prune = Prune { kind: PruneKind::Channels, final_sparsity: 0.5, ..Prune::default() };
        assert_eq!([0, 1, 100].map(|steps| prune.thins_after(steps)), [Some(2), Some(2), Some(50)]);
        assert_eq!(Prune { begin_step: 30, ..prune }.thins_after(100), Some(30));
        assert_eq!(Prune { kind: PruneKind::Magnitude, ..prune }.thins_after(100), None);
        assert_eq!([1, 2, 3, 64].map(|channels| prune.kept(channels)), [1, 1, 2, 32]);
        assert_eq!(Prune { final_sparsity: 0.999, ..prune }.kept(8), 1);
        assert_eq!(Prune { final_sparsity: 0.0, ..prune }.kept(8), 8);
        assert_eq!(prune.sparsity_at(50, 100), None, "no weight becomes zero");
    }

    #[test]
    fn without_an_end_pruning_ends_at_three_quarters_and_a_last_one_is_always_made() {
        let prune = Prune { kind: PruneKind::Magnitude, final_sparsity: 0.6, every: 7, ..Prune::default() };
        assert_eq!(prune.span(100), (1, 75));
        assert_eq!((prune.sparsity_at(1, 100), prune.sparsity_at(75, 100)), (Some(0.0), Some(0.6)));
        assert_eq!(prune.sparsity_at(1, 1), Some(0.6), "a run of one step");
    }
}
