//! The ranges by which the inputs of a trained model became integers, as a run keeps them next to its checkpoints.
//!
//! Always holds: the file says which step they are of, so that those of another checkpoint are never taken for this one's.

use std::{
    collections::HashMap,
    fs::File,
    io::{self, Write},
    path::Path,
};

use serde_json::json;

use super::written::{Tensor, head};
use crate::{
    error::{Error, Result},
    header::{self, Element, Words, unreadable},
    tensor::DType,
    whole_file,
};

/// The text that says which step they are of.
const STEP: &str = "plimsoll_step";

/// The words for a file of ranges, which only a run makes.
const WORDS: Words = Words {
    what: "the ranges of a run",
    choose: "train the run again",
    mend: "train the run again",
    takes_others: false,
};

/// Writes ranges by their names at `path`, of a model after `step` steps.
///
/// # Errors
/// Fails when the system takes no more.
pub(crate) fn write(path: &Path, step: u64, ranges: &[(String, [f32; 2])]) -> io::Result<()> {
    let tensor = |(name, _): &(String, [f32; 2])| {
        let element = DType::F32.safetensors_name();
        Tensor { name: name.clone(), element, shape: vec![2], bytes: size_of::<[f32; 2]>() }
    };
    let head = head(json!({ STEP: step.to_string() }), ranges.iter().map(tensor));
    let elements = ranges.iter().flat_map(|(_, range)| *range).flat_map(f32::to_le_bytes);
    let length = (head.len() as u64).to_le_bytes();
    let all: Vec<u8> = length.into_iter().chain(head.into_bytes()).chain(elements).collect();
    whole_file::write_with(path, |file| file.write_all(&all), || {})
}

/// The ranges at `path`, by their names.
///
/// # Errors
/// Fails for a file that is not there, is damaged, or is of another step than `step`.
pub(super) fn read(path: &Path, step: u64) -> Result<HashMap<String, [f32; 2]>> {
    let file = File::open(path).map_err(|error| unreadable(path, &error))?;
    let header = header::read(path, &file, WORDS)?;
    if header.facts.get(STEP).is_none_or(|own| *own != step.to_string()) {
        let message = format!("does not have the ranges of the model after step {step}; train the run again");
        return Err(Error::file_at(path, format!("header, {STEP}"), message));
    }
    let bytes = std::fs::read(path).map_err(|error| unreadable(path, &error))?;
    let range = |(name, place): (String, header::Place)| {
        let own = usize::try_from(place.begin).ok().and_then(|begin| bytes.get(begin..)?.first_chunk::<8>());
        let number = |bytes: &[u8]| bytes.try_into().map_or(f32::NAN, f32::from_le_bytes);
        match own {
            Some(own) if place.element == Element::Of(DType::F32) && place.shape == [2] => {
                Ok((name, [number(&own[..4]), number(&own[4..])]))
            }
            _ => Err(Error::file_at(path, format!("tensor {name}"), "is not a range; train the run again")),
        }
    };
    header.tensors.into_iter().map(range).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_that_are_damaged_or_of_another_step_are_made_by_training_again() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("ranges.safetensors");
        let kept = [("features.0".to_owned(), [-0.5, 0.75]), ("features.3".to_owned(), [0.0, 2.0])];
        write(&path, 4, &kept).expect("they are written");
        assert_eq!(read(&path, 4).expect("they are there"), HashMap::from(kept));
        let whole = std::fs::read(&path).expect("a file");
        let header = whole.len() - 2 * size_of::<[f32; 2]>();
        let refused = |step| {
            let said = read(&path, step).expect_err("refused").to_string();
            assert!(said.contains("ranges.safetensors") && said.ends_with("train the run again"), "{said}");
        };
        refused(5);
        for length in [0, 4, 20, header, whole.len() - 1] {
            std::fs::write(&path, &whole[..length]).expect("a shorter file");
            refused(4);
        }
        std::fs::write(&path, "no ranges at all").expect("another file");
        refused(4);
    }
}
