//! Faults of weights, in words that say how to fix them.

use std::collections::HashSet;

use super::{
    super::{mapped::Mapped, names::Naming, slots::RANGE},
    AFRESH,
    matching::Match,
};
use crate::{
    error::{Error, Result},
    experiment::{DatasetInfo, Experiment},
    header,
};

/// How many tensors a message names.
const NAMED: usize = 3;

/// A fault that some tensors have, and their names.
type Wrong = (&'static str, Vec<String>);

impl Mapped {
    /// The notes on parts that begin with new values because they are missing, and the faults: missing, misshapen, mistyped
    /// or left over.
    pub(super) fn wrongs(
        &self,
        found: &Match,
        naming: Option<&Naming>,
        experiment: &Experiment,
    ) -> Result<(Vec<String>, Vec<Wrong>)> {
        let mut notes = Vec::new();
        // A model without its head, such as the base of other models. A decoder's may be tied to its tokens, which the file
        // next to the weights says.
        let is_decoder = experiment.model.kind.is_decoder();
        let is_bare = !is_decoder || (self.config.is_some() && !experiment.model.tied);
        let (heads, missing): (Vec<&String>, Vec<&String>) = found.missing.iter().partition(|name| {
            let head = naming.and_then(|naming| naming.rows.iter().find(|row| row.ours == "head.classes"));
            let layer = name.rsplit_once('.').map_or("", |(layer, _)| layer);
            is_bare && head.map_or(layer == "head.classes", |row| row.theirs == [layer])
        });
        if !heads.is_empty() {
            notes.push(format!("the head {AFRESH}: the file has none"));
        }
        let owned = |names: Vec<&String>| names.into_iter().cloned().collect();
        let all = [
            ("tensors are missing", owned(missing)),
            ("tensors have other extents", found.misshapen.clone()),
            ("tensors have elements of types that are not weights here", found.mistyped.clone()),
            ("tensors have no place in the model", self.left_over(&found.used, naming, experiment)?),
        ];
        let wrong = all.into_iter().filter(|(_, names): &Wrong| !names.is_empty()).collect();
        Ok((notes, wrong))
    }

    /// Refuses faults, and says how to fix them; returns notes on the parts that begin with new values because they are
    /// missing.
    pub(super) fn refuse_others(
        &self,
        found: &Match,
        naming: Option<&'static Naming>,
        experiment: &Experiment,
        info: &DatasetInfo,
    ) -> Result<Vec<String>> {
        let (notes, wrong) = self.wrongs(found, naming, experiment)?;
        if wrong.is_empty() {
            return Ok(notes);
        }
        let list = |(what, names): &Wrong| {
            let some: Vec<String> = names.iter().take(NAMED).cloned().collect();
            let more = names.len().saturating_sub(NAMED);
            let more = if more > 0 { format!(" and {more} more") } else { String::new() };
            format!("{what}: {}{more}", some.join(", "))
        };
        let told: Vec<String> = wrong.iter().map(list).collect();
        let refused =
            |mend: &str| Err(Error::file(&self.path, format!("does not fit this model: {}; {mend}", told.join("; "))));
        if let Some(mend) = self.other_factors(&experiment.low_rank) {
            return refused(&mend);
        }
        if self.prunes_channels() {
            let settings = self.settings_that_fit(naming, experiment, info);
            let set = settings
                .map_or(String::new(), |settings| format!("set {}, as the weights have it, ", settings.join(", ")));
            return refused(&format!(
                "channels were taken out of that run's model, and these settings have other widths; {set}go on with that run \
                 by `plimsoll resume`, or name the run itself as the teacher and not a file of it (distil.teacher)"
            ));
        }
        // The weights of a run that trained adapters, and this experiment has other adapters or none.
        let is_there = |name: &String| !found.missing.contains(name) && !found.mistyped.contains(name);
        let mut names = wrong.iter().flat_map(|(_, names)| names);
        if names.all(|name| name.contains(".adapter_") && is_there(name)) {
            return refused(
                "write lora.rank and lora.targets as the run of these weights has them, or export that run with --merge \
                 and begin from the exported weights",
            );
        }
        if wrong.iter().all(|(_, names)| *names == found.mistyped) {
            return refused("save them as F32, F16 or BF16 where the file comes from");
        }
        if let Some(settings) = self.settings_that_fit(naming, experiment, info) {
            return refused(&format!("set {}, as the weights have it, or choose others", settings.join(", ")));
        }
        let is_tied = |names: &[String]| names == ["lm_head.weight"] || names == ["head.classes.weight"];
        refused(match wrong.iter().any(|(what, names)| what.ends_with("missing") && is_tied(names)) {
            true => "write model.tied = true, because the file has no head of its own",
            false => {
                "give the experiment the sizes of the weights (a folder with config.json opens with them), or choose others"
            }
        })
    }

    /// The tensors that were not used and are not constants.
    fn left_over(
        &self,
        used: &HashSet<String>,
        naming: Option<&Naming>,
        experiment: &Experiment,
    ) -> Result<Vec<String>> {
        let mut left = Vec::new();
        for name in self.tensors.keys().filter(|name| !used.contains(*name)) {
            let is_constant = match naming {
                Some(naming) => naming.constants.iter().any(|end| name.ends_with(end)),
                None => name.starts_with("optimizer.") || name.ends_with(RANGE),
            };
            let is_copy = || experiment.model.tied && name == "lm_head.weight" && naming.is_some();
            if is_constant {
                continue;
            }
            if is_copy() {
                let tokens = naming.and_then(|naming| {
                    let row = naming.rows.iter().find(|row| row.ours == "embedding")?;
                    self.named(&format!("{}.weight", row.theirs[0]), Some(naming))
                });
                if let Some((tokens, _)) = tokens
                    && self.elements(tokens)? == self.elements(name)?
                {
                    continue;
                }
                let message =
                    "is not the table of the tokens, and the model's head is tied to it; write model.tied = false";
                return Err(Error::file_at(&self.path, format!("tensor {name}"), message));
            }
            left.push(name.clone());
        }
        left.sort();
        Ok(left.iter().map(|name| header::shown(name)).collect())
    }

    pub(super) fn foreign(&self) -> Error {
        let mut names: Vec<&String> = self.tensors.keys().collect();
        names.sort();
        let some: Vec<String> = names.iter().take(NAMED).map(|name| header::shown(name)).collect();
        if names.is_empty() {
            return Error::file(&self.path, "has no tensor at all; fetch or save it again, or choose another file");
        }
        let message = format!(
            "has none of the tensors of this model: it has {} others ({}); choose weights of the same architecture",
            names.len(),
            some.join(", ")
        );
        Error::file(&self.path, message)
    }
}
