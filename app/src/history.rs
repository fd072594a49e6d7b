//! Undo and redo of the experiment.
//!
//! Always holds: one gesture (a drag, a burst of key presses on one control) is one step back. Refuses to grow without
//! end: the oldest steps are forgotten past [`DEPTH`].

use std::time::{Duration, Instant};

use plimsoll_engine::Experiment;

/// Steps that can be undone.
const DEPTH: usize = 200;
/// Changes of one control that follow each other this closely are one gesture.
const PAUSE: Duration = Duration::from_millis(700);

/// The past and the undone future of one experiment.
#[derive(Debug, Default, Clone)]
pub(crate) struct History {
    past: Vec<Experiment>,
    future: Vec<Experiment>,
    gesture: Option<Gesture>,
}

#[derive(Debug, Clone)]
struct Gesture {
    control: &'static str,
    press: Option<u64>,
    at: Instant,
}

impl History {
    /// Notes that `control` is about to change the experiment from `before`. `press` numbers the present press of the
    /// pointer, if it is down: a drag is one gesture however long it lasts.
    pub(crate) fn changed(&mut self, before: &Experiment, control: &'static str, press: Option<u64>, at: Instant) {
        let same = self.gesture.as_ref().is_some_and(|gesture| {
            gesture.control == control
                && match (gesture.press, press) {
                    (Some(a), Some(b)) => a == b,
                    (None, None) => at.saturating_duration_since(gesture.at) < PAUSE,
                    _ => false,
                }
        });
        if !same {
            self.past.push(before.clone());
            if self.past.len() > DEPTH {
                self.past.remove(0);
            }
        }
        self.future.clear();
        self.gesture = Some(Gesture { control, press, at });
    }

    /// Takes one step back from `present`.
    pub(crate) fn undo(&mut self, present: &mut Experiment) -> bool {
        Self::step(&mut self.past, &mut self.future, &mut self.gesture, present)
    }

    /// Takes one undone step again.
    pub(crate) fn redo(&mut self, present: &mut Experiment) -> bool {
        Self::step(&mut self.future, &mut self.past, &mut self.gesture, present)
    }

    fn step(
        from: &mut Vec<Experiment>,
        to: &mut Vec<Experiment>,
        gesture: &mut Option<Gesture>,
        present: &mut Experiment,
    ) -> bool {
        *gesture = None;
        let Some(other) = from.pop() else { return false };
        to.push(std::mem::replace(present, other));
        true
    }

    /// Notes that the experiment is left for another: the next change is not part of the last gesture, and undone steps are
    /// forgotten.
    pub(crate) fn left(&mut self) {
        self.future.clear();
        self.gesture = None;
    }

    /// Forgets the steps since `experiment` was in hand.
    pub(crate) fn back_to(&mut self, experiment: &Experiment) {
        let at = self.past.iter().rposition(|before| before == experiment).unwrap_or_default();
        self.past.truncate(at);
        self.left();
    }

    /// The experiment before each step that can be undone, the newest step first.
    pub(crate) fn past(&self) -> impl Iterator<Item = &Experiment> {
        self.past.iter().rev()
    }

    /// Whether there is a step to undo.
    pub(crate) fn can_undo(&self) -> bool {
        !self.past.is_empty()
    }

    /// Whether there is an undone step.
    pub(crate) fn can_redo(&self) -> bool {
        !self.future.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn with_width(width: usize) -> Experiment {
        let mut experiment = Experiment::default();
        experiment.model.width = width;
        experiment
    }

    /// Sets the width, as the dispatcher does.
    fn set(history: &mut History, now: &mut Experiment, width: usize, press: Option<u64>, at: Instant) {
        history.changed(now, "model.width", press, at);
        now.model.width = width;
    }

    #[test]
    fn a_long_drag_is_one_step_and_the_next_drag_another() {
        let (mut history, mut now, start) = (History::default(), with_width(64), Instant::now());
        for (i, width) in (65..100).enumerate() {
            set(&mut history, &mut now, width, Some(1), start + Duration::from_secs(i as u64));
        }
        set(&mut history, &mut now, 128, Some(2), start + Duration::from_secs(40));
        assert!(history.undo(&mut now));
        assert_eq!(now.model.width, 99);
        assert!(history.undo(&mut now));
        assert_eq!(now.model.width, 64);
        assert!(!history.undo(&mut now));
        assert!(history.redo(&mut now) && history.redo(&mut now));
        assert_eq!(now.model.width, 128);
    }

    #[test]
    fn key_presses_far_apart_are_steps_of_their_own() {
        let (mut history, mut now, start) = (History::default(), with_width(64), Instant::now());
        set(&mut history, &mut now, 65, None, start);
        set(&mut history, &mut now, 66, None, start + PAUSE / 2);
        set(&mut history, &mut now, 67, None, start + PAUSE * 3);
        assert_eq!(history.past().map(|before| before.model.width).collect::<Vec<_>>(), [66, 64]);
        history.undo(&mut now);
        assert_eq!(now.model.width, 66);
        history.undo(&mut now);
        assert_eq!(now.model.width, 64);
    }

    #[test]
    fn a_change_after_undo_forgets_what_was_undone() {
        let (mut history, mut now, start) = (History::default(), with_width(1), Instant::now());
        set(&mut history, &mut now, 2, Some(1), start);
        history.undo(&mut now);
        set(&mut history, &mut now, 3, Some(2), start);
        assert!(!history.can_redo());
        history.undo(&mut now);
        assert_eq!(now.model.width, 1);
    }
}
