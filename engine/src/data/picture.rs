//! Single images on their way to a model: one of the test set, a file, or a drawing.
//!
//! Always holds: a picture has the extents of its data and goes through the scaling of their training set, so that a model sees
//! it as it sees a sample. A file is brought to that size as files of an image folder are. Refuses: files that are not images,
//! and data whose samples are not pictures.

use std::path::Path;

use crate::{
    data::{Dataset, HostBatch, Inputs, Split, images::decode::decode, shapes},
    error::{Error, Problem, Result},
    experiment::{DataKind, LabelKind, Task},
};

/// The brightest value of the digits that ship with the program; of other images it is the largest byte.
const BRIGHTEST_DIGIT: u8 = 16;
/// The weights of a pixel's red, green and blue in its lightness, of 1000 (ITU-R BT.601).
const LIGHTNESS: [u32; 3] = [299, 587, 114];

/// An image as a source has it: bytes that are not scaled yet.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Picture {
    /// Pixels down.
    pub height: usize,
    /// Pixels across.
    pub width: usize,
    /// Numbers of a pixel: 1 for grey, 3 for red, green and blue.
    pub channels: usize,
    /// `[height, width, channels]`.
    pub pixels: Vec<u8>,
    /// The value of the brightest pixel there can be.
    pub brightest: u8,
}

impl Picture {
    /// The red, green and blue of each pixel, `[height * width]`; for data that are not pictures, as well as they can be shown.
    pub fn colours(&self) -> Vec<[u8; 3]> {
        let bright = |value: u8| (u16::from(value) * 255 / u16::from(self.brightest.max(1))).min(255) as u8;
        let colour = |pixel: &[u8]| match pixel {
            [red, green, blue, ..] => [*red, *green, *blue].map(bright),
            [grey, ..] => [bright(*grey); 3],
            [] => [0; 3],
        };
        self.pixels.chunks_exact(self.channels.max(1)).map(colour).collect()
    }
}

impl Dataset {
    /// A sample of the test set as it is shown, with its labels.
    ///
    /// # Errors
    /// Fails for sequences, for a number past the end, and for files that cannot be read.
    pub fn test_picture(&self, index: usize) -> Result<Picture> {
        let set = self.image_set().ok_or_else(|| self.no_pictures())?;
        self.has_test_sample(index)?;
        self.picture(set.pixels(Split::Test, index)?)
    }

    /// The image of a file at the size and with the channels of these data. Data of one channel take its lightness, and
    /// where its edge is brighter than its middle, as ink on paper is, the other way round.
    ///
    /// # Errors
    /// Fails for data that are not pictures, and for a file that is not a whole JPEG, PNG or WebP.
    pub fn picture_of(&self, path: &Path) -> Result<Picture> {
        let [height, width, channels] = self.picture_extents()?;
        let side = height.max(width);
        let decoded = decode(path, side).map_err(|reason| {
            Error::file(path, format!("is not an image that can be read: {reason}; choose a JPEG, a PNG or a WebP"))
        })?;
        // The middle of the square.
        let (top, left) = ((side - height) / 2, (side - width) / 2);
        let rows = decoded.chunks_exact(side * 3).skip(top).take(height);
        let cropped: Vec<u8> = rows.flat_map(|row| &row[left * 3..(left + width) * 3]).copied().collect();
        if channels == 3 {
            return self.picture(cropped);
        }
        let light = |pixel: &[u8]| {
            (pixel.iter().zip(LIGHTNESS).map(|(value, weight)| u32::from(*value) * weight).sum::<u32>() / 1000) as u8
        };
        let mut grey: Vec<u8> = cropped.chunks_exact(3).map(light).collect();
        if has_bright_edge(&grey, width) {
            grey.iter_mut().for_each(|value| *value = 255 - *value);
        }
        self.picture(self.at_own_brightness(grey))
    }

    /// A drawing, `[height, width]` from 0 to 255 at the size of these data, in each of their channels.
    ///
    /// # Errors
    /// Fails for data that are not pictures, and for a drawing of another size.
    pub fn drawing(&self, ink: &[u8]) -> Result<Picture> {
        let [height, width, channels] = self.picture_extents()?;
        if ink.len() != height * width {
            return Err(Error::Misused(format!("a drawing of {} pixels, and not {height} x {width}", ink.len())));
        }
        let pixels = ink.iter().flat_map(|value| std::iter::repeat_n(*value, channels)).collect();
        self.picture(self.at_own_brightness(pixels))
    }

