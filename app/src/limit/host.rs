//! Data that are past a limit of the host: which limits, and what makes room for them, by the names of the controls.
//!
//! Always holds: a limit that is past is named; an amount stands in a sentence once; what is said to help is enough for all
//! limits that the data are past.

use plimsoll_engine::{
    Bytes,
    plan::{HostObstacle, HostOffer, Plan},
};

use crate::naming;

/// The limits of host memory that a plan is past.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Past {
    /// The budget of the host, where its data take more.
    budget: Option<Bytes>,
    /// What the machine has for them, where they take more.
    machine: Option<Bytes>,
}

impl Past {
    fn of(plan: &Plan) -> Self {
        let total = plan.host.total();
        let is_past = |limit: &Bytes| total > *limit;
        let free = plan.machine.free_memory().map(|free| free.bytes);
        Self { budget: plan.experiment.data.host_line().filter(is_past), machine: free.filter(is_past) }
    }
}

/// The verdict on a plan whose data are past a budget of the host: with the machine, where that has too little as well.
pub(super) fn verdict_words(plan: &Plan) -> String {
    let total = plan.host.total();
    let Past { budget, machine } = Past::of(plan);
    let [data, budget] = total.beside(budget.unwrap_or_default());
    let line = plan.machine_line().filter(|line| plan.load() > line.bytes);
    match (machine, line) {
        (Some(free), _) => {
            let [_, free] = total.beside(free);
            format!(
                "Does not fit the host budget or this machine: the data take {data} of {budget}, and of {free} free"
            )
        }
        (None, Some(line)) => {
            let [load, line] = plan.load().beside(line.bytes);
            format!(
                "Does not fit the host budget or this machine: the data take {data} of {budget}, and the run {load} of {line}"
            )
        }
        (None, None) => format!("Does not fit the host budget: the data take {data} of {budget}"),
    }
}

/// The verdict on a plan past its budget by `run`, where its data are past a limit of the host as well; `None` where they are
/// not.
pub(super) fn also_past(plan: &Plan, run: &str) -> Option<String> {
    let (whose, what, [data, limit]) = match obstacle(plan)? {
        HostObstacle::Budget { budget } => ("the host budget", "the data", plan.host.total().beside(budget)),
        HostObstacle::Machine { free } => ("this machine", "the data", plan.host.total().beside(free)),
        HostObstacle::Disk { free } => ("this disk", "the kept samples", plan.host.disk.beside(free)),
    };
    Some(format!("Does not fit the budget or {whose}: the run takes {run}, and {what} {data} of {limit}"))
}

/// Why a run whose data are past a limit cannot begin, and what helps, in a line; `None` of any other.
pub(crate) fn why_not(plan: &Plan) -> Option<String> {
    let Past { budget, machine } = Past::of(plan);
    let what = match (obstacle(plan)?, budget, machine) {
        (_, Some(_), Some(_)) => "The data fit neither the host budget nor this machine",
        (HostObstacle::Budget { .. }, ..) => "The data do not fit the host budget",
        (HostObstacle::Machine { .. }, ..) => "The data do not fit this machine",
        (HostObstacle::Disk { .. }, ..) => "The kept samples do not fit this disk",
    };
    Some(format!("{what}: {}.", mend(plan, "it", Some(&first(plan, false)))?))
}

/// That no other batch, precision or checkpointing makes room for the data, and what does, from the whole to the shortest.
pub(crate) fn no_room(plan: &Plan) -> Vec<String> {
    let all = plan.host_offers.iter().map(|offer| way(offer, true)).collect::<Vec<_>>().join(", or ");
    let whole = "No micro-batch, mixed precision or checkpointing makes room for the data";
    let short = "No room for the data";
    let ways = [(whole, Some(all)), (whole, Some(first(plan, true))), (short, Some(first(plan, false))), (short, None)];
    ways.into_iter()
        .filter_map(|(what, way)| Some(format!("{what}: {}.", mend(plan, "the host budget", way.as_deref())?)))
        .collect()
}

fn obstacle(plan: &Plan) -> Option<HostObstacle> {
    plan.host_obstacle(plan.machine.free_memory().map(|free| free.bytes))
}

/// What makes room for the data: another limit, where that is enough, or these other ways to feed the model.
fn mend(plan: &Plan, budget: &str, ways: Option<&str>) -> Option<String> {
    let other = match ways {
        Some("") => Some("take fewer or smaller samples".to_owned()),
        ways => ways.map(|ways| format!("choose {ways}")),
    };
    let limit = match obstacle(plan)? {
        // A larger budget gives the machine no more memory.
        HostObstacle::Budget { .. } if Past::of(plan).machine.is_some() => None,
        HostObstacle::Budget { .. } => Some(format!("raise {budget}")),
        HostObstacle::Machine { .. } => None,
        HostObstacle::Disk { .. } => Some("choose a cache folder on another disk".to_owned()),
    };
    let all: Vec<String> = limit.into_iter().chain(other).collect();
    if all.is_empty() { mend(plan, budget, Some(&first(plan, false))) } else { Some(all.join(", or ")) }
}

