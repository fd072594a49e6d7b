//! A compressed model as one safetensors file in the layouts of the `compressed-tensors` library: 8-bit integers
//! (`int-quantized`), weights packed into words (`pack-quantized`), and weights without their zeros (`sparse-bitmask`).
//!
//! Owns [`compressed`], and reading such a file as the weights of a run that begins ([`Compact`]). Always holds: names are
//! those of the plain export; the codes are made of the checkpoint by the functions that made them for the test with integers,
//! and ranges are those of that test. A model without channels, or one of factors, is a smaller one as it is. Refuses a
//! checkpoint whose tensors are not those of the run's model, and ranges of another step.

mod about;
mod pack;
mod reading;

use std::{
    collections::HashMap,
    fs::File,
    io::{self, BufWriter, Write},
    path::Path,
};

use serde_json::{Value, json};

use self::pack::Mask;
pub(super) use self::reading::{Compact, parts};
use super::{
    export::as_it_is,
    mapped::Mapped,
    ranges,
    slots::{RANGE, dry},
    written::{Tensor, head},
};
use crate::{
    backend::{cpu::int8, ops::Code},
    bytes::Bytes,
    error::{Error, Result},
    experiment::{
        CodedWeights, DatasetInfo, Experiment, PruneKind,
        weights::{
            known::SCALING,
            own::{CLASS_NAMES, PIXELS, PREFIX},
        },
    },
    header::Element,
    step::stored::{self, Stored},
    tensor::DType,
    whole_file::{self, reason},
};

/// The text of a file that says how its tensors are compressed.
const CONFIG: &str = "quantization_config";

/// A written file of a compressed model.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Compressed {
    /// Bytes of the file.
    pub bytes: Bytes,
    /// Bytes of its tensors.
    pub tensors: Bytes,
    /// The part of running statistics, which are no parameters.
    pub statistics: Bytes,
    /// Whether it has zeros of pruned weights, because its layout has no mask.
    pub has_zeros: bool,
}

/// The form of a model's tensors.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Form {
    /// Integers of 8 bits with ranges of inputs, without zeros or with them.
    Integers { is_sparse: bool },
    /// Weights packed into words.
    Packed(Code),
    /// Weights as they are, without zeros or with them.
    Dense { is_sparse: bool },
}

impl Form {
    fn of(experiment: &Experiment) -> Self {
        let is_sparse = experiment.prune.kind.sets_to_zero();
        match (experiment.quantise.kind.is_none(), experiment.quantise.coded()) {
            (true, _) => Self::Dense { is_sparse },
            (false, CodedWeights::WithInputs) => Self::Integers { is_sparse },
            (false, CodedWeights::Int8) => Self::Packed(Code::Int8),
            (false, CodedWeights::Int4) => Self::Packed(Code::Int4),
        }
    }

    fn is_sparse(self) -> bool {
        matches!(self, Self::Integers { is_sparse: true } | Self::Dense { is_sparse: true })
    }

    /// The name of the layout of integers.
    fn quantised(self) -> Option<&'static str> {
        match self {
            Self::Integers { .. } => Some("int-quantized"),
            Self::Packed(_) => Some("pack-quantized"),
            Self::Dense { .. } => None,
        }
    }

    fn code(self) -> Option<Code> {
        match self {
            Self::Packed(code) => Some(code),
            Self::Integers { .. } | Self::Dense { .. } => None,
        }
    }
}

/// A tensor to write.
struct Entry<'a> {
    tensor: Tensor,
    /// Bytes of an element.
    size: usize,
    make: Box<dyn Fn() -> Vec<u8> + 'a>,
}

impl<'a> Entry<'a> {
    fn new(
        name: String,
        (element, size): (&'static str, usize),
        shape: Vec<usize>,
        make: impl Fn() -> Vec<u8> + 'a,
    ) -> Self {
        let bytes = size * shape.iter().product::<usize>();
        Self { tensor: Tensor { name, element, shape, bytes }, size, make: Box::new(make) }
    }
}

const I8: (&str, usize) = ("I8", 1);
const U8: (&str, usize) = ("U8", 1);
const I32: (&str, usize) = ("I32", 4);
const F32: (&str, usize) = ("F32", 4);
const I64: (&str, usize) = ("I64", 8);

/// A run's checkpoint, whose tensors are written.
struct Run<'a> {
    own: &'a Mapped,
    form: Form,
    ranges: HashMap<String, [f32; 2]>,
    /// Where those lie.
    ranges_at: &'a Path,
}

