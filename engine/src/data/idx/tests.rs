//! Good folders in every variant, and every way a file can be bad.

use std::{fs, io::Write, path::PathBuf};

use flate2::{Compression, write::GzEncoder};
use proptest::prelude::*;
use tempfile::TempDir;

use super::*;
use crate::{
    data::{Dataset, Split},
    experiment::{DataKind, Run},
};

const SIDE: usize = 6;

/// The facts of a folder, at a first look.
fn facts(folder: &Path, data: &Data) -> Result<DatasetInfo> {
    Ok(super::facts(folder, data, None)?.0)
}

fn header(dimensions: &[u32]) -> Vec<u8> {
    let mut bytes = vec![0, 0, 8, dimensions.len() as u8];
    dimensions.iter().for_each(|size| bytes.extend(size.to_be_bytes()));
    bytes
}

fn images(count: usize) -> Vec<u8> {
    let mut bytes = header(&[count as u32, SIDE as u32, SIDE as u32]);
    bytes.extend((0..count * SIDE * SIDE).map(|i| (i * 7 % 251) as u8));
    bytes
}

fn labels(count: usize) -> Vec<u8> {
    let mut bytes = header(&[count as u32]);
    bytes.extend((0..count).map(|i| (i % 10) as u8));
    bytes
}

fn gzip(bytes: &[u8]) -> Vec<u8> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::default());
    encoder.write_all(bytes).and_then(|()| encoder.finish()).expect("writing to memory")
}

/// A folder with a good set: 30 images for training, 10 for testing.
struct Folder(TempDir);

impl Folder {
    fn new() -> Self {
        let folder = Self(tempfile::tempdir().expect("a folder"));
        folder.write("train-images-idx3-ubyte", &images(30));
        folder.write("train-labels-idx1-ubyte", &labels(30));
        folder.write("t10k-images-idx3-ubyte", &images(10));
        folder.write("t10k-labels-idx1-ubyte", &labels(10));
        folder
    }

    fn write(&self, name: &str, bytes: &[u8]) {
        fs::write(self.0.path().join(name), bytes).expect("a writable folder");
    }

    fn remove(&self, name: &str) {
        fs::remove_file(self.0.path().join(name)).expect("it was there");
    }

    fn data(&self) -> Data {
        Data { kind: DataKind::Idx, path: Some(self.0.path().to_owned()), ..Data::default() }
    }

    fn open(&self) -> Result<Dataset> {
        Dataset::open(&self.data(), &Run::default())
    }

    /// File name and message of the error that opening gives.
    fn error(&self) -> (String, String) {
        let error = self.open().expect_err("a bad folder");
        let Error::File { path, place, message } = error else { panic!("{error:?}") };
        let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        (name, format!("{}: {message}", place.unwrap_or_default()))
    }
}

const TRAIN_IMAGES: &str = "train-images-idx3-ubyte";
const TRAIN_LABELS: &str = "train-labels-idx1-ubyte";

#[test]
fn a_good_folder_opens_plain_packed_and_with_dots() {
    let plain = Folder::new();
    let expected = DatasetInfo::one_label(Input::Image { height: SIDE, width: SIDE, channels: 1 }, 10, 30, 10);
    let mixed = Folder::new();
    mixed.remove(TRAIN_IMAGES);
    mixed.write("train-images-idx3-ubyte.gz", &gzip(&images(30)));
    mixed.remove(TRAIN_LABELS);
    mixed.write("train-labels.idx1-ubyte", &labels(30));
    mixed.remove("t10k-images-idx3-ubyte");
    mixed.write("t10k-images.idx3-ubyte.gz", &gzip(&images(10)));
    // Packed without saying so.
    mixed.write("t10k-labels-idx1-ubyte", &gzip(&labels(10)));
    // A folder of a file's name, as some archives unpack.
    fs::create_dir(mixed.0.path().join(TRAIN_LABELS)).expect("a writable folder");
    for folder in [plain, mixed] {
        assert_eq!(facts(folder.0.path(), &Data::default()).expect("good"), expected);
        let set = folder.open().expect("good");
        assert_eq!(
            (set.facts(), set.images().label(Split::Train, 13), set.images().label(Split::Test, 9)),
            (&expected, 3, 9)
        );
        assert_eq!(
            set.images().pixels(Split::Train, 1).expect("in memory"),
            &images(30)[16 + SIDE * SIDE..][..SIDE * SIDE]
        );
    }
}

#[test]
fn there_are_as_many_classes_as_the_labels_say() {
    for (most, classes) in [(0, 2), (1, 2), (9, 10), (26, 27), (46, 47), (61, 62), (255, 256)] {
        let folder = Folder::new();
        let mut bytes = labels(10);
        bytes[8..].fill(0);
        folder.write("t10k-labels-idx1-ubyte", &bytes);
        let mut bytes = labels(30);
        bytes[8..].fill(0);
        bytes[8 + 17] = most;
        folder.write(TRAIN_LABELS, &bytes);
        let set = folder.open().expect("good");
        assert_eq!((set.facts().classes, set.images().label(Split::Train, 17)), (classes, u32::from(most)));
    }
}

