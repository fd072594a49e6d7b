//! What a user can do about a test or a reply that would cross the budget.

use crate::{
    bytes::Bytes,
    error::{BudgetError, During, LimitedBy, Result},
    hardware::Machine,
    plan::{Begun, Forward, Passes, Resolved},
};

/// The refusal of a test, with the largest power of two as its batch that fits `line`, or else the budget that it needs.
pub(super) fn test(
    error: BudgetError,
    resolved: &Resolved,
    machine: &Machine,
    begun: Begun,
    (forward, line): (&Forward, Bytes),
) -> Result<BudgetError> {
    let test = resolved.info().test;
    let mut samples = resolved.evaluation_batch().max(1).next_power_of_two() / 2;
    while samples > 0 {
        let batches = [samples, test % samples];
        let smaller = Forward::of(resolved, machine, Passes::Batches(&batches), begun)?.load();
        if smaller <= line {
            let batch = format!("batch.evaluation={samples} ({smaller})");
            return Ok(mended(error, Some(batch), forward));
        }
        samples /= 2;
    }
    Ok(mended(error, None, forward))
}

/// The refusal of a reply, which is no test, with the budget that it needs.
pub(super) fn reply(error: BudgetError, forward: &Forward) -> BudgetError {
    mended(BudgetError { during: During::default(), ..error }, None, forward)
}

/// The refusal with this setting and, where the budget is the line, the least one that is enough, rounded up to a KiB.
fn mended(error: BudgetError, setting: Option<String>, forward: &Forward) -> BudgetError {
    let is_budget = error.limited_by == LimitedBy::Budget;
    let budget = || format!("a budget of {}KiB or more", forward.load().0.div_ceil(1 << 10));
    let mends: Vec<String> = setting.into_iter().chain(is_budget.then(budget)).collect();
    let mend = (!mends.is_empty()).then(|| format!("write {}", mends.join(", or ")).into());
    BudgetError { mend, ..error }
}
