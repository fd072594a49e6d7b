//! A trained model in the layout of others: `model.safetensors` and `config.json`, or an adapter for its base.
//!
//! Owns [`export`]. Always holds: an export loads in `transformers`, `peft`, `timm` or `torchvision`, and here again to the
//! same logits. Refuses, in words, a part that the layout has no place for.

use std::{
    fs,
    path::{Path, PathBuf},
};

use serde_json::{Map, Value, json};

use super::{
    adapter,
    coded::CodedTensor,
    config::{self, Told},
    layout::Layout,
    low_rank::{self, Merged},
    mapped::Mapped,
    names::{self, Naming},
    slots::{RANGE, Slot, slots},
    written::{self, Elements, Entry},
};
use crate::{
    bytes::{Bytes, counted},
    error::{Error, Problem, Result},
    experiment::words::Word as _,
    experiment::{
        DatasetInfo, Experiment, Normalise, PROCESSOR, PruneKind, QuantiseKind,
        weights::{CONFIG, INDEX, WHOLE, known, own},
    },
    header::Element,
    nn::Factorable,
    tensor::DType,
    whole_file::{self, reason},
};

/// Files of a tokenizer, and the settings of generation.
const COMPANIONS: [&str; 9] = [
    "tokenizer.json",
    "tokenizer_config.json",
    "tokenizer.model",
    "special_tokens_map.json",
    "added_tokens.json",
    "chat_template.jinja",
    "vocab.json",
    "merges.txt",
    "generation_config.json",
];

/// A written export.
#[derive(Debug, Default, PartialEq)]
pub struct Exported {
    /// The files, those with weights first.
    pub files: Vec<PathBuf>,
    /// The bytes of the weights.
    pub bytes: Bytes,
    /// Notes for the user.
    pub notes: Vec<String>,
}

/// Writes the weights of `checkpoint`, which is one of the experiment's run, to `folder`, in the layout that others load. The
/// folder is made if it does not exist. Adapters go to a file of their own, unless they are to be merged into the weights that
/// they belong to.
///
/// # Errors
/// Fails for a model that has no place in such a layout, for a checkpoint that cannot be read, and when the system takes no
/// more.
pub fn export(
    checkpoint: &Path,
    folder: &Path,
    experiment: &Experiment,
    info: &DatasetInfo,
    merge: bool,
) -> Result<Exported> {
    // Weights that came with the names of timm go out with them.
    let is_timm = config::began_in_timm(experiment);
    let named = || names::of(&experiment.model);
    let Some(naming) = named().find(|naming| is_timm && naming.title.starts_with("timm")).or_else(|| named().next())
    else {
        return Err(config::no_place(&experiment.model));
    };
    if experiment.prune.kind == PruneKind::Channels {
        let message = "channels are taken out of the model, and the layout has no place for such widths";
        return Err(Problem::new("prune.kind", message, "export as safetensors").into());
    }
    let own = Mapped::open(checkpoint)?;
    let (names, scaling) = (own.class_names(), scaling(experiment, &own));
    let fields = config::of(experiment, info, Told { names: names.as_deref(), scaling })?;
    let (whole, factored) = (experiment.whole(), low_rank::factored(experiment, info)?);
    let made_of = slots(experiment, info)?;
    // The layout has whole layers only.
    let run = Run { own: &own, naming, experiment, slots: slots(&whole, info)?, made_of, factored };
    let mut exported = Exported { notes: notes(folder, experiment, info, merge), ..Exported::default() };
    if !run.factored.is_empty() {
        let message = format!(
            "multiplied out {}, because the layout has whole layers only: the file is as large as that of a model that was \
             never factored (--format safetensors keeps the factors)",
            counted(run.factored.len() as u64, "factored layer")
        );
        exported.notes.push(message);
    }
    let made = || -> Result<Made<'_>> {
        let failed = |error: std::io::Error| Error::file(folder, format!("cannot be made: {}", reason(&error)));
        let was_there = folder.exists();
        fs::create_dir_all(folder).map_err(failed)?;
        // It would go out with the model.
        whole_file::remove_abandoned(folder);
        Ok(Made { folder, was_there })
    };
    if experiment.lora.rank > 0 && !merge {
        adapter::can_stand_alone(experiment)?;
        let _made = made()?;
        adapter::write(&run, folder, &mut exported)?;
    } else {
        let (path, entries) = (folder.join(WHOLE), run.whole()?);
        let _made = made()?;
        exported.bytes = written::write(&path, &entries)?;
        exported.files.push(path);
        exported.put_json(folder, CONFIG, fields)?;
        exported.put_scaling(folder, experiment, scaling)?;
    }
    exported.put_companions(folder, experiment)?;
    Ok(exported)
}

