//! The match of a model's tensors with a file by one naming: found, missing, of other extents, or of a type that holds no
//! weights.

use std::collections::HashSet;

use super::{
    super::{
        coded::{self, CodedTensor},
        compressed,
        layout::Layout,
        mapped::Mapped,
        names::{Naming, Part},
        slots::{RANGE, Slot},
    },
    AFRESH, Piece,
};
use crate::{error::Result, experiment::Experiment, header::Place, layer_path::LayerRole};

/// The match of a model's tensors with a file by one naming.
#[derive(Default)]
pub(super) struct Match {
    pub(super) found: Vec<(String, Vec<Piece>)>,
    pub(super) used: HashSet<String>,
    pub(super) missing: Vec<String>,
    pub(super) misshapen: Vec<String>,
    /// Tensors whose elements are not weights.
    pub(super) mistyped: Vec<String>,
    pub(super) notes: Vec<String>,
}

impl Match {
    /// Tensors that have their names, with any extents.
    pub(super) fn named(&self) -> usize {
        self.found.len() + self.misshapen.len() + self.mistyped.len()
    }
}

impl Mapped {
    /// Looks for the model's tensors by a naming, or by their own names if there is none.
    pub(super) fn matched(
        &self,
        slots: &[Slot],
        naming: Option<&'static Naming>,
        experiment: &Experiment,
    ) -> Result<Match> {
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
        let extents: Vec<u64> = shape.iter().map(|extent| *extent as u64).collect();
        if let Some(there) = self.compact_extents(name)?.filter(|there| *there != extents) {
            found.used.extend(compressed::parts(name));
            found.misshapen.push(format!("{name} is {there:?}, and the model has {extents:?}"));
            return Ok(true);
        }
        match self.coded(name, shape)? {
            None => return Ok(false),
            Some(CodedTensor::Compact(compact)) => {
                self.check_compact(name, &compact)?;
                found.used.extend(compressed::parts(name));
            }
            Some(CodedTensor::Blocks(_)) => found.used.extend(coded::names(name)),
        }
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
        // If the file's tables of tokens disagree in their rows, the file is wrong: this is not another vocabulary.
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

    /// The tensor of this name, with or without the prefix of names in files with a head.
    pub(super) fn named(&self, name: &str, naming: Option<&Naming>) -> Option<(&String, &Place)> {
        let bare = || name.strip_prefix(naming?.prefix);
        self.tensors.get_key_value(name).or_else(|| self.tensors.get_key_value(bare()?))
    }
}

/// Whether a table has the rows that are asked for and more.
fn is_longer(found: &[u64], asked: &[u64]) -> bool {
    found.len() == 2 && asked.len() == 2 && found[1] == asked[1] && found[0] > asked[0]
}
