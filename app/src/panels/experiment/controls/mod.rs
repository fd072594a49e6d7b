//! The controls as data: key, name, lesson, stops. Tables, so that the lessons can be read side by side. At the end of a file
//! stands the list of its group's rows, by which the pane draws them.

mod data;
mod distil;
mod gpu;
mod low_rank;
mod memory;
mod model;
mod optimizer;
mod prune;
mod quantise;
mod run;
mod sequences;
mod sizes;
mod task;
mod training;
mod transformer;

pub(in crate::panels) use self::{data::source_words, model::model_words};
pub(super) use self::{
    data::*, distil::*, gpu::*, low_rank::*, memory::*, model::*, optimizer::*, prune::*, quantise::*, run::*,
    sequences::*, sizes::*, training::*, transformer::*,
};
pub(crate) use self::{
    model::{family, family_of},
    optimizer::{optimizer_of, optimizer_words},
};
use super::{
    PICKED, adapters, data as source, distil as teacher, hint, length, low_rank as ranks, picked,
    rows::Row,
    samples_an_update, table,
    trained::{saves_nothing, smaller},
};
use crate::widgets::control::{Number, Spec};

/// A number's description and stops.
type Numeric = (Spec, Number);

#[cfg(test)]
mod tests {
    use eframe::egui::{TextStyle, Ui};
    use egui_kittest::Harness;
    use plimsoll_engine::experiment::{Data, DataKind, ModelKind};

    use super::{super::rows, *};
    use crate::{
        theme,
        widgets::{control::Control, text},
    };

    /// The room of an editor in a window of 1280 points.
    const EDITOR: f32 = 158.0;

    /// Every row, of all kinds of models and data.
    fn all_rows() -> Vec<Row> {
        let groups = [
            MEMORY,
            MEMORY_REST,
            GPU,
            TRAINED,
            RANKS,
            PRUNING,
            INTEGERS,
            DISTILLATION,
            DATA_REST,
            RULE,
            RULE_REST,
            RUN,
        ];
        let models = ModelKind::ALL.into_iter().flat_map(|kind| kind.traits().settings.iter().map(|of| model_row(*of)));
        let data = DataKind::ALL.into_iter().flat_map(|kind| kind.traits().settings.iter());
        let data = data.map(|of| source_row(*of, &Data::default()));
        groups.into_iter().flatten().copied().chain(models).chain(data).collect()
    }

    #[test]
    fn every_name_and_every_choice_has_room_in_a_window_of_the_usual_size() {
        let mut found = Vec::new();
        let draw = |ui: &mut Ui| {
            let spacing = ui.spacing();
            let around = 2.0 * spacing.button_padding.x + spacing.icon_width + spacing.icon_spacing;
            let [body, button] = [TextStyle::Body, TextStyle::Button].map(|style| style.resolve(ui.style()));
            let rows = all_rows();
            let names = rows::specs(&rows).into_iter().map(|spec| spec.name);
            let sizes = ModelKind::ALL.into_iter().filter_map(published).flat_map(|(_, sizes)| sizes.options);
            let alone = [MODEL.words(), DATA.words(), CACHE.words(), CACHE_PLACE.words(), table::TASK.words()];
            let words = rows.iter().flat_map(Row::words).chain(alone.concat()).chain(sizes.map(|(_, name)| *name));
            let (names, words): (Vec<&str>, Vec<&str>) = (names.collect(), words.collect());
            found.clear();
            for (text, room, font) in names
                .iter()
                .map(|name| (*name, theme::NAME_WIDTH, &body))
                .chain(words.iter().map(|words| (*words, EDITOR - around, &button)))
            {
                let width = text::width(ui, text, font);
                if width > room {
                    found.push(format!("{text}: {width} of {room}"));
                }
            }
        };
        let harness = Harness::builder().with_context_setup(theme::install).build_ui(draw);
        drop(harness);
        found.sort_unstable();
        found.dedup();
        assert!(found.is_empty(), "{found:#?}");
    }

    #[test]
    fn a_heading_names_each_setting_once_and_none_that_a_rule_brings_along() {
        let folded: [&[Row]; 8] = [MEMORY_REST, TRAINED, RANKS, PRUNING, INTEGERS, DISTILLATION, DATA_REST, RULE_REST];
        let keys = |specs: Vec<Spec>| specs.iter().map(|spec| spec.key).collect::<Vec<_>>();
        for rows in folded {
            let mut named = keys(rows::named(rows));
            assert!(!named.is_empty());
            named.sort_unstable();
            let all = named.len();
            named.dedup();
            assert_eq!(named.len(), all, "{named:?}");
        }
        let [named, all] = [rows::named, rows::specs].map(|of| keys(of(RULE_REST)).contains(&"optimizer.beta2"));
        assert!(all && !named, "Lion comes with a beta 2 of its own");
    }
}
