//! Weights that fit a model: each tensor of it with where its elements come from.
//!
//! Owns [`Fitted`], which a session is loaded from. Always holds: every tensor of the model was found with its extents, or
//! begins with new values, which is reported; every tensor of the files was used, or is a constant. Refuses weights with a
//! tensor that is missing, misshapen or left over, and weights of a model that computes something else: it would train, and be
//! another model.

mod factored;
mod mends;
mod reading;
mod teaching;

use std::{
    collections::{HashMap, HashSet},
    path::Path,
};

use super::{
    agrees, coded,
    layout::{Layout, View},
    low_rank::{self, Factors},
    mapped::Mapped,
    names::{self, Naming, Part},
    slots::{RANGE, Slot, slots},
};
use crate::{
    error::{Error, Result},
    experiment::{DatasetInfo, Experiment},
    header::{self, Place},
    layer_path::LayerRole,
    tensor::DType,
};

pub use teaching::teaching;

/// How many tensors a message names.
const NAMED: usize = 3;
/// What notes say of a part that is not there.
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

/// What became of a model's tensors by one naming.
#[derive(Default)]
struct Match {
    found: Vec<(String, Vec<Piece>)>,
    used: HashSet<String>,
    missing: Vec<String>,
    misshapen: Vec<String>,
    /// Tensors whose elements are not weights.
    mistyped: Vec<String>,
    notes: Vec<String>,
}

/// What is wrong with some tensors, and their names.
type Wrong = (&'static str, Vec<String>);

impl Match {
    /// Tensors that have their names, with any extents.
    fn named(&self) -> usize {
        self.found.len() + self.misshapen.len() + self.mistyped.len()
    }
}

/// What names the tensors of this program's own files.
const OWN: &str = "this program's";

/// The weights that `experiment` chooses, fitted to its model; `None` where it begins from nothing.
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
    /// Fails where a tensor is missing, misshapen or left over, with the names; where the configuration next to the weights
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
        let naming = naming.map_or(OWN, |naming| naming.title);
        let tensors = found.found.into_iter().collect();
        Ok(Self { mapped, naming, tensors, factors: None, notes, now: Now::default() })
    }

    /// What its user should know: what begins with new values, what was left out.
    pub fn notes(&self) -> &[String] {
        &self.notes
    }

    /// A warning about its answers if a part of the model begins with new values, for which nothing was learned.
    pub fn caution(&self) -> Option<String> {
        let afresh = self.notes.iter().filter(|note| note.contains(AFRESH)).map(String::as_str).collect::<Vec<_>>();
        (!afresh.is_empty())
            .then(|| format!("until it is trained, what it answers is by chance: {}", afresh.join("; ")))
    }

    /// Whose names its tensors have.
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

    /// What the classes are called that its head answers with, where a file says it.
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

impl Mapped {
    /// Looks for the model's tensors by a naming, or by their own names if there is none.
    fn matched(&self, slots: &[Slot], naming: Option<&'static Naming>, experiment: &Experiment) -> Result<Match> {
        let mut found = Match::default();
        for slot in slots {
            let Slot { name, shape, .. } = slot;
            if naming.is_none() && self.matched_codes(&mut found, slot)? {
                continue;
            }
            let parts = match naming {
                None => Some(vec![Part {
                    name: name.clone(),
                    shape: shape.clone(),
                    here: shape.clone(),
                    layout: Layout::Same,
                    begin: 0,
                }]),
                Some(naming) => naming.parts(&experiment.model, name, shape),
            };
            // Ranges of inputs are learned as adapters are.
            let is_adapter = [".adapter_down", ".adapter_up", RANGE].iter().any(|end| name.ends_with(end));
            match parts {
                Some(parts) => self.matched_parts(&mut found, slot, &parts, naming, is_adapter),
                // Adapters are made for this run.
                None if is_adapter => {}
                None => found.missing.push(name.clone()),
            }
        }
        Ok(found)
    }

    /// Whether a tensor of a run lies here as codes.
    fn matched_codes(&self, found: &mut Match, slot: &Slot) -> Result<bool> {
        let Slot { name, shape, .. } = slot;
        if self.coded(name, shape)?.is_none() {
            return Ok(false);
        }
        found.used.extend(coded::names(name));
        let view = Layout::Same.reading(shape);
        found.found.push((name.clone(), vec![Piece { name: name.clone(), dtype: None, view, shape: shape.clone() }]));
        Ok(true)
    }

