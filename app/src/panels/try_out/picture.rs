//! A picture of one's own: drawn, dropped on the window, or named by its path; what the model makes of it next to it.

use eframe::egui::{
    self, Button, Color32, CornerRadius, Image, Label, PointerButton, RichText, Sense, Stroke, TextEdit, Ui, Vec2,
    WidgetInfo, pos2,
};
use plimsoll_engine::{experiment::Task, train::Reply};

use super::{PanelContext, bar, took};
use crate::{
    command::Action,
    theme,
    trials::{self, Drawn, Subject, TryWith},
    widgets::{button, draft, tip::Tip as _},
};

/// The most answers for which a bar is shown.
const BARS: usize = 5;
/// Width of what the model answers.
const ANSWERS: f32 = 190.0;
/// Points of a line that are nearer to each other are one.
const NEAR: f32 = 0.012;

/// Draws the part; this much of it is in sight.
pub(super) fn ui(ui: &mut Ui, context: &mut PanelContext<'_>, tried: Subject<'_>, height: f32) {
    let is_class = tried.data().kind.task() == Task::Class;
    // In a low pane the square leaves the buttons below it in sight.
    let missing = trials::without_checkpoint(context.state, tried);
    let below = 2.0 * ui.spacing().interact_size.y + 4.0 * theme::GAP;
    let side = (height - below).clamp(theme::LEAST_DRAWING_SIDE, theme::DRAWING_SIDE);
    ui.horizontal_wrapped(|ui| {
        ui.spacing_mut().item_spacing.x = theme::WIDE_GAP;
        if is_class {
            square(ui, context, side, missing);
        }
        match &context.state.trial.reply {
            Some((reply, drawn)) => answered(ui, reply, drawn, !is_class),
            None => {
                let words = missing.unwrap_or(if is_class {
                    "Draw in the square, or drop an image on the window."
                } else {
                    "Drop an image on the window, or name one below."
                });
                ui.add(Label::new(RichText::new(words).weak()).wrap());
            }
        }
    });
    path(ui, context, missing);
}

/// The square that is drawn in; without an answer for a reason.
fn square(ui: &mut Ui, context: &mut PanelContext<'_>, side: f32, missing: Option<&str>) {
    let palette = theme::palette(ui);
    ui.vertical(|ui| {
        let side = side.min(ui.available_width());
        let (rect, response) = ui.allocate_exact_size(Vec2::splat(side), Sense::drag());
        response.widget_info(|| WidgetInfo::labeled(egui::Role::Canvas, true, "Draw here with the pointer"));
        let strokes = &mut context.view.try_out.strokes;
        // As the images of the set are: bright on dark, on either theme.
        ui.painter().rect_filled(rect, CornerRadius::same(3), Color32::BLACK);
        ui.painter().rect_stroke(rect, CornerRadius::same(3), Stroke::new(1.0, palette.rule), egui::StrokeKind::Inside);
        if let Some(at) = response.interact_pointer_pos().filter(|_| response.dragged_by(PointerButton::Primary)) {
            let point = [(at.x - rect.left()) / side, (at.y - rect.top()) / side].map(|place| place.clamp(0.0, 1.0));
            if response.drag_started() || strokes.is_empty() {
                strokes.push(Vec::new());
            }
            let line = strokes.last_mut();
            let is_far = |last: &[f32; 2]| (last[0] - point[0]).hypot(last[1] - point[1]) > NEAR;
            if let Some(line) = line.filter(|line| line.last().is_none_or(is_far)) {
                line.push(point);
            }
        }
        let pen = Stroke::new(side * 0.075, Color32::WHITE);
        let painter = ui.painter_at(rect);
        let place = |point: &[f32; 2]| pos2(rect.left() + point[0] * side, rect.top() + point[1] * side);
        for line in strokes.iter() {
            let points: Vec<_> = line.iter().map(place).collect();
            for point in &points {
                painter.circle_filled(*point, pen.width / 2.0, Color32::WHITE);
            }
            painter.add(egui::Shape::line(points, pen));
        }
        if response.drag_stopped() && !strokes.is_empty() && missing.is_none() {
            context.send.send(Action::Try(TryWith::Drawing(strokes.clone())));
        }
        let clear = button::enabled(ui, !strokes.is_empty(), Button::new("Clear"));
        if clear.tip("Empty the square.").clicked() {
            strokes.clear();
        }
    });
}

/// What the model saw, and what it makes of it.
fn answered(ui: &mut Ui, reply: &Reply, drawn: &Drawn, is_mask: bool) {
    let palette = theme::palette(ui);
    ui.vertical(|ui| {
        ui.set_width(ANSWERS);
        ui.spacing_mut().item_spacing.y = 3.0;
        let side = theme::SAMPLE_SIDE * if is_mask { 2.0 } else { 1.0 };
        let (rect, response) = ui.allocate_exact_size(Vec2::splat(side), Sense::hover());
        response.widget_info(|| WidgetInfo::labeled(egui::Role::Image, true, "What the model saw"));
        response.tip("The picture as the model saw it.");
        Image::from_texture(&drawn.0).fit_to_exact_size(rect.size()).paint_at(ui, rect);
        let ranked = reply.ranked();
        for (at, likely) in ranked.iter().filter(|likely| likely.probability > 0.0 || !is_mask).take(BARS).enumerate() {
            let name = reply.class_names.get(likely.class as usize).cloned().unwrap_or_default();
            let own = theme::mask(likely.class).map(|[red, green, blue]| Color32::from_rgb(red, green, blue));
            let color = match (is_mask, at) {
                (true, _) => own.unwrap_or(palette.weak()),
                (false, 0) => palette.train,
                (false, _) => palette.weak(),
            };
            bar(ui, &name, likely.probability, color, ANSWERS);
        }
        took(ui, &reply.took);
    });
}

/// The way for those who cannot drop a file; of no use for a reason.
fn path(ui: &mut Ui, context: &mut PanelContext<'_>, missing: Option<&str>) {
    ui.add_space(theme::GAP);
    ui.horizontal_wrapped(|ui| {
        let field = TextEdit::singleline(&mut context.view.try_out.path).hint_text("Path of a JPEG, PNG or WebP");
        let room = (ui.available_width() - theme::DRAWING_SIDE / 2.0).max(theme::SHORTEST_TEXT);
        let field = theme::bordered(ui, |ui| ui.add(field.desired_width(room.min(theme::TOOLTIP_WIDTH))));
        let field = field.accessible_name("Path of an image");
        draft::is_no_setting(&field);
        let entered = field.lost_focus() && ui.input(|input| input.key_pressed(egui::Key::Enter));
        let path = context.view.try_out.path.trim().to_owned();
        let is_of_use = !path.is_empty() && missing.is_none();
        let button = button::enabled(ui, is_of_use, Button::new("Show it"));
        let button = button.tip("Show this image to the model.");
        let button = button.tip_disabled(missing.unwrap_or("Write the path of an image first."));
        if (button.clicked() || entered) && is_of_use {
            context.send.send(Action::Try(TryWith::File(path.into())));
        }
    });
}
