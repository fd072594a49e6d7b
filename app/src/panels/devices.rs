//! The devices: their figures, a run's memory on them, the reason for a missing figure, and the facts of the card that is
//! planned for.

use std::sync::Arc;

use eframe::egui::{
    self, Color32, CornerRadius, Grid, ProgressBar, Rect, RichText, ScrollArea, Sense, Ui, WidgetInfo, vec2,
};
use plimsoll_engine::{
    Bytes,
    device::{Profile, Target},
    hardware::{Cpu, Figure, Gpu},
    train::StepRecord,
};

use super::PanelContext;
use crate::{
    format, theme,
    widgets::{chip, text, tip::Tip as _},
};

/// Height of the bar of a card's memory.
const BAR: f32 = 16.0;

/// Draws the devices.
pub(crate) fn ui(ui: &mut Ui, context: &PanelContext<'_>) {
    let Some(devices) = &context.state.devices else {
        chip::empty(ui, "Reading the devices…");
        return;
    };
    let chosen = &context.state.document.experiment.device;
    let card = match context.state.machine.target(chosen) {
        Ok(Target::Gpu(card)) => Some(Card { kernels: kernels(context, &card), profile: card }),
        _ => None,
    };
    let is_chosen = |gpu: &&Gpu| gpu.device().as_deref() == Ok(chosen.as_str());
    ScrollArea::vertical().auto_shrink(false).show(ui, |ui| {
        // The device of the run comes first.
        let here = devices.gpus.iter().flatten().find(is_chosen);
        match (here, &card) {
            (Some(gpu), card) => {
                ui.push_id("chosen", |ui| one_gpu(ui, gpu, on_it(context, gpu), card.as_ref()));
            }
            (None, Some(card)) => planned_for(ui, card),
            (None, None) => {}
        }
        cpu(ui, &devices.cpu);
        ui.add_space(theme::WIDE_GAP);
        match &devices.gpus {
            Ok(gpus) if gpus.is_empty() => {
                ui.label(RichText::new("The driver reports no graphics card.").weak());
            }
            Ok(gpus) => {
                for (at, gpu) in gpus.iter().enumerate().filter(|(_, gpu)| !is_chosen(gpu)) {
                    ui.push_id(at, |ui| one_gpu(ui, gpu, on_it(context, gpu), None));
                }
            }
            Err(why) => {
                ui.strong("Graphics cards");
                ui.label(RichText::new(why).weak());
                ui.label(RichText::new("The program is complete without one: it trains on the processor.").weak());
            }
        }
    });
}

/// The facts of the chosen card.
struct Card {
    profile: Arc<Profile>,
    /// The plan's allowance for kernels that the run has yet to load; zero for a card that is not here.
    kernels: Bytes,
}

fn kernels(context: &PanelContext<'_>, card: &Profile) -> Bytes {
    let plan = context.state.plan().filter(|plan| plan.experiment.device == card.slug);
    let planned = plan.and_then(|plan| plan.target.profile());
    planned.map_or(Bytes::ZERO, |planned| planned.context.saturating_sub(card.context))
}

/// The last step of the run that is under way on a card, if one is.
fn on_it(context: &PanelContext<'_>, gpu: &Gpu) -> Option<StepRecord> {
    let run = context.state.session.active()?;
    (gpu.device().as_deref() == Ok(run.experiment().device.as_str())).then_some(run.last)?
}

/// A card that is not here.
fn planned_for(ui: &mut Ui, card: &Card) {
    ui.strong(format!("Planned for: {}", card.profile.title));
    grid(ui, "planned for").show(ui, |ui| known(ui, card));
    ui.add_space(theme::WIDE_GAP);
}

/// The facts of a card, in rows of a grid.
fn known(ui: &mut Ui, Card { profile, kernels }: &Card) {
    let tera = |ops: f64| format!("{} TFLOP/s", format::three(ops / 1e12));
    let (major, minor) = profile.compute_capability;
    let source = profile.measured.as_deref();
    let source = source.map_or_else(|| "estimated".to_owned(), |when| format!("measured, {when}"));
    row(ui, "memory", &Ok(format!("{}, {} for a process", profile.capacity, profile.usable_memory())));
    row(ui, "context", &Ok(format!("{} ({source})", profile.context)));
    if *kernels > Bytes::ZERO {
        row(ui, "kernels of the run", &Ok(format!("at most {kernels}, plus the context")));
    }
    row(ui, "pool", &Ok(format!("grows by {} and more, blocks of {}", profile.pool.segment, profile.pool.granule)));
    row(ui, "f32 at most", &Ok(tera(profile.rates.f32)));
    row(ui, "16-bit products", &Ok(tera(profile.rates.half)));
    row(ui, "memory rate", &Ok(format!("{} GB/s", format::three(profile.rates.bytes / 1e9))));
    row(ui, "capability", &Ok(format!("{major}.{minor}, {} multiprocessors", profile.multiprocessors)));
}

/// Two columns: names, and figures that are cut where they have no room.
fn grid(ui: &Ui, name: impl egui::AsIdSalt) -> Grid {
    let room = (ui.available_width() - theme::NAME_WIDTH - theme::WIDE_GAP).max(theme::SHORTEST_TEXT);
    Grid::new(name).num_columns(2).spacing([theme::WIDE_GAP, theme::GAP]).max_col_width(room)
}

