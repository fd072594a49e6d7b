//! The growth of this program's process by runs on the processor that were made before.
//!
//! A plan knows the bytes that a run asks for. What the system maps of the program besides, and how far heaps and stacks of
//! threads come, depends on the build of the program, and a plan allows for more than most runs take. Owns what runs have shown
//! of it, kept from program to program: the growth by runs of the same settings, and how much less than was allowed for any
//! run took. Always holds: a run whose settings were seen is predicted by the most of the last few, and any other run by what
//! is allowed, less what no run took. Refuses nothing: what cannot be kept is seen again.

use std::{
    collections::BTreeMap,
    fmt::{self, Write},
    hash::{DefaultHasher, Hash, Hasher},
};

use serde::{Deserialize, Serialize};

use super::{Begun, kept::Kept};
use crate::{bytes::Bytes, experiment::Experiment};

/// The file that they are kept in.
const FILE: &str = "runs.json";
/// The growths that are kept of runs of the same settings.
const RECENT: usize = 4;
/// Kinds of runs for which growths are kept. Older ones are forgotten, and seen again.
const KINDS: usize = 512;
/// What a run may add beyond one that was seen, which is less the more were seen. Eight runs of `vit-digits` differed by 224 KiB;
/// of 236 experiments that ran twice, 3 took 390 to 680 KiB more the second time.
const MORE: Bytes = Bytes::kib(384);
/// Kinds of runs from which on they tell what no run takes.
const ENOUGH: u64 = 8;
/// What stays allowed for in addition to what the largest of them took.
const SPARE: i64 = 128 << 10;
/// The most that is allowed for in addition because a run took more, or less because none did: a run that is far from its
/// prediction tells nothing of others.
const MOST: i64 = 512 << 10;

/// What decides how a process grows by a run, besides the program.
#[derive(Debug, Clone, Copy)]
pub(crate) struct RunKind<'a> {
    pub(crate) experiment: &'a Experiment,
    /// The steps that it is to take.
    pub(crate) steps: u64,
    /// Whether it goes on from a checkpoint.
    pub(crate) goes_on: bool,
    /// Whether it is kept in a store.
    pub(crate) is_kept: bool,
}

/// What was seen.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct SeenRuns {
    /// The last growths by each kind of run.
    growths: BTreeMap<String, Vec<Bytes>>,
    /// What runs left of what is allowed for, by how their processes had begun.
    left: BTreeMap<String, Left>,
}

/// What is left of an allowance.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
struct Left {
    /// The least bytes that a run left; below zero if it took more.
    least: i64,
    /// Kinds of runs.
    kinds: u64,
}

impl SeenRuns {
    /// What is kept.
    pub(super) fn kept() -> Self {
        Kept::read(FILE).map(|kept| kept.measured).unwrap_or_default()
    }

    /// The growth to expect of a process that has begun so and takes a run of this kind, for which `allowed` is allowed.
    pub(super) fn growth(&self, run: RunKind<'_>, begun: Begun, allowed: Bytes) -> Bytes {
        let seen = self.of(run, begun);
        let most = seen.and_then(|seen| Some((*seen.iter().max()?, seen.len() as u64)));
        // Something else grew, or shrank, with a run that is far from what was allowed for, or the file tells nonsense.
        if let Some((most, count)) =
            most.filter(|(most, _)| (allowed.0 / 2..=allowed.0.saturating_mul(2)).contains(&most.0))
        {
            return most + Bytes(MORE.0 / count);
        }
        let more = self.left.get(&state(run, begun)).map_or(0, Left::more);
        Bytes(allowed.0.saturating_add_signed(more))
    }

    /// The growths by runs of this kind.
    fn of(&self, run: RunKind<'_>, begun: Begun) -> Option<&Vec<Bytes>> {
        // A search makes many plans, and to make a whole name takes a tenth as long as the plan of a small model.
        let beginning = beginning(run, begun);
        let (like, _) = self.growths.range(beginning.clone()..).next()?;
        if like.starts_with(&beginning) { self.growths.get(&name(run, begun)) } else { None }
    }