/// Writes the compressed model of a run to `path`. It is made of the run's `checkpoint` after `step` steps and, for integers, of
/// the ranges that are kept at `ranges`.
///
/// # Errors
/// Fails for a checkpoint or ranges that cannot be read or belong to another model or step, and when the system takes no more.
pub fn compressed(
    (checkpoint, step): (&Path, u64),
    ranges: &Path,
    path: &Path,
    experiment: &Experiment,
    info: &DatasetInfo,
) -> Result<Compressed> {
    let own = Mapped::open(checkpoint)?;
    let mut session = dry(experiment, info)?;
    if experiment.prune.kind == PruneKind::Channels {
        session.thin()?;
    }
    let (stored, form) = (session.stored(), Form::of(experiment));
    let ranges_at = ranges;
    let ranges = match form {
        Form::Integers { .. } => ranges::read(ranges, step, own.facts.get("checksum"))?,
        Form::Packed(_) | Form::Dense { .. } => HashMap::new(),
    };
    let parameters = session.model().params().len();
    let run = Run { own: &own, form, ranges, ranges_at };
    let (mut entries, mut statistics) = (Vec::new(), 0);
    for (number, stored) in stored.iter().enumerate() {
        let own = run.entries(stored)?;
        if number >= parameters {
            statistics += own.iter().map(|entry| entry.tensor.bytes as u64).sum::<u64>();
        }
        entries.extend(own);
    }
    // The widest types come first: in a file every tensor then begins where its type may.
    entries.sort_by_key(|entry| std::cmp::Reverse(entry.size));
    let tensors = entries.iter().map(|entry| entry.tensor.bytes as u64).sum();
    let facts = run.facts(about::config(experiment, &stored, form, run.sparsity(&stored)?), step);
    let failed = |error: io::Error| {
        Error::file(path, format!("cannot be written: {}; make room there, or choose another folder", reason(&error)))
    };
    let bytes = whole_file::write_with(path, |file| put(file, facts, entries), || {}).map_err(failed)?;
    let has_zeros = form.code().is_some() && stored.iter().any(|stored| stored.mask.is_some());
    Ok(Compressed { bytes, tensors: Bytes(tensors), statistics: Bytes(statistics), has_zeros })
}

fn put(file: &mut File, facts: Value, entries: Vec<Entry<'_>>) -> io::Result<Bytes> {
    let mut made = Vec::with_capacity(entries.len());
    let tensors = entries.into_iter().map(|Entry { tensor, make, .. }| {
        made.push(make);
        tensor
    });
    let head = head(facts, tensors.collect::<Vec<_>>());
    let mut file = BufWriter::new(file);
    file.write_all(&(head.len() as u64).to_le_bytes())?;
    file.write_all(head.as_bytes())?;
    let mut size = 8 + head.len() as u64;
    for make in made {
        let bytes = make();
        file.write_all(&bytes)?;
        size += bytes.len() as u64;
    }
    file.flush()?;
    Ok(Bytes(size))
}

impl<'a> Run<'a> {
    /// The texts of the file.
    fn facts(&self, config: Option<Value>, step: u64) -> Value {
        // Loaders ask for the name of the framework whose order of elements it is.
        let mut facts = json!({ "format": "pt", "producer": "plimsoll", "plimsoll_step": step.to_string() });
        for name in ["experiment", PIXELS, SCALING, CLASS_NAMES] {
            if let Some(text) = self.own.facts.get(name) {
                facts[format!("{PREFIX}{name}")] = text.as_str().into();
            }
        }
        if let Some(config) = config {
            facts[CONFIG] = config.to_string().into();
        }
        facts
    }

    /// The bytes of a tensor of the checkpoint, which has these extents, and their type.
    fn bytes(&self, name: &str, shape: &[usize]) -> Result<(&'a [u8], DType)> {
        let wrong = |message: &str| Error::file_at(&self.own.path, format!("tensor {name}"), message);
        let place =
            self.own.tensors.get(name).ok_or_else(|| wrong("is not there: the checkpoint is of another run"))?;
        match place.element {
            Element::Of(dtype) if place.shape.iter().copied().eq(shape.iter().map(|extent| *extent as u64)) => {
                Ok((self.own.elements(name)?, dtype))
            }
            _ => Err(wrong("has other extents than the run's model")),
        }
    }

