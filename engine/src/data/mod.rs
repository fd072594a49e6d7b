//! Data: sources, the split, and the loader thread that prepares batches.
//!
//! Owns everything between a choice of data and a batch of host numbers; no tensor and no device is touched here.
//! Always holds: the same choice and seed give the same samples, the same split and the same order; a training sample
//! is never a test sample. Refuses: files that are not exactly what their format says, before anything is allocated on
//! their word.

mod augment;
mod brackets;
mod cifar;
mod dataset;
mod device_layout;
mod digits;
mod file;
mod idx;
mod image_set;
mod images;
mod loader;
mod masks;
mod modular;
mod sequences;
mod shapes;
mod sort;
mod text;
mod tokens;

pub use dataset::{Dataset, Split};
pub use device_layout::{Chunk, DeviceDatasetLayout, Integers};
pub use images::Skipped;
pub use loader::{Batch, HostBatch, Loader};

use std::path::Path;

pub use crate::experiment::{Facts, Input};
use crate::{
    bytes::Bytes,
    error::{Error, Problem, Result},
    experiment::{Data, DataKind, Placement, Run},
};

/// The facts of a choice of data, from names, headers and sizes alone: nothing is generated or read whole.
///
/// # Errors
/// Files that are missing, unreadable or not what their format says; a choice that cannot be.
pub fn facts(data: &Data, run: &Run) -> Result<Facts> {
    // The seed decides which samples are held out, never how many.
    let _ = run;
    match data.kind {
        DataKind::Digits => digits::facts(data),
        DataKind::Shapes => shapes::facts(data),
        DataKind::Idx => idx::facts(chosen(data)?, data),
        DataKind::Cifar10 => cifar::CIFAR10.facts(chosen(data)?),
        DataKind::Cifar100 => cifar::CIFAR100.facts(chosen(data)?),
        DataKind::Images => images::facts(chosen(data)?, data),
        DataKind::Masks => masks::facts(data),
        DataKind::Modular => modular::facts(data),
        DataKind::Sort => sort::facts(data),
        DataKind::Brackets => brackets::facts(data),
        DataKind::Text => text::facts(chosen(data)?, data),
        DataKind::Tokens => tokens::facts(data),
    }
}

/// What a choice of generated data asks for that cannot be, whatever files there are.
pub(crate) fn impossible(data: &Data) -> Option<Problem> {
    let judged = match data.kind {
        DataKind::Modular => modular::facts(data).map(drop),
        DataKind::Sort => sort::facts(data).map(drop),
        DataKind::Brackets => brackets::facts(data).map(drop),
        DataKind::Tokens => tokens::facts(data).map(drop),
        DataKind::Text => text::check(data),
        _ => Ok(()),
    };
    judged.err().and_then(|error| if let Error::Experiment(problem) = error { Some(problem) } else { None })
}

/// Numbers of one sample in a batch of a part: of the image, the tokens, the labels, and the place in a training set on
/// the device. Each is four bytes.
fn numbers(data: &Data, facts: &Facts, split: Split) -> [usize; 4] {
    match facts.input {
        _ if split == Split::Train && data.placement == Placement::Device => [0, 0, 0, 1],
        Input::Image { .. } => [facts.input.elements(), 0, facts.targets, 0],
        Input::Tokens { length, .. } => [0, length, facts.targets, 0],
    }
}

/// Host bytes of the batches of `samples` of a part that a loader keeps filled or being filled.
pub(crate) fn host_bytes(data: &Data, facts: &Facts, split: Split, samples: usize) -> Bytes {
    let numbers: usize = numbers(data, facts, split).into_iter().sum();
    Bytes((loader::BUFFERS * samples * numbers * size_of::<f32>()) as u64)
}

