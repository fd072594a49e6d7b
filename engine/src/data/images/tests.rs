//! Folders good and bad, and images that cannot be read.

mod batches;

pub(in crate::data) use batches::photos;

use std::{
    collections::HashSet,
    fs,
    path::{Path, PathBuf},
};

use image::{Rgb, RgbImage};
use tempfile::TempDir;

use super::*;
use crate::{
    bytes::Bytes,
    data::{Dataset, Feed, HostBatch, HostMemory, Inspection, Loader},
    experiment::{CachePlace, DataCache, DataKind, Placement, Run},
    memory::probe::{Meter, meter_this_thread},
};

const SIDE: usize = 16;

/// `count` images in each of three classes, no two alike; the reds tell the class.
fn folder(count: usize) -> TempDir {
    let folder = tempfile::tempdir().expect("a folder");
    for (class, name) in ["ash", "birch", "cedar"].into_iter().enumerate() {
        fs::create_dir(folder.path().join(name)).expect("a writable folder");
        for i in 0..count {
            let (width, height) = (20 + i as u32, 31 - i as u32 % 7);
            let image = RgbImage::from_pixel(width, height, Rgb([80 * class as u8, 9 * i as u8, 100]));
            let ending = ["png", "jpg", "JPEG"][i % 3];
            image.save(folder.path().join(name).join(format!("{i:03}.{ending}"))).expect("a writable folder");
        }
    }
    folder
}

fn data(folder: &TempDir) -> Data {
    let path = Some(folder.path().to_owned());
    Data { kind: DataKind::Images, path, side: SIDE, test_fraction: 0.25, ..Data::default() }
}

fn facts(folder: &Path, data: &Data) -> Result<DatasetInfo> {
    let listing = listing::list(folder, None)?;
    info(&listing, data)
}

fn open(data: &Data) -> Result<Dataset> {
    Dataset::open(data, &Run::default())
}

fn batches(data: &Data, seed: u64, count: usize) -> Vec<HostBatch> {
    let set = Arc::new(open(data).expect("good"));
    let mut loader = Loader::train(set, seed, 5, 1).expect("fits");
    (0..count).map(|_| loader.recv().expect("no fault").expect("no end").clone()).collect()
}

/// Bytes that the result of `make` keeps alive.
fn measured<T>(make: impl FnOnce() -> T) -> (usize, T) {
    let meter = Meter::new();
    meter_this_thread(Some(meter));
    let made = make();
    let live = meter.now().live;
    meter_this_thread(None);
    (live.0 as usize, made)
}

#[test]
fn sub_folders_are_classes_and_files_of_other_kinds_are_passed_over() {
    let good = folder(8);
    fs::write(good.path().join("ash/notes.txt"), "no image").expect("writable");
    fs::write(good.path().join("birch/._000.png"), "hidden").expect("writable");
    fs::write(good.path().join("list.csv"), "next to the classes").expect("writable");
    fs::create_dir(good.path().join(".thumbnails")).expect("writable");
    let expected = DatasetInfo::one_label(Input::Image { height: SIDE, width: SIDE, channels: 3 }, 3, 18, 6);
    assert_eq!(facts(good.path(), &data(&good)).expect("good"), expected);
    let set = open(&data(&good)).expect("good");
    assert_eq!((set.facts(), set.skipped()), (&expected, None));
    for split in [Split::Train, Split::Test] {
        let mut each = [0; 3];
        for index in 0..set.count(split) {
            let (label, pixels) =
                (set.images().label(split, index), set.images().pixels(split, index).expect("readable"));
            // JPEG keeps a plain colour to within a few steps.
            assert!(pixels[0].abs_diff(80 * label as u8) < 6, "{label}: {}", pixels[0]);
            assert_eq!(pixels.len(), SIDE * SIDE * 3);
            each[label as usize] += 1;
        }
        assert!(each.iter().all(|n| *n == set.count(split) / 3), "{each:?}");
    }
}

#[test]
fn a_listing_is_made_again_when_a_file_comes() {
    let growing = folder(4);
    let count = || facts(growing.path(), &data(&growing)).map(|facts| facts.train + facts.test);
    let set = open(&data(&growing)).expect("good");
    assert_eq!(count(), Ok(12));
    assert!(set.is_for(&data(&growing), &Run::default()));
    fs::copy(growing.path().join("ash/000.png"), growing.path().join("ash/new.png")).expect("writable");
    assert_eq!(count(), Ok(13));
    assert!(!set.is_for(&data(&growing), &Run::default()));
}

