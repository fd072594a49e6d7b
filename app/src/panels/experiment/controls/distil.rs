//! The controls of a teacher: when it is asked, and its share of the loss.

use plimsoll_engine::experiment::Answers;

use super::{Numeric, Row, source, teacher};
use crate::widgets::control::{Choice, Number, Place, Spec};

pub(in crate::panels::experiment) const TEMPERATURE: Numeric = (
    Spec {
        key: "distil.temperature",
        name: "Temperature",
        help: "The logits of both models are divided by this before they are compared. At 1 the teacher's answers are \
                nearly as hard as labels; at 2 to 8 the small probabilities of the wrong classes count, which a label does \
                not have. It changes neither memory nor time.",
    },
    Number { stops: &[1., 2., 3., 4., 6., 8., 12., 20.], zero: None, place: Place::Setting },
);

pub(in crate::panels::experiment) const TEACHER_SHARE: Numeric = (
    Spec {
        key: "distil.weight",
        name: "Teacher's share",
        help: "The share of the teacher in the loss; the labels have the rest. At 1 the labels do not count, at 0 the teacher \
                does not, and runs for nothing. It changes neither memory nor time. A test is judged by the labels alone.",
    },
    Number { stops: &[0., 0.1, 0.3, 0.5, 0.7, 0.9, 1.], zero: None, place: Place::Setting },
);

pub(in crate::panels::experiment) const ANSWERS: (Spec, Choice<Answers>) = (
    Spec {
        key: "distil.answers",
        name: "Asked",
        help: "If the teacher is asked in every step, its weights and its forward pass stay with the run. If it is asked \
                once, it goes through the training samples before the first step; its answers are kept in host memory or \
                on disk, the teacher is freed, and every micro-batch brings its answers along. The run learns the same. It \
                takes the teacher's memory only at the beginning, and no time for it in a step; the answers take the \
                classes times 2 or 4 bytes a label. Samples have to stay as they are: no mirroring, no cropping, no text \
                that is cut differently in every epoch.",
    },
    Choice {
        options: &[(Answers::Live, "in every step"), (Answers::Cached, "once, at the start")],
        place: Place::Setting,
    },
);

/// The rows of the group.
pub(in crate::panels::experiment) const DISTILLATION: &[Row] = &[
    Row::drawn(&[teacher::TEACHER], teacher::chosen),
    Row::of(&TEMPERATURE),
    Row::of(&TEACHER_SHARE),
    Row::of(&ANSWERS).alone("teacher asked"),
    Row::drawn(&[], source::answers_place),
];
