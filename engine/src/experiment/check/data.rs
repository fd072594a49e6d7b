//! What a choice of data rules out, whatever the files hold.

use super::{List, MAX_SIDE, MIN_SIDE};
use crate::{
    data::MAX_SAMPLES,
    experiment::{Data, DataKind, Experiment},
};

impl List {
    pub(super) fn data(&mut self, e: &Experiment) {
        let data = &e.data;
        if data.kind.is_on_disk() {
            self.folder(data);
        }
        if matches!(data.kind, DataKind::Shapes | DataKind::Images) {
            self.within("data.side", data.side, MIN_SIDE, MAX_SIDE, "the side of an image");
        }
        if data.kind == DataKind::Shapes {
            self.within("data.classes", data.classes, 2, 10, "a number of classes");
            self.within("data.samples", data.samples, 10, MAX_SAMPLES, "a number of samples");
        }
        if matches!(data.kind, DataKind::Digits | DataKind::Shapes | DataKind::Images) {
            self.test_fraction(data);
        }
        self.within("data.colour", data.colour, 0.0, 1.0, "a strength");
    }

    /// A crop that could cut an image away. `side` is the shorter one.
    pub(super) fn crop(&mut self, data: &Data, side: usize) {
        if data.crop > side / 2 {
            let message = format!("{} pixels are more than half of an image of {side}", data.crop);
            self.add("data.crop", message, format!("write {} or less, or 0 for none", side / 2));
        }
    }

    fn folder(&mut self, data: &Data) {
        let what = match data.kind {
            DataKind::Idx => "the IDX files",
            DataKind::Cifar100 => "train.bin and test.bin of CIFAR-100",
            DataKind::Images => "a sub-folder of JPEG and PNG files for each class",
            _ => "the CIFAR-10 batches",
        };
        match data.path.as_ref().filter(|path| !path.as_os_str().is_empty()) {
            None => self.add("data.path", "is missing", format!("write the folder that holds {what}")),
            Some(path) if path.to_str().is_none() => {
                self.add("data.path", "is not text", "give the folder a name in UTF-8");
            }
            Some(_) => {}
        }
    }

    fn test_fraction(&mut self, data: &Data) {
        if !(data.test_fraction > 0.0 && data.test_fraction < 1.0) {
            let mend = "write a number between 0 and 1, such as 0.2";
            self.add("data.test_fraction", format!("{} is not a share", data.test_fraction), mend);
        } else if data.kind == DataKind::Shapes && data.samples >= 10 {
            let test = data.samples as f64 * data.test_fraction;
            let train = data.samples as f64 - test;
            if test < 1.0 || train < 1.0 {
                let left = if test < 1.0 { "test" } else { "train" };
                self.add(
                    "data.test_fraction",
                    format!("{} of {} samples leaves none to {left} on", data.test_fraction, data.samples),
                    "move it towards 0.5, or raise data.samples",
                );
            }
        }
    }
}
