//! `plimsoll export`: a run or a plan, its figures and its figures' data, in the formats of other programs.

mod contents;
mod weights;

use std::{
    path::{Path, PathBuf},
    process::ExitCode,
};

use clap::{Args, ValueEnum};
use plimsoll_engine::{
    plan::{self, Pass},
    report::{comparison::MOST, tensorboard},
};
use serde::Serialize;

use self::contents::Contents;
use crate::cli::{Misuse, complete, in_store::InStore, out, save, subject};

/// Write a run or a plan as a picture, a table, a trace, an event file or a page
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  plimsoll export last --format html
  plimsoll export last --format csv -o - | head
  plimsoll export 20261122-14 --format tensorboard -o logs/first
  plimsoll export last --format png --what gradients
  plimsoll export last --format safetensors --best -o model.safetensors
  plimsoll export last --format safetensors --compressed -o integers.safetensors
  plimsoll export last --format huggingface -o my-model
  plimsoll export cnn-digits --format png --what layers -o layers.png
  plimsoll export gpt2-rtx4060-plan --format perfetto -o step.json
  plimsoll export cnn-shapes cnn-shapes-bf16 --format html -o comparison.html

A RUN is its key, the beginning of it, its name or title if no other run has it, or `last`, as `plimsoll runs` lists them;
a PRESET is exported as it is planned.
A trace opens in ui.perfetto.dev and in chrome://tracing: its bytes are predicted, its times are estimates, and
it has the way in which each convolution of a run on a GPU ran. A page holds its figures, and a page of several compares
them. TensorBoard reads a folder: one for each run. An existing file is not overwritten without --force.")]
pub(super) struct Export {
    /// A kept run, a preset file, or the name of a shipped preset; with html up to six
    #[arg(required = true, value_name = "RUN|PRESET", add = complete::subjects())]
    subjects: Vec<PathBuf>,
    /// The format of the file
    #[arg(short, long, value_enum)]
    format: Format,
    /// The subject of a picture or a table
    #[arg(long, value_enum)]
    what: Option<What>,
    /// The phase of the run that a picture is of, in place of the one with the peak
    #[arg(long, value_enum)]
    phase: Option<Phase>,
    /// The weights of the best test in place of the last ones
    #[arg(long)]
    best: bool,
    /// With huggingface, the whole model with its adapters merged into it, in place of the adapters alone
    #[arg(long)]
    merge: bool,
    /// With safetensors, the compressed model: integers, or pruned weights without their zeros, as compressed-tensors reads them
    #[arg(long)]
    compressed: bool,
    /// Plan a preset for this device
    #[arg(long, value_name = "D", add = complete::devices())]
    device: Option<String>,
    /// The file to write, or `-` for standard output; otherwise the key of the run or the name of the preset, here
    #[arg(short, long, value_name = "PATH")]
    output: Option<PathBuf>,
    /// Replace an existing file
    #[arg(long)]
    force: bool,
    #[command(flatten)]
    store: InStore,
    /// Write a summary of the export as one JSON object
    #[arg(long)]
    json: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Format {
    /// A table, for spreadsheets
    Csv,
    /// A JSON object a line
    Jsonl,
    /// A folder with an event file, for TensorBoard
    Tensorboard,
    /// The weights of a run's checkpoint
    Safetensors,
    /// A folder with model.safetensors and config.json as transformers and timm load them; of adapters, as peft does
    Huggingface,
    /// A trace of the step, for Perfetto and Chrome
    Perfetto,
    /// A picture of 300 dots an inch
    Png,
    /// A drawing
    Svg,
    /// A page with the figures in it
    Html,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum What {
    /// The memory of a step, op by op
    Step,
    /// The memory of each layer
    Layers,
    /// The blocks alive at the peak (a table)
    Alive,
    /// The curves of a run
    Curves,
    /// Gradient norm and learning rate of a run
    Gradients,
}

/// A phase by the field's word; `plan --json` has the aliases.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Phase {
    /// A teacher that is asked before the first step
    #[value(alias = "teach")]
    Teaching,
    /// The first step
    First,
    /// Any later step
    #[value(alias = "steady")]
    Training,
    /// The taking out of channels
    #[value(alias = "prune")]
    Pruning,
    /// Any step after that
    Pruned,
    /// A batch of the test data
    #[value(alias = "evaluate")]
    Evaluating,
    /// A checkpoint
    #[value(alias = "save")]
    Saving,
    /// The trained model as one of integers
    #[value(alias = "compress")]
    Compressing,
}

impl Phase {
    fn pass(self) -> Pass {
        match self {
            Self::Teaching => Pass::Teach,
            Self::First => Pass::First,
            Self::Training => Pass::Steady,
            Self::Pruning => Pass::Prune,
            Self::Pruned => Pass::Pruned,
            Self::Evaluating => Pass::Evaluate,
            Self::Saving => Pass::Save,
            Self::Compressing => Pass::Compress,
        }
    }
}

impl Format {
    /// How its files end.
    fn ending(self) -> &'static str {
        match self {
            Self::Csv => "csv",
            Self::Jsonl => "jsonl",
            Self::Tensorboard => "tensorboard",
            Self::Safetensors => "safetensors",
            Self::Huggingface => "huggingface",
            Self::Perfetto => "trace.json",
            Self::Png => "png",
            Self::Svg => "svg",
            Self::Html => "html",
        }
    }
}

