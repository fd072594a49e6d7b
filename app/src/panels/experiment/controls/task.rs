//! A model and its data must have the same task. If a user chooses one that does not go with the other, both change.

use plimsoll_engine::{
    Experiment,
    experiment::{Data, DataKind, DataSetting, ModelKind, Placement, Task},
};

/// Gives the model data with its task, if the present ones have another.
pub(super) fn suit_data(experiment: &mut Experiment) {
    let task = experiment.model.kind.task();
    if experiment.data.kind.task() == task {
        return;
    }
    experiment.data.choose(match task {
        Task::Class | Task::Value => DataKind::Shapes,
        Task::Mask => DataKind::Masks,
        Task::Next => DataKind::Sort,
    });
    suit_images(experiment);
}

/// Gives the data a model with their task, if the present one has another.
pub(super) fn suit_model(experiment: &mut Experiment) {
    let task = experiment.data.kind.task();
    if experiment.model.kind.task() != task {
        experiment.model.kind = match task {
            Task::Class | Task::Value => ModelKind::Cnn,
            Task::Mask => ModelKind::Unet,
            Task::Next => ModelKind::Gpt2,
        };
    }
    if experiment.data.kind == DataKind::Table {
        // A row has no neighbours that a convolution could see, and waits in host memory.
        experiment.model.kind = ModelKind::Mlp;
        experiment.data.placement = Placement::Host;
    }
    suit_images(experiment);
}

/// Lets the tokenizer decide the vocabulary of a text, and gives generated tokens one.
pub(super) fn suit_vocabulary(experiment: &mut Experiment) {
    let data = &mut experiment.data;
    if data.kind.uses(DataSetting::Tokenizer) && data.chosen_vocabulary().is_none() {
        data.vocabulary = 0;
    } else if !data.kind.uses(DataSetting::Tokenizer) && data.vocabulary == 0 {
        data.vocabulary = Data::default().vocabulary;
    }
}

/// Turns settings for images off if the data are sequences or rows.
fn suit_images(experiment: &mut Experiment) {
    if !experiment.data.kind.traits().has_pictures {
        let data = &mut experiment.data;
        (data.flip, data.crop_padding, data.color_jitter) = (false, 0, 0.0);
    }
}
