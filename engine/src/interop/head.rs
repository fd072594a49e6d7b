//! The head of published weights, if the data are the generated ones that an experiment begins with.
//!
//! Always holds: the published head answers then, with the classes that it has.

use super::{mapped::Mapped, names};
use crate::experiment::{DataKind, DatasetInfo, Experiment, Input, limits::MAX_VOCABULARY, weights::known::Known};

/// The scaling of pictures and the class names for weights whose classes are not the generated shapes of their experiment;
/// `None` for other weights, and if it is not known how their pixels were scaled.
pub(crate) fn known(experiment: &Experiment) -> Option<Known> {
    let data = experiment.whole_data();
    let [mean, deviation] = data.normalise.constants().filter(|_| data.kind == DataKind::Shapes)?;
    let classes = Mapped::open(experiment.weights.chosen()?).ok()?.classes(experiment)?;
    if classes == data.classes || !(1..=MAX_VOCABULARY).contains(&classes) {
        return None;
    }
    let factors = deviation.map(|deviation| (1.0 / (f64::from(u8::MAX) * deviation)) as f32);
    let summands: [f32; 3] = std::array::from_fn(|channel| (-mean[channel] / deviation[channel]) as f32);
    let input = Input::Image { height: data.side, width: data.side, channels: 3 };
    let info = DatasetInfo::one_label(input, classes, data.samples, data.samples);
    Some(Known { info, scaling: [factors, summands].concat(), class_names: None, is_of_conversations: false })
}

impl Mapped {
    /// The classes that the head of a model of images answers with.
    fn classes(&self, experiment: &Experiment) -> Option<usize> {
        let published = names::of(&experiment.model).filter_map(|naming| {
            let row = naming.rows.iter().find(|row| row.ours == "head.classes")?;
            Some(format!("{}.weight", row.theirs.first()?))
        });
        let mut all = published.chain(std::iter::once("head.classes.weight".to_owned()));
        let rows = all.find_map(|name| self.tensors.get(&name)?.shape.first().copied())?;
        usize::try_from(rows).ok()
    }
}