    /// One batch with the picture, as a model sees it. Its labels are all class 0 and mean nothing.
    ///
    /// # Errors
    /// Fails for sequences.
    pub fn batch_of(&self, picture: &Picture) -> Result<HostBatch> {
        let set = self.image_set().ok_or_else(|| self.no_pictures())?;
        let inputs = Inputs::Images(set.as_input(&picture.pixels));
        Ok(HostBatch { inputs, labels: vec![0; self.facts().labels_per_sample], len: 1, ..HostBatch::default() })
    }

    /// The name of a class: by its folder, as the publishers of the set call it, or its number.
    pub fn class_name(&self, class: usize) -> String {
        const CIFAR10: [&str; 10] =
            ["airplane", "automobile", "bird", "cat", "deer", "dog", "frog", "horse", "ship", "truck"];
        let of_table = || self.table().and_then(|table| table.class_name(class));
        let own = self.image_set().and_then(|set| set.class_name(class)).or_else(of_table);
        let known = || match self.chosen().kind {
            DataKind::Cifar10 => CIFAR10.get(class).map(|name| (*name).to_owned()),
            DataKind::Shapes => shapes::class_name(class).map(str::to_owned),
            DataKind::Masks if class == 0 => Some("background".to_owned()),
            DataKind::Masks => shapes::class_name(class - 1).map(str::to_owned),
            // Their classes are digits, arms or tokens, or their files name them.
            DataKind::Digits
            | DataKind::Spirals
            | DataKind::Idx
            | DataKind::Cifar100
            | DataKind::Images
            | DataKind::Modular
            | DataKind::Sort
            | DataKind::Brackets
            | DataKind::Text
            | DataKind::Jsonl
            | DataKind::Tokens
            | DataKind::Table => None,
        };
        own.or_else(known).unwrap_or_else(|| class.to_string())
    }

    /// The names of all classes, if they are more than numbers; `None` for sequences and values.
    pub fn class_names(&self) -> Option<Vec<String>> {
        let facts = self.facts();
        let has_classes = matches!(self.chosen().task(), Task::Class | Task::Mask) && facts.label == LabelKind::Class;
        let names: Vec<String> =
            has_classes.then(|| (0..facts.classes).map(|class| self.class_name(class)).collect())?;
        let is_number = |(class, name): (usize, &String)| *name == class.to_string();
        (!names.iter().enumerate().all(is_number)).then_some(names)
    }

    /// Whether its user named the classes, or its publisher: not where they have numbers, or are of generated samples.
    pub fn has_own_class_names(&self) -> bool {
        matches!(self.chosen().kind, DataKind::Images | DataKind::Table | DataKind::Cifar10)
    }

    /// Refuses a number past the end of the test set.
    ///
    /// # Errors
    /// Says how many there are.
    pub fn has_test_sample(&self, index: usize) -> Result<()> {
        let test = self.count(Split::Test);
        if index < test {
            return Ok(());
        }
        let message = format!("there is no sample {index} in a test set of {test}");
        Err(Problem::new("sample", message, format!("name one from 0 to {}", test.saturating_sub(1))).into())
    }

    fn picture(&self, pixels: Vec<u8>) -> Result<Picture> {
        let [height, width, channels] = self.facts().image()?;
        Ok(Picture { height, width, channels, pixels, brightest: self.brightest() })
    }

    /// Height, width and channels of the pictures that the samples are.
    fn picture_extents(&self) -> Result<[usize; 3]> {
        match self.facts().image() {
            Ok(extents) if self.chosen().kind.traits().has_pictures && matches!(extents[2], 1 | 3) => Ok(extents),
            _ => Err(self.no_pictures()),
        }
    }

    /// The error for samples that are not pictures. It says what they are, and how such a model is tried.
    fn no_pictures(&self) -> Error {
        let kind = self.chosen().kind;
        let (what, mend) = match (kind.task(), kind) {
            (Task::Next, _) => (
                "the samples of this model are sequences, not pictures",
                "give it a prompt to write on from (--prompt TEXT)",
            ),
            (Task::Class | Task::Value, DataKind::Table) => {
                ("the samples of this model are rows, not pictures", "name a row of its test set (--sample N)")
            }
            (Task::Class | Task::Mask | Task::Value, _) => {
                ("the samples of this model are not pictures", "name a sample of its test set (--sample N)")
            }
        };
        Problem::new("data.kind", what, mend).into()
    }

