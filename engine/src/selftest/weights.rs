//! The weights that a drawn experiment begins or learns with: a teacher, and a model whose layers' ranks are found.
//!
//! Always holds: they are the initial weights of a small model, made and written here, so that every machine has them. What
//! they take, and what is predicted of it, does not depend on what they have learned.

use std::{
    fs::File,
    io::{BufWriter, Write},
    path::Path,
};

use super::{experiments::Dice, families::FAMILIES};
use crate::{
    backend::{Cpu, Executor},
    error::{Error, Result},
    experiment::{
        Answers, CachePlace, DataKind, DatasetInfo, Distil, Experiment, LabelKind, LowRank, Model, ModelKind, preset,
    },
    hardware::Machine,
    memory::Ledger,
    plan::{self, Resolved},
    step::{Session, save::Sink},
    whole_file::reason,
};

/// Of so many experiments whose layers are factored, one keeps the rank that was drawn for it.
const CHOICES: usize = 3;
/// Of so many experiments, one has a teacher.
const TAUGHT: usize = 6;
/// Shares of the whole model's weights. The last leaves every model room.
const SIZES: [f64; 3] = [0.4, 0.7, 1.0];

/// Lets the ranks of a factored model be found from weights in `folder`, where that comes out.
///
/// # Errors
/// Fails when the system takes no file.
pub(super) fn ranked(e: &mut Experiment, dice: Dice, (folder, number): (&Path, usize)) -> Result<()> {
    if e.low_rank.rank == 0 || is_large(e.model.kind) || dice.rarely(130, CHOICES) {
        return Ok(());
    }
    let path = folder.join(format!("{number:03}-weights.safetensors"));
    let own = alone(e, e.model.clone());
    write(&path, &own, resolved(&own)?.info())?;
    e.weights.path = Some(path);
    e.low_rank = LowRank { energy: dice.one(132, &[0.3, 0.6, 0.9]), ..LowRank::default() };
    if dice.rarely(131, 2) {
        // Layers that stay whole may leave too little room for a small share.
        for size in &SIZES[dice.below(133, SIZES.len())..] {
            let sized = Experiment { low_rank: LowRank { size: *size, ..LowRank::default() }, ..e.clone() };
            if resolved(&sized).is_ok() {
                *e = sized;
                break;
            }
        }
    }
    Ok(())
}

/// Gives the experiment a teacher in `folder`, where that comes out. The teacher's sizes are drawn by dice of its own.
///
/// # Errors
/// Fails when the system takes no file.
pub(super) fn taught(e: &mut Experiment, [dice, own]: [Dice; 2], (folder, number): (&Path, usize)) -> Result<()> {
    if !dice.rarely(134, TAUGHT) {
        return Ok(());
    }
    let info = *resolved(e)?.info();
    if info.label == LabelKind::Value {
        return Ok(());
    }
    let first = dice.below(135, FAMILIES.len());
    // Some family answers about these samples: the experiment's own does.
    let teachers = (0..FAMILIES.len()).map(|at| &FAMILIES[(first + at) % FAMILIES.len()]);
    let teachers = teachers.filter(|family| !is_large(family.kind)).map(|family| {
        let mut sized = e.clone();
        sized.model.kind = family.kind;
        (family.sizes)(&mut sized, own);
        alone(e, sized.model)
    });
    let Some(teacher) = teachers.into_iter().find(|teacher| resolved(teacher).is_ok()) else { return Ok(()) };
    let path = folder.join(format!("{number:03}-teacher.safetensors"));
    write(&path, &teacher, &info)?;
    e.distil = Distil {
        teacher: Some(path),
        temperature: dice.one(136, &[1.0, 4.0]),
        weight: dice.one(137, &[0.3, 0.7, 1.0]),
        answers: dice.one(138, &[Answers::Live, Answers::Cached]),
    };
    if e.data.kind == DataKind::Text || e.data.is_varied() && e.data.kind.traits().has_pictures {
        // Its samples are others in every epoch.
        e.distil.answers = Answers::Live;
    }
    if e.distil.is_asked_before() {
        e.data.cache_in = dice.one(139, &CachePlace::ALL);
    }
    Ok(())
}

/// Whether the family has no model that is written in a moment.
fn is_large(kind: ModelKind) -> bool {
    kind == ModelKind::Resnet
}

/// An experiment that trains `model` on the same data, and does nothing else.
fn alone(e: &Experiment, model: Model) -> Experiment {
    let (data, batch, run) = (e.data.clone(), e.batch.clone(), e.run.clone());
    Experiment { model, data, batch, run, ..Experiment::default() }
}

/// The experiment as it stands on any machine.
fn resolved(e: &Experiment) -> Result<Resolved> {
    let here = Experiment { device: Experiment::default().device, ..e.clone() };
    Resolved::new(&here, &Machine::nominal()).map_err(plan::first)
}

/// A file of weights that is being written.
struct Written<'a> {
    path: &'a Path,
    file: BufWriter<File>,
}

impl Written<'_> {
    fn put(&mut self, bytes: &[u8]) -> Result<()> {
        self.file.write_all(bytes).map_err(|error| unwritable(self.path, &error))
    }
}

impl Sink for Written<'_> {
    fn head(&mut self, bytes: &[u8]) -> Result<()> {
        self.put(bytes)
    }

    fn elements(&mut self, bytes: &[u8]) -> Result<()> {
        self.put(bytes)
    }
}

fn unwritable(path: &Path, error: &std::io::Error) -> Error {
    Error::file(path, format!("cannot be written: {}; make room there", reason(error)))
}

/// Writes the initial weights of the experiment's model.
fn write(path: &Path, experiment: &Experiment, info: &DatasetInfo) -> Result<()> {
    let session = Session::new(Executor::new(Cpu::new(1), Ledger::new(None, false)), experiment, info)?;
    let facts = [("format", "pt".to_owned()), ("experiment", preset::to_text(experiment))];
    let file = File::create(path).map_err(|error| unwritable(path, &error))?;
    let mut written = Written { path, file: BufWriter::new(file) };
    session.save(&facts, &mut written)?;
    written.file.flush().map_err(|error| unwritable(path, &error))
}
