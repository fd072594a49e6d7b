//! The ranges by which the inputs of a trained model became integers, as a run keeps them next to its checkpoints.
//!
//! Always holds: the file says which step they are of, and the checksum of the checkpoint that they belong to, so that those of
//! another checkpoint are never taken for this one's, and a checksum of its own. Files of earlier versions say less. Refuses
//! numbers that are no range.

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

/// The text that has the checksum of their checkpoint.
const CHECKPOINT: &str = "plimsoll_checkpoint";

/// The text that has their own checksum.
const OWN: &str = "plimsoll_ranges";

/// The words for a file of ranges, which only a run makes.
const WORDS: Words = Words {
    what: "the ranges of a run",
    choose: "train the run again",
    mend: "train the run again",
    takes_others: false,
};

/// Writes ranges by their names at `path`, of a model after `step` steps whose checkpoint has this checksum.
///
/// # Errors
/// Fails when the system takes no more.
pub(crate) fn write(
    path: &Path,
    (step, checksum): (u64, Option<String>),
    ranges: &[(String, [f32; 2])],
) -> io::Result<()> {
    let tensor = |(name, _): &(String, [f32; 2])| {
        let element = DType::F32.safetensors_name();
        Tensor { name: name.clone(), element, shape: vec![2], bytes: size_of::<[f32; 2]>() }
    };
    let mut facts = json!({ STEP: step.to_string() });
    if let Some(checksum) = checksum {
        facts[CHECKPOINT] = checksum.into();
    }
    let elements: Vec<u8> = ranges.iter().flat_map(|(_, range)| *range).flat_map(f32::to_le_bytes).collect();
    facts[OWN] = own_checksum(&elements).into();
    let head = head(facts, ranges.iter().map(tensor));
    let length = (head.len() as u64).to_le_bytes();
    let all: Vec<u8> = length.into_iter().chain(head.into_bytes()).chain(elements).collect();
    whole_file::write_with(path, |file| file.write_all(&all), || {})
}

fn own_checksum(elements: &[u8]) -> String {
    format!("{:08x}", crc32fast::hash(elements))
}

/// The ranges at `path`, by their names, of the model after `step` steps whose checkpoint has this `checksum`.
///
/// # Errors
/// Fails for a file that is not there, is damaged, has numbers that are no range, or is of another step or checkpoint.
pub(super) fn read(path: &Path, step: u64, checksum: Option<&String>) -> Result<HashMap<String, [f32; 2]>> {
    let file = File::open(path).map_err(|error| unreadable(path, &error))?;
    let header = header::read(path, &file, WORDS)?;
    if header.facts.get(STEP).is_none_or(|own| *own != step.to_string()) {
        let message = format!("does not have the ranges of the model after step {step}; train the run again");
        return Err(Error::file_at(path, format!("header, {STEP}"), message));
    }
    if header.facts.get(CHECKPOINT).zip(checksum).is_some_and(|(own, checkpoint)| own != checkpoint) {
        let message = "the ranges are of another checkpoint, such as that of another run; bring back the run's own file, or \
                       train the run again";
        return Err(Error::file_at(path, format!("header, {CHECKPOINT}"), message));
    }
    let bytes = std::fs::read(path).map_err(|error| unreadable(path, &error))?;
    let begin = header.tensors.values().map(|place| place.begin).min().unwrap_or_default();
    let elements = usize::try_from(begin).ok().and_then(|begin| bytes.get(begin..)).unwrap_or_default();
    if header.facts.get(OWN).is_some_and(|own| *own != own_checksum(elements)) {
        let message = "the numbers are not those that were written; the file is damaged: train the run again";
        return Err(Error::file_at(path, format!("header, {OWN}"), message));
    }
    let range = |(name, place): (String, header::Place)| {
        let wrong = |what: String| Err(Error::file_at(path, format!("tensor {}", header::shown(&name)), what));
        let own = usize::try_from(place.begin).ok().and_then(|begin| bytes.get(begin..)?.first_chunk::<8>());
        let number = |bytes: &[u8]| bytes.try_into().map_or(f32::NAN, f32::from_le_bytes);
        let is_pair = place.element == Element::Of(DType::F32) && place.shape == [2];
        let Some(own) = own.filter(|_| is_pair) else {
            return wrong("is not a range; train the run again".to_owned());
        };
        let [low, high] = [number(&own[..4]), number(&own[4..])];
        // Zero is in every range: padding is zeros.
        if !(high - low).is_finite() || low > 0.0 || high < 0.0 {
            return wrong(format!("is from {low} to {high}, which is not a range; train the run again"));
        }
        Ok((name, [low, high]))
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
        let [own, other] = ["00c0ffee", "0badcafe"].map(str::to_owned);
        write(&path, (4, Some(own.clone())), &kept).expect("they are written");
        assert_eq!(read(&path, 4, Some(&own)).expect("they are there"), HashMap::from(kept.clone()));
        let said = read(&path, 4, Some(&other)).expect_err("of another run").to_string();
        assert!(said.contains("the ranges are of another checkpoint"), "{said}");
        let whole = std::fs::read(&path).expect("a file");
        let header = whole.len() - 2 * size_of::<[f32; 2]>();
        let refused = |step| {
            let said = read(&path, step, Some(&own)).expect_err("refused").to_string();
            assert!(said.contains("ranges.safetensors") && said.ends_with("train the run again"), "{said}");
        };
        refused(5);
        let mut flipped = whole.clone();
        flipped[header] ^= 1;
        std::fs::write(&path, flipped).expect("another bit");
        refused(4);
        for length in [0, 4, 20, header, whole.len() - 1] {
            std::fs::write(&path, &whole[..length]).expect("a shorter file");
            refused(4);
        }
        std::fs::write(&path, "no ranges at all").expect("another file");
        refused(4);
    }

    #[test]
    fn what_is_no_range_is_refused_by_its_name_and_an_earlier_version_said_the_step_alone() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("ranges.safetensors");
        let of = |range: [f32; 2]| {
            let kept = [("features.0".to_owned(), [-1.0, 1.0]), ("features.3".to_owned(), range)];
            write(&path, (4, None), &kept).expect("they are written");
            read(&path, 4, Some(&"00c0ffee".to_owned()))
        };
        for range in [[0.0, 0.0], [-0.5, 0.75], [-f32::MIN_POSITIVE, 0.0]] {
            assert_eq!(of(range).expect("a range")["features.3"], range);
        }
        for range in [[f32::NAN, 1.0], [0.0, f32::INFINITY], [2.0, 1.0], [5.0, 5.0], [-2.0, -1.0], [f32::MIN, f32::MAX]]
        {
            let said = of(range).expect_err("no range").to_string();
            let what = format!("is from {} to {}, which is not a range", range[0], range[1]);
            assert!(said.contains("tensor features.3") && said.contains(&what), "{said}");
        }
    }
}
