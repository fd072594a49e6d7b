//! Distillation: a trained model teaches the one that learns (Hinton et al. 2015, "Distilling the knowledge in a neural
//! network").

use std::path::{Path, PathBuf};

use crate::{
    experiment::words::words,
    experiment::{
        CachePlace, Experiment, Frozen, PruneKind,
        settings::{KERNELS, NOTHING, settings},
    },
};

words! {
    /// When a teacher is asked.
    pub enum Answers {
        /// In every micro-batch: its weights and its forward pass stay with the run.
        Live = "live",
        /// Once for each training sample, before the first step. Its answers are kept, the teacher is freed, and each
        /// micro-batch brings its answers with it.
        Cached = "cached",
    }
}

settings! {
    /// A trained model whose answers teach in addition to the labels. It is frozen: it takes its weights and forward passes.
    pub struct Distil in distil {
        /// The folder of a kept run, a file of weights (.safetensors), or a folder with a `config.json` and
        /// `model.safetensors`; or a preset, by its file (.toml) or its shipped name, which is trained first as a run of its
        /// own. Without a teacher only the labels teach.
        pub teacher: Option<PathBuf> = None, KERNELS.quiet();
        /// The divisor of the logits of both models before they are compared.
        pub temperature: f64 = 4.0, NOTHING.when(distils).numbers(0.1, 100.0, "a temperature");
        /// The share of the teacher in the loss; the labels have the rest.
        pub weight: f64 = 0.7, NOTHING.when(distils).numbers(0.0, 1.0, "a share of the loss");
        /// When it is asked. Kept answers lie where `data.cache_in` says.
        pub answers: Answers = Answers::Live, KERNELS.quiet().when(distils);
    }
}

fn distils(e: &Experiment) -> bool {
    e.distil.chosen().is_some()
}

impl Distil {
    /// The teacher's file or folder, where one is chosen.
    pub fn chosen(&self) -> Option<&Path> {
        self.teacher.as_deref().filter(|path| !path.as_os_str().is_empty())
    }

    /// Whether a teacher is asked once, before the first step.
    pub fn is_asked_before(&self) -> bool {
        self.chosen().is_some() && self.answers == Answers::Cached
    }
}

impl Experiment {
    /// Whether this is the model of a teacher whose channels were taken out. Only a teacher prunes channels and is frozen in
    /// whole: a run that prunes channels with frozen layers is refused.
    pub(crate) fn lacks_channels(&self) -> bool {
        self.frozen == Frozen::All && self.prune.kind == PruneKind::Channels
    }

    /// Whether a file keeps something of its samples: the samples themselves, or a teacher's answers to them.
    pub fn keeps_on_disk(&self) -> bool {
        self.data.is_kept_on_disk() || self.distil.is_asked_before() && self.data.cache_in == CachePlace::Disk
    }

    /// The same settings for a model that answers and does not learn: its teacher may be missing.
    #[must_use]
    pub fn untaught(&self) -> Self {
        Self { distil: Distil::default(), ..self.clone() }
    }
}
