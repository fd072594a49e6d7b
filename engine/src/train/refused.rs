//! The refusal of a run at its budget, with the changes that would fit.

use std::{sync::Arc, time::Duration};

use crate::{
    error::{BudgetError, Result},
    hardware::Machine,
    plan::{self, Advice, Limit, Plan, Resolved},
    train::event::Refusal,
};

/// Nearest changes that come with a refusal.
const ADVICE: usize = 3;
/// How long they are looked for at most.
const ADVICE_TIME: Duration = Duration::from_secs(5);

/// The refusal of a run with `error`, and what would fit. A plan that fits was wrong about the memory of kernels, which `machine`
/// knows by now.
pub(super) fn refused(error: BudgetError, plan: Option<Arc<Plan>>, machine: &Machine) -> Refusal {
    let Some(plan) = plan else { return Refusal { error, advice: Vec::new() } };
    let is_known_better = plan.target.is_gpu() && plan.fits();
    let anew = if is_known_better { planned_anew(&plan, machine).ok() } else { None };
    let mend = anew.as_ref().filter(|anew| anew.fits()).map(|_| PLANNED_ANEW.into());
    let advice = advice(anew.as_ref().unwrap_or(&plan), &error).unwrap_or_default();
    Refusal { error: BudgetError { mend: mend.or(error.mend.clone()), ..error }, advice }
}

/// What is said where the same run fits by what is known of its kernels now.
const PLANNED_ANEW: &str = "started again, it is planned with what kernels take, and fits";

/// The plan of the same run by what is known of `machine` now.
fn planned_anew(plan: &Plan, machine: &Machine) -> Result<Plan> {
    let resolved = Resolved::after(Some(&plan.resolved), &plan.experiment, machine).map_err(plan::first)?;
    plan::predict(&resolved.resuming(plan.resolved.resumed().cloned()), machine)
}

/// The nearest changes that fit where a run was refused with `error`.
fn advice(plan: &Plan, error: &BudgetError) -> Result<Vec<Advice>> {
    let limit = Limit::for_plan(plan, ADVICE_TIME);
    if error.limited_by == plan.line().limited_by {
        return plan::advise(plan, ADVICE, limit);
    }
    // The system has come to give less since the plan was made.
    plan::advise(&plan::predict(&plan.resolved.held_to(error.budget), &plan.machine)?, ADVICE, limit)
}
