//! The devices: what they say of themselves, and why a figure is missing.

use eframe::egui::{Grid, ProgressBar, RichText, ScrollArea, Ui};
use plimsoll_engine::{
    Bytes,
    device::{Cpu, Figure, Gpu},
};

use super::Scene;
use crate::{theme, widgets::chip, words};

/// Draws the devices.
pub(crate) fn ui(ui: &mut Ui, scene: &Scene<'_>) {
    let Some(devices) = &scene.state.devices else {
        chip::empty(ui, "Looking at the devices…");
        return;
    };
    ScrollArea::vertical().auto_shrink(false).show(ui, |ui| {
        cpu(ui, &devices.cpu);
        ui.add_space(theme::WIDE_GAP);
        match &devices.gpus {
            Ok(gpus) if gpus.is_empty() => {
                ui.label(RichText::new("The driver knows of no graphics card.").weak());
            }
            Ok(gpus) => gpus.iter().for_each(|gpu| one_gpu(ui, gpu)),
            Err(why) => {
                ui.strong("Graphics cards");
                ui.label(RichText::new(why).weak());
                ui.label(RichText::new("The program is complete without one: it trains on the processor.").weak());
            }
        }
    });
}

fn cpu(ui: &mut Ui, cpu: &Cpu) {
    ui.strong(cpu.name.as_deref().unwrap_or("Processor"));
    Grid::new("cpu").num_columns(2).spacing([theme::WIDE_GAP, theme::GAP]).show(ui, |ui| {
        row(ui, "threads", &Ok(words::count(cpu.cores as u64)));
        row(ui, "memory", &shown(&cpu.total, Bytes::to_string));
        row(ui, "free for this process", &shown(&cpu.available, Bytes::to_string));
    });
}

fn one_gpu(ui: &mut Ui, gpu: &Gpu) {
    ui.strong(format!("{} {}", gpu.index, gpu.name.as_deref().unwrap_or("graphics card")));
    if let (Ok(used), Ok(total)) = (&gpu.used, &gpu.total) {
        let share = used.0 as f32 / total.0.max(1) as f32;
        let text = RichText::new(format!("{used} of {total} in use")).small();
        ui.add(ProgressBar::new(share).desired_height(16.0).text(text).fill(theme::palette(ui).accent));
    }
    let others = match (&gpu.used, &gpu.process) {
        (Ok(used), Ok(process)) => Ok(used.saturating_sub(*process).to_string()),
        (Err(why), _) | (_, Err(why)) => Err(why.clone()),
    };
    Grid::new(("gpu", gpu.index)).num_columns(2).spacing([theme::WIDE_GAP, theme::GAP]).show(ui, |ui| {
        row(ui, "total", &shown(&gpu.total, Bytes::to_string));
        row(ui, "used", &shown(&gpu.used, Bytes::to_string));
        row(ui, "this process", &shown(&gpu.process, Bytes::to_string));
        row(ui, "others", &others);
        row(ui, "utilisation", &shown(&gpu.utilisation, |percent| format!("{percent}%")));
        row(ui, "temperature", &shown(&gpu.temperature, |degrees| format!("{degrees} °C")));
        row(ui, "power", &shown(&gpu.power, |watts| format!("{watts:.0} W")));
    });
    ui.add_space(theme::GAP);
}

fn shown<T>(figure: &Figure<T>, words: impl Fn(&T) -> String) -> Figure<String> {
    figure.as_ref().map(words).map_err(Clone::clone)
}

/// A figure, or why there is none.
fn row(ui: &mut Ui, name: &str, figure: &Figure<String>) {
    ui.label(RichText::new(name).weak());
    match figure {
        Ok(text) => ui.label(text),
        Err(why) => ui.label(RichText::new(format!("not to be had: {why}")).weak().italics()),
    };
    ui.end_row();
}
