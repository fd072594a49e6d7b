//! Times the making of batches of a folder of JPEG images by different numbers of threads, with nothing else running.

use std::{sync::Arc, time::Instant};

use image::{Rgb, RgbImage};
use plimsoll_engine::{
    data::{Dataset, Feed, Loader, Position},
    error::Result,
    experiment::{Data, DataKind, Placement, Run},
};

const IMAGES: u32 = 192;
const BATCH: usize = 32;
const BATCHES: usize = 12;
const ROUNDS: usize = 5;

fn main() -> Result<()> {
    let folder = tempfile::tempdir().expect("a folder");
    for class in ["near", "far"] {
        std::fs::create_dir(folder.path().join(class)).expect("a writable folder");
        for i in 0..IMAGES / 2 {
            let noise = |x: u32, y: u32| ((x * 31 + y * 17 + i * 7) % 251) as u8;
            let image = RgbImage::from_fn(640, 480, |x, y| Rgb([(x / 3) as u8, noise(x, y) / 4 + 90, (y / 2) as u8]));
            image.save(folder.path().join(class).join(format!("{i}.jpg"))).expect("a writable folder");
        }
    }
    let data = Data {
        kind: DataKind::Images,
        path: Some(folder.path().to_owned()),
        placement: Placement::Streamed,
        side: 224,
        ..Data::default()
    };
    let set = Arc::new(Dataset::open(&data, &Run::default())?);
    let mut one = f64::NAN;
    for workers in [1, 2, 4] {
        let secs = |_| -> Result<f64> {
            let feed = Feed { workers, batches: 2, rounded: None };
            let mut loader = Loader::train_from(Position::default(), Arc::clone(&set), 1, [BATCH, 1], feed)?;
            let start = Instant::now();
            for _ in 0..BATCHES {
                drop(loader.recv()?);
            }
            Ok(start.elapsed().as_secs_f64())
        };
        let mut secs = (0..ROUNDS).map(secs).collect::<Result<Vec<_>>>()?;
        secs.sort_by(f64::total_cmp);
        let median = secs[ROUNDS / 2];
        if workers == 1 {
            one = median;
        }
        let rate = (BATCHES * BATCH) as f64 / median;
        println!("{workers} workers: {rate:.0} images a second, {:.2} times one", one / median);
    }
    Ok(())
}
