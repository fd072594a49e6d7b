//! The parts of a report: each with its question, its share of the time, and its command.

use std::process::ExitCode;

use clap::ValueEnum;
use plimsoll_engine::train;

use super::lines;
use crate::cli::out;

/// A part.
#[derive(Debug, Clone, Copy)]
pub(super) struct Part {
    pub(super) name: &'static str,
    /// Its question, for people.
    pub(super) asks: &'static str,
    /// The part's share of the time, relative to the others.
    pub(super) share: u32,
    command: &'static [&'static str],
    /// The arguments for a simulated card.
    quick: &'static [&'static str],
}

const PARTS: [Part; 9] = [
    Part {
        name: "card",
        asks: "The card's properties, the cost of opening it, and the behaviour of the driver's memory pools.",
        share: 30,
        command: &["card-report", "--part", "card"],
        quick: &["card-report", "--part", "card"],
    },
    Part {
        name: "selftest",
        asks: "The correctness of its results.",
        share: 170,
        command: &["selftest", "--quick", "--json"],
        quick: &["selftest", "--quick", "--only", "kernel/f32/matmul", "--only", "budget/mlp", "--json"],
    },
    Part {
        name: "presets",
        asks: "Predicted memory against the driver's counters, every preset that fits.",
        share: 90,
        command: &["verify", "--json"],
        quick: &["verify", "mlp-digits", "cnn-digits", "--json"],
    },
    Part {
        name: "drawn",
        asks: "The same for experiments drawn at random.",
        share: 60,
        command: &["verify", "--drawn", "20", "--seed", "7", "--json"],
        quick: &["verify", "--drawn", "2", "--seed", "7", "--json"],
    },
    Part {
        name: "lines",
        asks: "Runs with not a byte more than they are predicted to take, under every policy of the pool.",
        share: 40,
        command: &["card-report", "--part", "lines"],
        quick: &["card-report", "--part", "lines", "--quick"],
    },
    Part {
        name: "budget",
        asks: "A budget of 2 GiB, filled and held.",
        share: 40,
        command: &["verify", "cnn-shapes", "resnet18-shapes", "--budget", "2GiB", "--steps", "100", "--json"],
        quick: &["verify", "mlp-digits", "--budget", "600MiB", "--steps", "10", "--json"],
    },
    Part {
        name: "kernels",
        asks: "A kernel of each family against the card's peak.",
        share: 50,
        command: &["card-report", "--part", "kernels"],
        quick: &["card-report", "--part", "kernels", "--quick"],
    },
    Part {
        name: "bench",
        asks: "The time of a step of workloads that PyTorch is timed on as well.",
        share: 100,
        command: &[
            "bench",
            "gpt2-small-b8-t1024-bf16",
            "resnet50-b64-s224-bf16",
            "mobilenetv2-b128-s224-bf16",
            "vit-s-b128-s224-bf16",
            "gpt2-small-b8-t1024-tf32",
            "resnet50-b64-s224-tf32",
            "--steps",
            "20",
            "--json",
        ],
        quick: &["bench", "mlp-digits-b64", "--steps", "4", "--json"],
    },
    Part {
        name: "small steps",
        asks: "The time of a step of small models, where launches weigh.",
        share: 20,
        command: &["bench", "--json"],
        quick: &["bench", "cnn-digits-b64", "--steps", "2", "--json"],
    },
];

impl Part {
    /// All parts, in the order in which they are asked.
    pub(super) fn all() -> [Self; 9] {
        PARTS
    }

    /// The arguments of the program that asks it.
    pub(super) fn arguments(&self, device: &str, quick: bool) -> Vec<String> {
        let command = if quick { self.quick } else { self.command };
        command.iter().copied().chain(["--device", device]).map(str::to_owned).collect()
    }
}

/// Questions that no other command asks.
#[derive(Debug, Clone, Copy, ValueEnum)]
pub(super) enum Task {
    /// The card's properties and the driver's manners.
    Card,
    /// The tightest lines.
    Lines,
    /// Kernels against the peak.
    Kernels,
}

impl Task {
    /// Runs the task in this process, and writes rows to standard output.
    pub(super) fn run(self, device: &str, quick: bool) -> anyhow::Result<ExitCode> {
        match self {
            Self::Card => out::json(&train::card_facts(device)?)?,
            Self::Lines => return lines::run(device, quick),
            Self::Kernels => {
                let (mut written, mut ok) = (Ok(()), true);
                train::kernel_rates(device, quick, &mut |rate| {
                    ok &= rate.fault.is_none();
                    if written.is_ok() {
                        written = out::json(&rate);
                    }
                })?;
                written?;
                return Ok(if ok { ExitCode::SUCCESS } else { ExitCode::FAILURE });
            }
        }
        Ok(ExitCode::SUCCESS)
    }
}
