//! The check that the machine has the host memory and the room on a disk for data and the making of batches, and the changes
//! that would fit.
//!
//! Owns [`HostObstacle`] and [`HostOffer`]. Always holds: an offer was predicted as a run would be, and passed every check.
//! Refuses nothing itself: the caller that begins a run does, by [`HostObstacle::problem`].

use std::fmt;

use crate::{
    bytes::Bytes,
    data::HostMemory,
    error::Problem,
    experiment::{Answers, CachePlace, DataCache, Experiment, NormaliseWhen, Placement, preset},
    plan::Plan,
};

/// The obstacle to the data of a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum HostObstacle {
    /// They take more than `data.host_budget`.
    Budget {
        /// The budget.
        budget: Bytes,
    },
    /// They take more than the machine has.
    Machine {
        /// The bytes that the machine has.
        free: Bytes,
    },
    /// The part that is kept on the disk takes more than the disk has.
    Disk {
        /// The bytes that the disk has.
        free: Bytes,
    },
}

/// Another way to feed the model, and its host memory.
#[derive(Debug, Clone, PartialEq)]
pub struct HostOffer {
    /// The settings that differ, as `--set` takes them.
    pub changes: Vec<String>,
    /// The experiment with those settings.
    pub experiment: Experiment,
    /// The host memory of data, batches and threads then.
    pub host: HostMemory,
}

impl fmt::Display for HostOffer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ({}", self.changes.join(" "), self.host.total())?;
        if self.host.disk > Bytes::ZERO {
            write!(f, " and {} of disk", self.host.disk)?;
        }
        f.write_str(")")
    }
}

/// The most offers that are shown.
const MOST: usize = 3;

/// A way to take less.
type Way = fn(&mut Experiment);

/// Ways to take less, from those that change least on.
const WAYS: [Way; 11] = [
    |e| e.data.prefetch = e.data.prefetch.min(1),
    |e| e.data.prefetch = 0,
    |e| (e.data.prefetch, e.data.workers) = (0, 1),
    |e| e.data.load_side = 0,
    |e| e.data.normalise_when = NormaliseWhen::OnTheFly,
    |e| e.data.cache_in = CachePlace::Disk,
    |e| e.data.cache_in = CachePlace::Ram,
    |e| e.data.cache = DataCache::Decoded,
    |e| e.data.cache = DataCache::None,
    |e| e.distil.answers = Answers::Live,
    |e| (e.data.placement, e.data.cache) = (Placement::Streamed, DataCache::None),
];

/// Two ways at once, from those that change least on.
fn pairs() -> impl Iterator<Item = [Way; 2]> {
    (1..WAYS.len()).flat_map(|second| (0..second).map(move |first| [WAYS[second], WAYS[first]]))
}

impl Plan {
    /// The first obstacle to its data, if the machine has `free` bytes of memory for them; without a figure memory is no
    /// obstacle.
    pub fn host_obstacle(&self, free: Option<Bytes>) -> Option<HostObstacle> {
        self.obstacle_to(&self.host, free)
    }

    /// The problem of its data on this machine, with the ways to feed the model that would fit; `None` if they fit.
    pub fn host_problem(&self) -> Option<Problem> {
        let free = self.machine.free_memory().map(|free| free.bytes);
        Some(self.host_obstacle(free)?.problem(self, &self.host_offers))
    }

    fn obstacle_to(&self, host: &HostMemory, free: Option<Bytes>) -> Option<HostObstacle> {
        let budget = self.experiment.data.host_line().filter(|budget| host.total() > *budget);
        let free = free.filter(|free| host.total() > *free);
        let disk = self.resolved.disk_free().filter(|free| host.disk > *free);
        budget
            .map(|budget| HostObstacle::Budget { budget })
            .or(free.map(|free| HostObstacle::Machine { free }))
            .or(disk.map(|free| HostObstacle::Disk { free }))
    }

    /// Other ways to feed the model that would fit if the machine has `free` bytes, the smallest changes first: one way, and if
    /// none is enough alone, two at once.
    pub fn ways_to_feed(&self, free: Option<Bytes>) -> Vec<HostOffer> {
        let alone = self.fitting(free, WAYS.map(|way| [way; 1]));
        if alone.is_empty() { self.fitting(free, pairs()) } else { alone }
    }

