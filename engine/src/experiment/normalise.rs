//! The scaling of pixels, and the scaling that published weights expect.
//!
//! Owns [`Normalise`] and [`NormaliseWhen`]. Always holds: the meaning of `auto` follows from the files next to the weights only, and is reported.

use std::{
    fs::File,
    io::Read,
    path::{Path, PathBuf},
};

use serde_json::Value;

use crate::{
    experiment::words::words,
    experiment::{
        ModelKind,
        weights::{CONFIG, INDEX, WHOLE, own::Own},
    },
};

words! {
    /// The mean and the deviation that scale the pixels of each channel.
    pub enum Normalise {
        /// The mean and deviation that the weights of `weights.path` were trained with; without weights those of the data set.
        Auto = "auto",
        /// Mean 0 and deviation 1 over the training images.
        Dataset = "dataset",
        /// ImageNet's: 0.485, 0.456, 0.406 and 0.229, 0.224, 0.225 of the largest value.
        Imagenet = "imagenet",
        /// A half and a half, so that pixels are from -1 to 1.
        Half = "half",
        /// No scaling: pixels are from 0 to 1.
        None = "none",
    }
}

words! {
    /// When the pixels of images that wait are scaled.
    pub enum NormaliseWhen {
        /// As a batch is filled: they wait as bytes.
        OnTheFly = "on-the-fly",
        /// Before they wait: they do so as floats, of four bytes each.
        Beforehand = "beforehand",
    }
}

/// The file in which image processors of Hugging Face state the scaling, next to a model.
pub(crate) const PROCESSOR: &str = "preprocessor_config.json";
/// The longest of the files that are read here.
const LONGEST: u64 = 1 << 20;
/// The mark in a file of weights that this program wrote.
const OWN: &[u8] = b"plimsoll";

/// Mean and deviation of ImageNet's pixels, red, green and blue from 0 to 1 (torchvision's and timm's).
const IMAGENET: [[f64; 3]; 2] = [[0.485, 0.456, 0.406], [0.229, 0.224, 0.225]];
const HALF: [[f64; 3]; 2] = [[0.5; 3]; 2];
const NONE: [[f64; 3]; 2] = [[0.0; 3], [1.0; 3]];

impl Normalise {
    /// Mean and deviation of red, green and blue from 0 to 1, where they do not follow from the data.
    pub fn constants(self) -> Option<[[f64; 3]; 2]> {
        match self {
            Self::Auto | Self::Dataset => None,
            Self::Imagenet => Some(IMAGENET),
            Self::Half => Some(HALF),
            Self::None => Some(NONE),
        }
    }

    /// A description in words.
    pub fn words(self) -> &'static str {
        match self {
            Self::Auto | Self::Dataset => "mean 0 and deviation 1 over the training images",
            Self::Imagenet => "the mean and the deviation of ImageNet",
            Self::Half => "a mean and a deviation of a half: from -1 to 1",
            Self::None => "no mean and no deviation: from 0 to 1",
        }
    }

    /// The scaling that the weights at `path` of such a model were trained with; `None` if it is not known.
    pub(super) fn of_weights(path: &Path, kind: ModelKind) -> Option<Self> {
        // A run's own record takes precedence over anything next to its file.
        Own::at(path).map_or_else(|| Self::published(path, kind), |own| own.normalise())
    }

    /// The scaling of weights that were not saved by a run of this program.
    pub(super) fn published(path: &Path, kind: ModelKind) -> Option<Self> {
        if !matches!(kind, ModelKind::Resnet | ModelKind::Mobilenetv2 | ModelKind::Vit) {
            return None;
        }
        let folder = if path.is_dir() { path } else { path.parent()? };
        let fields = |name: &str| -> Option<Value> { serde_json::from_slice(&beginning(&folder.join(name))?).ok() };
        let pair = |fields: &Value, mean: &str, deviation: &str| {
            Some([numbers(fields.get(mean)?)?, numbers(fields.get(deviation)?)?])
        };
        if let Some(found) = fields(PROCESSOR).and_then(|fields| pair(&fields, "image_mean", "image_std")) {
            return Self::near(found);
        }
        if let Some(config) = fields(CONFIG) {
            let of_timm = config.get("pretrained_cfg").unwrap_or(&config);
            if let Some(found) = pair(of_timm, "mean", "std") {
                return Self::near(found);
            }
        }
        let file = file_of(path)?;
        // An export whose folder does not mention it comes from a run whose pixels were scaled by its data.
        let is_own = memchr::memmem::find(&beginning(&file)?, OWN).is_some();
        // Vision transformers of transformers and of timm are trained with halves.
        let published = if kind == ModelKind::Vit { Self::Half } else { Self::Imagenet };
        (!is_own).then_some(published)
    }

    /// The one with this mean and deviation.
    fn near(found: [[f64; 3]; 2]) -> Option<Self> {
        Self::ALL.into_iter().find(|known| {
            known.constants().is_some_and(|constants| {
                constants.as_flattened().iter().zip(found.as_flattened()).all(|(own, found)| (own - found).abs() < 2e-3)
            })
        })
    }
}

/// The file of weights, or the first thing in its place.
fn file_of(path: &Path) -> Option<PathBuf> {
    if !path.is_dir() {
        return Some(path.to_owned());
    }
    [WHOLE, INDEX].into_iter().map(|name| path.join(name)).find(|file| file.is_file())
}

fn numbers(value: &Value) -> Option<[f64; 3]> {
    let all: Option<Vec<f64>> = value.as_array()?.iter().map(Value::as_f64).collect();
    all?.try_into().ok()
}

/// The first bytes of a regular file.
fn beginning(path: &Path) -> Option<Vec<u8>> {
    let about = path.metadata().ok().filter(std::fs::Metadata::is_file)?;
    let mut bytes = Vec::with_capacity(about.len().min(LONGEST) as usize);
    File::open(path).ok()?.take(LONGEST).read_to_end(&mut bytes).ok()?;
    Some(bytes)
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn what_weights_expect_is_found_beside_them() {
        let folder = tempfile::tempdir().expect("a folder");
        let of = |kind| Normalise::of_weights(folder.path(), kind);
        let write = |name: &str, text: &str| fs::write(folder.path().join(name), text).expect("writable");
        assert_eq!(of(ModelKind::Resnet), None, "nothing is there");
        write(WHOLE, "{\"conv1.weight\": {}}");
        assert_eq!((of(ModelKind::Resnet), of(ModelKind::Vit)), (Some(Normalise::Imagenet), Some(Normalise::Half)));
        assert_eq!(of(ModelKind::Cnn), None, "no such weights are published");
        write(
            CONFIG,
            r#"{"architecture": "resnet18", "pretrained_cfg": {"mean": [0.5, 0.5, 0.5], "std": [0.5, 0.5, 0.5]}}"#,
        );
        assert_eq!(of(ModelKind::Resnet), Some(Normalise::Half));
        write(PROCESSOR, r#"{"image_mean": [0.485, 0.456, 0.406], "image_std": [0.229, 0.224, 0.225]}"#);
        assert_eq!(of(ModelKind::Vit), Some(Normalise::Imagenet));
        fs::remove_file(folder.path().join(PROCESSOR)).expect("ours");
        write(CONFIG, "{}");
        write(WHOLE, r#"{"__metadata__": {"plimsoll": "4"}}"#);
        assert_eq!(of(ModelKind::Resnet), None, "a run of this program");
    }
}
