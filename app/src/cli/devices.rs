//! `plimsoll devices`: what is there to train on, and what it says of itself.

use std::{fmt::Display, process::ExitCode};

use clap::Args;
use plimsoll_engine::device::{self, Figure};

use crate::cli::out;

/// Say what is there to train on: the processor, and NVIDIA GPUs with their memory
#[derive(Debug, Args)]
#[command(after_help = "\
A figure that cannot be had says why: as text, or in JSON as {\"unavailable\": why}.

Examples:
  plimsoll devices
  plimsoll devices --json | jq .cpu.available_bytes")]
pub(super) struct Devices {
    /// Write one JSON object
    #[arg(long)]
    json: bool,
}

impl Devices {
    pub(super) fn run(&self) -> anyhow::Result<ExitCode> {
        let devices = device::list();
        if self.json {
            out::json(&devices)?;
        } else {
            out::text(&describe(&devices))?;
        }
        Ok(ExitCode::SUCCESS)
    }
}

fn words<T: Display>(figure: &Figure<T>, unit: &str) -> String {
    match figure {
        Ok(value) => format!("{value}{unit}"),
        Err(why) => format!("unknown ({why})"),
    }
}

fn describe(devices: &device::Devices) -> String {
    let cpu = &devices.cpu;
    let mut text = format!(
        "cpu: {}, {} cores\n  memory: {}, {} available\n",
        words(&cpu.name, ""),
        cpu.cores,
        words(&cpu.total, ""),
        words(&cpu.available, "")
    );
    match &devices.gpus {
        Err(why) => text.push_str(&format!("GPU: none ({why})\n")),
        Ok(gpus) => {
            for gpu in gpus {
                text.push_str(&format!("GPU {}: {}\n", gpu.index, words(&gpu.name, "")));
                for (name, figure) in [
                    ("memory", words(&gpu.total, "")),
                    ("used", words(&gpu.used, "")),
                    ("used by this process", words(&gpu.process, "")),
                    ("utilisation", words(&gpu.utilisation, "%")),
                    ("temperature", words(&gpu.temperature, " °C")),
                    ("power", words(&gpu.power, " W")),
                ] {
                    text.push_str(&format!("  {name}: {figure}\n"));
                }
            }
        }
    }
    text
}
