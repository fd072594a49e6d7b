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
    header::{self, Element, WEIGHTS, unreadable},
    tensor::DType,
    whole_file,
};

/// The text that says which step they are of.
const STEP: &str = "plimsoll_step";

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
    let header = header::read(path, &file, WEIGHTS)?;
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
