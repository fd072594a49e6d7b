//! The blocks that are computed again: a choice of checkpointing, worked out for one model.
//!
//! The answer depends on the experiment and its data alone, never on measured rates: the planner and the trainer must get the
//! same one.

use std::ops::Range;

use super::{Model, run_blocks};
use crate::{
    autograd::{Tape, Value},
    backend::{DryRun, Executor, Rates},
    data::DatasetInfo,
    device::{Processor, Target},
    error::Result,
    experiment::{Checkpointing, Experiment},
    memory::{Category, Ledger, Phase},
};

/// Blocks in a row that are kept or computed again as one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Segment {
    pub(super) blocks: Range<usize>,
    pub(super) is_checkpointed: bool,
}

/// The segments of a model of `count` blocks, first to last.
pub(super) fn of(experiment: &Experiment, info: &DatasetInfo, count: usize) -> Result<Vec<Segment>> {
    let every = |k: usize| {
        let of = move |start| Segment { blocks: start..(start + k).min(count), is_checkpointed: true };
        (0..count).step_by(k).map(of).collect()
    };
    Ok(match experiment.checkpointing {
        Checkpointing::None => vec![Segment { blocks: 0..count, is_checkpointed: false }],
        Checkpointing::Blocks => every(1),
        Checkpointing::Every(k) => every(k.max(1)),
        Checkpointing::Sqrt => every(((count as f64).sqrt().round() as usize).max(1)),
        Checkpointing::Pick(set) => alone(count, |block| set.contains(block + 1)),
        Checkpointing::Percent(percent) => {
            let kept = keep(&costs(experiment, info)?, percent);
            alone(count, |block| !kept[block])
        }
    })
}

/// Every block a segment of its own.
fn alone(count: usize, is_checkpointed: impl Fn(usize) -> bool) -> Vec<Segment> {
    (0..count).map(|i| Segment { blocks: i..i + 1, is_checkpointed: is_checkpointed(i) }).collect()
}

/// The cost of keeping a block and of computing it again.
#[derive(Debug, Clone, Copy)]
struct Cost {
    /// Bytes that stay when everything is kept.
    kept_bytes: u64,
    /// Bytes of its input, which stay when the block is computed again.
    input_bytes: u64,
    /// Time of its forward pass at nominal rates.
    secs: f64,
}

/// Each block's costs, by a dry run of the forward pass.
fn costs(experiment: &Experiment, info: &DatasetInfo) -> Result<Vec<Cost>> {
    let executor =
        Executor::new(DryRun::new(Target::Cpu(Processor::with_threads(1)), Rates::NOMINAL), Ledger::new(None, false));
    executor.set_execution(experiment.execution);
    let kept = Experiment { checkpointing: Checkpointing::None, ..experiment.clone() };
    let model = Model::build(&executor, &kept, info)?;
    executor.ledger().set_phase(Phase::Forward);
    let (input, micro) = (info.input, experiment.batch.micro);
    let inputs =
        executor.allocate(input.shape(micro), input.dtype(experiment.precision), Category::Batch, input.label())?;
    let mut tape = Tape::recording(&executor).with_recompute(experiment.recompute);
    let mut values = vec![Value::constant(inputs)];
    let mut costs = Vec::with_capacity(model.parts.blocks.len());
    for i in 0..model.parts.blocks.len() {
        let (live, input_bytes) = (executor.ledger().live(), values.last().map_or(0, |x| x.tensor.bytes()));
        executor.backend().take_secs();
        values = run_blocks(&model.parts.blocks[i..=i], &mut tape, values, None, None)?;
        let kept_bytes = executor.ledger().live().saturating_sub(live).0;
        // The inputs are the batch's, kept or not.
        let input_bytes = if i == 0 { 0 } else { input_bytes };
        costs.push(Cost { kept_bytes, input_bytes, secs: executor.backend().take_secs() });
    }
    Ok(costs)
}

/// Steps of the knapsack's scale: a block's bytes are rounded up to this part of the room.
const SCALE: usize = 1000;

/// Which blocks to keep so that at most `percent` of all activations stay and the least time is spent again: a 0-1
/// knapsack by dynamic programming (Kellerer, Pferschy & Pisinger 2004, chapter 2).
fn keep(costs: &[Cost], percent: u8) -> Vec<bool> {
    let all: u64 = costs.iter().map(|c| c.kept_bytes).sum();
    let least: u64 = costs.iter().map(|c| c.input_bytes.min(c.kept_bytes)).sum();
    let room = (all as f64 * f64::from(percent) / 100.0) as u64;
    let Some(room) = room.checked_sub(least) else { return vec![false; costs.len()] };
    let extra: Vec<u64> = costs.iter().map(|c| c.kept_bytes.saturating_sub(c.input_bytes)).collect();
    if extra.iter().sum::<u64>() <= room {
        return vec![true; costs.len()];
    }
    let unit = (room / SCALE as u64).max(1);
    let places = (room / unit) as usize;
    let mut best = vec![0.0; places + 1];
    let mut chosen = vec![vec![false; places + 1]; costs.len()];
    for (i, (cost, extra)) in costs.iter().zip(&extra).enumerate() {
        let weight = extra.div_ceil(unit) as usize;
        for place in (weight..=places).rev() {
            let with = best[place - weight] + cost.secs;
            if with > best[place] {
                (best[place], chosen[i][place]) = (with, true);
            }
        }
    }
    let mut kept = vec![false; costs.len()];
    let mut place = places;
    for i in (0..costs.len()).rev() {
        if chosen[i][place] {
            kept[i] = true;
            place -= extra[i].div_ceil(unit) as usize;
        }
    }
    kept
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cost(kept_bytes: u64, input_bytes: u64, secs: f64) -> Cost {
        Cost { kept_bytes, input_bytes, secs }
    }

    #[test]
    fn the_room_goes_to_what_is_dear_to_compute_again() {
        let costs = [cost(1000, 0, 1.0), cost(1000, 0, 5.0), cost(1000, 0, 3.0)];
        assert_eq!(keep(&costs, 100), [true, true, true]);
        assert_eq!(keep(&costs, 70), [false, true, true]);
        assert_eq!(keep(&costs, 34), [false, true, false]);
        assert_eq!(keep(&costs, 0), [false, false, false]);
    }

    #[test]
    fn what_is_kept_stays_within_the_share() {
        let rng = crate::rng::Rng::new(9, crate::rng::Stream::Data, 0);
        for case in 0..200 {
            let costs: Vec<Cost> = (0..12)
                .map(|i| {
                    let at = case * 100 + i * 3;
                    let kept = 1 + rng.below(at, 1_000_000) as u64;
                    cost(kept, rng.below(at + 1, kept as usize) as u64, rng.uniform(at + 2))
                })
                .collect();
            let percent = rng.below(case * 100 + 99, 101) as u8;
            let kept = keep(&costs, percent);
            let stays: u64 = costs.iter().zip(&kept).map(|(c, k)| if *k { c.kept_bytes } else { c.input_bytes }).sum();
            let all: u64 = costs.iter().map(|c| c.kept_bytes).sum();
            let least: u64 = costs.iter().map(|c| c.input_bytes).sum();
            assert!(stays as f64 <= (all as f64 * f64::from(percent) / 100.0).max(least as f64), "case {case}");
        }
    }
}