#[test]
fn a_checksum_tells_other_names_apart() {
    let named = folder(4);
    let checksum = || open(&data(&named)).expect("good").checksum();
    let before = checksum();
    assert!(before.is_some() && before == checksum());
    // As many images of as many classes.
    fs::rename(named.path().join("ash/000.png"), named.path().join("ash/z.png")).expect("writable");
    assert_ne!(before, checksum());
}

/// A folder that changed a moment ago may change again with the same time stamp, so it is listed again at once.
#[cfg(unix)]
#[test]
fn a_folder_that_has_not_changed_is_listed_once() {
    use std::time::{Duration, SystemTime};
    let some = folder(4);
    for name in ["ash", "birch", "cedar", "."] {
        let class = fs::File::open(some.path().join(name)).expect("a folder");
        class.set_modified(SystemTime::now() - Duration::from_secs(60)).expect("ours");
    }
    let look = |known| Inspection::of(&data(&some), known).expect("good");
    let is_same = |a: &Inspection, b: &Inspection| a.listing().zip(b.listing()).map(|(a, b)| Arc::ptr_eq(a, b));
    let first = look(None);
    assert_eq!(is_same(&first, &look(None)), Some(false), "nothing is remembered outside of an inspection");
    assert_eq!(is_same(&first, &look(Some(&first))), Some(true));
    fs::copy(some.path().join("ash/000.png"), some.path().join("ash/new.png")).expect("writable");
    let grown = look(Some(&first));
    assert_eq!((is_same(&first, &grown), grown.info().train + grown.info().test), (Some(false), 13));
}

#[test]
fn an_image_is_cropped_to_its_middle_and_resized() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("wide.png");
    // Blue wings next to a square that is red above and green below, large enough for both ways of resizing.
    for side in [24, 200] {
        let image = RgbImage::from_fn(3 * side, side, |x, y| match (x / side, y < side / 2) {
            (1, true) => Rgb([255, 0, 0]),
            (1, false) => Rgb([0, 255, 0]),
            _ => Rgb([0, 0, 255]),
        });
        image.save(&path).expect("writable");
        let pixels = decode::decode(&path, SIDE).expect("good");
        assert_eq!((&pixels[..3], &pixels[pixels.len() - 3..]), (&[255, 0, 0][..], &[0, 255, 0][..]));
        assert!(pixels.chunks_exact(3).all(|pixel| pixel[2] == 0), "the wings are cropped");
    }
}

#[test]
fn what_cannot_be_read_is_counted_once_and_its_class_stands_in() {
    let bad = folder(12);
    let before = facts(bad.path(), &data(&bad)).expect("good");
    let at = |name: &str| bad.path().join(name);
    let jpeg = fs::read(at("ash/001.jpg")).expect("just written");
    fs::write(at("ash/001.jpg"), &jpeg[..jpeg.len() - 20]).expect("writable");
    let png = fs::read(at("ash/000.png")).expect("just written");
    fs::write(at("ash/000.png"), &png[..png.len() / 2]).expect("writable");
    fs::write(at("birch/002.JPEG"), "no image at all").expect("writable");
    fs::write(at("birch/003.png"), "").expect("writable");
    // A header that promises 100 million pixels, and next to none that follow.
    let mut bomb = png.clone();
    bomb[16..24].copy_from_slice(&[0, 0, 0x27, 0x10, 0, 0, 0x27, 0x10]);
    fs::write(at("cedar/000.png"), bomb).expect("writable");

    assert_eq!(facts(bad.path(), &data(&bad)).expect("names are the same"), before);
    let set = Arc::new(open(&data(&bad)).expect("enough is good"));
    for _ in 0..2 {
        let mut loader = Loader::train(Arc::clone(&set), 1, before.train, 1).expect("fits");
        let batch = loader.recv().expect("no fault").expect("no end");
        assert_eq!(batch.labels.iter().filter(|label| **label == 0).count(), before.train / 3);
        let mut test = Loader::test(Arc::clone(&set), 4).expect("fits");
        let mut tested = 0;
        while let Some(batch) = test.recv().expect("no fault") {
            tested += batch.len;
        }
        assert_eq!(tested, before.test);
    }
    let skipped = set.skipped().expect("five are bad");
    assert_eq!(skipped.count, 5);
    let text = skipped.to_string();
    assert!(text.starts_with("5 images cannot be read, and others of the same class stand in: "), "{text}");
    assert!(text.contains("000.png: "), "{text}");
}

