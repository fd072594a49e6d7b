//! Changes that would fit, in lines for people.

use plimsoll_engine::{
    experiment::preset,
    plan::{self, Advice, Found, Limit, Nearest, Plan},
    train::Refusal,
};

use crate::advice::{self, Shortfall};

/// Offers that are listed.
pub(super) const COUNT: usize = 3;
/// What stands below offers of a search that met its limit.
const CUT: &str = "The search was cut short, for each plan takes its time: `plimsoll fit --seconds 120` tries more.\n";

/// The answer to a plan that does not fit: the nearest changes that fit; or else why nothing does, and which changes of the
/// training would fit.
///
/// # Errors
/// A dry run that fails.
pub(super) fn of(plan: &Plan, limit: Limit<'_>) -> anyhow::Result<String> {
    let Nearest { offers, why: found, is_whole } = plan::advise_or_tell(plan, COUNT, limit.early())?;
    if !offers.is_empty() {
        let cut = if is_whole { "" } else { CUT };
        return Ok(format!("{}{cut}", list("What would fit", &offers)));
    }
    let found: Found = found.map_or_else(|| plan::fit(plan, plan.budget, limit.early()), Ok)?;
    let further = plan::further(plan, COUNT, limit)?;
    let why = Shortfall::of(&found).words(plan);
    Ok(format!("\n{why}\n{}", list("What would fit, and changes the training", &further)))
}

/// Offers under a title, a line each; nothing when there are none.
pub(super) fn list(title: &str, offers: &[Advice]) -> String {
    if offers.is_empty() {
        return String::new();
    }
    let line = |offer: &Advice| {
        let words = advice::words(offer);
        format!("  {words}: {} at the peak, {} time{}\n", offer.peak, percent(offer.time_ratio), how(offer))
    };
    format!("\n{title}:\n{}", offers.iter().map(line).collect::<String>())
}

/// What to write for an offer; nothing for an experiment as it is.
fn how(offer: &Advice) -> String {
    let keys = offer.changes.iter().flat_map(|change| change.keys());
    let written = keys.filter_map(|key| preset::assignment(&offer.experiment, key));
    let written: Vec<String> = written.map(|setting| format!("--set {setting}")).collect();
    if written.is_empty() { String::new() } else { format!("  ({})", written.join(" ")) }
}

/// A ratio as a change: 1.1 is `+10%`.
pub(super) fn percent(ratio: f64) -> String {
    // Without the sign of a zero.
    format!("{:+.0}%", ((ratio - 1.0) * 100.0).round() + 0.0)
}

/// Why a run was refused, and the changes that would fit.
pub(super) fn refused(refusal: &Refusal) -> String {
    let offers = match refusal.advice.is_empty() {
        true => "No change that trains the same makes it fit. `plimsoll plan` lists what else would, or says why \
                 nothing does."
            .to_owned(),
        false => list("What would fit", &refusal.advice),
    };
    format!("{}\n{}", refusal.error, offers.trim_matches('\n'))
}
