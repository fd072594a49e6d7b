//! The verdict on a prediction. It is right if it is not below the measurement, and above it by at most a stated bound.

use plimsoll_engine::{
    Bytes,
    experiment::PoolPolicy,
    memory::{Category, guard::is_guarded},
    plan::{Peak, Plan},
};

/// The most by which a prediction may be above its measurement.
#[derive(Debug, Clone, Copy)]
struct Bound {
    /// The allowed share of the measured bytes.
    share: f64,
    /// Allowed on top of the share.
    extra: Bytes,
}

impl Bound {
    /// The allowance for the bytes alive: 1%, and room for work inside one op.
    const LIVE: Self = Self { share: 0.01, extra: Bytes::kib(128) };
    /// The allowance for the bytes that a GPU's pool holds from the device, and for the process there.
    const HELD: Self = Self { share: 0.03, extra: Bytes::ZERO };
    const ANYTHING: Self = Self { share: f64::INFINITY, extra: Bytes::ZERO };

    /// The allowance for the bytes alive of a preset: 1%, room for work inside one op, and what the bookkeeping of a deep model
    /// varies by in the phase that has the peak.
    fn live(plan: &Plan) -> Self {
        Self { extra: Self::LIVE.extra + plan.bookkeeping_varies(), ..Self::LIVE }
    }

    /// The allowance for the bytes alive of an experiment of any size: 1%, what is stated for the engine's bookkeeping,
    /// and a little that a short run may not come to.
    fn of_any_size(plan: &Plan) -> Self {
        Self { extra: plan.categories_at_peak.get(Category::Context) + Bytes::kib(64), ..Self::LIVE }
    }

    /// The allowance for the range that a run on the processor holds of the system: the same, and 1 MiB, because after a
    /// test that makes the range longer perhaps no step follows.
    fn range(plan: &Plan) -> Self {
        let alive = Self::of_any_size(plan);
        Self { extra: alive.extra + Bytes::mib(1), ..alive }
    }

    /// A measurement of nothing is not a measurement.
    fn holds(self, predicted: Bytes, measured: Bytes) -> bool {
        let most = measured.0 as f64 * (1.0 + self.share) + self.extra.0 as f64;
        measured > Bytes::ZERO && predicted >= measured && predicted.0 as f64 <= most
    }
}

/// The conditions for the prediction of one run.
#[derive(Debug, Clone, Copy)]
pub(super) struct Rule {
    live: Bound,
    reserved: Option<Bound>,
    process: Option<Bound>,
    /// The line that the measured load keeps to.
    line: Option<Bytes>,
}

impl Rule {
    /// The bounds for a plan. On the processor the bytes alive and the range are judged. A GPU's figures are the driver's, and all
    /// are; but a pool that is given back after each step is empty whenever the driver can be asked about the process. Of a
    /// guarded run only the bytes alive are, because nothing predicts its gaps.
    pub(super) fn of(plan: &Plan) -> Self {
        if is_guarded() {
            return Self { live: Bound::live(plan), reserved: None, process: None, line: None };
        }
        if !plan.target.is_gpu() {
            return Self { live: Bound::live(plan), reserved: Some(Bound::range(plan)), process: None, line: None };
        }
        let is_given_back = plan.experiment.gpu.pool == PoolPolicy::Release;
        // What graphs of launches take is the driver's, and they are made where launches repeat: they may be fewer than planned.
        let held = Bound { extra: plan.graphs, ..Bound::HELD };
        let process = if is_given_back { Bound::ANYTHING } else { held };
        Self { live: Bound::LIVE, reserved: Some(Bound::HELD), process: Some(process), line: None }
    }

    /// The bounds for an experiment of any size, however small: the engine's bookkeeping, which is a stated bound, may show.
    pub(super) fn of_any_size(plan: &Plan) -> Self {
        let rule = Self::of(plan);
        if plan.target.is_gpu() {
            return rule;
        }
        Self { live: Bound::of_any_size(plan), ..rule }
    }

    /// The same bounds for a run that may have done less than was planned.
    pub(super) fn at_the_most(self) -> Self {
        let any = |bound: Option<Bound>| bound.map(|_| Bound::ANYTHING);
        Self { live: Bound::ANYTHING, reserved: any(self.reserved), process: any(self.process), line: self.line }
    }

    /// The same bounds, and in addition the bytes that count against a line are never past it.
    pub(super) fn inside(self, line: Option<Bytes>) -> Self {
        Self { line, ..self }
    }

