//! Notes on an experiment before it runs. They do not keep it from running.

use super::Resolved;
use crate::experiment::{
    DataKind, Normalise,
    weights::{self, own},
};

impl Resolved {
    /// Findings that its settings do not show, a line each.
    pub fn notes(&self) -> Vec<String> {
        let (chosen, whole) = (self.experiment.data.normalise, self.experiment.whole_data());
        let is_said = whole.kind.has_colours() && whole.normalise != Normalise::Auto;
        let why = if chosen == Normalise::Auto { ", as the weights were trained" } else { "" };
        let scaled = is_said.then(|| format!("pixels have {}{why}", whole.normalise.words()));
        let of_teacher = self.teacher.as_ref().and_then(|teacher| teacher.note(&self.experiment));
        let of_first = self.first.as_ref().map(|first| first.note());
        self.data
            .notes()
            .iter()
            .cloned()
            .chain(scaled)
            .chain(of_teacher)
            .chain(of_first)
            .chain(self.caution())
            .collect()
    }

    /// A warning if published weights of a language model meet another tokenizer than theirs: one of far fewer tokens, or none,
    /// so that bytes are the tokens. Weights of a run of this program that learned by bytes are as they should be.
    pub fn caution(&self) -> Option<String> {
        let is_text = matches!(self.experiment.data.kind, DataKind::Text | DataKind::Jsonl);
        let weights =
            self.experiment.weights.chosen().filter(|_| is_text && self.experiment.model.kind.is_decoder())?;
        if self.data.text_facts().is_some_and(|facts| facts.tokenizer.is_some()) {
            return self.data.few_tokens().map(str::to_owned);
        }
        let is_own = own::Own::at(weights).is_some();
        (!is_own).then(|| {
            format!(
                "no {} is next to the weights ({}), so bytes are the tokens, and to a published model they mean something \
                 else; put its tokenizer there, or choose it in data.tokenizer",
                weights::TOKENIZER,
                weights.display()
            )
        })
    }
}
