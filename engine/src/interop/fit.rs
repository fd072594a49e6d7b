//! Weights that fit a model: each of its tensors with the source of its elements.
//!
//! Owns [`Fitted`], which a session is loaded from. Always holds: every tensor of the model was found with its extents, or
//! begins with new values, which is reported; every tensor of the files was used, or is a constant. Refuses weights with a
//! tensor that is missing, misshapen or left over, and weights of a model that computes something else, because it would
//! train as another model.

mod factored;
mod matching;
mod mends;
mod reading;
mod teaching;
mod wrongs;

use std::{collections::HashMap, path::Path};

use super::{
    agrees,
    layout::View,
    low_rank::{self, Factors},
    mapped::Mapped,
    names,
    slots::slots,
};
use crate::{
    error::Result,
    experiment::{DatasetInfo, Experiment},
    memory::probe::Meter,
    tensor::DType,
};

pub use teaching::teaching;

/// The words of notes for a part that is missing.
const AFRESH: &str = "begins with new values";

/// Where some elements of a tensor come from.
struct Piece {
    /// The tensor of the file; of one that lies there as codes, the weight that they stand for.
    name: String,
    /// `None` of codes.
    dtype: Option<DType>,
    view: View,
    shape: Vec<usize>,
}

/// Weights that a session of one experiment can be loaded from.
pub struct Fitted {
    mapped: Mapped,
    naming: &'static str,
    tensors: HashMap<String, Vec<Piece>>,
    /// The factors of a factored model whose weights lie here whole.
    factors: Option<Factors>,
    /// Counts the memory in which layers are factored.
    meter: Option<&'static Meter>,
    notes: Vec<String>,
    now: Now,
}

/// The tensor that is being read.
#[derive(Default)]
struct Now {
    name: String,
    dtype: Option<DType>,
    /// Elements that were read.
    at: usize,
}

/// The name of this program's own naming of tensors.
const OWN: &str = "this program's";

/// The weights that `experiment` chooses, fitted to its model; `None` if it begins from nothing.
///
/// # Errors
/// Fails for weights that cannot be read, and where [`Fitted::new`] does.
pub fn chosen(experiment: &Experiment, info: &DatasetInfo) -> Result<Option<Fitted>> {
    experiment.weights.chosen().map(|path| Fitted::open(path, experiment, info)).transpose()
}

impl Fitted {
    /// Opens the weights at `path` for the model of `experiment`.
    ///
    /// # Errors
    /// Fails for weights that cannot be read, and where [`Fitted::new`] does.
    pub fn open(path: &Path, experiment: &Experiment, info: &DatasetInfo) -> Result<Self> {
        Self::new(Mapped::open(path)?, experiment, info)
    }

    /// Fits weights to the model of `experiment`.
    ///
    /// # Errors
    /// Fails if a tensor is missing, misshapen or left over, with the names; where the configuration next to the weights
    /// belongs to a model that computes something else; and where the model cannot be built.
    pub fn new(mapped: Mapped, experiment: &Experiment, info: &DatasetInfo) -> Result<Self> {
        let layers = low_rank::factored(experiment, info)?;
        if layers.is_empty() || mapped.has_factors(&layers) {
            return Self::as_it_lies(mapped, experiment, info);
        }
        let whole = Self::as_it_lies(mapped, &experiment.whole(), info)?;
        Ok(whole.factored(Factors::new(&layers)))
    }

    /// Fits weights to a model whose layers are factored as they are.
    fn as_it_lies(mapped: Mapped, experiment: &Experiment, info: &DatasetInfo) -> Result<Self> {
        let slots = slots(experiment, info)?;
        let namings = std::iter::once(None).chain(names::of(&experiment.model).map(Some));
        let matches = namings.map(|naming| Ok((naming, mapped.matched(&slots, naming, experiment)?)));
        // The first of the best.
        let best = matches
            .collect::<Result<Vec<_>>>()?
            .into_iter()
            .reduce(|best, next| if next.1.named() > best.1.named() { next } else { best });
        let Some((naming, found)) = best.filter(|(_, found)| found.named() > 0) else {
            return Err(mapped.foreign());
        };
        let mut notes = mapped.refuse_others(&found, naming, experiment, info)?;
        notes.extend(agrees::with(&mapped, naming.is_none(), experiment)?);
        notes.extend(found.notes);
        notes.extend(mapped.zeros_that_fill(experiment));
        let naming = naming.map_or(OWN, |naming| naming.title);
        let tensors = found.found.into_iter().collect();
        Ok(Self { mapped, naming, tensors, factors: None, meter: None, notes, now: Now::default() })
    }

    /// Notes for the user: which parts begin with new values, and which were left out.
    pub fn notes(&self) -> &[String] {
        &self.notes
    }

    /// A warning about its answers if a part of the model begins with new values, for which nothing was learned.
    pub fn caution(&self) -> Option<String> {
        let afresh = self.notes.iter().filter(|note| note.contains(AFRESH)).map(String::as_str).collect::<Vec<_>>();
        (!afresh.is_empty()).then(|| format!("until it is trained, its answers are random: {}", afresh.join("; ")))
    }

    /// The library or program whose names its tensors have.
    pub fn naming(&self) -> &'static str {
        self.naming
    }

    /// Whether it has the layer that answers with classes.
    pub fn has_head(&self) -> bool {
        self.has("head.classes.weight")
    }

    /// Whether others named its tensors.
    pub fn is_published(&self) -> bool {
        self.naming != OWN
    }

    /// The names of the classes of its head, if a file has them.
    pub fn class_names(&self) -> Option<Vec<String>> {
        self.has_head().then(|| self.mapped.class_names())?
    }

    /// Whether it has the tensor of the model with this name.
    pub fn has(&self, name: &str) -> bool {
        self.tensors.contains_key(self.whole_of(name))
    }

    /// How many tensors of the model it has.
    pub fn tensors(&self) -> usize {
        self.tensors.len()
    }
}
