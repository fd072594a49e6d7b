//! The top bar: presets, undo and redo, device and budget, panes and theme.

mod recent;
mod steps;

use std::cell::Cell;

use eframe::egui::{self, Key, MenuBar, Rect, Response, RichText, Ui, vec2};
use plimsoll_engine::{
    Bytes,
    device::{Target, profile},
    hardware::{Devices, Machine},
};

use super::PanelContext;
use crate::{
    budgets,
    command::UiCommand,
    format,
    layout::Layout,
    naming,
    panels::pane::Pane,
    theme,
    widgets::{
        control::{self, Form, Spec},
        ends::{Room, ends},
        tip::Tip as _,
        toasts::{self, Place},
    },
    zoom,
};

/// Budgets worth a click: small ones for teaching, then the memory of common cards.
const BUDGETS: [(&str, &[(Bytes, &str)]); 2] = [
    (
        "For teaching",
        &[
            (Bytes::mib(1), ""),
            (Bytes::mib(2), ""),
            (Bytes::mib(4), ""),
            (Bytes::mib(8), ""),
            (Bytes::mib(16), ""),
            (Bytes::mib(32), ""),
            (Bytes::mib(64), ""),
            (Bytes::mib(128), ""),
            (Bytes::mib(256), ""),
            (Bytes::mib(512), ""),
        ],
    ),
    (
        "As large as a card",
        &[
            (Bytes::gib(4), "GTX 1650"),
            (Bytes::gib(6), "RTX 2060"),
            (Bytes::gib(8), "RTX 4060"),
            (Bytes::gib(12), "RTX 4070"),
            (Bytes::gib(16), "RTX 4080, T4"),
            (Bytes::gib(24), "RTX 4090, L4"),
            (Bytes::gib(32), "RTX 5090"),
            (Bytes::gib(48), "L40S, A6000"),
            (Bytes::gib(80), "A100, H100"),
            (Bytes::gib(141), "H200"),
        ],
    ),
];

const BUDGET: Spec = Spec {
    key: "budget",
    name: "Budget",
    help: "The most memory the run may take: the engine refuses any allocation past it, and on a graphics card the whole \
            process counts, context and pool. A budget costs no time by itself, but a tight one forces choices that do, such as smaller micro-batches or recomputation.",
};

/// Draws the bar.
pub(crate) fn ui(ui: &mut Ui, context: &mut PanelContext<'_>, layout: &mut Layout) {
    MenuBar::new().ui(ui, |ui| {
        ui.label(RichText::new("Plimsoll").strong().size(theme::NAME_TEXT));
        ui.add_space(theme::GAP);
        ui.menu_button("File", |ui| file_menu(ui, context));
        ui.menu_button("View", |ui| view_menu(ui, context, layout));
        let presets = ui.button("Presets").tip(UiCommand::Presets.tooltip_with_key(ui.ctx()));
        if presets.clicked() {
            context.send.ui(UiCommand::Presets);
        }
        steps::ui(ui, context);
        ui.add_space(theme::GAP);
        let (left, line) = (Cell::new(0.0), ui.max_rect());
        let title = |ui: &mut Ui| left.set(title(ui, context).rect.right());
        let right = |ui: &mut Ui| {
            // Nothing is between the title and the device.
            let between = left.get() + theme::WIDE_GAP..=ui.cursor().left() - theme::GAP;
            let room = Rect::from_x_y_ranges(between, line.y_range()).expand2(vec2(0.0, theme::TOAST_OVER));
            toasts::keep_room(ui, Place::TopBar, room);
            device(ui, context);
            budget(ui, context);
            ui.add_space(theme::GAP);
            theme_button(ui, context);
        };
        ends(ui, "top bar", Room::Now, title, right);
    });
}

fn theme_button(ui: &mut Ui, context: &PanelContext<'_>) {
    let (sign, name) = if ui.visuals().dark_mode { ("☀", "Light theme") } else { ("🌙", "Dark theme") };
    let hover = UiCommand::Theme.tooltip_with_key(ui.ctx());
    if ui.button(sign).accessible_name(name).tip(hover).clicked() {
        context.send.ui(UiCommand::Theme);
    }
}

