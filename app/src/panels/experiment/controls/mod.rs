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
use super::{
    PICKED, adapters, data as source, distil as teacher, hint, length, low_rank as ranks, picked, rows::Row,
    samples_an_update, table,
};
use crate::widgets::control::{Number, Spec};

/// A number's description and stops.
type Numeric = (Spec, Number);

#[cfg(test)]
mod tests {
    use super::{super::rows, *};

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