    fn mask(&self, stored: &Stored) -> Result<Option<Mask<'a>>> {
        let Some(name) = stored.mask.as_ref().filter(|_| self.form.is_sparse()) else { return Ok(None) };
        let elements: usize = stored.shape.iter().product();
        let (bits, _) = self.bytes(name, &[elements.div_ceil(8)])?;
        Ok(Some(Mask { bits, elements, inner: stored.shape.last().copied().unwrap_or(1) }))
    }

    /// The share of zeros of the weights that have masks.
    fn sparsity(&self, stored: &[Stored]) -> Result<f64> {
        let (mut all, mut kept) = (0, 0);
        for stored in stored {
            if let Some(mask) = self.mask(stored)? {
                (all, kept) = (all + mask.elements, kept + mask.kept());
            }
        }
        Ok(1.0 - kept as f64 / all.max(1) as f64)
    }

    /// The tensors that a tensor of the model becomes.
    fn entries(&self, stored: &Stored) -> Result<Vec<Entry<'a>>> {
        let Stored { name, shape, dtype, is_integer, .. } = stored;
        let (bytes, own) = self.bytes(name, shape)?;
        let (dtype, count) = (*dtype, shape.iter().product::<usize>());
        // As the forward pass reads it.
        let computed = move || {
            let mut computed = vec![0; count * dtype.size()];
            as_it_is(&[count], 0).convert(bytes, own, 0, &mut computed, dtype);
            computed
        };
        let numbers = move || -> Vec<f32> {
            let mut wide = vec![0; count * 4];
            as_it_is(&[count], 0).convert(&computed(), dtype, 0, &mut wide, DType::F32);
            wide.as_chunks().0.iter().map(|bytes| f32::from_le_bytes(*bytes)).collect()
        };
        let (layer, mask) = (name.trim_end_matches(".weight"), self.mask(stored)?);
        match self.form {
            Form::Integers { .. } if *is_integer => {
                let rows = shape.first().copied().unwrap_or(1);
                let encoded = move || {
                    let (mut codes, mut scales) = (vec![0; count], vec![0.0; rows]);
                    int8::encode_f32(&numbers(), &mut codes, &mut scales);
                    (codes, scales)
                };
                let mut entries = weight(stored, I8, mask, move || encoded().0);
                let mut by_row = vec![1; shape.len()];
                by_row[0] = rows;
                entries.push(Entry::new(format!("{name}_scale"), F32, by_row, move || bytes_of(&encoded().1)));
                entries.extend(self.input(layer)?);
                Ok(entries)
            }
            Form::Packed(code) if *is_integer => Ok(words(stored, code, numbers)),
            Form::Integers { .. } | Form::Packed(_) | Form::Dense { .. } => {
                Ok(weight(stored, (dtype.safetensors_name(), dtype.size()), mask, computed))
            }
        }
    }

    /// The scale and the zero point of a layer's inputs.
    fn input(&self, layer: &str) -> Result<[Entry<'a>; 2]> {
        let name = format!("{layer}{RANGE}");
        let wrong = || {
            let message = "has no range there; bring back the run's own file, or train the run again";
            Error::file_at(self.ranges_at, format!("tensor {name}"), message)
        };
        let (scale, zero) = int8::steps_of(*self.ranges.get(&name).ok_or_else(wrong)?);
        Ok([
            Entry::new(format!("{layer}.input_scale"), F32, vec![1], move || scale.to_le_bytes().to_vec()),
            // Codes are from -128 to 127 there.
            Entry::new(format!("{layer}.input_zero_point"), I8, vec![1], move || vec![zero ^ 0x80]),
        ])
    }
}

fn bytes_of(numbers: &[f32]) -> Vec<u8> {
    numbers.iter().copied().flat_map(f32::to_le_bytes).collect()
}

fn extents(shape: &[usize]) -> Vec<u8> {
    shape.iter().flat_map(|extent| (*extent as i64).to_le_bytes()).collect()
}

/// A tensor whose elements are `all`: as it is, or those that the mask keeps, with the mask.
fn weight<'a>(
    stored: &Stored,
    (element, size): (&'static str, usize),
    mask: Option<Mask<'a>>,
    all: impl Fn() -> Vec<u8> + 'a,
) -> Vec<Entry<'a>> {
    let (name, shape) = (stored.name.clone(), stored.shape.clone());
    let Some(mask) = mask else { return vec![Entry::new(name, (element, size), shape, all)] };
    let layer = name.trim_end_matches(".weight");
    let rows = &shape[..shape.len() - 1];
    let by_row = [rows, &[mask.row_bytes()]].concat();
    let own = shape.clone();
    vec![
        Entry::new(format!("{layer}.compressed"), (element, size), vec![mask.kept()], move || {
            mask.values(&all(), size)
        }),
        Entry::new(format!("{layer}.bitmask"), U8, by_row, move || mask.by_row()),
        Entry::new(format!("{layer}.row_offsets"), I64, rows.to_vec(), move || mask.row_offsets()),
        Entry::new(format!("{layer}.shape"), I64, vec![shape.len()], move || extents(&own)),
    ]
}

/// A weight packed into words, with the scales of its groups.
fn words<'a>(stored: &Stored, code: Code, numbers: impl Fn() -> Vec<f32> + Copy + 'a) -> Vec<Entry<'a>> {
    let (name, shape) = (&stored.name, stored.shape.clone());
    let inner = shape.last().copied().unwrap_or(1);
    let rows = shape.iter().product::<usize>() / inner.max(1);
    let (words, groups) = (vec![rows, stored::words(code, inner)], vec![rows, inner / stored::group(code, inner)]);
    let scales = move || bytes_of(&pack::scales(code, &numbers(), inner));
    vec![
        Entry::new(format!("{name}_packed"), I32, words, move || pack::packed(code, &numbers(), inner)),
        Entry::new(format!("{name}_scale"), F32, groups, scales),
        Entry::new(format!("{name}_shape"), I64, vec![shape.len()], move || extents(&shape)),
    ]
}
