//! Data: sources, the split, and the loader thread that prepares batches.
//!
//! Owns everything between a choice of data and a batch of host numbers; no tensor and no device is touched here.
//! Always holds: the same choice and seed give the same samples, the same split and the same order; a training sample
//! is never a test sample. Refuses: files that do not match their format, before it allocates anything for
//! them.

mod alphabet;
mod answers;
mod augment;
mod batch;
mod brackets;
mod cifar;
mod corpus;
mod dataset;
mod device_layout;
mod digits;
mod feed;
mod file;
mod idx;
mod image_set;
mod images;
mod inspection;
mod kept;
mod loader;
mod masks;
mod modular;
mod order;
mod picture;
mod resize;
mod rounding;
mod scaling;
mod sequences;
mod shapes;
mod sort;
mod source;
mod spirals;
mod table;
mod text;
mod tokens;
mod values;
mod weighed;

pub use alphabet::Alphabet;
pub use answers::{AnswerSizes, Answers};
pub use batch::{HostBatch, Inputs};
pub use corpus::TextFacts;
pub use dataset::{Dataset, Split};
pub use device_layout::{Chunk, DeviceDatasetLayout, Integers};
pub use feed::{Feed, HostMemory};
pub(crate) use feed::{given_back, kept_by_decoders, untouched, uploading};
pub use images::Skipped;
pub use inspection::Inspection;
pub(crate) use kept::folder_problem;
pub use loader::{Batch, Loader, Position};
pub use picture::Picture;
pub use table::{ColumnFacts, ColumnUse, TableFacts, TableRow};
pub use values::{ValueErrors, ValueScale};

pub use crate::experiment::{DatasetInfo, Input};
use crate::{
    error::{Error, Problem, Result},
    experiment::Data,
};

/// The facts of a choice of data, from names, headers and sizes alone. Generates nothing and reads no file whole.
///
/// # Errors
/// Fails for files that are missing, unreadable or not in their format, and for settings that contradict the data.
pub fn facts(data: &Data) -> Result<DatasetInfo> {
    Ok(*Inspection::of(data, None)?.info())
}

/// The problem of a choice of data that no file can solve, if it has one.
pub(crate) fn impossible(data: &Data) -> Option<Problem> {
    let judged = source::of(data).limits(data);
    judged.err().and_then(|error| if let Error::Experiment(problem) = error { Some(problem) } else { None })
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
    use crate::experiment::{DataKind, limits::MAX_SAMPLES};

    #[test]
    fn facts_of_what_ships_need_no_file() {
        let facts = facts(&Data::default()).expect("the digits ship");
        assert_eq!(facts, DatasetInfo::one_label(Input::Image { height: 8, width: 8, channels: 1 }, 10, 1438, 359));
        assert_eq!((facts.input.elements(), facts.steps_per_epoch(64), facts.steps_per_epoch(1439)), (64, 22, 0));
        assert_eq!(facts.steps_per_epoch(0), 0);
    }

    #[test]
    fn impossible_choices_name_their_key() {
        let key = |data: Data| match super::facts(&data) {
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
