//! The gallery: every preset as a card with its title, the timeline of its prediction, its budget and its lesson.
//!
//! Always holds: a card is one button, found by its title; the search keeps the focus until a card takes it, and Enter opens
//! the first that is found.

mod arrows;
mod figures;

use eframe::egui::{
    self, Align2, CornerRadius, FontId, Id, Key, Mesh, Modal, Modifiers, Rect, Response, RichText, ScrollArea, Sense,
    Shape, Stroke, TextStyle, Ui, UiBuilder, pos2,
    text::{CCursor, CCursorRange, LayoutJob},
    vec2,
};

use super::PanelContext;
use crate::{
    command::Action,
    gallery::{Entry, Gallery, Picture, Source},
    presets::Group,
    theme::{self, Palette},
    widgets::{
        control::follow,
        text,
        tip::{self, Tip as _},
    },
};

/// Of a picture with a budget far above it, how many times as high it is as its timeline.
const FAR_HEAD: f64 = 1.3;
/// Where such a budget is drawn, below the top.
const FAR_LINE: f32 = 2.0;

/// Draws the gallery over the window.
pub(crate) fn ui(ui: &mut Ui, context: &PanelContext<'_>) {
    let room = ui.ctx().content_rect().size() - egui::Vec2::splat(theme::GALLERY_MARGIN);
    let size = room.min(theme::GALLERY_SIZE);
    let modal = Modal::new(Id::unique("gallery")).show(ui.ctx(), |ui| {
        ui.set_width(size.x);
        ui.set_height(size.y);
        contents(ui, context, &context.state.gallery);
    });
    if modal.should_close() {
        context.send.send(Action::CloseDialog);
    }
}

fn contents(ui: &mut Ui, context: &PanelContext<'_>, gallery: &Gallery) {
    let (field, search, is_new) = search_field(ui, context, gallery.number);
    ui.add_space(theme::GAP);
    let found = gallery.found(&search);
    if field.lost_focus() && ui.input(|input| input.key_pressed(Key::Enter)) {
        match found.first().and_then(|(_, entries)| entries.first()) {
            Some(first) => open(context, &first.source),
            None => field.request_focus(),
        }
    }
    let goes = |key| field.has_focus() && ui.input(|input| input.key_pressed(key));
    // In a text, End is of the text.
    let (goes_down, goes_to_end) = (goes(Key::ArrowDown), search.is_empty() && goes(Key::End));
    // A gallery that opens begins at its top, wherever the one before was scrolled to.
    let area = ScrollArea::vertical().auto_shrink(false).id_salt(gallery.number);
    // The best results stand first, so a new search begins there, wherever the one before was scrolled to.
    let area = if is_new { area.vertical_scroll_offset(0.0) } else { area };
    area.show(ui, |ui| {
        ui.set_width(ui.available_width() - theme::GAP);
        if found.is_empty() {
            ui.label(RichText::new("No preset has all these words.").weak());
        }
        let mut rows = Vec::new();
        for (heading, entries) in &found {
            cards(ui, context, heading, entries, &mut rows);
        }
        let first = rows.first().and_then(|row| row.first()).filter(|_| goes_down);
        if let Some(card) = first.or_else(|| rows.last()?.last().filter(|_| goes_to_end)) {
            card.request_focus();
            ui.scroll_to_rect(card.rect, None);
        } else {
            arrows::ui(ui, &rows, &field);
        }
    });
}

/// The heading, the search and the button that closes: the search's field, its words, and whether they were just changed.
fn search_field(ui: &mut Ui, context: &PanelContext<'_>, number: u64) -> (Response, String, bool) {
    let id = Id::unique(("gallery search", number));
    let known: Option<String> = ui.data(|data| data.get_temp(id));
    let mut search = known.clone().unwrap_or_default();
    let field = ui.horizontal(|ui| {
        ui.heading("Presets");
        ui.add_space(theme::WIDE_GAP);
        let close = ui.spacing().interact_size.x + 2.0 * theme::WIDE_GAP;
        let edit = egui::TextEdit::singleline(&mut search).id(id).hint_text("Search titles, models, lessons");
        let edit = edit.desired_width(ui.available_width() - close);
        let field = theme::bordered(ui, |ui| ui.add(edit)).accessible_name("Search presets");
        if ui.button("Close").clicked() {
            context.send.send(Action::CloseDialog);
        }
        field
    });
    let field = field.inner;
    if known.is_none() || ui.input_mut(|input| input.consume_key(Modifiers::COMMAND, Key::F)) {
        field.request_focus();
        // What is typed next takes the place of the old words.
        let mut state = egui::TextEdit::load_state(ui.ctx(), field.id).unwrap_or_default();
        let all = CCursorRange::two(CCursor::default(), CCursor::new(search.chars().count()));
        state.cursor.set_char_range(Some(all));
        state.store(ui.ctx(), field.id);
    }
    ui.data_mut(|data| data.insert_temp(id, search.clone()));
    let is_new = known.is_some_and(|known| known != search);
    (field, search, is_new)
}

