//! The teacher that a preset describes: trained first, as a run of its own under the line of the run that it teaches.
//!
//! Refuses a teacher whose weights would not be the ones that the student needs, and one that crosses the line.

use std::sync::Arc;

use super::Resolved;
use crate::{
    bytes::{Bytes, counted},
    error::{Error, Problem},
    experiment::{DatasetInfo, Experiment, Teacher},
    hardware::Machine,
    interop,
    plan::{self, predict},
};

const KEY: &str = "distil.teacher";
const OTHER: &str = "choose another teacher, or train it as a run of its own and choose that run";
/// What to do about a teacher of samples of other sizes.
pub(super) const LIKE: &str = "choose a teacher that learned from samples of the same size";

/// A run that comes before another one, whose teacher it trains.
#[derive(Debug, Clone)]
pub(super) struct First {
    /// The teacher's experiment, on the device and under the budget of the run that it teaches.
    pub(super) experiment: Arc<Experiment>,
    /// The bytes that count against the budget at its peak.
    load: Bytes,
    info: DatasetInfo,
}

impl First {
    /// The run that trains `teacher`, where a preset describes it; one that is `known` is not planned again.
    ///
    /// # Errors
    /// A preset that cannot be trained here, whose peak crosses the line, or whose model does not fit the student's data.
    pub(super) fn of(
        teacher: &Teacher,
        student: &Experiment,
        info: &DatasetInfo,
        known: Option<&Arc<Self>>,
        machine: &Machine,
    ) -> Result<Option<Arc<Self>>, Problem> {
        let Some(experiment) = teacher.to_train(student) else { return Ok(None) };
        if let Some(known) = known.filter(|known| *known.experiment == experiment) {
            fits(teacher, student, [&known.info, info])?;
            return Ok(Some(Arc::clone(known)));
        }
        let resolved = Resolved::new(&experiment, machine).map_err(|problems| not_here(plan::first(problems)))?;
        // Said before its size, which another budget would mend.
        fits(teacher, student, [resolved.info(), info])?;
        Ok(Some(Arc::new(Self::planned(experiment, &resolved, machine)?)))
    }

    fn planned(experiment: Experiment, resolved: &Resolved, machine: &Machine) -> Result<Self, Problem> {
        let planned = predict(resolved, machine).map_err(not_here)?;
        if !planned.fits() {
            let [load, budget] = planned.load().beside(planned.budget);
            let message = format!("the teacher takes {load} while it is trained, and the budget is {budget}");
            let mend = format!("write a budget of {} or more, or {OTHER}", planned.load().exact());
            return Err(Problem::new(KEY, message, mend));
        }
        Ok(Self { experiment: Arc::new(experiment), load: planned.load(), info: *resolved.info() })
    }

    /// A note for the user.
    pub(super) fn note(&self) -> String {
        let Experiment { title, budget, .. } = &*self.experiment;
        format!(
            "the teacher, \"{title}\", is trained first, as a run of its own: {} at its peak, of a budget of {budget}",
            self.load
        )
    }
}

fn not_here(error: Error) -> Problem {
    Problem::new(KEY, format!("the teacher cannot be trained here: {error}"), OTHER)
}

/// Whether a teacher that learns from the first of two data sets can teach what learns from the second.
fn fits(teacher: &Teacher, student: &Experiment, [taught, info]: [&DatasetInfo; 2]) -> Result<(), Problem> {
    if (taught.label, taught.classes) != (info.label, info.classes) {
        let classes = counted(taught.classes as u64, "class");
        let message = format!("the teacher would learn {classes}, and the data have {}", info.classes);
        return Err(Problem::new(KEY, message, OTHER));
    }
    let is_alike = interop::are_alike(&teacher.beside(student), [taught, info]);
    if !is_alike.map_err(|error| Problem::new(KEY, error.to_string(), LIKE))? {
        let message = "the teacher would learn from samples of other sizes, and its weights would not fit these";
        return Err(Problem::new(KEY, message, LIKE));
    }
    Ok(())
}