    /// What is kept after such a process has grown by `bytes`, where `allowed` was allowed for; it is kept in its turn.
    pub(super) fn after(run: RunKind<'_>, begun: Begun, allowed: Bytes, bytes: Bytes) -> Self {
        // Other programs may have written to the file.
        let kept = Kept::<Self>::read(FILE);
        let mut seen = kept.as_ref().map(|kept| kept.measured.clone()).unwrap_or_default();
        seen.add(run, begun, allowed, bytes);
        Kept::write(FILE, seen.clone(), kept);
        seen
    }

    fn add(&mut self, run: RunKind<'_>, begun: Begun, allowed: Bytes, bytes: Bytes) {
        let name = name(run, begun);
        let is_new = !self.growths.contains_key(&name);
        let left = self.left.entry(state(run, begun)).or_insert(Left { least: i64::MAX, kinds: 0 });
        left.least = left.least.min((allowed.0 as i64).saturating_sub_unsigned(bytes.0));
        left.kinds = left.kinds.saturating_add(u64::from(is_new));
        if is_new && self.growths.len() >= KINDS {
            self.growths.clear();
        }
        let seen = self.growths.entry(name).or_default();
        seen.push(bytes);
        seen.drain(..seen.len().saturating_sub(RECENT));
    }
}

impl Left {
    /// What to allow for in addition, or less.
    fn more(&self) -> i64 {
        match self.least {
            ..0 => self.least.saturating_neg().min(MOST),
            least if self.kinds >= ENOUGH => -(least - SPARE).clamp(0, MOST),
            _ => 0,
        }
    }
}

/// A name for the state of processes that take runs of a kind.
fn state(run: RunKind<'_>, begun: Begun) -> String {
    let Begun { touched, has_window } = begun;
    let words = [(has_window, " in a window"), (run.is_kept, ", kept"), (run.goes_on, ", goes on")];
    let [window, kept, goes_on] = words.map(|(is, word)| if is { word } else { "" });
    format!("{touched:?}{window}{kept}{goes_on}")
}

/// A name for runs of one kind in such a process. Words, line and seed of an experiment change no growth.
fn name(run: RunKind<'_>, begun: Begun) -> String {
    let (title, description, budget) = (String::new(), String::new(), Bytes::ZERO);
    let mut plain = Experiment { title, description, budget, ..run.experiment.clone() };
    plain.run.seed = 0;
    let mut hashed = Hashed::default();
    let written = write!(hashed, "{plain:?}");
    debug_assert!(written.is_ok(), "a hash takes any text");
    format!("{}{:016x}", beginning(run, begun), hashed.0.finish())
}

/// The beginning of a name: of all runs that are alike in a few of their settings.
fn beginning(run: RunKind<'_>, begun: Begun) -> String {
    let RunKind { experiment: Experiment { model, batch, .. }, steps, goes_on, is_kept } = run;
    let mut hasher = DefaultHasher::new();
    (steps, goes_on, is_kept, begun, model.width, model.depth, batch.micro).hash(&mut hasher);
    format!("{:016x}", hasher.finish())
}

/// The hash of what is written.
#[derive(Default)]
struct Hashed(DefaultHasher);

impl Write for Hashed {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        self.0.write(text.as_bytes());
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::hardware::Touched;

    const LITTLE: Begun = Begun { touched: Touched::Little, has_window: false };