#[test]
fn each_way_to_be_unreadable_has_its_reason() {
    let some = folder(3);
    let at = |name: &str| -> PathBuf { some.path().join(name) };
    let reason = |name: &str| decode::decode(&at(name), SIDE).expect_err("unreadable");
    let jpeg = fs::read(at("ash/001.jpg")).expect("just written");
    for keep in [jpeg.len() - 2, jpeg.len() - 30] {
        fs::write(at("ash/001.jpg"), &jpeg[..keep]).expect("writable");
        assert_eq!(reason("ash/001.jpg"), "it is cut short");
    }
    fs::write(at("ash/001.jpg"), [&jpeg[..], b"what some cameras add"].concat()).expect("writable");
    assert!(decode::decode(&at("ash/001.jpg"), SIDE).is_ok());
    fs::write(at("ash/000.png"), "text").expect("writable");
    assert_eq!(reason("ash/000.png"), "its content is not JPEG, PNG or WebP");
    let long = fs::File::create(at("birch/000.png")).expect("writable");
    long.set_len(65 << 20).expect("sparse files");
    assert_eq!(reason("birch/000.png"), "65.0 MiB is too large a file");
    assert_eq!(reason("birch"), "this is not a regular file");
}

#[test]
#[cfg(unix)]
fn a_pipe_among_images_is_never_waited_for() {
    let some = folder(4);
    let pipe = some.path().join("ash/pipe.png");
    assert!(std::process::Command::new("mkfifo").arg(&pipe).status().expect("mkfifo runs").success());
    // On a thread of its own, because opening the pipe would never return.
    let (said, answer) = std::sync::mpsc::channel();
    let (data, path) = (data(&some), some.path().to_owned());
    std::thread::spawn(move || {
        let facts = facts(&path, &data).expect("names are enough");
        let set = Arc::new(open(&data).expect("the others are good"));
        let mut loader = Loader::train(Arc::clone(&set), 1, facts.train, 1).expect("fits");
        let _ = loader.recv().expect("no fault").expect("no end");
        let mut test = Loader::test(Arc::clone(&set), 4).expect("fits");
        while test.recv().expect("no fault").is_some() {}
        said.send((look::at(&pipe), set.skipped().map(|skipped| skipped.to_string())))
    });
    let (pixels, skipped) = answer.recv_timeout(std::time::Duration::from_secs(60)).expect("nothing waits for a pipe");
    assert_eq!(pixels, None);
    assert!(skipped.expect("it is left out").contains("pipe.png: this is not a regular file"));
}

/// The first bytes of a PNG that promises `width` by `height`, with the checksum that goes with it.
fn png_header(width: u32, height: u32) -> Vec<u8> {
    let mut chunk = b"IHDR".to_vec();
    chunk.extend([width.to_be_bytes(), height.to_be_bytes()].concat());
    chunk.extend([8, 2, 0, 0, 0]);
    let checksum = crc32fast::hash(&chunk).to_be_bytes();
    [&b"\x89PNG\r\n\x1a\n"[..], &13u32.to_be_bytes(), &chunk, &checksum, &0u32.to_be_bytes(), b"IDAT"].concat()
}

#[test]
fn a_header_that_promises_too_much_is_refused_before_anything_is_allocated() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("bomb.png");
    for (width, height) in [(100_000, 100_000), (20_001, 2), (16_000, 16_000)] {
        fs::write(&path, png_header(width, height)).expect("writable");
        let (bytes, refused) = measured(|| decode::decode(&path, SIDE).expect_err("too large"));
        assert!(refused.starts_with(&format!("{width} x {height} is too large an image")), "{refused}");
        assert!(bytes < 4096, "{bytes}");
    }
}

#[test]
fn grey_images_images_of_16_bits_and_webp_are_images_as_others() {
    let folder = tempfile::tempdir().expect("a folder");
    let decoded = |name: &str, image: image::DynamicImage| {
        let path = folder.path().join(name);
        image.save(&path).expect("writable");
        decode::decode(&path, SIDE).expect("good")
    };
    let side = SIDE as u32;
    let colour = RgbImage::from_fn(side, side, |x, y| Rgb([x as u8 * 9, y as u8 * 9, 77]));
    let pixels = colour.clone().into_raw();
    assert_eq!(decoded("lossless.webp", colour.clone().into()), pixels);
    let deep: image::ImageBuffer<Rgb<u16>, Vec<u16>> = image::ImageBuffer::from_fn(side, side, |x, y| {
        Rgb(colour.get_pixel(x, y).0.map(|value| u16::from(value) * 257))
    });
    assert_eq!(decoded("deep.png", deep.into()), pixels);
    let grey = image::GrayImage::from_fn(side, side, |x, _| image::Luma([x as u8 * 16]));
    let expected: Vec<u8> = grey.as_raw().iter().flat_map(|value| [*value; 3]).collect();
    assert_eq!(decoded("grey.png", grey.clone().into()), expected);
    let deep =
        image::ImageBuffer::from_fn(side, side, |x, y| image::Luma([u16::from(grey.get_pixel(x, y).0[0]) * 257]));
    assert_eq!(decoded("deep_grey.png", image::DynamicImage::ImageLuma16(deep)), expected);
    let path = folder.path().join("lossless.webp");
    let whole = fs::read(&path).expect("just written");
    for keep in 0..whole.len() {
        fs::write(&path, &whole[..keep]).expect("writable");
        // A reason and no panic, wherever it is cut.
        assert!(decode::decode(&path, SIDE).is_err() || keep + 8 > whole.len(), "{keep} of {}", whole.len());
    }
}