fn title(ui: &mut Ui, context: &PanelContext<'_>) -> Response {
    let document = &context.state.document;
    let changed = if document.is_unkept() { " •" } else { "" };
    let hover = match &document.path {
        Some(path) => path.display().to_string(),
        None if document.shipped.is_some() => {
            "A preset that ships with the program. Your changes to it are kept as a draft among the presets.".to_owned()
        }
        None => "Not saved to a file yet; it is kept for the next session anyway.".to_owned(),
    };
    let text = RichText::new(format!("{}{changed}", document.name())).color(theme::palette(ui).strong());
    ui.add(egui::Label::new(text).truncate().sense(egui::Sense::hover())).tip(hover)
}

fn file_menu(ui: &mut Ui, context: &PanelContext<'_>) {
    ui.set_min_width(240.0);
    for command in [UiCommand::New, UiCommand::Presets, UiCommand::Open, UiCommand::OpenPath] {
        if command.menu_entry(ui, true) {
            context.send.ui(command);
        }
    }
    ui.separator();
    for command in [UiCommand::Save, UiCommand::SaveAs] {
        if command.menu_entry(ui, true) {
            context.send.ui(command);
        }
    }
    ui.separator();
    ui.menu_button("Recent", |ui| recent::ui(ui, context));
    ui.separator();
    if UiCommand::Quit.menu_entry(ui, true) {
        context.send.ui(UiCommand::Quit);
    }
}

/// A part of a menu that scrolls where the window ends before it.
fn within_the_window(ui: &mut Ui, contents: impl FnOnce(&mut Ui)) {
    let room = ui.ctx().content_rect().bottom() - ui.cursor().top() - theme::WIDE_GAP;
    // The bar lies over no word.
    let scroll = &mut ui.spacing_mut().scroll;
    scroll.floating_allocated_width = scroll.bar_width;
    egui::ScrollArea::vertical().max_height(room).min_scrolled_height(room).show(ui, contents);
}

fn view_menu(ui: &mut Ui, context: &mut PanelContext<'_>, layout: &mut Layout) {
    ui.set_min_width(220.0);
    within_the_window(ui, |ui| view_entries(ui, context, layout));
}

fn view_entries(ui: &mut Ui, context: &mut PanelContext<'_>, layout: &mut Layout) {
    // Side by side: the whole menu has room in a window of 960 x 600.
    egui::Grid::new("panes").num_columns(2).show(ui, |ui| {
        for pair in Pane::ALL.chunks(2) {
            for pane in pair.iter().copied() {
                let mut shown = layout.shows(pane);
                if ui.checkbox(&mut shown, pane.title()).changed() {
                    layout.set_shown(pane, shown);
                }
            }
            ui.end_row();
        }
    });
    ui.separator();
    for command in [UiCommand::NextRegion, UiCommand::PreviousRegion, UiCommand::ResetLayout] {
        if command.menu_entry(ui, true) {
            context.send.ui(command);
        }
    }
    ui.separator();
    ui.horizontal(|ui| {
        for (preference, name) in [
            (egui::ThemePreference::Dark, "Dark"),
            (egui::ThemePreference::Light, "Light"),
            (egui::ThemePreference::System, "As the system"),
        ] {
            ui.radio_value(&mut context.view.theme, preference, name);
        }
    });
    ui.separator();
    zoom::menu(ui);
    ui.separator();
    for command in [UiCommand::Shortcuts, UiCommand::FrameTimes] {
        if command.menu_entry(ui, true) {
            context.send.ui(command);
        }
    }
}

/// Whether the window has room for the names of the controls at the right of the bar, which each says on hover as well.
fn has_words(ui: &Ui) -> bool {
    ui.ctx().content_rect().width() >= theme::WORDS_FROM
}

