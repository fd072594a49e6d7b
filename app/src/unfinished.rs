//! What a run lacks that ended before its end, in words: for the command line and the window.

use plimsoll_engine::store::{RunState, StoredRun};

use crate::format;

/// How far a run came.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Came {
    /// The steps that it did.
    pub(crate) steps: u64,
    /// The steps that it was to do.
    pub(crate) total: u64,
    /// Whether it was tested after the last of those.
    pub(crate) is_tested: bool,
    /// Whether its model was to become smaller.
    pub(crate) gets_smaller: bool,
}

impl Came {
    /// What a run lacks that ended there.
    pub(crate) fn lacks(self) -> String {
        let total = format::counted(self.total, "step");
        if self.steps < self.total {
            let smaller = if self.gets_smaller { ", before its model was made smaller and tested" } else { "" };
            return format!("it did {} of {total}{smaller}", format::count(self.steps));
        }
        match (self.is_tested, self.gets_smaller) {
            (false, false) => format!("it did all its {total}, and lacks its last test"),
            (false, true) => {
                format!("it did all its {total}, and lacks the last test, in which its model gets smaller")
            }
            (true, _) => format!("it did all its {total}, and lacks the test of its model as integers"),
        }
    }
}

/// Why a run has no smaller model, and how to come by one, if it ended before.
pub(crate) fn lacks_smaller(run: &StoredRun) -> Option<String> {
    let ended = match run.state {
        RunState::Running if run.gets_smaller() && run.smaller.is_none() => {
            return Some("it trains, and its model is made smaller at its end; wait until it has ended".to_owned());
        }
        RunState::Running | RunState::Finished => return None,
        RunState::Stopped => "was stopped",
        RunState::Failed => "failed",
        RunState::Interrupted => "was interrupted",
    };
    let key = &run.key;
    run.lacks_smaller().then(|| {
        format!("the run {ended} before its model was made smaller and tested; `plimsoll resume {key}` finishes it")
    })
}
