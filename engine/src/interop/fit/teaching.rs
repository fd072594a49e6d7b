//! The weights of a model that teaches.
//!
//! Refuses weights that lack a part of the model, because a part with new values has learned nothing that it could teach.

use super::{super::mapped::give_back, AFRESH, Fitted, slots};
use crate::{
    error::{Error, Problem, Result},
    experiment::{DatasetInfo, Experiment, Teacher},
    tensor::DType,
};

/// Bytes of which a checksum is made before their pages are given back.
const AT_ONCE: usize = 1 << 17;

/// The weights of the model that teaches `experiment`, fitted to it; `None` if there is no teacher. `beside` is its experiment.
///
/// # Errors
/// Fails for a teacher that has yet to be trained, for weights that cannot be read, where [`Fitted::new`] does, and for weights
/// that lack a part of the model.
pub fn teaching(experiment: &Experiment, beside: Option<&Experiment>, info: &DatasetInfo) -> Result<Option<Fitted>> {
    let Some((path, beside)) = experiment.distil.chosen().zip(beside) else { return Ok(None) };
    if Teacher::is_described(path) {
        let message = format!("{} is a preset, whose model is not trained yet", path.display());
        let mend = "train it, and choose the folder of its run; `plimsoll train` and the window do so by themselves";
        return Err(Problem::new("distil.teacher", message, mend).into());
    }
    let fitted = Fitted::open(path, beside, info)?;
    if fitted.tensors() < slots(beside, info)?.len() {
        let afresh = fitted.notes().iter().find(|note| note.contains(AFRESH));
        let why = afresh.cloned().unwrap_or_else(|| "a part of the model is not there".to_owned());
        let message = format!("cannot teach: {why}; choose a teacher that learned the same classes or tokens");
        return Err(Error::file(path, message));
    }
    Ok(Some(fitted))
}

impl Fitted {
    /// A checksum of all its tensors as the files have them; of codes, of the numbers that they stand for.
    ///
    /// # Errors
    /// Fails for a tensor that is not there by its name.
    pub fn checksum(&self) -> Result<u32> {
        let mut names: Vec<&String> = self.tensors.keys().collect();
        names.sort();
        let mut hasher = crc32fast::Hasher::new();
        for name in names {
            hasher.update(name.as_bytes());
            for piece in &self.tensors[name] {
                match piece.dtype {
                    Some(_) => {
                        for part in self.mapped.elements(&piece.name)?.chunks(AT_ONCE) {
                            hasher.update(part);
                            give_back(part);
                        }
                    }
                    None => {
                        let coded = self.mapped.coded(&piece.name, &piece.shape)?;
                        coded.into_iter().for_each(|coded| coded.in_parts(DType::F32, |part| hasher.update(part)));
                    }
                }
                self.mapped.release(&piece.name);
            }
        }
        Ok(hasher.finalize())
    }
}
