//! Distillation: a trained model teaches the one that learns (Hinton et al. 2015, "Distilling the knowledge in a neural
//! network").

use std::path::{Path, PathBuf};

use crate::experiment::{
    Experiment, Frozen, PruneKind,
    settings::{KERNELS, NOTHING, settings},
};

settings! {
    /// A trained model whose answers teach in addition to the labels. It is frozen: it takes its weights and a forward pass.
    pub struct Distil in distil {
        /// The folder of a kept run, a file of weights (.safetensors), or a folder with a `config.json` and
        /// `model.safetensors`; or a preset, by its file (.toml) or its shipped name, which is trained first as a run of its
        /// own. Without a teacher only the labels teach.
        pub teacher: Option<PathBuf> = None, KERNELS.quiet();
        /// The divisor of the logits of both models before they are compared.
        pub temperature: f64 = 4.0, NOTHING.when(distils).numbers(0.1, 100.0, "a temperature");
        /// The share of the teacher in the loss; the labels have the rest.
        pub weight: f64 = 0.7, NOTHING.when(distils).numbers(0.0, 1.0, "a share of the loss");
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
}

impl Experiment {
    /// Whether this is the model of a teacher whose channels were taken out. Only a teacher prunes channels and is frozen in
    /// whole: a run that prunes channels with frozen layers is refused.
    pub(crate) fn lacks_channels(&self) -> bool {
        self.frozen == Frozen::All && self.prune.kind == PruneKind::Channels
    }

    /// The same settings for a model that answers and does not learn: a teacher need not be there.
    #[must_use]
    pub fn untaught(&self) -> Self {
        Self { distil: Distil::default(), ..self.clone() }
    }
}