/// The device of the run: the choices, and the reasons why the others cannot be chosen.
fn device(ui: &mut Ui, context: &PanelContext<'_>) {
    let device = format::device(&context.state.document.experiment.device);
    let hover = "Where the run computes: the processor, a graphics card that is here, or one that is only planned for. The \
        Devices pane shows what each reports.";
    if has_words(ui) {
        ui.label(RichText::new("Device").weak()).tip(hover);
    }
    let list = ui.menu_button(format!("{device} ⏷"), |ui| device_list(ui, context));
    list.response.accessible_name("Device").tip(hover);
    ui.add_space(theme::GAP);
}

fn device_list(ui: &mut Ui, context: &PanelContext<'_>) {
    ui.set_min_width(300.0);
    let form = Form::new(context.state, context.send);
    ui.label(RichText::new("Here").weak().small());
    match &context.state.devices {
        None => {
            ui.weak("Reading the devices…");
        }
        Some(devices) => here(ui, &form, devices, &context.state.machine),
    }
    ui.separator();
    ui.label(RichText::new("To plan for, without having it").weak().small());
    within_the_window(ui, |ui| {
        for card in profile::shipped() {
            let memory = format::size(Bytes::gib((card.capacity.as_mib() / 1024.0).round() as u64));
            let hover = format!(
                "{memory}, of which a process may have {}; its context is {} of that{}. Plans are made for it; nothing \
                 trains on it here.",
                card.usable_memory(),
                card.context,
                if card.is_estimate() { " (an estimate)" } else { "" }
            );
            device_entry(ui, &form, &card.slug, &card.title).tip(hover);
        }
    });
}

/// The processor and the graphics cards that are here, or why there are none.
fn here(ui: &mut Ui, form: &Form<'_>, devices: &Devices, machine: &Machine) {
    let cpu = &devices.cpu;
    let threads = format::counted(cpu.cores as u64, "thread");
    let name = format!("CPU: {}, {threads}", cpu.name.as_deref().unwrap_or("processor"));
    device_entry(ui, form, "cpu", &name);
    match &devices.gpus {
        Ok(gpus) => {
            for gpu in gpus {
                let trained_on = gpu.device().and_then(|device| match machine.target(&device) {
                    Ok(_) => Ok(device),
                    Err(error) => Err(error.to_string()),
                });
                match trained_on {
                    Ok(device) => {
                        device_entry(ui, form, &device, &gpu.title());
                    }
                    Err(why) => {
                        let button = ui.add_enabled(false, egui::Button::selectable(false, gpu.title()));
                        button.tip_disabled(format!("Training on it is not possible here: {why}"));
                    }
                }
            }
        }
        Err(why) => {
            ui.add(egui::Label::new(RichText::new(format!("No graphics card: {why}")).weak().small()).wrap());
        }
    }
}

fn device_entry(ui: &mut Ui, form: &Form<'_>, device: &str, name: &str) -> Response {
    let entry = ui.selectable_label(form.experiment().device == device, name);
    if entry.clicked() {
        form.edit("device", |experiment| device.clone_into(&mut experiment.device));
        ui.close();
    }
    entry
}

/// The budget: a typed size, or one of the list.
fn budget(ui: &mut Ui, context: &PanelContext<'_>) {
    let form = Form::new(context.state, context.send);
    let present = context.state.document.experiment.budget;
    let (generation, family) = (context.state.document.generation, context.state.document.experiment.model.kind);
    let bad = context.state.prediction.problems().iter().find(|p| p.key == BUDGET.key);
    let color = if bad.is_some() || control::is_refused(ui.ctx(), BUDGET.key, generation) {
        theme::palette(ui).bad
    } else {
        theme::palette(ui).weak()
    };
    let label = has_words(ui).then(|| ui.label(RichText::new("Budget").color(color)));
    let field = budget_field(ui, &form, (present, generation), bad.is_some(), context.state.dialog.is_none());
    let list = ui.menu_button("⏷", |ui| budget_list(ui, context, &form)).response.accessible_name("Common budgets");
    let whole = label.into_iter().fold(field | list, |whole, label| whole | label);
    if let Some(problem) = bad {
        whole.tip(naming::problem_alone(problem, family));
        return;
    }
    whole.tip_ui(|ui| {
        ui.set_max_width(theme::TOOLTIP_WIDTH);
        ui.strong(BUDGET.name);
        ui.label(BUDGET.help);
    });
}

