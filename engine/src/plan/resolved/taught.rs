//! The teacher that an experiment chooses, whose weights must be of samples like its own.

use std::sync::Arc;

use super::first::LIKE;
use crate::{
    data::Inspection,
    error::Problem,
    experiment::{DatasetInfo, Experiment, Input, Teacher},
    interop,
};

/// The teacher of `experiment`, read again unless it is `known`; its faults join the problems.
pub(super) fn teacher_of(
    experiment: &Experiment,
    known: Option<&Arc<Teacher>>,
    info: &DatasetInfo,
    problems: &mut Vec<Problem>,
) -> Option<Arc<Teacher>> {
    let path = experiment.distil.chosen()?;
    if let Some(known) = known.filter(|known| known.is_at(path)) {
        problems.extend(known.problem(experiment, info));
        return Some(Arc::clone(known));
    }
    match Teacher::read(path) {
        Ok(teacher) => {
            let problem = teacher.problem(experiment, info);
            problems.extend(problem.or_else(|| misfit(&teacher, experiment, info)));
            Some(Arc::new(teacher))
        }
        Err(error) => {
            // A run that goes on keeps its teacher, and cannot choose another.
            let is_gone = !path.exists();
            let mend = if is_gone { "put it there, or choose another teacher, or none" } else { Teacher::OTHER };
            problems.push(Problem::new("distil.teacher", error.to_string(), mend));
            None
        }
    }
}

/// The fault of a kept run as a teacher whose weights do not fit samples of these sizes.
fn misfit(teacher: &Teacher, experiment: &Experiment, info: &DatasetInfo) -> Option<Problem> {
    let own = teacher.trained_as()?;
    let error = interop::teaching(experiment, Some(&teacher.beside(experiment)), info).err()?;
    let learned = Inspection::of(&own.whole_data(), None).ok().map(|found| found.info().input);
    let problem = match learned.filter(|learned| *learned != info.input) {
        Some(learned) => {
            let message =
                format!("the teacher learned from {}, and these data have {}", size(learned), size(info.input));
            Problem::new("distil.teacher", message, LIKE)
        }
        None => Teacher::problem_of(&error),
    };
    Some(problem)
}

/// The size of a sample in words.
fn size(input: Input) -> String {
    match input {
        Input::Image { height, width, channels } => format!("images of {height} x {width} x {channels}"),
        Input::Tokens { length, .. } => format!("sequences of {length} tokens"),
    }
}