/// The word on the command line.
fn name_of(value: impl ValueEnum) -> String {
    value.to_possible_value().map(|value| value.get_name().to_owned()).unwrap_or_default()
}

#[derive(Serialize)]
struct Folder<'a> {
    path: &'a Path,
    format: &'a str,
    bytes: u64,
    files: &'a [PathBuf],
}

#[derive(Serialize)]
struct Json<'a> {
    path: &'a Path,
    format: &'a str,
    bytes: u64,
    /// Bytes of the tensors of a compressed model.
    #[serde(skip_serializing_if = "Option::is_none")]
    tensor_bytes: Option<u64>,
}

impl Export {
    pub(super) fn run(&self) -> anyhow::Result<ExitCode> {
        if self.compressed && self.format != Format::Safetensors {
            let message = "--compressed: only --format safetensors has compressed models; write that, or leave it out";
            return Err(Misuse(message.to_owned()).into());
        }
        let place = self.place()?;
        if self.format == Format::Safetensors && save::is_stdout(&place) {
            // They are copied from file to file, and never as a whole in memory.
            let message = "-o -: weights go to a file, and not to standard output; name a file with -o";
            return Err(Misuse(message.to_owned()).into());
        }
        if self.format == Format::Huggingface {
            return self.huggingface(&place);
        }
        let is_folder = self.format == Format::Tensorboard && !save::is_stdout(&place);
        let path = if is_folder { place.join(tensorboard::FILE_NAME) } else { place.clone() };
        if is_folder {
            save::can_be_folder(&place)?;
        }
        save::can_be_written(&path, self.force)?;
        if !is_folder {
            save::has_folder(&path)?;
        }
        if self.format == Format::Safetensors {
            return if self.compressed { self.compressed(&path) } else { self.weights(&path) };
        }
        let machine = plan::this_machine();
        let device = self.device.as_deref();
        let named = subject::all(self.subjects.iter().map(PathBuf::as_path), device, &self.store, &machine);
        let contents = Contents { format: self.format, what: self.what, phase: self.phase };
        let bytes = contents.of(named?)?;
        if is_folder {
            save::make_folder(&place)?;
        }
        save::write(&path, &bytes, self.force)?;
        if !save::is_stdout(&path) {
            self.tell(&path, bytes.len() as u64, None)?;
        }
        Ok(ExitCode::SUCCESS)
    }

    /// Reports the written file.
    fn tell(&self, path: &Path, bytes: u64, tensor_bytes: Option<u64>) -> anyhow::Result<()> {
        match self.json {
            true => out::json(&Json { path, format: &name_of(self.format), bytes, tensor_bytes }),
            false => out::line(path.display().to_string()),
        }
    }

    /// Where it is written, unless it goes to standard output.
    fn place(&self) -> anyhow::Result<PathBuf> {
        if self.subjects.len() > MOST {
            return Err(Misuse(format!("{} were named; {MOST} fit on a page", self.subjects.len())).into());
        }
        if let Some(path) = &self.output {
            return Ok(path.clone());
        }
        let names = self.subjects.iter().map(|name| subject::file_name(name, &self.store));
        let names = names.collect::<anyhow::Result<Vec<String>>>()?;
        let what = self.what.map(|what| format!(".{}", name_of(what))).unwrap_or_default();
        Ok(PathBuf::from(format!("{}{what}.{}", names.join("-"), self.format.ending())))
    }
}