/// A folder that is written to. One that was made for it and stays empty is gone when this is dropped.
struct Made<'a> {
    folder: &'a Path,
    was_there: bool,
}

impl Drop for Made<'_> {
    fn drop(&mut self) {
        if !self.was_there {
            // A folder with a file in it stays.
            let _ = fs::remove_dir(self.folder);
        }
    }
}

/// Mean and deviation of each channel from 0 to 1, by which the pixels of a run were scaled, as far as its checkpoint or its
/// experiment says it.
fn scaling(experiment: &Experiment, own: &Mapped) -> Option<[[f64; 3]; 2]> {
    let data = experiment.whole_data();
    if !data.kind.has_colours() {
        return None;
    }
    let said = own::fact(&own.facts, own::PIXELS).and_then(Normalise::of_word);
    said.unwrap_or(data.normalise).constants().or_else(|| known::mean_and_deviation(&own.facts))
}

/// Notes for the user of an export.
fn notes(folder: &Path, experiment: &Experiment, info: &DatasetInfo, merge: bool) -> Vec<String> {
    let mut notes = Vec::new();
    let is_adapter = experiment.lora.rank > 0 && !merge;
    if let Some([whole, own]) = config::fewer_positions(experiment, info).filter(|_| !is_adapter) {
        notes.push(format!(
            "of the {whole} learned positions of the weights it began with, the run has the first {own}"
        ));
    }
    notes.extend(left_out(experiment));
    let base = experiment.quantise.base;
    if !base.is_none() && experiment.lora.rank > 0 {
        let base = base.key();
        notes.push(match merge {
            true => format!(
                "the run held its frozen weights as codes (quantise.base = {base}): the file has the numbers that the \
                 codes stand for, with the adapters added, and not the weights that it began with"
            ),
            false => format!(
                "the adapters were trained with frozen weights held as codes (quantise.base = {base}), which this layout has \
                 no word for: with the weights as they are published they answer a little differently; load those as codes as \
                 well (for nf4, bitsandbytes), or write --merge"
            ),
        });
    }
    if merge && experiment.lora.rank == 0 {
        notes.push("the run has no adapters to merge".to_owned());
    }
    if let Some(gone) = experiment.weights.chosen().filter(|path| !path.exists()) {
        notes.push(format!(
            "{} is gone: the other fields of its config.json and its tokenizer are not copied",
            gone.display()
        ));
    }
    let index = folder.join(INDEX);
    if index.exists() {
        notes.push(format!("{} is of the weights that were there before; take it out", index.display()));
    }
    notes
}

/// A note on the part of a trained model that its files lack: the integers that it was tested with at the end.
pub fn left_out(experiment: &Experiment) -> Option<String> {
    let quantise = &experiment.quantise;
    let kind = match quantise.kind {
        QuantiseKind::None => return None,
        QuantiseKind::After | QuantiseKind::Aware => quantise.kind.key(),
    };
    Some(format!(
        "the weights are written as they were trained, and not as the integers that the run was tested with at its end \
         (quantise.kind = {kind}, quantise.weights = {}): --format safetensors --compressed writes those",
        quantise.coded().key()
    ))
}