    /// Whether the prediction is right.
    pub(super) fn is_met(&self, predicted: Peak, measured: Peak) -> bool {
        let holds = |bound: Option<Bound>, predicted, measured| bound.is_none_or(|b| b.holds(predicted, measured));
        let load = if self.process.is_some() { measured.process } else { measured.live };
        self.live.holds(predicted.live, measured.live)
            && holds(self.reserved, predicted.reserved, measured.reserved)
            && holds(self.process, predicted.process, measured.process)
            && self.line.is_none_or(|line| load <= line)
    }
}

#[cfg(test)]
mod tests {
    use plimsoll_engine::{Experiment, hardware::Machine};

    use super::*;

    const ON_GPU: Rule =
        Rule { live: Bound::LIVE, reserved: Some(Bound::HELD), process: Some(Bound::HELD), line: None };

    fn peak(live: u64, reserved: u64, process: u64) -> Peak {
        Peak { live: Bytes::mib(live), reserved: Bytes::mib(reserved), process: Bytes::mib(process) }
    }

    #[test]
    fn a_prediction_below_the_measurement_is_wrong_however_close() {
        let is_right = |predicted, measured| Bound::LIVE.holds(predicted, measured);
        assert!(!is_right(Bytes::mib(100) - Bytes(1), Bytes::mib(100)));
        assert!(is_right(Bytes::mib(100), Bytes::mib(100)));
        assert!(is_right(Bytes::mib(101), Bytes::mib(100)));
        assert!(!is_right(Bytes::mib(102), Bytes::mib(100)));
        assert!(!is_right(Bytes(0), Bytes(0)));
    }

    #[test]
    fn on_the_processor_the_range_is_judged_as_well() {
        let plan = Plan::of(&Experiment::default(), &Machine::nominal()).expect("a plan");
        let (rule, context) = (Rule::of_any_size(&plan), plan.categories_at_peak.get(Category::Context));
        let measured = peak(100, 100, 100);
        let at = |live: Bytes, reserved: Bytes| {
            rule.is_met(
                Peak { live: measured.live + live, reserved: measured.reserved + reserved, ..measured },
                measured,
            )
        };
        let (live, reserved) = (context + Bytes::mib(1), context + Bytes::mib(2));
        assert!(at(live, reserved) && at(live + Bytes::kib(64), reserved + Bytes::kib(64)));
        assert!(!at(live + Bytes::kib(65), reserved) && !at(live, reserved + Bytes::kib(65)));
    }

    #[test]
    fn a_deep_model_is_allowed_what_its_bookkeeping_varies_by_and_no_more() {
        let plan = |depth| {
            let mut experiment = Experiment::default();
            (experiment.model.depth, experiment.model.width, experiment.batch.micro) = (depth, 16, 8);
            Plan::of(&experiment, &Machine::nominal()).expect("a plan")
        };
        let [shallow, deep] = [1, 401].map(|depth| plan(depth).bookkeeping_varies().0);
        assert!((200..800).contains(&((deep - shallow) / 400)), "{shallow} {deep}: bytes of a layer");
        let (rule, measured) = (Rule { reserved: None, ..Rule::of(&plan(401)) }, peak(100, 100, 100));
        let allowed = Bytes(measured.live.0 / 100 + (128 << 10) + deep);
        let is_right = |above: Bytes| rule.is_met(Peak { live: measured.live + above, ..measured }, measured);
        assert!(is_right(allowed) && !is_right(allowed + Bytes(1)));
    }

    #[test]
    fn each_figure_of_a_gpu_has_to_be_right() {
        let measured = peak(1000, 1000, 1000);
        assert!(ON_GPU.is_met(peak(1010, 1030, 1030), measured));
        for wrong in [peak(1012, 1000, 1000), peak(1000, 1031, 1000), peak(1000, 1000, 1031), peak(1000, 1000, 999)] {
            assert!(!ON_GPU.is_met(wrong, measured), "{wrong:?}");
        }
    }

    #[test]
    fn where_less_may_have_been_done_only_what_is_below_is_wrong() {
        let rule = ON_GPU.at_the_most();
        assert!(rule.is_met(peak(2000, 2000, 2000), peak(1, 2, 3)));
        assert!(!rule.is_met(peak(2000, 2000, 2000), peak(1, 2, 2001)));
    }

    #[test]
    fn the_process_is_held_to_the_line_on_a_gpu() {
        let (rule, figures) = (ON_GPU.inside(Some(Bytes::mib(1000))), peak(900, 900, 1001));
        assert!(ON_GPU.is_met(figures, figures) && !rule.is_met(figures, figures));
        assert!(rule.is_met(peak(900, 900, 1000), peak(900, 900, 1000)));
    }
}
