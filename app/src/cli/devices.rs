//! `plimsoll devices`: the devices to train on with their figures, and the cards that can be planned for.

use std::{fmt::Display, process::ExitCode};

use clap::Args;
use plimsoll_engine::{
    Bytes,
    device::profile::{Card, shipped},
    hardware::{self, Figure},
};
use serde::Serialize;

use crate::{
    cli::{out, table::Table},
    format,
};

/// List the devices: the processor and NVIDIA GPUs with their memory, and the cards that can be planned for
#[derive(Debug, Args)]
#[command(after_help = "\
A figure that is not available says why: as text, or in JSON as {\"unavailable\": why}.

Examples:
  plimsoll devices
  plimsoll devices --json | jq .cpu.available_bytes
  plimsoll plan resnet18-shapes --device rtx4060-8g --budget 4GiB")]
pub(super) struct Devices {
    /// Write one JSON object
    #[arg(long)]
    json: bool,
}

#[derive(Serialize)]
struct Json<'a> {
    #[serde(flatten)]
    here: &'a hardware::Devices,
    /// The library that runs convolutions on a GPU.
    #[serde(serialize_with = "hardware::figure")]
    cudnn: Figure<String>,
    /// Cards to plan for.
    cards: Vec<Card<'a>>,
}

impl Devices {
    pub(super) fn run(&self) -> anyhow::Result<ExitCode> {
        let devices = hardware::list();
        if self.json {
            out::json(&Json {
                here: &devices,
                cudnn: hardware::cudnn(),
                cards: shipped().iter().map(|profile| profile.card()).collect(),
            })?;
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

fn describe(devices: &hardware::Devices) -> String {
    let cpu = &devices.cpu;
    let mut text = format!(
        "cpu: {}, {}\n  memory: {}, {} available\n",
        words(&cpu.name, ""),
        format::counted(cpu.cores as u64, "core"),
        words(&cpu.total, ""),
        words(&cpu.available, "")
    );
    match &devices.gpus {
        Err(why) => text.push_str(&format!("GPU: none ({why})\n")),
        Ok(gpus) => {
            for gpu in gpus {
                let name = words(&gpu.name, "");
                match gpu.device() {
                    Ok(device) => text.push_str(&format!("{device}: {name}\n")),
                    Err(why) => text.push_str(&format!("GPU: {name}\n  not to train on: {why}\n")),
                }
                for (name, figure) in [
                    ("driver", words(&gpu.driver, "")),
                    ("memory", words(&gpu.total, "")),
                    ("used", words(&gpu.used, "")),
                    ("used by this process", words(&gpu.process, "")),
                    ("utilisation", words(&gpu.utilisation, "%")),
                    ("temperature", words(&gpu.temperature, " °C")),
                    ("power", words(&gpu.power, " W")),
                    ("tensors of a run", words(&gpu.maps_memory.clone().map(format::tensors_lie), "")),
                ] {
                    text.push_str(&format!("  {name}: {figure}\n"));
                }
            }
        }
    }
    if devices.gpus.is_ok() {
        let cudnn =
            hardware::cudnn().unwrap_or_else(|why| format!("none ({why}); convolutions run by kernels of our own"));
        text.push_str(&format!("cuDNN: {cudnn}\n"));
    }
    text + &cards()
}

/// The cards that can be planned for.
fn cards() -> String {
    let mut table = Table::new(["to plan for", "memory", "for a process", "context", "card"]).words(5);
    for card in shipped() {
        let context = format!("{}{}", card.context, if card.is_estimate() { " *" } else { "" });
        table.row([card.slug.clone(), gib(card.capacity), gib(card.usable_memory()), context, card.title.clone()]);
    }
    format!("\n{table}* an estimate until it is measured on such a card\n")
}

/// Formats with two decimals, so that a column of cards lines up.
fn gib(bytes: Bytes) -> String {
    format!("{:.2} GiB", bytes.as_mib() / 1024.0)
}
