//! The singular values of a model's weights, and the ranks that they give.
//!
//! Owns [`Spectra`]. Always holds: weights are read once for all shares that are asked of them, as long as their files are
//! the same; ranks follow from the values and the share alone. Refuses weights that are already factors, if they were made
//! by another share.

use std::{
    fs,
    path::{Path, PathBuf},
    time::SystemTime,
};

use super::svd::{Vectors, svd};
use crate::{
    error::{Error, Problem, Result},
    experiment::{
        DatasetInfo, Experiment, Input, LowRank, Model, RankTable, Ranks, WholeLayer,
        weights::files::{self, Files},
    },
    header::unreadable,
    interop::{Fitted, Mapped, slots::dry},
    step::load::Source,
    tensor::DType,
};

/// How often a share is halved in the search for a size.
const HALVINGS: usize = 60;

/// The squared singular values of one layer, from the largest down.
#[derive(Debug, Clone, PartialEq)]
struct Spectrum {
    name: String,
    whole: WholeLayer,
    /// The singular values of the weight by its inputs.
    inner: Vec<f64>,
    /// The singular values of the weight by its outputs; for a matrix they are the same.
    out: Vec<f64>,
}

/// The source of the ranks.
#[derive(Debug, Clone, PartialEq)]
enum Found {
    Values {
        layers: Vec<Spectrum>,
        /// Parameters of the whole model.
        parameters: u64,
    },
    /// The file has factors, whose ranks these are.
    Factors(LowRank),
}

/// The singular values of the weights that an experiment begins with.
#[derive(Debug, Clone, PartialEq)]
pub struct Spectra {
    path: PathBuf,
    /// The files, as they were: how large, and when written.
    files: Vec<(PathBuf, u64, Option<SystemTime>)>,
    model: Model,
    input: Input,
    found: Found,
}

impl Spectra {
    /// Reads the weights of `experiment`, layer by layer.
    ///
    /// # Errors
    /// Fails for weights that cannot be read or do not fit the model.
    pub fn read(path: &Path, experiment: &Experiment, info: &DatasetInfo) -> Result<Self> {
        let files = stamped(path)?;
        let mapped = Mapped::open(path)?;
        let found = match mapped.low_rank() {
            Some(own) => Found::Factors(own),
            None => values(mapped, experiment, info)?,
        };
        let (model, input) = (experiment.model.clone(), info.input);
        Ok(Self { path: path.to_owned(), files, model, input, found })
    }

    /// Whether they belong to the weights of `experiment`, whose files are as they were.
    pub fn are_of(&self, experiment: &Experiment, info: &DatasetInfo) -> bool {
        experiment.weights.chosen() == Some(&self.path)
            && experiment.model == self.model
            && info.input == self.input
            && stamped(&self.path).is_ok_and(|files| files == self.files)
    }

    /// The ranks of a model of `choice`, by the names of its layers.
    ///
    /// # Errors
    /// The problem of a size that no ranks reach, and of a file whose factors were made by another share.
    pub fn ranks(&self, choice: &LowRank) -> Result<RankTable, Problem> {
        match &self.found {
            Found::Factors(own) if (own.energy, own.size) == (choice.energy, choice.size) => Ok(own.table()),
            Found::Factors(own) => {
                let message = "the weights are those of a run whose layers are factored already, by another choice";
                Err(Problem::new(key(choice), message, format!("write {}, or choose whole weights", own.words())))
            }
            Found::Values { layers, parameters } if choice.size > 0.0 => by_size(layers, *parameters, choice.size),
            Found::Values { layers, .. } => Ok(table(layers, choice.energy)),
        }
    }
}

/// The key that ranks are chosen by.
fn key(choice: &LowRank) -> &'static str {
    if choice.size > 0.0 { "low_rank.size" } else { "low_rank.energy" }
}

fn stamped(path: &Path) -> Result<Vec<(PathBuf, u64, Option<SystemTime>)>> {
    let Files { paths, .. } = files::found(path)?;
    let stamp = |path: PathBuf| {
        let about = fs::metadata(&path).map_err(|error| unreadable(&path, &error))?;
        Ok((path, about.len(), about.modified().ok()))
    };
    paths.into_iter().map(stamp).collect()
}

fn values(mapped: Mapped, experiment: &Experiment, info: &DatasetInfo) -> Result<Found> {
    let path = mapped.path.clone();
    let session = dry(experiment, info)?;
    let unfactored = experiment.whole();
    let mut fitted = Fitted::new(mapped, &unfactored, info)?;
    let mut layers = Vec::new();
    for layer in session.model().factorable() {
        let (name, whole) = (layer.name(), layer.whole);
        let weight = format!("{name}.weight");
        let mut numbers = vec![0.0; whole.weights()];
        if !fitted.find(&weight, [numbers.len()].into(), DType::F64)? {
            // A layer that begins with new values has no singular values to go by, and stays whole.
            continue;
        }
        fitted.read(bytemuck::cast_slice_mut(&mut numbers))?;
        let taps = whole.size * whole.size;
        let squares = |extents| {
            let found = svd(&numbers, extents, Vectors::None).ok_or_else(|| {
                let message = "has no singular values that could be found; choose other weights";
                Error::file_at(&path, format!("tensor {weight}"), message)
            })?;
            Ok::<_, Error>(found.values.into_iter().map(|value| value * value).collect::<Vec<f64>>())
        };
        let inner = squares([whole.out * taps, whole.inner])?;
        let out = if whole.is_matrix() { inner.clone() } else { squares([whole.out, taps * whole.inner])? };
        layers.push(Spectrum { name, whole, inner, out });
    }
    Ok(Found::Values { layers, parameters: dry(&unfactored, info)?.model().parameters() })
}