#[test]
fn a_set_may_have_its_name_before_the_usual_one() {
    let folder = Folder::new();
    for name in [TRAIN_IMAGES, TRAIN_LABELS, "t10k-images-idx3-ubyte", "t10k-labels-idx1-ubyte"] {
        let renamed = format!("emnist-letters-{}", name.replace("t10k", "test"));
        fs::rename(folder.0.path().join(name), folder.0.path().join(renamed)).expect("a writable folder");
    }
    assert_eq!(folder.open().expect("good").count(Split::Test), 10);
    folder.write("emnist-digits-train-images-idx3-ubyte", &images(30));
    let error = folder.open().expect_err("two sets").to_string();
    assert!(error.contains("several sets are in it, such as emnist-digits-train-images-idx3-ubyte and"), "{error}");
}

#[test]
fn streamed_samples_are_those_in_memory_and_gzip_cannot_be_streamed() {
    let folder = Folder::new();
    let open = |placement| Dataset::open(&Data { placement, ..folder.data() }, &Run::default());
    let (held, streamed) = (open(Placement::Host).expect("good"), open(Placement::Streamed).expect("good"));
    assert_eq!(held.scaling(), streamed.scaling());
    for split in [Split::Train, Split::Test] {
        for index in 0..held.count(split) {
            let sample = |set: &Dataset| (set.images().pixels(split, index), set.images().label(split, index));
            assert_eq!(sample(&held), sample(&streamed));
        }
    }
    folder.write("t10k-labels-idx1-ubyte", &gzip(&labels(10)));
    let error = open(Placement::Streamed).expect_err("packed").to_string();
    assert!(error.starts_with("data.placement: t10k-labels-idx1-ubyte is gzip"), "{error}");
    assert!(open(Placement::Host).is_ok());
}

#[test]
fn a_missing_file_or_folder_is_named() {
    let folder = Folder::new();
    folder.remove("t10k-labels-idx1-ubyte");
    let error = folder.open().expect_err("a file is missing").to_string();
    assert!(error.contains("no t10k-labels-idx1-ubyte (or t10k-labels-idx1-ubyte.gz) in it"), "{error}");
    let error = facts(&folder.0.path().join("none"), &Data::default()).expect_err("no folder").to_string();
    assert!(error.contains("none: not found"), "{error}");
    let error = facts(&folder.0.path().join(TRAIN_LABELS), &Data::default()).expect_err("a file").to_string();
    assert!(error.contains("this is not a folder"), "{error}");
    fs::create_dir(folder.0.path().join("t10k-labels-idx1-ubyte")).expect("a folder");
    let error = folder.open().expect_err("a folder is not a file").to_string();
    assert!(error.contains("t10k-labels-idx1-ubyte: a folder has this name; put the data file"), "{error}");
}

#[test]
fn every_damage_names_the_file_the_place_and_the_mend() {
    let mut of_floats = images(30);
    of_floats[2] = 0x0d;
    let cut = |bytes: Vec<u8>, by: usize| bytes[..bytes.len() - by].to_vec();
    let cases: [(&str, Vec<u8>, &str); 13] = [
        (TRAIN_IMAGES, vec![], "byte 0: it ends after 0 of 4 bytes"),
        (TRAIN_IMAGES, images(30)[..10].to_vec(), "byte 10: it ends after 10 of 12 bytes"),
        (TRAIN_IMAGES, cut(images(30), 1), "byte 1095: it ends after 1095 of 1096 bytes"),
        (TRAIN_IMAGES, [images(30), vec![0; 3]].concat(), "byte 1096: 3 more bytes follow"),
        (TRAIN_IMAGES, b"{\"a\": 1}".to_vec(), "byte 0: not an IDX file: it begins with 7b 22"),
        (TRAIN_IMAGES, labels(30), "byte 0: these are labels, not images"),
        (TRAIN_LABELS, images(30), "byte 0: these are images, not labels"),
        (TRAIN_IMAGES, of_floats, "byte 0: IDX with 3 dimensions of type 0x0d"),
        (TRAIN_IMAGES, header(&[0, 6, 6]), "byte 4: 0 images is impossible"),
        (TRAIN_IMAGES, header(&[30, 6, 0]), "byte 12: 0 columns is impossible"),
        (TRAIN_IMAGES, header(&[u32::MAX, u32::MAX, u32::MAX]), "byte 8: 4294967295 rows is impossible"),
        (TRAIN_IMAGES, header(&[u32::MAX, 4096, 4096]), "byte 16: it ends after 16 of 72057594021150736 bytes"),
        (TRAIN_LABELS, labels(29), "byte 4: 29 labels, but train-images-idx3-ubyte has 30 images"),
    ];
    for (name, bytes, expected) in cases {
        let folder = Folder::new();
        folder.write(name, &bytes);
        let (file, message) = folder.error();
        assert_eq!(file, name);
        assert!(message.starts_with(expected), "{message}\nexpected: {expected}");
        let mends = ["download", "put files of one set", "look swapped, so give each the name of its kind"];
        assert!(mends.iter().any(|mend| message.contains(mend)), "{message}");
    }
}