/// A tensor of a checkpoint.
#[derive(Clone, Copy)]
enum Weight<'a> {
    /// The elements lie there, in this type.
    There(&'a [u8], DType),
    /// Codes of them.
    Coded(CodedTensor<'a>),
}

/// The parts of a factored layer that a whole tensor is made of.
enum OfFactors<'a> {
    /// The bias of the last factor.
    Bias(String),
    /// All of the product's elements, multiplied.
    Product(Merged<'a>),
}

/// A run whose weights are written.
pub(super) struct Run<'a> {
    pub(super) own: &'a Mapped,
    pub(super) naming: &'static Naming,
    pub(super) experiment: &'a Experiment,
    /// The tensors of the model with every layer whole.
    pub(super) slots: Vec<Slot>,
    /// The checkpoint's tensors that it is made of.
    made_of: Vec<Slot>,
    /// The layers that are factored there.
    factored: Vec<Factorable>,
}

impl Exported {
    /// Writes fields as a file in `folder`.
    pub(super) fn put_json(&mut self, folder: &Path, name: &str, fields: Map<String, Value>) -> Result<()> {
        let path = folder.join(name);
        let text = format!("{:#}\n", Value::from(fields));
        let failed = |error: std::io::Error| Error::file(&path, format!("cannot be written: {}", reason(&error)));
        whole_file::write(&path, text.as_bytes()).map_err(failed)?;
        self.files.push(path);
        Ok(())
    }

    /// Writes the mean and the deviation by which pixels are scaled, so that other programs scale them alike.
    fn put_scaling(&mut self, folder: &Path, experiment: &Experiment, scaling: Option<[[f64; 3]; 2]>) -> Result<()> {
        let Some([mean, deviation]) = scaling else {
            if experiment.data.kind.has_colours() {
                let message = "how pixels were scaled is not written: the run scaled them by the mean and the deviation of its \
                               training images, and its checkpoint, of an earlier version, does not say those";
                self.notes.push(message.to_owned());
            }
            return Ok(());
        };
        let fields = [("do_normalize", json!(true)), ("image_mean", json!(mean)), ("image_std", json!(deviation))];
        self.put_json(folder, PROCESSOR, fields.map(|(name, value)| (name.to_owned(), value)).into_iter().collect())
    }

    /// Copies the files that lie next to the weights that the run began with, and belong to them.
    fn put_companions(&mut self, folder: &Path, experiment: &Experiment) -> Result<()> {
        let chosen = experiment.weights.chosen();
        let Some(from) = chosen.and_then(|path| if path.is_dir() { Some(path) } else { path.parent() }) else {
            return Ok(());
        };
        if !experiment.model.kind.is_decoder() || from == folder {
            return Ok(());
        }
        for name in COMPANIONS {
            let (own, copy) = (from.join(name), folder.join(name));
            if own.is_file() {
                let failed = |error: std::io::Error| Error::file(&own, format!("cannot be copied: {}", reason(&error)));
                fs::copy(&own, &copy).map_err(failed)?;
                self.files.push(copy);
            }
        }
        Ok(())
    }
}

