//! Random experiments: every family with every precision, checkpointing and optimizer that can come out, small enough
//! to train in a moment. A seed gives the same experiments everywhere.

use std::path::{Path, PathBuf};

use super::{
    families::{FAMILIES, Family, made},
    weights,
};
use crate::{
    bytes::Bytes,
    device::target,
    error::Result,
    experiment::{
        BaseWeights, Batch, CachePlace, Checkpointing, CodedWeights, Data, DataCache, DataKind, EvaluationBatch,
        Execution, Experiment, Frozen, Gpu, NormaliseWhen, OptimizerKind, Placement, PoolPolicy, Precision, Projection,
        Prune, PruneKind, PruneSchedule, PruneScope, QuantiseKind, Recompute, Targets, Task, UpdateTime,
    },
    rng::{Rng, Stream},
};

/// The names of the families, in the order in which they are drawn.
pub fn families() -> impl Iterator<Item = &'static str> {
    FAMILIES.iter().map(|family| family.name)
}

/// An experiment that came out.
#[derive(Debug, Clone)]
pub struct Drawn {
    /// The experiment's family.
    pub family: &'static str,
    /// Itself, its budget as by default.
    pub experiment: Experiment,
    rng: Rng,
    /// Decides the sizes of a teacher.
    teacher: Rng,
    /// Its place among the experiments of its seed, counted from 1.
    number: usize,
}

impl Drawn {
    /// The same experiment with a teacher, and with ranks that are found from weights, where these come out. Their files are
    /// written into `folder`, and have to be there as long as it is trained.
    ///
    /// # Errors
    /// Fails when the system takes no file.
    pub fn with_weights_in(mut self, folder: &Path) -> Result<Self> {
        let dice = Dice(self.rng);
        weights::ranked(&mut self.experiment, dice, (folder, self.number))?;
        weights::taught(&mut self.experiment, [dice, Dice(self.teacher)], (folder, self.number))?;
        Ok(self)
    }

    /// Draws a number from `0..n` for a further decision about this experiment. `place` distinguishes the decisions.
    pub fn also(&self, place: u64, n: usize) -> usize {
        Dice(self.rng).below(100 + place, n)
    }
}

/// Random experiments, one after another without end.
#[derive(Debug, Clone)]
pub struct Experiments {
    seed: u64,
    device: String,
    text: Option<PathBuf>,
    next: usize,
}

impl Experiments {
    /// The experiments of a seed for `device`; some learn the bytes of `text`, if one is given.
    pub fn new(seed: u64, device: &str, text: Option<&Path>) -> Self {
        Self { seed, device: device.to_owned(), text: text.map(Path::to_owned), next: 0 }
    }
}

impl Iterator for Experiments {
    type Item = Drawn;

    fn next(&mut self) -> Option<Drawn> {
        let family = &FAMILIES[self.next % FAMILIES.len()];
        let [rng, teacher] = [Stream::Data, Stream::Weights].map(|of| Rng::new(self.seed, of, self.next as u64));
        self.next += 1;
        let mut experiment = draw(family, Dice(rng), self.text.as_deref());
        if target::cuda_index(&self.device).is_some() {
            experiment.gpu = gpu(Dice(rng));
        }
        experiment.device.clone_from(&self.device);
        Some(Drawn { family: family.name, experiment, rng, teacher, number: self.next })
    }
}

/// Numbers of one experiment: each throw has a place of its own, so that a new one changes none of the others.
#[derive(Clone, Copy)]
pub(super) struct Dice(Rng);

impl Dice {
    /// From 0 to `n - 1`.
    pub(super) fn below(self, place: u64, n: usize) -> usize {
        self.0.below(place, n)
    }

    pub(super) fn range(self, place: u64, low: f64, high: f64) -> f64 {
        self.0.range(place, low, high)
    }

    pub(super) fn one<T: Copy>(self, place: u64, of: &[T]) -> T {
        of[self.below(place, of.len())]
    }

    /// Whether one of `n` comes out.
    pub(super) fn rarely(self, place: u64, n: usize) -> bool {
        self.below(place, n) == 0
    }
}