#[test]
fn broken_gzip_says_how_far_it_was_good() {
    let packed = gzip(&images(30));
    let absurd = gzip(&header(&[60_000, 28, 28]));
    let mut flipped = packed.clone();
    let last = flipped.len() - 5;
    flipped[last] ^= 1;
    let cases: [(Vec<u8>, &str); 6] = [
        (packed[..packed.len() - 12].to_vec(), "unpacked: the gzip data is broken after"),
        (packed[..5].to_vec(), "byte 0 unpacked: the gzip data is broken after 0 bytes"),
        (flipped, "byte 1096 unpacked: the gzip data is broken after 1096 bytes"),
        (absurd, "header: the header promises 44.9 MiB, but the file unpacks to"),
        (gzip(&[images(30), vec![0; 9]].concat()), "byte 1096: more bytes follow"),
        (gzip(&images(30)[..900]), "byte 900: it ends after 900 of 1096 bytes unpacked"),
    ];
    for (bytes, expected) in cases {
        let folder = Folder::new();
        folder.write(TRAIN_IMAGES, &bytes);
        let (file, message) = folder.error();
        assert_eq!(file, TRAIN_IMAGES);
        assert!(message.contains(expected) && message.contains("download it again"), "{message}\nexpected: {expected}");
    }
}

#[test]
fn a_header_past_the_limit_is_refused_before_memory_is_taken() {
    let folder = Folder::new();
    let path: PathBuf = folder.0.path().join(TRAIN_IMAGES);
    let count = 1u32 << 20;
    folder.write(TRAIN_IMAGES, &header(&[count, 100, 100]));
    // A sparse file: as long as its header promises, and nearly nothing on the disk.
    let file = fs::OpenOptions::new().write(true).open(&path).expect("just written");
    file.set_len(16 + u64::from(count) * 10_000).expect("sparse files");
    let (_, message) = folder.error();
    assert!(message.starts_with("header: the header promises 9.77 GiB, more than the 2.00 GiB"), "{message}");
}

#[test]
fn sets_of_different_sizes_do_not_mix() {
    let folder = Folder::new();
    let mut other = header(&[10, 5, 5]);
    other.extend([0; 250]);
    folder.write("t10k-images-idx3-ubyte", &other);
    let (file, message) = folder.error();
    assert_eq!(file, "t10k-images-idx3-ubyte");
    assert!(message.starts_with("byte 8: its images are 5 x 5, but those for training 6 x 6"), "{message}");
}

#[cfg(unix)]
#[test]
fn a_folder_without_rights_is_named() {
    use std::os::unix::fs::PermissionsExt;
    let folder = Folder::new();
    let path = folder.0.path().join(TRAIN_IMAGES);
    fs::set_permissions(&path, fs::Permissions::from_mode(0o000)).expect("our own file");
    // Rights do not bind every user: one who may read the file all the same cannot be refused.
    if fs::File::open(&path).is_err() {
        assert!(folder.error().1.contains("no permission to read it"));
    }
}

/// Changes bytes, then cuts or extends.
fn damage(bytes: &mut Vec<u8>, changes: &[(prop::sample::Index, u8)], len: Option<prop::sample::Index>) {
    for (place, value) in changes {
        let place = place.index(bytes.len());
        bytes[place] = *value;
    }
    if let Some(len) = len {
        bytes.resize(len.index(bytes.len() + 40), 0xa5);
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    #[test]
    fn no_damage_makes_it_panic_or_take_memory_wildly(
        which in 0..4usize,
        packed: bool,
        in_header: bool,
        changes in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 0..6),
        len in prop::option::of(any::<prop::sample::Index>()),
    ) {
        let names = [TRAIN_IMAGES, TRAIN_LABELS, "t10k-images-idx3-ubyte", "t10k-labels-idx1-ubyte"];
        let mut bytes = match which { 0 => images(30), 1 => labels(30), 2 => images(10), _ => labels(10) };
        if in_header {
            let mut head = bytes[..8].to_vec();
            damage(&mut head, &changes, None);
            bytes[..8].copy_from_slice(&head);
        }
        if packed {
            bytes = gzip(&bytes);
        }
        if !in_header {
            damage(&mut bytes, &changes, len);
        }
        let folder = Folder::new();
        folder.write(names[which], &bytes);
        let facts = facts(folder.0.path(), &Data::default());
        match open(folder.0.path()) {
            Ok((train, test)) => {
                prop_assert!(train.pixels.capacity() < 1 << 16 && test.pixels.capacity() < 1 << 16);
                prop_assert_eq!(facts.map(|facts| (facts.train, facts.test)), Ok((train.labels.len(), test.labels.len())));
            }
            Err(error) => prop_assert!(matches!(error, Error::File { .. }), "{:?}", error),
        }
    }
}