    /// The first of `ways` that would fit, each of them several at once. One that only changes more than another is left out.
    fn fitting<const N: usize>(&self, free: Option<Bytes>, ways: impl IntoIterator<Item = [Way; N]>) -> Vec<HostOffer> {
        let mut offers: Vec<HostOffer> = Vec::new();
        for way in ways {
            let mut experiment = Experiment::clone(&self.experiment);
            way.iter().for_each(|change| change(&mut experiment));
            let changes = preset::changes(&self.experiment, &experiment);
            let adds_nothing = |offer: &HostOffer| offer.changes.iter().all(|change| changes.contains(change));
            if changes.is_empty() || offers.iter().any(adds_nothing) {
                continue;
            }
            offers.extend(self.offered(free, experiment, changes));
            if offers.len() == MOST {
                break;
            }
        }
        offers
    }

    /// The offer of these changes, if they would fit and take less.
    fn offered(&self, free: Option<Bytes>, experiment: Experiment, changes: Vec<String>) -> Option<HostOffer> {
        let resolved = self.resolved.revised(&experiment, &self.machine).ok()?;
        let host = resolved.host();
        let is_less = host.total() < self.host.total() || host.disk < self.host.disk;
        let has_room = resolved.disk_free().is_none_or(|free| host.disk <= free);
        let fits = has_room && self.obstacle_to(&HostMemory { disk: Bytes::ZERO, ..host }, free).is_none();
        (is_less && fits).then_some(HostOffer { changes, experiment, host })
    }
}

impl HostObstacle {
    /// The settings whose problem an obstacle can be.
    const KEYS: [&str; 3] = ["data.host_budget", "data.placement", "data.cache_folder"];

    /// Whether `problem` is that of an obstacle to a plan's data.
    pub fn is_said_by(problem: &Problem) -> bool {
        Self::KEYS.contains(&problem.key.as_str())
    }

