//! What can be and was probably not meant.

use crate::{
    error::Problem,
    experiment::{DataSetting, DatasetInfo, Experiment, ModelSetting, Stem},
};

/// Sides of images from which the stem for small images is probably not meant.
const LARGE_SIDE: usize = 128;

/// What can be and was probably not meant, with the change that would mend it.
#[derive(Debug, Clone, PartialEq)]
pub struct Hint {
    /// What is odd, and what would mend it.
    pub problem: Problem,
    /// The mend, for [`preset::set`](crate::experiment::preset::set).
    pub change: &'static str,
}

/// What about `experiment` can be and was probably not meant. Without `info`, only where the settings alone tell the size of
/// an image.
pub fn hints(experiment: &Experiment, info: Option<&DatasetInfo>) -> Vec<Hint> {
    let Experiment { model, data, .. } = experiment;
    let chosen = || data.kind.uses(DataSetting::Side).then_some(data.side);
    let found = info.and_then(|info| info.image().ok()).map(|[height, width, _]| height.min(width));
    let side = found.or_else(chosen).unwrap_or(0);
    if !model.kind.uses(ModelSetting::Stem) || model.stem != Stem::Small || side < LARGE_SIDE {
        return Vec::new();
    }
    let message = format!(
        "the stem for small images keeps images of {side} x {side} at their size: the activations take about 16 times what \
         published models take"
    );
    let problem = Problem::new("model.stem", message, "write \"imagenet\" for images this large");
    vec![Hint { problem, change: "model.stem=imagenet" }]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::experiment::{Data, DataKind, Input, Model, ModelKind, preset};

    #[test]
    fn a_small_stem_under_large_images_is_hinted_at_and_its_mend_ends_the_hint() {
        let of = |kind, side| Experiment {
            model: Model { kind, ..Model::default() },
            data: Data { kind: DataKind::Shapes, side, ..Data::default() },
            ..Experiment::default()
        };
        for kind in [ModelKind::Resnet, ModelKind::Mobilenetv1, ModelKind::Mobilenetv2] {
            assert_eq!(hints(&of(kind, 96), None), []);
            let mut experiment = of(kind, 224);
            let found = hints(&experiment, None);
            assert_eq!(found.len(), 1, "{kind:?}");
            assert!(found[0].problem.message.contains("224 x 224"), "{}", found[0].problem);
            preset::set(&mut experiment, found[0].change).expect("a change");
            assert_eq!(hints(&experiment, None), []);
        }
        assert_eq!(hints(&of(ModelKind::Cnn, 224), None), []);
        // What the files hold counts, where it is known.
        let input = Input::Image { height: 160, width: 200, channels: 1 };
        let info = DatasetInfo::one_label(input, 10, 100, 10);
        assert_eq!(hints(&of(ModelKind::Resnet, 32), Some(&info)).len(), 1);
    }
}
