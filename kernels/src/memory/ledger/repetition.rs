//! Micro-batches that a dry run leaves out, because they would repeat those before to the byte.
//!
//! Always holds: a micro-batch that is left out begins as one or two before it began, with the same bytes alive and the same
//! room in the allocator. So its requests are the same, and it ends as they ended. A recording has its points all the same.

use super::Ledger;

/// Whether micro-batches may be left out, with the known micro-batches of the present step.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) enum Repetition {
    /// All micro-batches run, as they must in a real run.
    #[default]
    Run,
    /// Micro-batches that would repeat the ones before are left out.
    LeaveOut {
        /// The account at the beginning of each of the last two micro-batches, the later one first. The next batch may lie in
        /// two places by turns; then every second micro-batch is the same.
        before: [Option<Moment>; 2],
        /// How many were left out since that was last asked for.
        count: usize,
    },
}

/// The state that decides how an account answers requests: in equal moments, equal requests have equal effects.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Moment {
    live: u64,
    fingerprint: u64,
}

/// Micro-batches left out before a micro-batch: repetitions of the last ones before it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct Repeated {
    /// How many of the last ones: 1 or 2.
    pub(super) period: u8,
    /// How many times.
    pub(super) times: u32,
}

impl Ledger {
    /// Lets a dry run leave out micro-batches that would repeat those before.
    pub fn leave_out_repetitions(&self) {
        self.0.repetition.set(Repetition::LeaveOut { before: [None; 2], count: 0 });
    }

    /// The micro-batch of this number begins, the first of `left` of a step. Tells how many need not run, which is never all:
    /// the step's last one always runs.
    pub fn begin_micro_batch(&self, number: usize, left: usize) -> usize {
        let account = &*self.0;
        let (Repetition::LeaveOut { before, count }, 1..) = (account.repetition.get(), left) else { return 0 };
        // The first one makes the gradients that the others add to.
        let now = (number > 0).then(|| Moment { live: account.live.get(), fingerprint: self.fingerprint() });
        let same = before.iter().position(|moment| moment.is_some() && *moment == now).map(|place| place + 1);
        let repeated = same.map_or(Repeated::default(), |period| Repeated {
            period: period as u8,
            times: ((left - 1) / period) as u32,
        });
        let skipped = usize::from(repeated.period) * repeated.times as usize;
        account.record.borrow_mut().begin_micro_batch(repeated);
        let earlier = if number > 0 { before[0] } else { None };
        account.repetition.set(Repetition::LeaveOut { before: [now, earlier], count: count + skipped });
        skipped
    }

    /// How many micro-batches were left out since this was last asked.
    pub fn take_left_out(&self) -> usize {
        let Repetition::LeaveOut { before, count } = self.0.repetition.get() else { return 0 };
        self.0.repetition.set(Repetition::LeaveOut { before, count: 0 });
        count
    }
}