/// The first other way to feed the model; nothing where there is none.
fn first(plan: &Plan, with_bytes: bool) -> String {
    plan.host_offers.first().map(|offer| way(offer, with_bytes)).unwrap_or_default()
}

/// A way to feed the model, in words.
pub(crate) fn way_words(offer: &HostOffer) -> String {
    way(offer, false)
}

/// A way to feed the model, with the memory that it takes: `batches ahead 1 (18.2 MiB)`.
fn way(offer: &HostOffer, with_bytes: bool) -> String {
    let changes = offer.changes.iter().map(|change| match change.replace('"', "").split_once('=') {
        Some(("data.cache", "none")) => "no kept samples".to_owned(),
        Some(("data.cache", "decoded")) => "each sample kept once".to_owned(),
        Some(("data.load_side", _)) => "images resized before they wait".to_owned(),
        Some(("data.normalise_when", _)) => "images kept as bytes".to_owned(),
        Some(("data.cache_in", _)) => "samples kept on disk".to_owned(),
        Some((key, value)) => format!("{} {}", naming::setting(key), naming::value(key, value, |_| None)),
        None => change.clone(),
    });
    let changes = changes.collect::<Vec<_>>().join(" and ");
    let disk = offer.host.disk;
    match with_bytes {
        true if disk > Bytes::ZERO => format!("{changes} ({}, and {disk} of disk)", offer.host.total()),
        true => format!("{changes} ({})", offer.host.total()),
        false => changes,
    }
}

#[cfg(test)]
mod tests {
    use plimsoll_engine::{
        Experiment,
        experiment::DataKind,
        hardware::Machine,
        memory::host::{FreeMemory, LimitedBy},
    };

    use super::*;

    /// A plan of streamed shapes with a budget of the host, on a machine with so much free memory.
    fn plan(host_budget: Bytes, free: Bytes) -> Plan {
        let mut experiment = Experiment::default();
        (experiment.data.kind, experiment.data.host_budget) = (DataKind::Shapes, host_budget);
        let free = FreeMemory { bytes: free, limited_by: LimitedBy::Machine };
        Plan::of(&experiment, &Machine::nominal().with_free_memory(Some(free))).expect("a plan")
    }

    #[test]
    fn both_limits_are_named_where_both_are_past() {
        let total = plan(Bytes::ZERO, Bytes::gib(4)).host.total();
        let budget_alone = verdict_words(&plan(Bytes::mib(2), Bytes::gib(4)));
        assert!(budget_alone.starts_with("Does not fit the host budget: the data take "), "{budget_alone}");
        assert!(budget_alone.ends_with(" of 2.00 MiB") || budget_alone.ends_with(" of 2 MiB"), "{budget_alone}");
        for free in [total - Bytes::mib(1), total + Bytes(1)] {
            let both = verdict_words(&plan(Bytes::mib(2), free));
            assert!(both.starts_with("Does not fit the host budget or this machine: "), "{both}");
        }
    }

    #[test]
    fn the_budget_and_a_limit_of_the_host_are_named_where_both_are_past() {
        let both = |host_budget, free| {
            let mut experiment = Experiment::clone(&plan(host_budget, free).experiment);
            experiment.budget = Bytes::kib(500);
            let free = FreeMemory { bytes: free, limited_by: LimitedBy::Machine };
            let plan = Plan::of(&experiment, &Machine::nominal().with_free_memory(Some(free))).expect("a plan");
            (crate::limit::verdict_words(&plan), crate::limit::is_past_its_budget_alone(&plan))
        };
        let (said, is_alone) = both(Bytes::mib(2), Bytes::gib(4));
        assert!(said.starts_with("Does not fit the budget or the host budget: the run takes "), "{said}");
        assert!(!is_alone && (said.ends_with(" of 2.00 MiB") || said.ends_with(" of 2 MiB")), "{said}");
        let (said, is_alone) = both(Bytes::ZERO, Bytes::gib(4));
        assert!(said.starts_with("Does not fit: ") && is_alone, "{said}");
    }

    #[test]
    fn what_helps_is_called_as_its_control_and_enough_for_every_limit() {
        let roomy = plan(Bytes::mib(2), Bytes::gib(4));
        let why = why_not(&roomy).expect("it does not fit");
        assert!(why.starts_with("The data do not fit the host budget: raise it, or choose "), "{why}");
        let total = roomy.host.total();
        let both = plan(Bytes::mib(2), total - Bytes::mib(1));
        let why = why_not(&both).expect("it does not fit");
        assert!(why.starts_with("The data fit neither the host budget nor this machine: ") && !why.contains("raise"));
        for plan in [&roomy, &both] {
            let forms = no_room(plan);
            assert!(forms.windows(2).all(|pair| pair[0].len() >= pair[1].len()), "{forms:?}");
            for words in forms.iter().chain([&why]) {
                let keys = ["data.", "=", "\"", "_"].into_iter().filter(|sign| words.contains(sign)).count();
                assert_eq!((keys, words.matches("host budget").count() <= 1), (0, true), "{words}");
            }
        }
        assert!(roomy.host_offers.iter().any(|offer| way(offer, true).contains("data placement streamed")));
        assert!(why_not(&plan(Bytes::ZERO, Bytes::gib(4))).is_none());
    }
}