    fn kind(experiment: &Experiment) -> RunKind<'_> {
        RunKind { experiment, steps: 10, goes_on: false, is_kept: true }
    }

    #[test]
    fn a_run_is_known_by_all_that_may_change_its_growth() {
        let experiment = Experiment::default();
        let plain = name(kind(&experiment), LITTLE);
        let renamed = Experiment { title: "Another".to_owned(), budget: Bytes::mib(7), ..experiment.clone() };
        assert_eq!(name(kind(&renamed), LITTLE), plain);
        let mut wider = experiment.clone();
        wider.model.width += 1;
        let others = [
            name(kind(&wider), LITTLE),
            name(kind(&experiment), Begun { touched: Touched::Prepared, ..LITTLE }),
            name(kind(&experiment), Begun { has_window: true, ..LITTLE }),
            name(RunKind { steps: 11, ..kind(&experiment) }, LITTLE),
            name(RunKind { goes_on: true, ..kind(&experiment) }, LITTLE),
            name(RunKind { is_kept: false, ..kind(&experiment) }, LITTLE),
        ];
        assert!(!others.contains(&plain));
    }

    #[test]
    fn the_most_of_the_last_growths_counts_and_more_of_them_say_more() {
        let experiment = Experiment::default();
        let (run, allowed) = (kind(&experiment), Bytes::mib(12));
        let mut seen = SeenRuns::default();
        assert_eq!(seen.growth(run, LITTLE, allowed), allowed);
        for (mib, expected) in [(9, Bytes::mib(9) + MORE), (5, Bytes::mib(9) + Bytes(MORE.0 / 2))] {
            seen.add(run, LITTLE, allowed, Bytes::mib(mib));
            assert_eq!(seen.growth(run, LITTLE, allowed), expected);
        }
        for _ in 0..RECENT {
            seen.add(run, LITTLE, allowed, Bytes::mib(6));
        }
        assert_eq!(seen.growth(run, LITTLE, allowed), Bytes::mib(6) + Bytes(MORE.0 / RECENT as u64));
        let far = Bytes::mib(60);
        assert_eq!(seen.growth(run, LITTLE, far), far, "what is far off was something else");
        let other = Begun { touched: Touched::Trained, ..LITTLE };
        assert_eq!(seen.growth(run, other, allowed), allowed, "another beginning");
    }

    /// What was seen once runs of so many widths have each left so many of 20 MiB.
    fn left_by(widths: usize, kib: i64) -> SeenRuns {
        let mut seen = SeenRuns::default();
        for width in 1..=widths {
            let mut experiment = Experiment::default();
            experiment.model.width = width;
            let bytes = Bytes::mib(20).0.saturating_add_signed(-(kib << 10));
            // Again and again tells no more.
            for _ in 0..2 {
                seen.add(kind(&experiment), LITTLE, Bytes::mib(20), Bytes(bytes));
            }
        }
        seen
    }

    #[test]
    fn what_no_run_took_is_not_allowed_for_once_enough_were_seen() {
        let expected = |seen: &SeenRuns| {
            let mut other = Experiment::default();
            other.model.width = 1000;
            seen.growth(kind(&other), LITTLE, Bytes::mib(20))
        };
        let enough = ENOUGH as usize;
        assert_eq!(expected(&left_by(enough - 1, 500)), Bytes::mib(20), "they are too few");
        assert_eq!(expected(&left_by(enough, 500)), Bytes::mib(20) - Bytes::kib(500 - 128));
        assert_eq!(expected(&left_by(enough, 100)), Bytes::mib(20), "a little stays");
        assert_eq!(expected(&left_by(1, -70)), Bytes::mib(20) + Bytes::kib(70), "one that took more tells it at once");
        for (widths, kib, more) in [(1, -9000, 512), (enough, 9000, -512)] {
            let bytes = Bytes::mib(20).0.saturating_add_signed(more << 10);
            assert_eq!(expected(&left_by(widths, kib)), Bytes(bytes), "one that is far off tells nothing");
        }
    }

    #[test]
    fn no_more_kinds_are_kept_than_a_few_hundred() {
        let mut seen = left_by(KINDS, 0);
        assert_eq!(seen.growths.len(), KINDS);
        let mut other = Experiment::default();
        other.model.width = KINDS + 1;
        seen.add(kind(&other), LITTLE, Bytes::mib(20), Bytes::mib(2));
        assert_eq!(seen.growths.len(), 1);
    }
}
