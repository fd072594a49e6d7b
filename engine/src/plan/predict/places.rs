//! Places for the blocks of a run: on a GPU by a dry run that asks a pool which grows, on the processor by the one that records.
//!
//! Always holds: the places are a function of the resolved experiment and the machine, so that a run is placed as its plan
//! was. They never take more than the pool would by growing.

use std::sync::Arc;

use super::{Dry, Purpose, predict, shortened};
use crate::{
    bytes::Bytes,
    device::{PoolPolicy, Target},
    error::Result,
    experiment::{Experiment, PruneKind},
    hardware::Machine,
    memory::allocator::{Places, Requests, Search},
    plan::Resolved,
};

/// The most layers or blocks of a model whose tensors have places on the processor. The search takes longer by more than they
/// are: with 5,000 layers it took 1.4 s.
const DEEPEST: usize = 1_000;

/// Whether the tensors of a run on the processor lie in a range of addresses, at places that the dry run finds; otherwise they
/// lie on the heap, as those of a model that loses channels, whose range would stay as long as it was before.
pub(crate) fn are_in_range(experiment: &Experiment) -> bool {
    experiment.model.depth <= DEEPEST && experiment.prune.kind != PruneKind::Channels
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

/// The places, and the memory that growing would take; `None` if blocks are placed as they come, or if that is better.
pub(super) fn found(resolved: &Resolved, machine: &Machine) -> Result<Option<(Arc<Places>, Bytes)>> {
    let Target::Gpu(profile) = resolved.target() else { return Ok(None) };
    if resolved.experiment().gpu.pool != PoolPolicy::Planned {
        return Ok(None);
    }
    let (requests, grown) = requests(resolved, machine)?;
    let places = Places::of(&requests, &profile.pool, Search::Careful);
    Ok((places.segment() <= grown).then(|| (Arc::new(places), grown)))
}

/// The places that the plan of a run has.
pub(super) fn of_plan(resolved: &Resolved, machine: &Machine) -> Result<Option<Arc<Places>>> {
    let is_planned = resolved.target().is_gpu() && resolved.experiment().gpu.pool == PoolPolicy::Planned;
    if is_planned { Ok(predict(resolved, machine)?.places) } else { Ok(None) }
}
