//! Settings that a choice of data rules out, for any files.

use super::List;
use crate::{
    bytes::counted,
    experiment::{Data, DataCache, DataKind, Experiment, ModelKind, Placement},
};

impl List {
    /// Refuses a model whose task is not that of the data.
    pub(super) fn task(&mut self, e: &Experiment) {
        let (learns, teaches) = (e.model.kind.task(), e.data.kind.task());
        if learns == teaches {
            return;
        }
        let models = ModelKind::ALL.into_iter().filter(|kind| kind.task() == teaches).map(ModelKind::key);
        let data = DataKind::ALL.into_iter().filter(|kind| kind.task() == learns).map(DataKind::key);
        let [models, data]: [Vec<&str>; 2] = [models.collect(), data.collect()];
        let message = format!("this model learns {}, and the data teach {}", learns.name(), teaches.name());
        let mut ways = vec![format!("data.kind = one of {}", data.join(", "))];
        if !models.is_empty() {
            ways.push(format!("model.kind = one of {}", models.join(", ")));
        }
        self.add("model.kind", message, format!("write {}", ways.join("; or ")));
    }

    pub(super) fn data(&mut self, e: &Experiment) {
        let data = &e.data;
        if let Some(path) = data.kind.traits().path {
            self.path(data, path.mend);
        }
        if e.weights.chosen().is_some_and(|path| path.to_str().is_none()) {
            self.add("weights.path", "is not text", "give it a name in UTF-8");
        }
        if e.distil.chosen().is_some_and(|path| path.to_str().is_none()) {
            self.add("distil.teacher", "is not text", "give it a name in UTF-8");
        }
        if data.kind.is_split() {
            self.test_fraction(data);
        }
        self.placement(data);
        self.cache(data);
        self.waiting(data);
        if e.distil.is_asked_before() {
            self.answers(data);
        }
        if !data.kind.traits().has_pictures {
            self.unvaried(data);
        }
    }

    /// Places where the samples cannot wait.
    fn placement(&mut self, data: &Data) {
        match data.placement {
            Placement::Streamed | Placement::Device if data.kind == DataKind::Table => {
                let message = "a table is read once and held as columns of numbers in host memory";
                self.add("data.placement", message, "write \"host\"");
            }
            Placement::Streamed if !data.kind.traits().is_streamable => {
                let message = "these samples are part of the program: there is nothing to stream them from";
                self.add("data.placement", message, "write \"host\" or \"device\"");
            }
            Placement::Device if data.is_varied() && data.kind.traits().has_pictures => {
                let message =
                    "images on the device are gathered as they are, and cannot be mirrored, shifted or recoloured";
                let mend = "write \"host\" or \"streamed\", or data.flip = false, data.crop_padding = 0 and data.color_jitter = 0";
                self.add("data.placement", message, mend);
            }
            Placement::Streamed | Placement::Host | Placement::Device => {}
        }
    }

    /// Refuses to keep samples that are not streamed, and variants if nothing is varied.
    fn cache(&mut self, data: &Data) {
        let key = "data.cache";
        match (data.cache, data.placement) {
            (DataCache::None, _) => {}
            _ if !data.kind.can_keep() => {
                self.add(key, "only pictures that are read or generated one by one can be kept", "write \"none\"");
            }
            (DataCache::Decoded, Placement::Host) => {
                let message = "data.placement = \"host\" keeps each sample in memory already";
                self.add(key, message, "write \"none\", or data.placement = \"streamed\" to keep what is streamed");
            }
            (DataCache::Augmented(_), Placement::Host) => {
                let message =
                    "data.placement = \"host\" keeps each sample as it is, and variants are kept in its place";
                self.add(key, message, "write data.placement = \"streamed\", or \"none\"");
            }
            (DataCache::Decoded | DataCache::Augmented(_), Placement::Device) => {
                let message = "the training set lies on the device";
                self.add(key, message, "write \"none\", or data.placement = \"streamed\"");
            }
            (DataCache::Augmented(copies), Placement::Streamed) if !data.is_varied() => {
                let message = format!("nothing is varied, so all of {copies} would be the same image");
                let mend = "write \"decoded\", or data.flip = true, or data.crop_padding or data.color_jitter above 0";
                self.add(key, message, mend);
            }
            (DataCache::Decoded | DataCache::Augmented(_), Placement::Streamed) => {}
        }
        if data.cache_folder.as_ref().is_some_and(|path| path.to_str().is_none()) {
            self.add("data.cache_folder", "is not text", "give it a name in UTF-8");
        }
    }

