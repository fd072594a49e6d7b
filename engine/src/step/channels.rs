//! Taking channels out of the model in the middle of a run.
//!
//! Owns the rule that decides which channels stay (the filters with the largest weights: Li et al. 2017, "Pruning filters
//! for efficient convnets") and the move of everything that a session keeps into the smaller model. Always holds: a channel
//! goes from every tensor that has it, and how many stay follows from the experiment alone, so that a dry run has the same
//! shapes. Refuses a model with a tensor whose channels are not known.

use crate::{
    backend::{Backend, DType, Executor, Tensor},
    bytes::Bytes,
    error::{Error, Result},
    experiment::Prune,
    memory::{Part, Phase},
    models::Model,
    nn::{ChannelGroup, ChannelMap, Layer, Param, TensorChannels},
    optim::Stripped,
    step::{Session, slots::slots},
};

/// The size of a model before channels were taken out of it.
#[derive(Debug, Clone, Copy)]
pub(super) struct Whole {
    numbers: u64,
    bytes: u64,
}

impl Whole {
    fn of<B: Backend>(model: &Model<B>) -> Self {
        Self { numbers: model.parameters(), bytes: model.params().iter().map(|param| param.weight().bytes()).sum() }
    }
}

/// Which channels stay.
struct Stay {
    map: ChannelMap,
    /// For each group, by its number, which channels stay.
    of_group: Vec<Vec<bool>>,
}

impl Stay {
    fn of(&self, group: Option<ChannelGroup>) -> &[bool] {
        group.map_or(&[], |group| &self.of_group[self.map.number(group)])
    }
}

impl<B: Backend> Session<B> {
    /// Whether channels were taken out.
    pub fn is_thinned(&self) -> bool {
        self.whole.is_some()
    }

    /// Takes channels out of the model, of its parameters, running statistics and optimizer state alike. The channels with the
    /// largest weights stay. Both models are alive while one is moved into the other.
    ///
    /// # Errors
    /// [`Error::Budget`] when the smaller model does not fit the budget together with the present one, a model whose channels
    /// are not known, and the failures of the device.
    pub fn take_out_channels(&mut self) -> Result<()> {
        let executor = self.executor.clone();
        executor.ledger().set_phase(Phase::Prune);
        executor.ledger().enter(Part::Prune);
        let stay = self.stay()?;
        let thinned = Model::thinned(&executor, &self.experiment, &self.info)?;
        let (choice, has_state) = (&self.experiment.optimizer, self.updates > 0);
        let new = slots(&thinned, choice, None, has_state);
        for (old, new) in slots(&self.model, choice, None, has_state).zip(new) {
            let _layer = executor.enter(old.layer);
            let [from, to] = [&old, &new].map(|slot| slot.tensor(&executor, choice));
            let channels = match old.channels(&stay.map) {
                Some(channels) => [channels.rows, channels.columns],
                // Such as the range of a layer's inputs.
                None if old.shape == new.shape => [None, None],
                None => return Err(unknown(&old.name(executor.ledger()))),
            };
            moved(&executor, [&from?, &to?], &stay, channels)?;
            new.was_replaced(&executor)?;
        }
        let passes = |model: &Model<B>| -> Vec<u64> {
            model.leaves().into_iter().filter_map(Layer::passes).map(std::cell::Cell::get).collect()
        };
        for (own, passes) in thinned.leaves().into_iter().filter_map(Layer::passes).zip(passes(&self.model)) {
            own.set(passes);
        }
        self.whole = Some(Whole::of(&self.model));
        self.model = thinned;
        executor.step_ended()
    }

    /// Gives the session the smaller model that is left when channels are taken out; its tensors have yet to be loaded.
    pub(crate) fn thin(&mut self) -> Result<()> {
        self.executor.ledger().set_phase(Phase::Loading);
        let thinned = Model::thinned(&self.executor, &self.experiment, &self.info)?;
        self.whole = Some(Whole::of(&self.model));
        self.model = thinned;
        Ok(())
    }

    /// The part that was taken out; `None` if nothing was.
    pub(super) fn taken_out(&self) -> Option<Stripped> {
        let (whole, now) = (self.whole?, Whole::of(&self.model));
        Some(Stripped {
            weights: whole.numbers,
            gone: whole.numbers - now.numbers,
            bytes: Bytes(now.bytes),
            dense_bytes: Bytes(whole.bytes),
            are_zeros: false,
        })
    }

    /// Which channels stay: in each group, the channels whose writers have the largest weights, by the sum of their magnitudes
    /// over each writer's mean.
    fn stay(&self) -> Result<Stay> {
        let executor = &self.executor;
        let map = self.model.channels(self.info.image().map_or(1, |[.., channels]| channels));
        let mut scores: Vec<Vec<f64>> = map.groups().map(|(channels, _)| vec![0.0; channels]).collect();
        let params = self.model.params();
        for (writer, group) in map.writers() {
            let param = params.iter().find(|param| is_of(writer, param)).ok_or_else(|| unknown(writer.name))?;
            let _layer = executor.enter(writer.layer);
            let magnitudes = row_magnitudes(executor, param.master())?;
            let mean = magnitudes.iter().sum::<f64>() / magnitudes.len().max(1) as f64;
            for (score, magnitude) in scores[map.number(group)].iter_mut().zip(&magnitudes) {
                *score += magnitude / mean.max(f64::MIN_POSITIVE);
            }
        }
        let of_group = map.groups().zip(&scores).map(|((channels, may_go), scores)| {
            if may_go { largest(scores, self.experiment.prune) } else { vec![true; channels] }
        });
        let of_group = of_group.collect();
        Ok(Stay { map, of_group })
    }
}

