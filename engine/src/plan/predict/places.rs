//! Places for the blocks of a run, by the dry run that the plan is made of.
//!
//! Always holds: the places are a function of the resolved experiment and the machine, so that a run is placed as its plan
//! was. On a GPU they never take more than the pool would by growing. Where one dry run cannot show that, another asks a pool
//! that grows.

use std::sync::Arc;

use super::{
    dry::{Done, Dry, Purpose, shortened},
    predict,
};
use crate::{
    bytes::Bytes,
    device::{PoolPolicy, Target},
    error::Result,
    experiment::Experiment,
    hardware::Machine,
    memory::allocator::{Allocator, Places, Requests, Search},
    plan::Resolved,
};

/// The most layers or blocks of a model whose tensors have places. The search takes longer by more than they are: with 5,000
/// layers it took 1.4 s.
const DEEPEST: usize = 1_000;

/// Whether places are found for a model.
fn are_for(experiment: &Experiment) -> bool {
    experiment.model.depth <= DEEPEST
}

/// Whether the tensors of a run on the processor lie in a range of addresses, at places that the dry run finds; otherwise they
/// lie on the heap.
pub(crate) fn are_in_range(experiment: &Experiment) -> bool {
    are_for(experiment)
}

/// Whether the blocks of a run on a GPU have places that are found beforehand.
pub(super) fn are_planned(experiment: &Experiment) -> bool {
    experiment.gpu.pool == PoolPolicy::Planned && are_for(experiment)
}

/// The allocator of a run.
pub(super) fn allocator(resolved: &Resolved) -> Allocator {
    let experiment = resolved.experiment();
    match resolved.target() {
        Target::Cpu(_) => Allocator::of_processor(are_in_range(experiment)),
        gpu => Allocator::of(gpu, experiment.gpu.pool, resolved.line()),
    }
}

/// Whether a run on a GPU that is logged keeps to its places, and these take no more than the pool would by growing.
///
/// # Errors
/// Fails when the model cannot be built.
pub(super) fn are_best(resolved: &Resolved, machine: &Machine, done: &Done<'_>) -> Result<bool> {
    let (Some(places), Target::Gpu(profile)) = (&done.places, resolved.target()) else { return Ok(false) };
    if done.reserved() > places.segment() {
        return Ok(false);
    }
    // A pool that grows holds what is alive, and takes it from the driver in segments.
    let alive = done.recordings().iter().map(|recording| recording.live_peak).max().unwrap_or_default();
    if places.segment().0 <= profile.pool.segment_for(alive.0) {
        return Ok(true);
    }
    // A log leaves out what repeats, so only a run of its own tells what growing takes.
    Ok(places.segment() <= requests(resolved, machine)?.1)
}

/// The requests of a run of `resolved` to a pool that grows, and the bytes that this takes.
///
/// # Errors
/// Fails when the model cannot be built.
pub fn requests(resolved: &Resolved, machine: &Machine) -> Result<(Requests, Bytes)> {
    let shortened = shortened(resolved.experiment());
    let mut dry = Dry::new(resolved, &shortened, machine, Purpose::Ask, None)?;
    dry.passes()?;
    let ledger = dry.session.executor().ledger();
    Ok((ledger.take_requests(), ledger.reserved()))
}

/// Places by the requests of a run to a pool that grows, and the memory that this takes; `None` if growing is better.
pub(super) fn found(resolved: &Resolved, machine: &Machine) -> Result<Option<(Arc<Places>, Bytes)>> {
    let Target::Gpu(profile) = resolved.target() else { return Ok(None) };
    let (requests, grown) = requests(resolved, machine)?;
    let places = Places::of(&requests, &profile.pool, Search::Careful);
    Ok((places.segment() <= grown).then(|| (Arc::new(places), grown)))
}

/// The places that the plan of a run has.
pub(super) fn of_plan(resolved: &Resolved, machine: &Machine) -> Result<Option<Arc<Places>>> {
    let is_planned = resolved.target().is_gpu() && are_planned(resolved.experiment());
    if is_planned { Ok(predict(resolved, machine)?.places) } else { Ok(None) }
}
