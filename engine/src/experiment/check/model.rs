//! What a choice of architecture rules out, by itself and with the data's images.

use super::{
    List,
    transformer::{can_be, largest},
};
use crate::experiment::{
    DataKind, DatasetInfo, Experiment, Input, Model, ModelKind, Stem,
    limits::{MAX_DEPTH, MAX_WIDTH},
};

/// Blocks with a pool each that an image of `side` allows: a pool halves it, and needs two pixels.
fn pools(side: usize) -> usize {
    side.max(1).ilog2() as usize
}

/// The side of images of which the last layers of a published architecture see a single pixel.
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

    /// What the data's extents rule out. The values are within their limits here.
    pub(super) fn extents(&mut self, e: &Experiment, facts: Option<&DatasetInfo>) {
        match facts.map(|facts| facts.input) {
            Some(Input::Tokens { length, vocabulary }) => {
                let (activation, weight) = largest(&e.model, length, vocabulary);
                self.sizes(e, activation, weight);
            }
            _ => self.image(e, facts),
        }
    }

    fn image(&mut self, e: &Experiment, facts: Option<&DatasetInfo>) {
        let known = match (facts, e.data.kind) {
            (Some(facts), _) => facts.image().ok(),
            (None, DataKind::Digits) => Some([8, 8, 1]),
            (None, DataKind::Shapes | DataKind::Images | DataKind::Masks) => Some([e.data.side, e.data.side, 3]),
            (None, DataKind::Cifar10 | DataKind::Cifar100) => Some([32, 32, 3]),
            (None, _) => None,
        };
        let Some([height, width, channels]) = known else { return };
        let (model, side) = (&e.model, height.min(width));
        self.crop(&e.data, side);
        let pixels = height.saturating_mul(width);
        // Elements of the largest activation of one sample, and of the largest weight.
        let (activation, weight) = match model.kind {
            ModelKind::Mlp => {
                let inputs = pixels.saturating_mul(channels);
                (inputs.max(model.width), inputs.max(model.width).saturating_mul(model.width))
            }
            ModelKind::Cnn | ModelKind::Sepcnn => {
                if model.kernel > side {
                    self.add(
                        "model.kernel",
                        format!("{} is larger than the images, which are {height} x {width}", model.kernel),
                        format!("write an odd number up to {side}"),
                    );
                }
                let most = pools(side) + usize::from(model.kind == ModelKind::Sepcnn);
                if model.depth > most {
                    self.add(
                        "model.depth",
                        format!(
                            "each pool halves the image, and {height} x {width} allows {most} blocks, not {}",
                            model.depth
                        ),
                        format!("write {most} or less"),
                    );
                    return;
                }
                let filters = model.width << (model.depth - 1);
                let activation = pixels.saturating_mul(filters);
                (activation, activation.saturating_mul(model.dense))
            }
            ModelKind::Vit | ModelKind::Mixer => {
                self.patches(model, height, width);
                let patch = model.patch.saturating_mul(model.patch).saturating_mul(channels);
                let (activation, weight) = largest(model, pixels / model.patch.pow(2) + 1, 0);
                (activation.max(pixels), weight.max(patch.saturating_mul(model.width)))
            }
            ModelKind::Unet => {
                if !self.levels(model, height, width) {
                    return;
                }
                let deepest = model.width << model.depth.min(16);
                (pixels.saturating_mul(2 * model.width), deepest.saturating_mul(deepest).saturating_mul(9))
            }
            // They have no image.
            ModelKind::Gpt2 | ModelKind::Llama => (0, 0),
            ModelKind::Resnet | ModelKind::Mobilenetv1 | ModelKind::Mobilenetv2 => {
                let widest = if model.kind == ModelKind::Resnet { 256.0 } else { 192.0 * model.multiplier.max(1.0) };
                if e.batch.micro == 1 && side <= smallest_side(model) {
                    self.add(
                        "batch.micro",
                        "one sample leaves batch norm a single value a channel, which has no variance",
                        "write 2 or more, or choose larger images",
                    );
                }
                (pixels.saturating_mul(widest as usize), 0)
            }
        };
        self.sizes(e, activation, weight);
    }

    fn sizes(&mut self, e: &Experiment, activation: usize, weight: usize) {
        if !can_be(activation, e.batch.micro, weight) {
            let others = match e.model.kind {
                kind if kind.has_feed_forward() => "model.hidden, ",
                kind if kind.is_plain_cnn() => "model.dense, ",
                _ => "",
            };
            self.add(
                "model.width",
                format!("with {} samples at once, a tensor would be larger than any device", e.batch.micro),
                format!("lower model.width, {others}or batch.micro"),
            );
        }
    }
}