    /// Refuses images that would wait smaller than they are used, or normalised before what is done to them.
    fn waiting(&mut self, data: &Data) {
        let side = data.side;
        if data.can_wait_as_loaded() && (1..side).contains(&data.load_side) {
            let message = format!("images of {} a side would be enlarged to {side} for each batch", data.load_side);
            self.add("data.load_side", message, format!("write {side} or more, or 0 to resize them before they wait"));
        }
        if !data.is_normalised_beforehand() {
            return;
        }
        let key = "data.normalise_when";
        if data.is_resized_on_the_fly() {
            let message = "images that are resized for each batch are normalised after that";
            self.add(key, message, "write \"on-the-fly\", or data.load_side = 0");
        } else if data.color_jitter > 0.0 && data.kept().copies().is_none() {
            let message = "colours are changed before they are normalised, and these images wait normalised";
            self.add(
                key,
                message,
                "write \"on-the-fly\", or data.color_jitter = 0, or keep variants (data.cache = \"augmented:4\")",
            );
        }
    }

    /// Refuses a teacher that is asked once about samples that differ in every epoch.
    fn answers(&mut self, data: &Data) {
        let key = "distil.answers";
        if data.is_varied() && data.kind.traits().has_pictures {
            let message =
                "images are varied differently in every epoch, so a teacher that is asked once has not seen them";
            let mend = "write \"live\", or data.flip = false, data.crop_padding = 0 and data.color_jitter = 0";
            self.add(key, message, mend);
        } else if data.kind == DataKind::Text {
            let message =
                "a text is cut elsewhere in every epoch, so a teacher that is asked once has not seen its pieces";
            let mend =
                "write \"live\", or data.kind = \"jsonl\" with data.packing = false, whose lines stay as they are";
            self.add(key, message, mend);
        } else if data.kind == DataKind::Jsonl && data.packing {
            let message = "samples that are joined are cut elsewhere in every epoch, so a teacher that is asked once has not \
                           seen them";
            self.add(key, message, "write \"live\", or data.packing = false");
        }
    }

    /// Variants asked of samples that are not pictures.
    fn unvaried(&mut self, data: &Data) {
        for (key, off, is_on) in [
            ("data.flip", "false", data.flip),
            ("data.crop_padding", "0", data.crop_padding > 0),
            ("data.color_jitter", "0", data.color_jitter != 0.0),
        ] {
            if is_on {
                self.add(key, "only pictures can be varied", format!("write {off}"));
            }
        }
    }

    /// A crop that could cut an image away. `side` is the shorter one.
    pub(super) fn crop(&mut self, data: &Data, side: usize) {
        if data.crop_padding > side / 2 {
            let message = format!("{} is more than half of an image of {side}", data.crop_padding);
            self.add("data.crop_padding", message, format!("write {} or less, or 0 for none", side / 2));
        }
    }

    fn path(&mut self, data: &Data, mend: &str) {
        match data.path.as_ref().filter(|path| !path.as_os_str().is_empty()) {
            None => self.add("data.path", "no file or folder is chosen", mend),
            Some(path) if path.to_str().is_none() => {
                self.add("data.path", "is not text", "give it a name in UTF-8");
            }
            Some(_) => {}
        }
    }

    fn test_fraction(&mut self, data: &Data) {
        let is_share = data.test_fraction > 0.0 && data.test_fraction < 1.0;
        if is_share && data.kind.has_samples() && data.samples >= 10 {
            let test = data.samples as f64 * data.test_fraction;
            let train = data.samples as f64 - test;
            if test < 1.0 || train < 1.0 {
                let left = if test < 1.0 { "test" } else { "train" };
                let samples = counted(data.samples as u64, "sample");
                self.add(
                    "data.test_fraction",
                    format!("{} of {samples} leaves none to {left} on", data.test_fraction),
                    "move it towards 0.5, or raise data.samples",
                );
            }
        }
    }
}