    fn brightest(&self) -> u8 {
        if self.chosen().kind == DataKind::Digits { BRIGHTEST_DIGIT } else { u8::MAX }
    }

    /// Values up to 255 as values up to the brightest of these data.
    fn at_own_brightness(&self, mut pixels: Vec<u8>) -> Vec<u8> {
        let brightest = u16::from(self.brightest());
        pixels.iter_mut().for_each(|value| *value = ((u16::from(*value) * brightest + 127) / 255) as u8);
        pixels
    }
}

/// Whether the edge of a grey image is brighter than its inside.
fn has_bright_edge(grey: &[u8], width: usize) -> bool {
    let height = grey.len() / width.max(1);
    let is_edge = |at: usize| {
        let (y, x) = (at / width, at % width);
        y == 0 || x == 0 || y + 1 == height || x + 1 == width
    };
    let mean = |edge: bool| {
        let values = || grey.iter().enumerate().filter(|(at, _)| is_edge(*at) == edge).map(|(_, value)| *value);
        values().map(u64::from).sum::<u64>() as f64 / values().count().max(1) as f64
    };
    mean(true) > mean(false) && mean(true) > 127.0
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        data::feed::Filling,
        experiment::{Data, Run},
    };

    fn digits() -> Dataset {
        Dataset::open(&Data::default(), &Run::default()).expect("they ship")
    }

    #[test]
    fn a_picture_goes_to_a_model_as_its_sample_does() {
        let dataset = digits();
        let picture = dataset.test_picture(3).expect("there are more");
        assert_eq!((picture.height, picture.width, picture.channels), (8, 8, 1));
        assert_eq!(picture.colours().len(), 64);
        let mut whole = HostBatch { inputs: Inputs::Images(Vec::new()), ..HostBatch::default() };
        let over = std::sync::atomic::AtomicBool::new(false);
        dataset.fill(Split::Test, 0, 3..4, &mut whole, Filling::alone(&over)).expect("in memory");
        assert_eq!(dataset.batch_of(&picture).expect("images").inputs, whole.inputs);
        let error = dataset.test_picture(359).expect_err("the test set has 359").to_string();
        assert!(error.contains("no sample 359 in a test set of 359; name one from 0 to 358"), "{error}");
    }

    #[test]
    fn a_file_comes_to_the_size_and_brightness_of_the_data_whichever_way_round_its_ink_is() {
        let folder = tempfile::tempdir().expect("a folder");
        // A bar, black on white and white on black.
        let bar = |ink: u8, paper: u8| {
            image::GrayImage::from_fn(32, 32, |x, _| image::Luma([if (12..20).contains(&x) { ink } else { paper }]))
        };
        let pictures = [(0, 255), (255, 0)].map(|(ink, paper)| {
            let path = folder.path().join(format!("{ink}.png"));
            bar(ink, paper).save(&path).expect("written");
            digits().picture_of(&path).expect("an image")
        });
        assert_eq!(pictures[0], pictures[1]);
        let row = &pictures[0].pixels[24..32];
        assert!(row[0] == 0 && row[4] >= 12 && row[7] == 0, "{row:?}");
        let broken = folder.path().join("text.png");
        std::fs::write(&broken, "no image").expect("written");
        let error = digits().picture_of(&broken).expect_err("text").to_string();
        assert!(error.contains("text.png: is not an image that can be read"), "{error}");
    }

    #[test]
    fn sequences_and_points_are_no_pictures() {
        for kind in [DataKind::Spirals, DataKind::Sort] {
            let dataset = Dataset::open(&Data { kind, ..Data::default() }, &Run::default()).expect("generated");
            let said = dataset.picture_of(Path::new("x.png")).expect_err("none").to_string();
            assert!(said.contains("pictures") && said.contains("--sample N") == (kind == DataKind::Spirals), "{said}");
        }
        let sorted =
            Dataset::open(&Data { kind: DataKind::Sort, ..Data::default() }, &Run::default()).expect("generated");
        let said = sorted.test_picture(0).expect_err("a sequence").to_string();
        assert!(said.ends_with("sequences, not pictures; give it a prompt to write on from (--prompt TEXT)"), "{said}");
        assert_eq!((digits().class_name(3), digits().drawing(&[0; 63]).is_err()), ("3".to_owned(), true));
    }
}