/// The least rank that holds the share `energy` of `squares`.
fn rank(squares: &[f64], energy: f64) -> usize {
    let wanted = energy * squares.iter().sum::<f64>();
    let mut held = 0.0;
    let reaches = |square: &f64| {
        held += square;
        held >= wanted
    };
    squares.iter().position(reaches).map_or(squares.len(), |at| at + 1).max(1)
}

fn ranks(layer: &Spectrum, energy: f64) -> Option<Ranks> {
    layer.whole.ranks(Ranks { inner: rank(&layer.inner, energy), out: rank(&layer.out, energy) })
}

fn table(layers: &[Spectrum], energy: f64) -> RankTable {
    RankTable::new(layers.iter().filter_map(|layer| Some((layer.name.clone(), ranks(layer, energy)?))))
}

/// The ranks that hold as much energy in each layer as a model of this share of the whole one's weights can.
fn by_size(layers: &[Spectrum], parameters: u64, size: f64) -> Result<RankTable, Problem> {
    let of = |energy| -> u64 {
        let saved = |layer: &Spectrum| {
            ranks(layer, energy).map_or(0, |ranks| layer.whole.weights() - layer.whole.factored_weights(ranks))
        };
        parameters - layers.iter().map(saved).sum::<usize>() as u64
    };
    let most = size * parameters as f64;
    let fits = |energy| of(energy) as f64 <= most;
    if !fits(0.0) {
        let least = of(0.0) as f64 / parameters.max(1) as f64;
        let message = format!("ranks of 1 leave {least:.3} of the weights, because other layers keep theirs");
        let mend = format!("write {:.3} or more", (least * 1000.0).ceil() / 1000.0);
        return Err(Problem::new("low_rank.size", message, mend));
    }
    let (mut low, mut high) = (0.0, 1.0);
    for _ in 0..HALVINGS {
        let middle = (low + high) / 2.0;
        if fits(middle) { low = middle } else { high = middle }
    }
    Ok(table(layers, low))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn spectrum(name: &str, whole: WholeLayer, decay: f64) -> Spectrum {
        let values = |count: usize| (0..count).map(|at| decay.powi(at as i32)).collect::<Vec<f64>>();
        let (inner, out) = (whole.inner, whole.out);
        let least = inner.min(out);
        match whole.is_matrix() {
            true => Spectrum { name: name.to_owned(), whole, inner: values(least), out: values(least) },
            false => Spectrum { name: name.to_owned(), whole, inner: values(inner), out: values(out) },
        }
    }

    #[test]
    fn the_least_rank_that_holds_the_share_is_found() {
        let squares = [8.0, 4.0, 2.0, 1.0, 1.0];
        let found = [0.0, 0.1, 0.5, 0.51, 0.75, 0.9, 0.94, 1.0].map(|energy| rank(&squares, energy));
        assert_eq!(found, [1, 1, 1, 2, 2, 4, 5, 5]);
        assert_eq!((rank(&[0.0; 4], 0.9), rank(&[], 0.9)), (1, 1));
    }

    #[test]
    fn a_size_is_come_to_and_not_passed() {
        let dense = WholeLayer { inner: 100, out: 80, size: 1 };
        let conv = WholeLayer { inner: 16, out: 32, size: 3 };
        let layers = [spectrum("a", dense, 0.9), spectrum("b", conv, 0.7)];
        let parameters = (dense.weights() + conv.weights() + 500) as u64;
        let all = |table: &RankTable| -> usize {
            let of = |layer: &Spectrum| match table.of(&layer.name) {
                Some(ranks) => layer.whole.factored_weights(ranks),
                None => layer.whole.weights(),
            };
            layers.iter().map(of).sum::<usize>() + 500
        };
        let mut before = 0;
        for size in [0.1, 0.25, 0.5, 0.75, 0.99] {
            let found = all(&by_size(&layers, parameters, size).expect("possible"));
            assert!(found as f64 <= size * parameters as f64 && found >= before, "{size}: {found}");
            // A rank more in a layer is at most 180 weights.
            assert!(found as f64 > size * parameters as f64 - 0.2 * parameters as f64, "{size}: {found}");
            before = found;
        }
        let problem = by_size(&layers, parameters, 0.01).expect_err("too small");
        assert!(problem.message.contains("ranks of 1") && problem.mend.contains("or more"), "{problem:?}");
    }
}
