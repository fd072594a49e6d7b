//! The settings in the order in which the pane draws them, from above downwards.
//!
//! Always holds: the order within a group is that of its table, which the pane draws by.

use plimsoll_engine::experiment::{Data, DataKind, ModelKind};

use super::{
    WEIGHTS,
    controls::{self, model_row, source_row},
    data,
    rows::{self, Row},
};

/// Every setting that the pane draws for any model and any data. One that several kinds draw at different places is there more
/// than once.
pub(crate) fn settings_in_order() -> Vec<&'static str> {
    rows::specs(&all()).iter().map(|spec| spec.key).collect()
}

/// The keys of those settings, each with the name of its control as it stands without the heading of its group. Where kinds of
/// models or data call a setting by several names, it is there with each.
pub(crate) fn names_of_settings() -> Vec<(&'static str, String)> {
    rows::names(&all())
}

/// The same of the settings that only some families of models use, as the pane names them for this family.
pub(crate) fn names_for_family(family: ModelKind) -> Vec<(&'static str, String)> {
    let rows: Vec<Row> = family.traits().settings.iter().map(|setting| model_row(*setting)).collect();
    rows::names(&rows)
}

/// Every row that the pane draws, from above downwards.
fn all() -> Vec<Row> {
    let models = ModelKind::ALL.into_iter().flat_map(|kind| kind.traits().settings.iter());
    let of_models: Vec<Row> = models.map(|setting| model_row(*setting)).collect();
    let sources = DataKind::ALL.into_iter().flat_map(|kind| kind.traits().settings.iter());
    let plain = Data::default();
    let of_data: Vec<Row> = sources.map(|setting| source_row(*setting, &plain)).collect();
    let (model, source) = ([Row::of(&controls::MODEL).alone("model")], [Row::of(&controls::DATA).alone("data")]);
    let (weights, path) =
        ([Row::drawn(&[WEIGHTS], |_, _, _| {})], [Row::drawn(&[data::FILE], |_, _, _| {}).alone("path of the data")]);
    let groups: [&[Row]; 18] = [
        controls::MEMORY,
        controls::MEMORY_REST,
        controls::GPU,
        &model,
        &of_models,
        &weights,
        controls::TRAINED,
        controls::RANKS,
        controls::PRUNING,
        controls::INTEGERS,
        controls::DISTILLATION,
        &source,
        &path,
        &of_data,
        controls::DATA_REST,
        controls::RULE,
        controls::RULE_REST,
        controls::RUN,
    ];
    groups.concat()
}
