//! The check that a model computes what its weights were trained for, as far as files next to the weights show it.
//!
//! Extents alone do not show heads, windows, angles or a norm's epsilon. Always holds: a difference is refused with the
//! setting that would fix it; if no file says anything, that is reported.

use std::{fs::File, io::Read, path::Path};

use super::mapped::Mapped;
use crate::{
    error::{Error, Result},
    experiment::{
        Experiment, Model, Setting,
        hugging_face::{self, Published},
        preset,
        settings::Bears,
        weights::own,
    },
    header::unreadable,
};

/// The longest configuration that is read.
const MOST: u64 = 1 << 20;

/// Refuses a model that computes something else than the one whose weights are `mapped`; returns a note if something is not
/// known.
pub(super) fn with(mapped: &Mapped, is_own: bool, experiment: &Experiment) -> Result<Option<String>> {
    let own = own::fact(&mapped.facts, "experiment");
    if let Some(text) = own.filter(|_| is_own) {
        let path = mapped.path.join("experiment");
        let mut model = preset::parse(text, &path)?.model;
        if mapped.prunes_channels() {
            // Channels were taken out: the extents alone say how many are left.
            let own = &experiment.model;
            (model.width, model.dense, model.multiplier) = (own.width, own.dense, own.multiplier);
        }
        return same(&model, experiment, &mapped.path).map(|()| None);
    }
    let kind = experiment.model.kind;
    // The extents of other weights say all there is to say of such a model.
    if !kind.has_attention() {
        return Ok(None);
    }
    let Some(path) = &mapped.config else {
        let message =
            "there is no config.json next to the weights: heads, positions and what norms add are the experiment's";
        return Ok(Some(message.to_owned()));
    };
    let Published { model, unlike } = hugging_face::published(&text_of(path)?, path)?;
    if !unlike.is_empty() {
        let message = format!(
            "the weights are of a model with {}, which has no place here: with these weights this model would compute \
             something else; choose weights without it",
            unlike.join(", ")
        );
        return Err(Error::file(path, message));
    }
    same(&model, experiment, path).map(|()| None)
}

fn text_of(path: &Path) -> Result<String> {
    let failed = |error: std::io::Error| unreadable(path, &error);
    let mut text = String::new();
    File::open(path).map_err(failed)?.take(MOST).read_to_string(&mut text).map_err(failed)?;
    Ok(text)
}

/// Whether a setting decides what a model computes, by its value itself.
fn decides(setting: &Setting) -> bool {
    setting.group() == "model" && setting.bears() == Bears::Meaning
}

/// Refuses an experiment whose model is not `published`, which `path` says.
fn same(published: &Model, experiment: &Experiment, path: &Path) -> Result<()> {
    let own = &experiment.model;
    let theirs = Experiment { model: published.clone(), ..experiment.clone() };
    let mut mends: Vec<String> = preset::changes(experiment, &theirs)
        .into_iter()
        .filter(|change| change.split('=').next().and_then(Setting::of).is_some_and(decides))
        .collect();
    let has_heads = own.kind.has_attention();
    if has_heads && published.head_width() != own.head_width() {
        mends.push(format!("model.head_dim={}", published.head_width()));
    }
    let norms = |model: &Model| (model.epsilon(), if model.qk_norm { model.query_key_epsilon() } else { 0.0 });
    if has_heads && norms(published) != norms(own) {
        mends.push(format!("model.norm_epsilon={:?}", published.epsilon()));
    }
    if mends.is_empty() {
        return Ok(());
    }
    let message = format!(
        "the weights are of a model that differs from this experiment's, which would compute something else with them; set \
         {}, or choose other weights",
        mends.join(", ")
    );
    Err(Error::file(path, message))
}