fn cpu(ui: &mut Ui, cpu: &Cpu) {
    ui.strong(cpu.name.as_deref().unwrap_or("Processor"));
    grid(ui, "cpu").show(ui, |ui| {
        row(ui, "threads", &Ok(format::count(cpu.cores as u64)));
        row(ui, "memory", &shown(&cpu.total, Bytes::to_string));
        row(ui, "free for this process", &shown(&cpu.available, Bytes::to_string));
    });
}

/// A card that is here, with more facts if it is the chosen one.
fn one_gpu(ui: &mut Ui, gpu: &Gpu, run: Option<StepRecord>, card: Option<&Card>) {
    ui.strong(gpu.title());
    if let Err(why) = &gpu.index {
        ui.label(RichText::new(format!("Training on it is not possible here: {why}")).weak());
    }
    if let (Some(step), Ok(total)) = (run, &gpu.total) {
        let parts = parts(ui, gpu, step);
        stacked(ui, &parts, *total);
        four_figures(ui, gpu, step);
    } else if let (Ok(used), Ok(total)) = (&gpu.used, &gpu.total) {
        let share = used.0 as f32 / total.0.max(1) as f32;
        let text = RichText::new(format!("{used} of {total} in use")).small();
        ui.add(ProgressBar::new(share).desired_height(BAR).text(text).fill(theme::palette(ui).accent));
    }
    let others = others(gpu).map(|bytes| bytes.to_string());
    grid(ui, "gpu").show(ui, |ui| {
        match card {
            Some(card) => known(ui, card),
            None => row(ui, "memory", &shown(&gpu.total, Bytes::to_string)),
        }
        row(ui, "used", &shown(&gpu.used, Bytes::to_string));
        row(ui, "this process", &shown(&gpu.process, Bytes::to_string));
        row(ui, "others", &others);
        row(ui, "utilisation", &shown(&gpu.utilisation, |percent| format!("{percent}%")));
        row(ui, "temperature", &shown(&gpu.temperature, |degrees| format!("{degrees} °C")));
        row(ui, "power", &shown(&gpu.power, |watts| format!("{watts:.0} W")));
        row(ui, "driver", &shown(&gpu.driver, String::clone));
    });
    ui.add_space(theme::WIDE_GAP);
}

/// The bytes of processes other than this one.
fn others(gpu: &Gpu) -> Figure<Bytes> {
    match (&gpu.used, &gpu.process) {
        (Ok(used), Ok(process)) => Ok(used.saturating_sub(*process)),
        (Err(why), _) | (_, Err(why)) => Err(why.clone()),
    }
}

/// A card's memory from the ground up: used of the pool, empty in the pool, the rest of this process, others.
fn parts(ui: &Ui, gpu: &Gpu, step: StepRecord) -> [(Color32, Bytes); 4] {
    let palette = theme::palette(ui);
    let context = palette.category(plimsoll_engine::memory::Category::Context);
    [
        (palette.measured, step.live),
        (palette.reserved, step.reserved.saturating_sub(step.live)),
        (context, step.process.saturating_sub(step.reserved)),
        (palette.warn, others(gpu).unwrap_or_default()),
    ]
}

/// Parts of a whole, side by side.
fn stacked(ui: &mut Ui, parts: &[(Color32, Bytes)], whole: Bytes) {
    let size = vec2(ui.available_width().min(ui.spacing().slider_width * 4.0), BAR);
    let (rect, response) = ui.allocate_exact_size(size, Sense::hover());
    let painter = ui.painter_at(rect);
    painter.rect_filled(rect, CornerRadius::same(3), theme::palette(ui).trough);
    let mut left = rect.left();
    for (color, bytes) in parts {
        let width = rect.width() * (bytes.0 as f64 / whole.0.max(1) as f64) as f32;
        let part = Rect::from_min_size(egui::pos2(left, rect.top()), vec2(width, rect.height()));
        painter.rect_filled(part.intersect(rect), CornerRadius::ZERO, *color);
        left += width;
    }
    response.widget_info(|| WidgetInfo::labeled(egui::Role::Figure, true, format!("Memory of the card: {whole}")));
}

/// The memory of a run and of others: four figures from the driver, each with its own meaning.
fn four_figures(ui: &mut Ui, gpu: &Gpu, step: StepRecord) {
    let palette = theme::palette(ui);
    let others = others(gpu).map_or_else(|why| format!("not available: {why}"), |bytes| bytes.to_string());
    let rows = [
        (
            palette.measured,
            "pool used",
            step.live.to_string(),
            "Tensors and scratch of the run, at most, in the last step.",
        ),
        (
            palette.reserved,
            "pool reserved",
            step.reserved.to_string(),
            "What the pool holds for them, empty places included.",
        ),
        (
            palette.process,
            "process",
            step.process.to_string(),
            "Everything this process holds: the pool and the context.",
        ),
        (palette.warn, "others", others, "What other processes and the driver hold."),
    ];
    grid(ui, "figures").show(ui, |ui| {
        for (color, name, value, about) in rows {
            chip::chip(ui, color, RichText::new(name)).tip(about);
            ui.label(value).tip(about);
            ui.end_row();
        }
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
        Ok(words) => text::cut(ui, RichText::new(words), words),
        Err(why) => {
            let words = format!("not available: {why}");
            text::cut(ui, RichText::new(&words).weak().italics(), &words)
        }
    };
    ui.end_row();
}
