//! The parts of a run by which blocks are placed: whenever a part comes again, it asks for the same blocks.
//!
//! Owns [`Part`], the word with which a session reports its place. Always holds: a pass starts with a part that begins one
//! and lasts until the next such part. A part has everything that decides which blocks are asked for, so parts that ask for
//! different blocks are not equal.

/// A part of a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Part {
    /// The making of the model, and the loading of its weights or of a checkpoint.
    Start,
    /// The making of a teacher that is asked before the first step, and the loading of its weights.
    Teaching,
    /// A micro-batch that it is asked about.
    Lesson,
    /// A step, up to its first micro-batch.
    Step {
        /// Whether its first micro-batch is on the device already.
        is_fed: bool,
        /// Whether an update was made before, so that the optimizer's state is there.
        has_state: bool,
    },
    /// A micro-batch of a step.
    MicroBatch {
        /// Whether it is the step's first, in which gradients are allocated.
        is_first: bool,
    },
    /// The part after the last micro-batch of a step.
    Update {
        /// Whether the optimizer's state is there.
        has_state: bool,
    },
    /// The taking out of channels. Parts that come after it ask for other blocks than the same ones before it.
    Prune,
    /// A test, up to its first batch.
    Evaluation,
    /// A batch of a test.
    Batch {
        /// Its samples; the last batch has those that are left.
        samples: usize,
    },
    /// The making of a model of integers, up to its first batch.
    Compression,
    /// A batch in which the ranges of inputs are found.
    Calibration,
    /// The making of codes.
    Coding,
    /// A batch of a test with codes.
    CodedBatch {
        /// Its samples; the last batch has those that are left.
        samples: usize,
    },
    /// One pass over tokens of a text that is continued.
    Writing {
        /// How many it sees.
        tokens: usize,
        /// Whether it has the keys and values of those before.
        is_continued: bool,
    },
    /// The writing of a checkpoint.
    Saving,
    /// A look for numbers that are not finite, which is in no plan: the run ends with it.
    Diagnosis,
}

impl Part {
    /// Whether codes of the weights are made or used in it.
    pub fn has_codes(self) -> bool {
        matches!(self, Self::Coding | Self::CodedBatch { .. })
    }

    /// Whether a pass begins with it.
    pub fn begins_pass(self) -> bool {
        match self {
            Self::Start
            | Self::Teaching
            | Self::Step { .. }
            | Self::Prune
            | Self::Evaluation
            | Self::Writing { .. }
            | Self::Saving
            | Self::Compression
            | Self::Diagnosis => true,
            Self::Lesson
            | Self::MicroBatch { .. }
            | Self::Update { .. }
            | Self::Batch { .. }
            | Self::Calibration
            | Self::Coding
            | Self::CodedBatch { .. } => false,
        }
    }
}