/// Host bytes of the data set itself once it is open: its samples where they are held, and what is kept to find them
/// where they are streamed or on the device. It waits outside the budget, and outlives a run.
///
/// # Errors
/// Those of [`facts`].
pub fn held_bytes(data: &Data, facts: &Facts) -> Result<Bytes> {
    let (samples, is_held) = (facts.train + facts.test, data.placement == Placement::Host);
    let bytes = match (data.kind, facts.input) {
        (DataKind::Images, _) => images::held_bytes(chosen(data)?, data)?,
        (DataKind::Text, _) if is_held => text::bytes(chosen(data)?)?,
        (_, Input::Tokens { .. }) if is_held => sequences::held_bytes(facts),
        // The order of the samples.
        (DataKind::Shapes, _) if !is_held => samples * size_of::<u32>(),
        // The pixels and the labels.
        (kind, Input::Image { .. }) if is_held || kind == DataKind::Digits => {
            samples * (facts.input.elements() + facts.targets)
        }
        _ => 0,
    };
    let scaling = match facts.input {
        Input::Image { width, channels, .. } => 2 * width * channels * size_of::<f32>(),
        Input::Tokens { .. } => 0,
    };
    let chosen = data.path.as_ref().map_or(0, |path| path.as_os_str().len());
    Ok(Bytes((bytes + scaling + chosen) as u64))
}

/// The folder or file that was chosen.
fn chosen(data: &Data) -> Result<&Path> {
    let chosen = data.path.as_deref().filter(|path| !path.as_os_str().is_empty());
    let (what, mend) = match data.kind {
        DataKind::Text => ("no file is chosen", "choose the file to learn from"),
        _ => ("no folder is chosen", "choose the folder that holds the data files"),
    };
    Ok(chosen.ok_or_else(|| Problem::new("data.path", what, mend))?)
}

/// How many of `total` samples are for training and how many for testing: at least one each.
fn divide(total: usize, test_fraction: f64) -> Result<(usize, usize)> {
    if !(test_fraction > 0.0 && test_fraction < 1.0) {
        let message = format!("{test_fraction} of the samples cannot be held out");
        return Err(Problem::new("data.test_fraction", message, "use more than 0 and less than 1, such as 0.2").into());
    }
    let test = ((total as f64 * test_fraction).round() as usize).clamp(1, total - 1);
    Ok((total - test, test))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::experiment::limits::MAX_SAMPLES;

    #[test]
    fn facts_of_what_ships_need_no_file() {
        let facts = facts(&Data::default(), &Run::default()).expect("the digits ship");
        assert_eq!(facts, Facts::one_label(Input::Image { height: 8, width: 8, channels: 1 }, 10, 1438, 359));
        assert_eq!((facts.input.elements(), facts.steps_per_epoch(64), facts.steps_per_epoch(1439)), (64, 22, 0));
        assert_eq!(facts.steps_per_epoch(0), 0);
    }

    #[test]
    fn impossible_choices_name_their_key() {
        let key = |data: Data| match super::facts(&data, &Run::default()) {
            Err(Error::Experiment(problem)) => problem.key,
            other => panic!("{other:?}"),
        };
        for test_fraction in [0.0, 1.0, -0.5, 2.0, f64::NAN, f64::INFINITY] {
            assert_eq!(key(Data { test_fraction, ..Data::default() }), "data.test_fraction");
        }
        let shapes = Data { kind: DataKind::Shapes, ..Data::default() };
        assert_eq!(key(Data { classes: 1, ..shapes.clone() }), "data.classes");
        assert_eq!(key(Data { classes: 11, ..shapes.clone() }), "data.classes");
        assert_eq!(key(Data { samples: 1, ..shapes.clone() }), "data.samples");
        assert_eq!(key(Data { samples: MAX_SAMPLES + 1, ..shapes }), "data.samples");
        assert_eq!(key(Data { kind: DataKind::Idx, ..Data::default() }), "data.path");
        assert_eq!(key(Data { kind: DataKind::Cifar10, path: Some("".into()), ..Data::default() }), "data.path");
    }
}
