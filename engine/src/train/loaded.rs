//! The memory that driver and kernels take of a GPU in a run, once the run shows it.
//!
//! A plan allows for the kernels of a run that was never seen. Owns what follows when they are loaded, which they are after the
//! first step and after each test: the line of the tensors is lowered by what kernels took more, and graphs have what they took
//! less. Always holds: the process does not grow past the line by what it is asked for afterwards. Refuses to go on where what
//! the run still needs does not fit next to the kernels. Where the driver does not tell memory by process, all stays as it was
//! planned.

use std::{
    cell::{Cell, OnceCell},
    rc::Rc,
};

use crate::{
    backend::cuda::{Device, Pool},
    bytes::Bytes,
    error::{BudgetError, DeviceFull, During, Result},
    hardware::kernels_allowed,
    memory::{Ledger, host::LimitedBy, probe::Measure},
    plan::Plan,
    train::process::Process,
};

/// What a run was allowed, and what it took.
pub(super) struct Loaded {
    pub(super) process: Process,
    pub(super) device: Rc<Device>,
    pub(super) pool: Rc<Pool>,
    /// The room for graphs from here on.
    pub(super) graphs: Rc<Cell<Bytes>>,
    /// What the plan allowed for driver and kernels.
    pub(super) context: Bytes,
    /// Whether it was told that they took more.
    pub(super) is_told: OnceCell<()>,
}

impl Loaded {
    /// Lowers the line of `ledger` and pool by what driver and kernels hold more than `plan` allowed, which `warn` is told once,
    /// and gives graphs what they hold less.
    ///
    /// # Errors
    /// [`crate::Error::Budget`] where the run does not fit next to them.
    pub(super) fn settle(&self, plan: &Plan, ledger: &Ledger, warn: impl FnOnce(String)) -> Result<()> {
        let Some(all) = self.process.reported() else { return Ok(()) };
        let reserved = self.pool.now().reserved;
        // Graphs have an allowance of their own.
        let held = all.saturating_sub(reserved).saturating_sub(self.device.captured().took);
        self.graphs.set(room_for_graphs(plan, (self.context + plan.graphs).saturating_sub(held)));
        let over = held.saturating_sub(self.context);
        if over == Bytes::ZERO {
            return Ok(());
        }
        ledger.set_context(held);
        self.pool.lower_limit(plan.budget.saturating_sub(held));
        let needed = plan.peak.reserved.max(reserved);
        if held + needed > plan.budget {
            return Err(refusal(over, self.context + needed, plan.budget).into());
        }
        if self.is_told.set(()).is_ok() {
            let graphs = if plan.graphs > Bytes::ZERO { ", graphs have so much less" } else { "" };
            warn(format!(
                "driver and kernels hold {held} on the GPU, {over} more than was allowed for: the line of the tensors is so much \
                 lower{graphs}, and the next plan accounts for it"
            ));
        }
        Ok(())
    }
}

/// Whether a run of `plan` itself left a card too `full` for its kernels, when driver and kernels had come to hold `held`. If others
/// held what the plan counted on, beyond the allowance for kernels that are not known, they left it too full.
pub(super) fn is_short_by_itself(full: &DeviceFull, plan: &Plan, held: Bytes) -> bool {
    // A block asks for a number of bytes, and a kernel for what only the driver knows.
    let is_for_kernel = full.asked == Bytes::ZERO;
    let others = full.total.saturating_sub(full.free + full.reserved + held);
    let allowance = kernels_allowed(plan.experiment.model.kind.convolves());
    is_for_kernel && plan.budget + others < full.total + allowance
}

/// What is said of that.
pub(super) const SHORT: &str =
    "kernels take more of the card than this run left them: started again, it leaves them as much again";

/// The room for graphs where this much is left of what the process was planned to take: what was allowed or more, up to two of
/// each; nothing where that is not enough for one of each.
fn room_for_graphs(plan: &Plan, left: Bytes) -> Bytes {
    let enough = plan.graphs > Bytes::ZERO || left.0 >= plan.most_graphs.0 / 2;
    if enough { left.min(plan.most_graphs) } else { Bytes::ZERO }
}

/// Kernels took `asked` bytes more than was allowed, in a run that otherwise comes to `live`.
fn refusal(asked: Bytes, live: Bytes, budget: Bytes) -> BudgetError {
    BudgetError {
        layer: "run".to_owned(),
        op: "launch",
        label: "kernels",
        asked,
        live,
        budget,
        limited_by: LimitedBy::Budget,
        is_planned: false,
        during: During::default(),
        mend: None,
    }
}