/// A text field that takes a size. `is_bad`: the budget cannot be; `is_open`: no dialog lies over it.
fn budget_field(
    ui: &mut Ui,
    form: &Form<'_>,
    (present, generation): (Bytes, u64),
    is_bad: bool,
    is_open: bool,
) -> Response {
    let id = ui.scope_id().with("budget text");
    let typed: Option<String> = ui.data(|data| data.get_temp(id));
    let mut text = typed.clone().unwrap_or_else(|| format::size(present));
    let color = (is_bad || budgets::typed(&text).is_err()).then(|| theme::palette(ui).bad);
    let edit = egui::TextEdit::singleline(&mut text)
        .desired_width(64.0)
        .margin(egui::Margin::symmetric(6, 3))
        .background_color(ui.visuals().widgets.inactive.bg_fill)
        .align(egui::Align2::LEFT_CENTER)
        .text_color_opt(color);
    let size = egui::vec2(76.0, ui.spacing().interact_size.y);
    let response = theme::bordered(ui, |ui| ui.add_sized(size, edit)).accessible_name("Budget");
    if response.changed() {
        ui.data_mut(|data| data.insert_temp(id, text.clone()));
    }
    // The last letters and the key that ends the text may come in one frame.
    let (is_typed, parsed) = (typed.is_some() || response.changed(), budgets::typed(&text));
    if response.lost_focus() {
        ui.data_mut(|data| data.remove::<String>(id));
        let is_taken_back = ui.input(|input| input.key_pressed(Key::Escape));
        match &parsed {
            Ok(bytes) if is_typed && !is_taken_back => {
                control::forget(ui.ctx(), BUDGET.key);
                form.edit(BUDGET.key, |experiment| experiment.budget = *bytes);
            }
            Err(why) if is_typed && !is_taken_back => {
                control::refuse(ui.ctx(), (BUDGET.key, BUDGET.name, true), (why, &format::size(present)), generation);
            }
            _ if is_taken_back => control::forget(ui.ctx(), BUDGET.key),
            _ => {}
        }
    }
    if is_typed
        && is_open
        && let Err(reason) = parsed
    {
        response.show_tooltip_text(reason);
    }
    response
}

fn budget_list(ui: &mut Ui, context: &PanelContext<'_>, form: &Form<'_>) {
    ui.set_min_width(200.0);
    within_the_window(ui, |ui| budget_entries(ui, context, form));
}

fn budget_entries(ui: &mut Ui, context: &PanelContext<'_>, form: &Form<'_>) {
    for (heading, budgets) in BUDGETS {
        ui.label(RichText::new(heading).weak().small());
        for (bytes, card) in budgets {
            budget_entry(ui, form, *bytes, card);
        }
    }
    if let Ok(Target::Gpu(card)) = context.state.machine.target(&form.experiment().device) {
        ui.label(RichText::new("Of the chosen device").weak().small());
        budget_entry(ui, form, card.usable_memory(), "all a process may have");
    }
    if let Some(devices) = &context.state.devices {
        ui.label(RichText::new("Of this machine").weak().small());
        if let Ok(free) = devices.cpu.available {
            budget_entry(ui, form, free, "free memory");
        }
        for gpu in devices.gpus.iter().flatten() {
            if let (Ok(total), Ok(name)) = (&gpu.total, &gpu.name) {
                budget_entry(ui, form, *total, name);
            }
        }
    }
}

fn budget_entry(ui: &mut Ui, form: &Form<'_>, bytes: Bytes, name: &str) {
    let chosen = form.experiment().budget == bytes;
    let button = egui::Button::selectable(chosen, format::size(bytes)).right_text(RichText::new(name).weak().small());
    if ui.add(button).clicked() {
        form.edit(BUDGET.key, |experiment| experiment.budget = bytes);
        ui.close();
    }
}