    /// The problem that the obstacle is for `plan`, with those of `offers` that would fit.
    pub fn problem(&self, plan: &Plan, offers: &[HostOffer]) -> Problem {
        let is_factoring = match self {
            Self::Budget { budget: limit } | Self::Machine { free: limit } => plan.host.without_factors() <= *limit,
            Self::Disk { .. } => false,
        };
        let other = match offers {
            [] if is_factoring => "begin without low_rank.*, or with weights of smaller layers".to_owned(),
            [] if plan.host.batches > plan.host.data => "take a smaller batch.micro, or smaller samples".to_owned(),
            [] => "take fewer or smaller samples".to_owned(),
            offers => format!("write {}", offers.iter().map(ToString::to_string).collect::<Vec<_>>().join(", or ")),
        };
        let host = &plan.host;
        let [budget_key, placement_key, folder_key] = Self::KEYS;
        match self {
            Self::Budget { budget } => {
                let total = host.total();
                let kept = if host.cache > Bytes::ZERO { ", kept samples" } else { "" };
                let answers = if host.answers > Bytes::ZERO { ", a teacher's answers" } else { "" };
                let factors = if host.factors > Bytes::ZERO { ", the room to factor the largest layer" } else { "" };
                let past = total - *budget;
                let message = format!(
                    "data{kept}{answers}{factors}, batches and the threads that make them take {total} of host memory, \
                     {past} more than the budget of {budget}",
                );
                Problem::new(budget_key, message, format!("raise it, or {other}"))
            }
            Self::Machine { free } => {
                let [total, free] = host.total().beside(*free);
                let what = if is_factoring { "the data and the room to factor the largest layer" } else { "the data" };
                let message = format!("{what} take {total} of memory, and this process can have {free} more");
                Problem::new(placement_key, message, other)
            }
            Self::Disk { free } => {
                let [disk, free] = host.disk.beside(*free);
                let message = format!("the kept samples take {disk} of a disk that has {free} free");
                Problem::new(folder_key, message, format!("choose a folder on another disk, or {other}"))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        experiment::{
            Data, DataKind,
            limits::{MAX_BUDGET, MAX_SAMPLES, MAX_SIDE},
        },
        hardware::Machine,
        plan::Verdict,
    };

    fn planned(change: impl FnOnce(&mut Data)) -> Plan {
        let mut experiment = Experiment::default();
        experiment.data.kind = DataKind::Shapes;
        change(&mut experiment.data);
        Plan::of(&experiment, &Machine::nominal()).expect("a plan")
    }

    #[test]
    fn past_a_budget_of_the_host_what_is_offered_fits_it() {
        let plan = planned(|data| data.host_budget = Bytes::mib(2));
        let over = plan.host.total() - Bytes::mib(2);
        assert_eq!(plan.verdict(), Verdict::OverHostBudget { by: over });
        let offers = &plan.host_offers;
        assert!(!offers.is_empty());
        for offer in offers {
            let other = Plan::of(&offer.experiment, &Machine::nominal()).expect("a plan");
            assert!(other.verdict().fits() && other.host == offer.host, "{offer}");
        }
        let problem = plan.host_obstacle(None).expect("in the way").problem(&plan, offers).to_string();
        assert!(
            problem.starts_with("data.host_budget: ") && problem.contains("data.placement=\"streamed\""),
            "{problem}"
        );
        // If there is no offer, the message names the remaining ways.
        for (obstacle, mend) in [
            (HostObstacle::Budget { budget: Bytes::mib(2) }, "; raise it, or take fewer or smaller samples"),
            (HostObstacle::Machine { free: Bytes::mib(2) }, "; take fewer or smaller samples"),
            (
                HostObstacle::Disk { free: Bytes::mib(2) },
                "; choose a folder on another disk, or take fewer or smaller samples",
            ),
        ] {
            let problem = obstacle.problem(&plan, &[]).to_string();
            assert!(problem.ends_with(mend) && !problem.contains("write"), "{problem}");
        }
        assert!(planned(|data| data.host_budget = plan.host.total()).verdict().fits());
    }

    #[test]
    fn what_is_kept_of_a_stream_can_go_to_a_disk_or_be_less() {
        let plan = planned(|data| {
            (data.placement, data.flip) = (Placement::Streamed, true);
            (data.cache, data.host_budget) = (DataCache::Augmented(4), Bytes::mib(20));
        });
        assert!(matches!(plan.verdict(), Verdict::OverHostBudget { .. }));
        let offers = &plan.host_offers;
        let changes: Vec<&str> = offers.iter().flat_map(|offer| &offer.changes).map(String::as_str).collect();
        assert_eq!(changes, ["data.cache_in=\"disk\"", "data.cache=\"decoded\"", "data.cache=\"none\""]);
        assert!(offers[0].host.disk > Bytes::mib(30) && offers[0].to_string().contains("of disk"), "{}", offers[0]);
    }

    #[test]
    fn two_ways_at_once_are_offered_where_none_is_enough_alone() {
        let streamed = planned(|data| data.placement = Placement::Streamed);
        let plan = planned(|data| data.host_budget = streamed.host.total() - Bytes(1));
        let offers = &plan.host_offers;
        assert_eq!(offers[0].changes, ["data.placement=\"streamed\"", "data.prefetch=1"]);
        for offer in offers {
            let other = Plan::of(&offer.experiment, &Machine::nominal()).expect("a plan");
            assert!(other.verdict().fits() && other.host == offer.host, "{offer}");
        }
    }

    #[test]
    fn what_no_disk_has_room_for_can_go_to_a_memory_that_has_it() {
        let mut experiment = Experiment { budget: MAX_BUDGET, ..Experiment::default() };
        let data = &mut experiment.data;
        (data.kind, data.placement) = (DataKind::Shapes, Placement::Streamed);
        // Hundreds of tebibytes.
        (data.cache, data.samples, data.side) = (DataCache::Augmented(1000), MAX_SAMPLES, MAX_SIDE);
        (data.flip, data.cache_in) = (true, CachePlace::Disk);
        let plan = Plan::of(&experiment, &Machine::nominal()).expect("a plan");
        if plan.resolved.disk_free().is_none() {
            // The system does not tell.
            return;
        }
        assert!(matches!(plan.verdict(), Verdict::NoRoomOnDisk { .. }), "{:?}", plan.verdict());
        let into_memory = |free| {
            let ways = plan.ways_to_feed(free);
            ways.iter().any(|offer| offer.changes == ["data.cache_in=\"ram\""])
        };
        assert!(into_memory(Some(Bytes::gib(1 << 20))) && !into_memory(Some(Bytes::gib(64))));
    }
}
