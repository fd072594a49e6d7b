//! Settings that a choice of architecture rules out, by itself and with the data's images.

use super::List;
use crate::{
    bytes::counted,
    experiment::{
        DataKind, DatasetInfo, Experiment, Input, Model, ModelKind, Stem, Task,
        limits::{MAX_DEPTH, MAX_WIDTH},
    },
};

/// Blocks with a pool each that an image of `side` allows: a pool halves it, and needs two pixels.
fn pools(side: usize) -> usize {
    side.max(1).ilog2() as usize
}

/// The side of images from which the last layers of a published architecture see a single pixel.
fn smallest_side(model: &Model) -> usize {
    match model.stem {
        Stem::Imagenet => 32,
        Stem::Small => 8,
    }
}

impl List {
    pub(super) fn model(&mut self, e: &Experiment) {
        let model = &e.model;
        if model.kind.has_stem() {
            return;
        }
        if model.kind.has_feed_forward() || model.kind == ModelKind::Unet {
            return self.blocks_of(model);
        }
        if model.kind == ModelKind::Mlp {
            return;
        }
        if model.kernel.is_multiple_of(2) && model.kernel > 0 {
            let (below, above) = (model.kernel - 1, model.kernel + 1);
            self.add(
                "model.kernel",
                format!("{} is even, and an even kernel has no middle", model.kernel),
                format!("write an odd number, such as {below} or {above}"),
            );
        }
        if (1..=MAX_WIDTH).contains(&model.width) && (1..=MAX_DEPTH).contains(&model.depth) {
            let most = 1 + pools(MAX_WIDTH / model.width);
            if model.depth > most {
                self.add(
                    "model.depth",
                    format!(
                        "the width doubles from block to block, so block {} would have more than {MAX_WIDTH} filters",
                        most + 1
                    ),
                    format!("write {most} or less, or lower model.width"),
                );
            }
        }
    }

    /// Checks the settings that images limit. Their values are within their own limits here.
    pub(super) fn extents(&mut self, e: &Experiment, info: Option<&DatasetInfo>) {
        if !matches!(info.map(|info| info.input), Some(Input::Tokens { .. })) {
            self.image(e, info);
        }
    }

    fn image(&mut self, e: &Experiment, info: Option<&DatasetInfo>) {
        let known = match info {
            Some(info) => info.image().ok(),
            None => e.data.kind.traits().image.of_side(e.data.side),
        };
        let Some([height, width, _]) = known else { return };
        let (model, side) = (&e.model, height.min(width));
        self.crop(&e.data, side);
        let before = self.0.len();
        match model.kind {
            ModelKind::Cnn | ModelKind::Sepcnn => self.kernels_and_pools(model, height, width),
            ModelKind::Vit | ModelKind::Mixer => self.patches(model, height, width),
            ModelKind::Unet => self.levels(model, height, width),
            ModelKind::Resnet | ModelKind::Mobilenetv1 | ModelKind::Mobilenetv2 => {
                if e.batch.micro == 1 && side <= smallest_side(model) {
                    self.add(
                        "batch.micro",
                        "one sample leaves batch norm a single value a channel, which has no variance",
                        "write 2 or more, or choose larger images",
                    );
                }
            }
            // Any image will do, or there is none.
            ModelKind::Mlp | ModelKind::Gpt2 | ModelKind::Llama => {}
        }
        if e.data.kind == DataKind::Spirals && self.0.len() > before {
            self.0.truncate(before);
            self.takes_images();
        }
    }

    /// A kernel that is larger than the images, and pools that leave nothing of them.
    fn kernels_and_pools(&mut self, model: &Model, height: usize, width: usize) {
        let side = height.min(width);
        if model.kernel > side {
            self.add(
                "model.kernel",
                format!("{} is larger than the images, which are {height} x {width}", model.kernel),
                match side {
                    1 | 2 => "write 1, or choose larger images".to_owned(),
                    _ => format!("write an odd number up to {}", side - usize::from(side.is_multiple_of(2))),
                },
            );
        }
        let most = pools(side) + usize::from(model.kind == ModelKind::Sepcnn);
        if model.depth > most {
            self.add(
                "model.depth",
                format!(
                    "each pool halves the image, and {height} x {width} allows {}, not {}",
                    counted(most as u64, "block"),
                    model.depth
                ),
                match most {
                    0 => "choose larger images".to_owned(),
                    _ => format!("write {most} or less, or choose larger images"),
                },
            );
        }
    }

    /// Refuses points for a model that takes images.
    fn takes_images(&mut self) {
        let has_images = |kind: &DataKind| kind.traits().has_pictures && kind.task() == Task::Class;
        let kinds: Vec<&str> = DataKind::ALL.into_iter().filter(has_images).map(DataKind::key).collect();
        self.add(
            "data.kind",
            "spirals are points and not images, and this model takes images",
            format!("write model.kind = mlp, which takes points; or data.kind = one of {}", kinds.join(", ")),
        );
    }
}