fn draw(family: &Family, dice: Dice, text: Option<&Path>) -> Experiment {
    let mut experiment = Experiment {
        precision: dice.one(5, &Precision::ALL),
        checkpointing: dice.one(
            6,
            &[
                Checkpointing::None,
                Checkpointing::Blocks,
                Checkpointing::Every(2),
                Checkpointing::Sqrt,
                Checkpointing::Percent(dice.below(30, 101) as u8),
                Checkpointing::Pick([1].into_iter().collect()),
            ],
        ),
        batch: Batch { micro: 2 + dice.below(7, 70), accumulation: 1 + dice.below(8, 4), ..Batch::default() },
        ..Experiment::default()
    };
    experiment.run.steps = Some(1 + dice.below(13, 3) as u64);
    experiment.run.seed = 3;
    experiment.data.kind = dice.one(11, &made(Task::Class, true));
    (experiment.data.samples, experiment.data.classes) = (700, 2 + dice.below(12, 9));
    experiment.model.kind = family.kind;
    (family.sizes)(&mut experiment, dice);
    if experiment.data.kind == DataKind::Text {
        match text {
            Some(text) => experiment.data.path = Some(text.to_owned()),
            None => experiment.data.kind = DataKind::Tokens,
        }
    }
    experiment.data.placement = placement(experiment.data.kind, dice);
    kept(&mut experiment, dice);
    waiting(&mut experiment.data, dice);
    if experiment.data.is_work() {
        experiment.data.workers = dice.one(120, &[0, 0, 1, 2, 3]);
    }
    experiment.data.prefetch = dice.one(121, &[2, 2, 0, 1, 4]);
    experiment.run.threads = dice.one(97, &[0, 0, 0, 1, 3]);
    experiment.optimizer.kind = dice.one(9, &OptimizerKind::ALL);
    experiment.recompute = dice.one(61, &[Recompute::None, Recompute::Cheap]);
    experiment.retain_graph = dice.one(62, &[false, false, true]);
    experiment.execution = dice.one(113, &[Execution::InPlace, Execution::Fused, Execution::Eager]);
    experiment.frozen = dice.one(63, &[Frozen::None, Frozen::None, Frozen::Blocks(1), Frozen::AllButHead]);
    experiment.lora.rank = dice.one(64, &[0, 0, 0, 4]);
    if experiment.lora.rank > 0 && experiment.model.kind.is_decoder() {
        adapted(&mut experiment, dice);
    }
    thinned(&mut experiment, dice);
    let can_be_integers = experiment.lora.rank == 0 && experiment.precision != Precision::F64;
    if can_be_integers && dice.rarely(110, 4) {
        integers(&mut experiment, dice);
    }
    if experiment.lora.rank == 0 && dice.rarely(87, 4) {
        experiment.low_rank.rank = dice.one(88, &[1, 2, 3, 5, 8]);
    }
    experiment.optimizer.clip_norm = dice.one(10, &[0.0, 1.0]);
    let several = EvaluationBatch::Samples(8 + dice.below(66, 200));
    experiment.batch.evaluation =
        dice.one(65, &[EvaluationBatch::Micro, EvaluationBatch::Micro, several, EvaluationBatch::Whole]);
    let needs_all = experiment.optimizer.clip_norm > 0.0 || experiment.precision == Precision::F16Mixed;
    if !needs_all && experiment.batch.accumulation == 1 {
        experiment.optimizer.update = UpdateTime::InBackward;
    }
    experiment
}

/// Where the samples of a kind of data wait.
fn placement(kind: DataKind, dice: Dice) -> Placement {
    if kind == DataKind::Table {
        Placement::Host
    } else if kind.traits().is_streamable {
        dice.one(31, &[Placement::Streamed, Placement::Host, Placement::Device])
    } else {
        dice.one(31, &[Placement::Host, Placement::Device])
    }
}

/// Draws the pruning. Channels are taken out if the model has some and learns all of them.
fn thinned(e: &mut Experiment, dice: Dice) {
    if e.frozen == Frozen::All || !dice.rarely(80, 4) {
        return;
    }
    e.prune = pruned(dice);
    let learns_all = e.frozen == Frozen::None && e.lora.rank == 0;
    let can_thin = e.model.kind.has_channels() && e.optimizer.kind.keeps_state_by_weight();
    if learns_all && can_thin && !dice.rarely(87, 3) {
        (e.prune.kind, e.prune.begin_step) = (PruneKind::Channels, 0);
        e.run.steps = Some(2 + dice.below(88, 3) as u64);
    }
}

/// Draws the form in which streamed images are kept.
fn kept(e: &mut Experiment, dice: Dice) {
    if e.data.placement != Placement::Streamed || !e.data.kind.can_keep() {
        return;
    }
    e.data.cache = dice.one(95, &[DataCache::None, DataCache::Decoded, DataCache::Augmented(2)]);
    e.data.flip = e.data.cache.copies().is_some();
    e.data.cache_in = dice.one(96, &CachePlace::ALL);
}

