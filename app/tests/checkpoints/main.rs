//! Runs that are killed, stopped, or run out of disk: the last whole checkpoint is there, and from it they go on to the same
//! bits.
//!
//! `cargo test -p plimsoll --test checkpoints -- --ignored` kills 300 times over 11 families.
#![cfg(unix)]

mod full_disk;
mod kills;
mod stops;

use std::{
    collections::BTreeMap,
    fs,
    io::{BufRead, BufReader},
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    thread::JoinHandle,
};

use serde_json::Value;

/// Small models of every family that has some: kind and sizes of the model, and what it learns. The smallest ResNet has 11
/// million parameters, and a MobileNet has the same layers.
const FAMILIES: [(&str, &str, &str); 11] = [
    ("mlp", "kind = \"mlp\"\nwidth = 16\ndepth = 2", "kind = \"digits\""),
    ("mlp on spirals", "kind = \"mlp\"\nwidth = 8\ndepth = 3", "kind = \"spirals\"\nsamples = 200\nclasses = 3"),
    ("cnn", "kind = \"cnn\"\nwidth = 4\ndepth = 1\ndense = 8", "kind = \"digits\""),
    ("sepcnn", "kind = \"sepcnn\"\nwidth = 4\ndepth = 1\ndense = 8", "kind = \"digits\""),
    ("mobilenetv1", "kind = \"mobilenetv1\"\nmultiplier = 0.1", IMAGES),
    ("mobilenetv2", "kind = \"mobilenetv2\"\nmultiplier = 0.1", IMAGES),
    ("vit", "kind = \"vit\"\nwidth = 8\nheads = 2\ndepth = 1\nhidden = 8\npatch = 4\ndropout = 0.1", IMAGES),
    ("mixer", "kind = \"mixer\"\nwidth = 8\ndepth = 1\nhidden = 8\npatch = 4", IMAGES),
    ("gpt2", "kind = \"gpt2\"\nwidth = 8\nheads = 2\ndepth = 1\nhidden = 8\ndropout = 0.1", SEQUENCES),
    ("llama", "kind = \"llama\"\nwidth = 8\nheads = 2\nkv_heads = 2\ndepth = 1\nhidden = 8", SEQUENCES),
    (
        "unet",
        "kind = \"unet\"\nwidth = 1\ndepth = 1",
        "kind = \"masks\"\nside = 16\nsamples = 100\ntest_fraction = 0.1",
    ),
];
const IMAGES: &str = "kind = \"shapes\"\nside = 16\nsamples = 100\ntest_fraction = 0.1\nflip = true\ncrop_padding = 1";
const SEQUENCES: &str = "kind = \"sort\"\nlength = 6\nsamples = 200\ntest_fraction = 0.1";
const OPTIMIZERS: [&str; 9] =
    ["adamw", "flash-adamw", "momentum", "adafactor", "lion", "adamw8bit", "adamw4bit", "muon", "apollo-mini"];
const PRECISIONS: [&str; 4] = ["f32", "bf16-mixed", "f16-mixed", "bf16"];

/// A preset of a family, and the folder it lies in.
struct Case {
    folder: tempfile::TempDir,
    preset: PathBuf,
}

impl Case {
    /// Of the family `number`, with `steps` steps and a checkpoint after each `save_every`.
    fn new(number: usize, steps: u64, save_every: u64) -> Self {
        let (name, model, data) = FAMILIES[number % FAMILIES.len()];
        let (optimizer, precision) = (OPTIMIZERS[number % OPTIMIZERS.len()], PRECISIONS[number % PRECISIONS.len()]);
        let text = format!(
            "version = 2\ntitle = \"{name}\"\nbudget = \"1 GiB\"\nprecision = \"{precision}\"\n[model]\n{model}\n[data]\n{data}\n\
             [batch]\nmicro = 3\naccumulation = 2\n[optimizer]\nkind = \"{optimizer}\"\nlearning_rate = 1e-3\n\
             schedule = \"cosine\"\n[run]\nsteps = {steps}\nevaluate_every = 7\nsave_every = {save_every}\n"
        );
        let folder = tempfile::tempdir().expect("a folder");
        let preset = folder.path().join("preset.toml");
        fs::write(&preset, text).expect("written");
        Self { folder, preset }
    }

    /// The folder of the checkpoints of a run.
    fn run(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// Trains with checkpoints in `run`, from the first step or from the last checkpoint there.
    fn command(&self, run: &Path) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_plimsoll"));
        match run.join("last.safetensors").exists() {
            true => command.arg("resume").arg(run).arg("--json"),
            false => command.arg("train").arg(&self.preset).arg("--json").arg("--checkpoints").arg(run),
        };
        command.env("PLIMSOLL_STORE", self.folder.path().join("store"));
        command.stdout(Stdio::piped()).stderr(Stdio::piped());
        command
    }
}

/// What a program told: the loss of every step, the last step it had saved, and its last event.
#[derive(Debug, Default, Clone, PartialEq)]
struct Told {
    losses: BTreeMap<u64, String>,
    saved: u64,
    last: Option<Value>,
}

/// Gathers what a program writes until it ends.
fn gather(child: &mut Child) -> JoinHandle<Told> {
    let lines = BufReader::new(child.stdout.take().expect("piped")).lines().map_while(Result::ok);
    std::thread::spawn(move || {
        let mut told = Told::default();
        for line in lines {
            // The last line of a program that was killed may be half a line.
            let Ok(event) = serde_json::from_str::<Value>(&line) else { continue };
            let step = || event["step"].as_u64().expect("a step");
            match event["event"].as_str() {
                Some("step") => drop(told.losses.insert(step(), event["loss"].to_string())),
                Some("saved") => told.saved = step(),
                _ => {}
            }
            told.last = Some(event);
        }
        told
    })
}

/// Trains to the end; what it told.
#[track_caller]
fn to_the_end(command: &mut Command) -> Told {
    let mut child = command.spawn().expect("the program starts");
    let told = gather(&mut child);
    let output = child.wait_with_output().expect("it ends");
    assert!(output.status.success(), "{command:?}: {}", String::from_utf8_lossy(&output.stderr));
    told.join().expect("lines")
}

/// The header of a checkpoint, held against the size of the file, and the elements.
#[track_caller]
fn whole(run: &Path) -> (Value, Vec<u8>) {
    let bytes = fs::read(run.join("last.safetensors")).expect("a checkpoint");
    let length = u64::from_le_bytes(*bytes.first_chunk().expect("a length")) as usize;
    let header: Value = serde_json::from_slice(&bytes[8..8 + length]).expect("a header");
    let ends = header.as_object().expect("an object").values().filter_map(|tensor| tensor["data_offsets"][1].as_u64());
    assert_eq!(ends.max(), Some((bytes.len() - 8 - length) as u64), "it is whole");
    (header, bytes[8 + length..].to_vec())
}

/// The step that a checkpoint is of; 0 where there is none.
#[track_caller]
fn saved_step(run: &Path) -> u64 {
    if !run.join("last.safetensors").exists() {
        return 0;
    }
    whole(run).0["__metadata__"]["step"].as_str().and_then(|step| step.parse().ok()).expect("a step")
}

/// Files in a folder.
fn names(folder: &Path) -> Vec<String> {
    let mut names: Vec<_> =
        fs::read_dir(folder).expect("listed").flatten().map(|e| e.file_name().to_string_lossy().into_owned()).collect();
    names.sort();
    names
}