    /// Looks for the parts of one tensor.
    fn matched_parts(
        &self,
        found: &mut Match,
        slot: &Slot,
        parts: &[Part],
        naming: Option<&'static Naming>,
        is_adapter: bool,
    ) {
        let there: Vec<Option<(&String, &Place)>> = parts.iter().map(|part| self.named(&part.name, naming)).collect();
        let is_head = match naming {
            Some(naming) => naming.is_head(&slot.name),
            None => LayerRole::of_tensor(&slot.name).has_rows_of_data(),
        };
        // Rows of tokens that are not those of the file's own table are no other vocabulary, but a mistake in the file.
        let is_head = is_head && !self.has_two_vocabularies(naming);
        let mut pieces = Vec::with_capacity(parts.len());
        // Every part is looked at, so that each that is wrong is named.
        for (part, place) in parts.iter().zip(&there) {
            let Some((name, place)) = place else {
                if !is_adapter {
                    found.missing.push(part.name.clone());
                }
                continue;
            };
            found.used.insert((*name).clone());
            let Some(dtype) = place.element.of_weights() else {
                found.mistyped.push(format!("{name} ({})", place.element.name()));
                continue;
            };
            let extents: Vec<u64> = part.shape.iter().map(|extent| *extent as u64).collect();
            let is_longer = slot.name == "positions.weight" && is_longer(&place.shape, &extents);
            if is_longer && part.layout == Layout::Same {
                let message = format!("of {} learned positions the first {} are taken", place.shape[0], extents[0]);
                found.notes.push(message);
            } else if place.shape != extents {
                let differs = format!("{name} is {:?}, and the model has {extents:?}", place.shape);
                match is_head && place.shape.get(1..) == extents.get(1..) {
                    true => found.notes.push(format!("{} {AFRESH}: {differs}", slot.name)),
                    false => found.misshapen.push(differs),
                }
                continue;
            }
            let view = part.layout.reading(&part.here);
            pieces.push(Piece { name: (*name).clone(), dtype: Some(dtype), view, shape: Vec::new() });
        }
        if pieces.len() == parts.len() {
            found.found.push((slot.name.clone(), pieces));
        }
    }

    /// Whether a decoder's head and its table of tokens have other numbers of rows.
    fn has_two_vocabularies(&self, naming: Option<&Naming>) -> bool {
        let rows = |ours: &str| {
            let theirs = match naming {
                Some(naming) => naming.rows.iter().find(|row| row.ours == ours)?.theirs.first()?,
                None => ours,
            };
            self.named(&format!("{theirs}.weight"), naming)?.1.shape.first()
        };
        rows("head.classes").zip(rows("embedding")).is_some_and(|(head, tokens)| head != tokens)
    }

    /// The tensor of this name, with or without what stands before names in files with a head.
    fn named(&self, name: &str, naming: Option<&Naming>) -> Option<(&String, &Place)> {
        let bare = || name.strip_prefix(naming?.prefix);
        self.tensors.get_key_value(name).or_else(|| self.tensors.get_key_value(bare()?))
    }

    /// What begins with new values because it is not there, and what is wrong: missing, misshapen, mistyped or left over.
    fn wrongs(
        &self,
        found: &Match,
        naming: Option<&Naming>,
        experiment: &Experiment,
    ) -> Result<(Vec<String>, Vec<Wrong>)> {
        let mut notes = Vec::new();
        // A model without its head, as what others built one on. A decoder's may be tied to its tokens, which the file next to
        // the weights says.
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

    /// Refuses what is wrong, and says how to fix it; returns what begins with new values because it is missing.
    fn refuse_others(
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
        // Of a run that trained adapters, which this experiment has none of, or others.
        let is_there = |name: &String| !found.missing.contains(name) && !found.mistyped.contains(name);
        let mut names = wrong.iter().flat_map(|(_, names)| names);
        if names.all(|name| name.contains(".adapter_") && is_there(name)) {
            return refused(
                "write lora.rank and lora.targets as the run of these weights has them, or export that run with --merge and \
                 begin from what comes of it",
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

    fn foreign(&self) -> Error {
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

/// Whether a table has the rows that are asked for and more.
fn is_longer(found: &[u64], asked: &[u64]) -> bool {
    found.len() == 2 && asked.len() == 2 && found[1] == asked[1] && found[0] > asked[0]
}