impl<'a> Run<'a> {
    /// Every tensor under its published name, adapters merged into theirs.
    fn whole(&self) -> Result<Vec<Entry<'_>>> {
        let mut entries = Vec::new();
        // Ranges of inputs have no place there either.
        let is_adapter = |name: &str| [".adapter_down", ".adapter_up", RANGE].iter().any(|end| name.ends_with(end));
        for slot in self.slots.iter().filter(|slot| !is_adapter(&slot.name)) {
            let of_factors = self.of_factors(&slot.name)?;
            let Some(parts) = self.naming.parts(&self.experiment.model, &slot.name, &slot.shape) else {
                let message = format!("{} has no place in the layout of {}", slot.name, self.naming.title);
                return Err(Problem::new("model.kind", message, "write --format safetensors").into());
            };
            let (merged, made) = (adapter::of(self, slot)?, self.experiment.weight_type());
            if let Some(OfFactors::Product(product)) = &of_factors {
                for part in parts {
                    let (view, product) = (part.layout.writing(&part.here, part.begin), product.clone());
                    let from = Elements::Made(Box::new(move || product.elements(made)));
                    entries.push(Entry { name: part.name, shape: part.shape, dtype: made, view, from });
                }
                continue;
            }
            let weight = match of_factors {
                Some(OfFactors::Bias(name)) => self.elements(&name).map(|(elements, own)| Weight::There(elements, own)),
                _ => self.weight(slot),
            }?;
            for part in parts {
                let (dtype, from) = match (merged.clone(), weight) {
                    (None, Weight::There(elements, dtype)) => (dtype, Elements::There(elements, dtype)),
                    (None, Weight::Coded(coded)) => (made, Elements::Made(Box::new(move || coded.all(made)))),
                    (Some(merged), Weight::There(elements, dtype)) => {
                        (made, Elements::Made(Box::new(move || merged.merged(elements, dtype))))
                    }
                    (Some(merged), Weight::Coded(coded)) => {
                        let whole = move || merged.merged(&coded.all(DType::F32), DType::F32);
                        (made, Elements::Made(Box::new(whole)))
                    }
                };
                let view = part.layout.writing(&part.here, part.begin);
                entries.push(Entry { name: part.name, shape: part.shape, dtype, view, from });
            }
        }
        Ok(entries)
    }

    /// The parts that make the whole tensor `name`, if it is one of a factored layer.
    fn of_factors(&self, name: &str) -> Result<Option<OfFactors<'a>>> {
        let of = |layer: &&Factorable| {
            name.strip_prefix(&layer.name()).is_some_and(|rest| matches!(rest, ".weight" | ".bias"))
        };
        let Some(layer) = self.factored.iter().find(of) else { return Ok(None) };
        let Some(ranks) = layer.ranks else { return Ok(None) };
        let factors: Vec<String> = layer.whole.factors(ranks).map(|factor| layer.name_of(factor)).collect();
        if name.ends_with(".bias") {
            return Ok(factors.last().map(|last| OfFactors::Bias(format!("{last}.bias"))));
        }
        let elements = factors.iter().map(|factor| self.elements(&format!("{factor}.weight")));
        let elements = elements.collect::<Result<Vec<_>>>()?;
        Ok(Some(OfFactors::Product(Merged::new(layer.whole, ranks, elements))))
    }

    /// The tensor of a slot, which may lie in the checkpoint as codes.
    fn weight(&self, slot: &Slot) -> Result<Weight<'a>> {
        match self.own.coded(&slot.name, &slot.shape)? {
            Some(coded) => Ok(Weight::Coded(coded)),
            None => self.elements(&slot.name).map(|(elements, dtype)| Weight::There(elements, dtype)),
        }
    }

    /// The elements of a tensor of the checkpoint, and their type.
    pub(super) fn elements(&self, name: &str) -> Result<(&'a [u8], DType)> {
        let wrong = |message: &str| Error::file_at(&self.own.path, format!("tensor {name}"), message);
        let place =
            self.own.tensors.get(name).ok_or_else(|| wrong("is not there: the checkpoint is of another run"))?;
        let slot = self.made_of.iter().find(|slot| slot.name == name);
        let is_same =
            slot.is_some_and(|slot| slot.shape.iter().map(|extent| *extent as u64).eq(place.shape.iter().copied()));
        match place.element {
            Element::Of(dtype) if is_same => Ok((self.own.elements(name)?, dtype)),
            _ => Err(wrong("has other extents than the run's model")),
        }
    }
}

/// A tensor as it lies here, from the element `begin` on.
pub(super) fn as_it_is(shape: &[usize], begin: usize) -> super::layout::View {
    Layout::Same.writing(shape, begin)
}