/// Draws the form in which images wait.
fn waiting(data: &mut Data, dice: Dice) {
    if data.can_wait_as_loaded() && dice.rarely(140, 4) {
        data.load_side = dice.one(141, &[data.side, data.side + 9, 4 * data.side]);
    } else if data.has_waiting_images() && dice.rarely(142, 3) {
        data.normalise_when = NormaliseWhen::Beforehand;
    }
}

/// Draws adapters of a decoder, and the weights that they belong to.
fn adapted(e: &mut Experiment, dice: Dice) {
    let some = Targets::of(&[Projection::Q, Projection::V, Projection::Down]);
    e.lora.targets = dice.one(74, &[Targets::ALL, some]);
    e.lora.dropout = dice.one(75, &[0.0, 0.1]);
    e.lora.rslora = dice.rarely(76, 2);
    e.quantise.base = dice.one(77, &BaseWeights::ALL);
    if !e.quantise.base.is_none() {
        e.frozen = dice.one(78, &[Frozen::All, Frozen::AllButHead]);
    }
}

/// A trained model that becomes one of integers.
fn integers(e: &mut Experiment, dice: Dice) {
    e.quantise.kind = dice.one(111, &[QuantiseKind::After, QuantiseKind::Aware]);
    e.quantise.calibration = 1 + dice.below(112, 5);
    match e.quantise.kind {
        QuantiseKind::After if e.model.kind.is_decoder() => e.quantise.weights = dice.one(114, &CodedWeights::ALL),
        QuantiseKind::None | QuantiseKind::After => {}
        QuantiseKind::Aware => e.loss_chunk = 0,
    }
}

/// Weights that become zero, from the first update on or from a later one.
fn pruned(dice: Dice) -> Prune {
    Prune {
        kind: dice.one(81, &[PruneKind::Magnitude, PruneKind::Magnitude, PruneKind::Groups]),
        scope: dice.one(82, &PruneScope::ALL),
        schedule: dice.one(83, &PruneSchedule::ALL),
        initial_sparsity: dice.one(84, &[0.0, 0.2]),
        n: 1 + dice.below(85, 2),
        begin_step: dice.below(86, 2) as u64,
        every: 1,
        ..Prune::default()
    }
}

/// Draws the choices of a GPU's memory and arithmetic.
fn gpu(dice: Dice) -> Gpu {
    Gpu {
        pool: dice.one(70, &PoolPolicy::ALL),
        workspace: dice.one(71, &[Bytes::ZERO, Bytes::mib(1), Bytes::mib(32)]),
        tf32: dice.rarely(72, 3),
        deterministic: !dice.rarely(73, 4),
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;
    use crate::{experiment::Answers, hardware::Machine, plan::Resolved};

    #[test]
    fn every_kind_of_data_is_drawn_whose_samples_are_on_every_machine() {
        let experiments = Experiments::new(7, "cpu", Some(Path::new("a.txt"))).take(2000);
        let drawn: HashSet<DataKind> = experiments.map(|drawn| drawn.experiment.data.kind).collect();
        for kind in DataKind::ALL {
            // A text is given here, and a table ships.
            let is_here = !kind.is_on_disk() || matches!(kind, DataKind::Text | DataKind::Table);
            assert_eq!(drawn.contains(&kind), is_here, "{kind:?}");
        }
    }

    #[test]
    fn teachers_and_ranks_that_are_found_are_drawn_and_all_of_them_can_be() {
        let folder = tempfile::tempdir().expect("a folder");
        let machine = Machine::nominal();
        let (mut live, mut asked_before, mut by_energy, mut by_size) = (0, 0, 0, 0);
        for drawn in Experiments::new(7, "cpu", None).take(150) {
            let plain = drawn.experiment.clone();
            let drawn = drawn.with_weights_in(folder.path()).expect("a disk with room");
            let e = &drawn.experiment;
            if *e == plain {
                continue;
            }
            Resolved::new(e, &machine).unwrap_or_else(|problems| panic!("{}: {problems:?}", drawn.family));
            live += usize::from(e.distil.chosen().is_some() && e.distil.answers == Answers::Live);
            asked_before += usize::from(e.distil.is_asked_before());
            by_energy += usize::from(e.low_rank.energy > 0.0);
            by_size += usize::from(e.low_rank.size > 0.0);
        }
        assert!([live, asked_before, by_energy, by_size].into_iter().all(|count| count > 0));
    }
}