fn open(context: &PanelContext<'_>, source: &Source) {
    context.send.send(Action::CloseDialog);
    context.send.send(match source {
        Source::Shipped(index) => Action::OpenShipped(*index),
        Source::Draft(index) => Action::OpenDraft(*index),
        Source::File(path) => Action::OpenFile(path.clone()),
    });
}

/// The cards under a heading, as many side by side as there is room for: row by row.
fn cards(ui: &mut Ui, context: &PanelContext<'_>, heading: &str, entries: &[&Entry], rows: &mut Vec<Vec<Response>>) {
    ui.label(RichText::new(heading).strong());
    let (room, gap) = (ui.available_width(), theme::CARD_GAP);
    let columns = (((room + gap) / (theme::CARD_SIZE.x + gap)) as usize).max(1);
    let size = vec2((room - gap * (columns as f32 - 1.0)) / columns as f32, theme::CARD_SIZE.y);
    for row in entries.chunks(columns) {
        let row = ui.horizontal(|ui| {
            ui.spacing_mut().item_spacing.x = gap;
            row.iter().map(|entry| card(ui, context, entry, size)).collect()
        });
        rows.push(row.inner);
        ui.add_space(gap - theme::ROW_GAP);
    }
    ui.add_space(theme::GAP);
}

/// A preset as a button.
fn card(ui: &mut Ui, context: &PanelContext<'_>, entry: &Entry, size: egui::Vec2) -> Response {
    let (rect, response) = ui.allocate_exact_size(size, Sense::click());
    response.widget_info(|| egui::WidgetInfo::labeled(egui::Role::Button, true, entry.title()));
    follow(&response);
    if ui.is_rect_visible(rect) {
        draw(ui, entry, rect, &response);
    }
    if let Source::Draft(index) = entry.source {
        // Below the words, where it hides nothing; in a place of its own, so that cards stand as they do without it.
        let corner = rect.right_bottom() - theme::DISCARD_SIZE - egui::Vec2::splat(theme::GAP);
        let corner = UiBuilder::new().max_rect(Rect::from_min_size(corner, theme::DISCARD_SIZE));
        let button = egui::Button::new("Discard").small().wrap_mode(egui::TextWrapMode::Extend);
        let discard = ui.new_child(corner).add_sized(theme::DISCARD_SIZE, button);
        let discard = discard.accessible_name(format!("Discard the draft {}", entry.title()));
        if discard.tip("Throw the draft away; the shipped preset stays as it is.").clicked() {
            context.send.send(Action::DiscardDraft(index));
        }
    }
    if response.clicked() {
        open(context, &entry.source);
    }
    tip::show(tip::beside(&response), |ui| {
        ui.set_max_width(theme::TOOLTIP_WIDTH);
        ui.strong(entry.title());
        ui.label(RichText::new(&entry.whole).weak());
        if let Some(Err(why)) = &entry.picture {
            ui.label(RichText::new(why).color(theme::palette(ui).bad));
        }
        if let Some(experiment) = &entry.experiment {
            ui.label(figures::whole(experiment, entry.picture.as_ref()));
            ui.label(&experiment.description);
        }
    });
    response
}

