//! How fast weights are read.

use std::{
    collections::HashMap,
    fs::{self, File},
    io::{Read, Write},
    time::Instant,
};

use candle_core::{DType, Device, safetensors};
use plimsoll_engine::{
    backend::{Cpu, Executor},
    device::cpu_threads,
    error::Result,
    experiment::ModelKind,
    interop::{Fitted, export},
    memory::Ledger,
    step::{Session, save::Sink},
};

use super::{info, tiny};

struct To(File);

impl Sink for To {
    fn head(&mut self, bytes: &[u8]) -> Result<()> {
        self.elements(bytes)
    }

    fn elements(&mut self, bytes: &[u8]) -> Result<()> {
        self.0.write_all(bytes).expect("room on the disk");
        Ok(())
    }
}

/// What a file of half a gigabyte takes to load, compared with what it takes to read. Run it with
/// `cargo test --release -p plimsoll-engine --test runs loading_rate -- --ignored --nocapture`.
#[test]
#[ignore = "writes a gigabyte; its figures are read by eye"]
fn loading_rate() {
    let folder = tempfile::tempdir().expect("a folder");
    let mut experiment = tiny(ModelKind::Llama);
    (experiment.model.width, experiment.model.hidden, experiment.model.depth) = (1024, 4096, 6);
    (experiment.model.heads, experiment.model.kv_heads, experiment.data.vocabulary) = (16, 16, 32_000);
    let info = info(&experiment);
    let made = || {
        let executor = Executor::new(Cpu::new(cpu_threads()), Ledger::new(None, false));
        Session::new(executor, &experiment, &info).expect("a model")
    };
    let own = folder.path().join("own.safetensors");
    let mut to = To(File::create(&own).expect("a file"));
    made().save(&[], &mut to).expect("written");
    drop(to);
    export(&own, &folder.path().join("out"), &experiment, &info, false).expect("written");
    let file = folder.path().join("out/model.safetensors");
    let narrow = folder.path().join("narrow.safetensors");
    let bf16 = safetensors::load(&file, &Device::Cpu).expect("written");
    let bf16 = bf16.into_iter().map(|(name, tensor)| (name, tensor.to_dtype(DType::BF16).expect("bf16")));
    safetensors::save(&bf16.collect::<HashMap<_, _>>(), &narrow).expect("written");
    for path in [own, file, narrow] {
        let size = fs::metadata(&path).expect("there").len() as f64 / 1e6;
        let mut read = f64::INFINITY;
        let mut buffer = vec![0; 1 << 20];
        for _ in 0..3 {
            let (begin, mut from) = (Instant::now(), File::open(&path).expect("there"));
            while from.read(&mut buffer).expect("read") > 0 {}
            read = read.min(begin.elapsed().as_secs_f64());
        }
        let mut session = made();
        let mut loaded = f64::INFINITY;
        for _ in 0..3 {
            let begin = Instant::now();
            let mut fitted = Fitted::open(&path, &experiment, &info).unwrap_or_else(|error| panic!("{error}"));
            session.load(&mut fitted).expect("loaded");
            loaded = loaded.min(begin.elapsed().as_secs_f64());
        }
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        println!("{name}: {size:.0} MB, read in {read:.2} s, loaded in {loaded:.2} s ({:.0} MB/s)", size / loaded);
    }
}