/// `folder` with its classes in `parts` of it.
fn divided(parts: &[&str]) -> TempDir {
    let whole = folder(6);
    for (index, part) in parts.iter().enumerate() {
        for class in ["ash", "birch", "cedar"] {
            let to = whole.path().join(part).join(class);
            fs::create_dir_all(&to).expect("writable");
            for image in index..6 {
                let from =
                    fs::read_dir(whole.path().join(class)).expect("there").flatten().nth(image).expect("six").path();
                fs::copy(&from, to.join(from.file_name().expect("a file"))).expect("writable");
            }
        }
    }
    for class in ["ash", "birch", "cedar"] {
        fs::remove_dir_all(whole.path().join(class)).expect("ours");
    }
    whole
}

#[test]
fn a_folder_with_train_and_val_is_divided_as_it_stands() {
    for (parts, counts) in [
        (&["train", "val"][..], (18, 15)),
        (&["Train", "valid"][..], (18, 15)),
        (&["train", "validation", "test"][..], (18, 15)),
        (&["train", "test"][..], (18, 15)),
        (&["train"][..], (13, 5)),
    ] {
        let whole = divided(parts);
        let set = open(&data(&whole)).expect("good");
        assert_eq!((set.count(Split::Train), set.count(Split::Test)), counts, "{parts:?}");
        assert_eq!((set.facts().classes, set.class_name(1)), (3, "birch".to_owned()));
        let notes = Inspection::of(&data(&whole), None).expect("good").notes().concat();
        assert!(notes.contains(parts[0]) && parts.get(1).is_none_or(|test| notes.contains(test)), "{notes}");
        for index in 0..counts.1 {
            let (label, pixels) =
                (set.images().label(Split::Test, index), set.images().pixels(Split::Test, index).expect("readable"));
            assert!(pixels[0].abs_diff(80 * label as u8) < 6, "{parts:?}, {index}");
        }
    }
    let whole = divided(&["train", "val"]);
    fs::create_dir(whole.path().join("val/oak")).expect("writable");
    let error = facts(whole.path(), &data(&whole)).expect_err("a class of its own").to_string();
    assert!(error.contains("oak: a class that") && error.contains("train does not have"), "{error}");
    fs::remove_dir(whole.path().join("val/oak")).expect("ours");
    fs::remove_dir_all(whole.path().join("val/birch")).expect("ours");
    assert_eq!(facts(whole.path(), &data(&whole)).map(|facts| (facts.train, facts.test)), Ok((18, 10)));
}

#[test]
fn a_class_of_which_nothing_can_be_read_ends_the_run_with_its_name() {
    let bad = folder(4);
    for file in fs::read_dir(bad.path().join("birch")).expect("just made") {
        fs::write(file.expect("just made").path(), "broken").expect("writable");
    }
    let error = open(&data(&bad)).expect_err("nothing to train on").to_string();
    assert!(error.contains("birch: none of its images for training can be read"), "{error}");
}

#[test]
fn folders_that_are_no_set_are_refused_by_name() {
    let refused = |path: &Path| facts(path, &Data::default()).expect_err("no set").to_string();
    let folder = folder(1);
    assert!(refused(&folder.path().join("none")).contains("none: not found"));
    assert!(refused(&folder.path().join("ash/000.png")).contains("this is not a folder"));
    assert!(refused(&folder.path().join("ash")).contains("0 sub-folders in it"));
    fs::create_dir(folder.path().join("oak")).expect("writable");
    let text = refused(folder.path());
    assert!(text.contains("oak: no JPEG, PNG or WebP in it"), "{text}");
}