fn is_of<B: Backend>(tensor: &TensorChannels, param: &Param<B>) -> bool {
    param.layer() == tensor.layer && param.name() == tensor.name
}

/// The error for a tensor that no layer declared: a bug, because the check admits only families whose layers do.
fn unknown(name: &str) -> Error {
    Error::Misused(format!("the channels of {name} are not known"))
}

/// The largest scores, as many as the experiment lets stay; among equal ones the first.
fn largest(scores: &[f64], prune: Prune) -> Vec<bool> {
    let mut order: Vec<usize> = (0..scores.len()).collect();
    order.sort_by(|a, b| scores[*b].total_cmp(&scores[*a]).then(a.cmp(b)));
    let mut stay = vec![false; scores.len()];
    order[..prune.kept(scores.len())].iter().for_each(|channel| stay[*channel] = true);
    stay
}

/// The sum of the magnitudes of each row of a tensor; zeros in a dry run.
fn row_magnitudes<B: Backend>(executor: &Executor<B>, tensor: &Tensor<B>) -> Result<Vec<f64>> {
    let (dtype, rows) = (tensor.dtype(), tensor.shape().dims()[0]);
    let columns = tensor.elements() / rows.max(1);
    let (mut sums, mut at) = (vec![0.0; rows], 0);
    executor.save(tensor, &mut |bytes| {
        for element in bytes.chunks_exact(dtype.size()) {
            sums[at / columns] += number(dtype, element).abs();
            at += 1;
        }
        Ok(())
    })?;
    Ok(sums)
}

/// A number of a weight as it lies in memory.
fn number(dtype: DType, bytes: &[u8]) -> f64 {
    fn fixed<const N: usize>(bytes: &[u8]) -> [u8; N] {
        bytes.try_into().unwrap_or([0; N])
    }
    match dtype {
        DType::F64 => f64::from_ne_bytes(fixed(bytes)),
        DType::F32 => f64::from(f32::from_ne_bytes(fixed(bytes))),
        DType::Bf16 => f64::from(half::bf16::from_ne_bytes(fixed(bytes))),
        DType::F16 => f64::from(half::f16::from_ne_bytes(fixed(bytes))),
        DType::U32 | DType::U8 => 0.0,
    }
}

/// The elements of a tensor that stay.
struct Kept<'a> {
    rows: &'a [bool],
    columns: &'a [bool],
    /// Elements of a row.
    width: usize,
    /// Bytes of an element.
    size: usize,
}

impl Kept<'_> {
    /// Those of a part of the tensor which begins at this element.
    fn of<'b>(&'b self, bytes: &'b [u8], first: usize) -> impl Iterator<Item = &'b [u8]> {
        let stays = |all: &[bool], at: usize| all.get(at).is_none_or(|stays| *stays);
        let is_kept = move |(at, _): &(usize, &[u8])| {
            let (row, column) = (at / self.width, at % self.width);
            stays(self.rows, row) && stays(self.columns, column % self.columns.len().max(1))
        };
        (first..).zip(bytes.chunks_exact(self.size)).filter(is_kept).map(|(_, element)| element)
    }
}

/// Moves the kept part of a tensor into the smaller one: on a GPU through memory of the host, and on the processor from where
/// the one lies to where the other does.
fn moved<B: Backend>(
    executor: &Executor<B>,
    [from, to]: [&Tensor<B>; 2],
    stay: &Stay,
    channels: [Option<ChannelGroup>; 2],
) -> Result<()> {
    let [rows, columns] = channels.map(|group| stay.of(group));
    let kept = Kept { rows, columns, width: from.elements() / rows.len().max(1), size: from.dtype().size() };
    if !executor.backend().target().is_gpu() {
        return executor.save(from, &mut |bytes| {
            executor.backend().write_bytes(to, &mut |part| {
                part.chunks_exact_mut(kept.size).zip(kept.of(bytes, 0)).for_each(|(to, from)| to.copy_from_slice(from));
                Ok(())
            })
        });
    }
    let (mut elements, mut at, mut written) = (Vec::new(), 0, 0);
    executor.save(from, &mut |bytes| {
        // A dry run has no elements to move.
        elements.reserve_exact(to.bytes() as usize - elements.len());
        kept.of(bytes, at).for_each(|element| elements.extend_from_slice(element));
        at += bytes.len() / kept.size;
        Ok(())
    })?;
    executor.load(to, &mut |part| {
        part.copy_from_slice(&elements[written..written + part.len()]);
        written += part.len();
        Ok(())
    })
}
