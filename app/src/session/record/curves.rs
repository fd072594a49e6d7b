//! The curves of a run in the form that tables, figures and files take.

use plimsoll_engine::{
    Bytes,
    report::curves::{Curve, Curves, Group, names},
};

use super::RunRecord;
use crate::widgets::series::Series;

/// The number of 64 bits that reads as this one does.
fn exact(value: &f32) -> f64 {
    value.to_string().parse().unwrap_or(f64::NAN)
}

impl RunRecord {
    /// Its curves, as tables and figures take them.
    pub(crate) fn curves(&self) -> Curves {
        let (train, test) = (&self.train, &self.test);
        let of_steps = [
            (names::TRAIN_LOSS, train.loss.raw()),
            (names::TRAIN_ACCURACY, train.accuracy.raw()),
            (names::LEARNING_RATE, &train.learning_rate),
            (names::GRADIENT_NORM, train.gradient_norm.raw()),
            (names::THROUGHPUT, train.throughput.raw()),
        ];
        let of_memory =
            [(names::LIVE, &train.live), (names::RESERVED, &train.reserved), (names::PROCESS, &train.process)];
        let of_tests = [(names::TEST_LOSS, &test.loss), (names::TEST_ACCURACY, &test.accuracy)];
        let curve = |(name, series): (&str, &Series)| Curve::named(name, series.values().iter().map(exact).collect());
        let bytes = |mib: &f32| Bytes::from_mib(f64::from(*mib)).0 as f64;
        let memory = |(name, series): (&str, &Series)| Curve::named(name, series.values().iter().map(bytes).collect());
        let mut steps: Vec<Curve> = of_steps.map(curve).into_iter().chain(of_memory.map(memory)).collect();
        steps.retain(|curve| curve.values.iter().any(|value| !value.is_nan()));
        let whole = |steps: &[f64]| steps.iter().map(|step| *step as u64).collect();
        let groups = vec![
            Group { steps: whole(&train.steps), secs: train.secs.clone(), curves: steps },
            Group { steps: whole(&test.steps), secs: test.secs.clone(), curves: of_tests.map(curve).to_vec() },
        ];
        Curves { groups, began_secs: None }
    }
}