fn draw(ui: &Ui, entry: &Entry, rect: Rect, response: &Response) {
    let palette = theme::palette(ui);
    let visuals = ui.style().interact(response);
    let painter = ui.painter_at(rect);
    painter.rect_filled(rect, CornerRadius::same(6), visuals.weak_bg_fill);
    let inside = rect.shrink(theme::GAP);
    let drawing = Rect::from_min_size(inside.min, vec2(inside.width(), theme::PICTURE_HEIGHT));
    painter.rect_filled(drawing, CornerRadius::same(3), palette.pane);
    match &entry.picture {
        Some(Ok(picture)) => paint(&painter, picture, drawing.shrink(2.0), palette),
        Some(Err(_)) => words_in(&painter, drawing, "no prediction", palette.bad),
        None => words_in(&painter, drawing, "Planning…", palette.weak()),
    }
    let mut top = drawing.bottom() + theme::GAP;
    let write = |words: &str, style: TextStyle, color, rows: usize, top: f32| {
        let font = style.resolve(ui.style());
        let mut job = LayoutJob::simple(words.to_owned(), font, color, inside.width());
        job.wrap.max_rows = rows;
        let galley = ui.painter().layout_job(job);
        let height = galley.size().y;
        painter.galley(pos2(inside.left(), top), galley, color);
        top + height + 2.0
    };
    top = write(&entry.title(), TextStyle::Button, palette.strong(), 2, top);
    let small = TextStyle::Small.resolve(ui.style());
    let has_room = |words: &str| text::width(ui, words, &small) <= inside.width();
    let figures = entry.experiment.as_ref().map(|of| figures::short(of, entry.picture.as_ref(), has_room));
    top = write(&figures.unwrap_or_else(|| entry.name.clone()), TextStyle::Small, palette.card_text(), 1, top);
    let about = match (entry.group, &entry.experiment) {
        (Group::Drafts | Group::Files, _) => entry.name.clone(),
        (_, Some(experiment)) => experiment.description.clone(),
        (_, None) => String::new(),
    };
    let is_draft = matches!(entry.source, Source::Draft(_));
    let below = if is_draft { theme::DISCARD_SIZE.y } else { 0.0 };
    let left = ((inside.bottom() - below - top) / theme::SMALL_ROW) as usize;
    write(&about, TextStyle::Small, palette.card_text(), left.max(1), top);
}

fn words_in(painter: &egui::Painter, rect: Rect, words: &str, color: egui::Color32) {
    painter.text(rect.center(), Align2::CENTER_CENTER, words, FontId::proportional(theme::SMALL_TEXT), color);
}

/// The timeline by category, and the budget as a line: at the top, past a break, where it is far above.
fn paint(painter: &egui::Painter, picture: &Picture, rect: Rect, palette: &Palette) {
    let highest = picture.columns.iter().map(|column| column.total().0).max().unwrap_or_default() as f64;
    let budget = picture.budget.0 as f64;
    // A budget that is far away would leave nothing to see of the timeline.
    let is_near = budget < 2.5 * highest;
    let full = if is_near { highest.max(budget) * 1.08 } else { highest * FAR_HEAD };
    let height = |bytes: f64| (bytes / full.max(1.0)) as f32 * rect.height();
    let step = rect.width() / picture.columns.len().max(1) as f32;
    let mut mesh = Mesh::default();
    for (at, column) in picture.columns.iter().enumerate() {
        let (left, mut below) = (rect.left() + step * at as f32, 0.0);
        for (category, bytes) in column.iter() {
            let above = below + bytes.0 as f64;
            let part = Rect::from_min_max(
                pos2(left, rect.bottom() - height(above)),
                pos2(left + step, rect.bottom() - height(below)),
            );
            mesh.add_colored_rect(part, palette.category(category));
            below = above;
        }
    }
    painter.add(Shape::mesh(mesh));
    let line = if is_near { rect.bottom() - height(budget) } else { rect.top() + FAR_LINE };
    painter.hline(rect.x_range(), line, Stroke::new(1.5, palette.budget));
    if !is_near {
        // Two slashes at either end show that the part above is not to scale.
        for (x, dy) in [rect.left(), rect.right()].into_iter().flat_map(|x| [(x, 3.0), (x, 6.0)]) {
            let slash = [pos2(x - 3.0, line + dy + 1.5), pos2(x + 3.0, line + dy - 1.5)];
            painter.line_segment(slash, Stroke::new(1.0, palette.weak()));
        }
    }
}
