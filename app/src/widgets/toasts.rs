//! Short messages that go by themselves: in the room that the top bar leaves between the title and the device; in a window
//! too narrow for that, over the forecast in the bottom bar; above a dialog while one is open.
//!
//! Always holds: a message lies neither over a figure of the budget nor over a control. Of each kind there is one message at
//! most, the newest; the newest of all is shown, and older ones as far as there is room. A message stays while the pointer is
//! on it; a click takes it away and reaches nothing below it; a screen reader reads it as it comes.

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use eframe::egui::{
    self, Align, Area, Color32, FontSelection, Frame, Galley, Id, Label, LayerId, Order, Rect, RichText, Sense, Ui,
    accesskit::Live, pos2, text::LayoutJob,
};

use crate::{
    alarm, format,
    theme::{self, Palette},
};

/// How long a message without a word would stay, and the time that each letter adds.
const SHORTEST: Duration = Duration::from_secs(3);
const A_LETTER: Duration = Duration::from_millis(40);
/// How long one stays after the pointer has left it.
const AFTER: Duration = Duration::from_secs(1);

/// A room for them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum Place {
    /// Between the title and the device: nothing is there.
    TopBar,
    /// The line of the forecast for the present settings.
    BottomBar,
}

/// Notes the room in a place without a control.
pub(crate) fn keep_room(ui: &Ui, place: Place, room: Rect) {
    ui.data_mut(|data| data.insert_temp(room_id(place), room));
}

fn room_id(place: Place) -> Id {
    Id::unique(("room for messages", place))
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    Done,
    Note,
    Warning,
    Failure,
}

#[derive(Debug)]
struct Toast {
    id: Id,
    kind: Kind,
    text: String,
    until: Instant,
    /// It is about the settings as they are.
    is_of_settings: bool,
    /// The words for a typed text that is no value, where it says them.
    typed: Option<String>,
}

/// The messages that are shown, the oldest highest.
#[derive(Debug, Default)]
pub(crate) struct Toasts {
    shown: Vec<Toast>,
    count: u64,
    /// When the next frame is drawn for them.
    rings_at: Option<Instant>,
}

impl Toasts {
    /// Tells that something was done.
    pub(crate) fn success(&mut self, text: impl Into<String>) {
        self.add(Kind::Done, text.into());
    }

    /// Tells something that is good to know.
    pub(crate) fn info(&mut self, text: impl Into<String>) {
        self.add(Kind::Note, text.into());
    }

    /// Tells what a change of the settings brought along.
    pub(crate) fn followed(&mut self, text: impl Into<String>) {
        self.add_of_settings(Kind::Note, text.into());
    }

    /// Tells why something cannot be done with the settings as they are.
    pub(crate) fn refused(&mut self, text: impl Into<String>) {
        self.add_of_settings(Kind::Warning, text.into());
    }

    /// Tells why a typed text is not taken.
    pub(crate) fn refused_text(&mut self, words: String) {
        // What was done before was done with another text.
        self.shown.retain(|toast| toast.kind != Kind::Done);
        self.refused(words.as_str());
        self.shown.last_mut().into_iter().for_each(|toast| toast.typed = Some(words.clone()));
    }

    /// Another text is refused by now: takes the messages about the ones before away.
    pub(crate) fn refuses_now(&mut self, words: &str) {
        self.shown.retain(|toast| toast.typed.as_ref().is_none_or(|typed| typed == words));
    }

    /// The settings are others now: takes the messages away that were about those before.
    pub(crate) fn settings_changed(&mut self) {
        self.shown.retain(|toast| !toast.is_of_settings);
    }

    /// What was refused is not asked for any more: takes its messages away.
    pub(crate) fn refused_is_over(&mut self) {
        self.shown.retain(|toast| !(toast.is_of_settings && toast.kind == Kind::Warning));
    }

    /// Tells that something is not as it was asked for.
    pub(crate) fn warning(&mut self, text: impl Into<String>) {
        self.add(Kind::Warning, text.into());
    }

    /// Tells that something failed.
    pub(crate) fn error(&mut self, text: impl Into<String>) {
        self.add(Kind::Failure, text.into());
    }

    fn add_of_settings(&mut self, kind: Kind, text: String) {
        self.add(kind, text);
        self.shown.last_mut().into_iter().for_each(|toast| toast.is_of_settings = true);
    }

    fn add(&mut self, kind: Kind, text: String) {
        let text = format::in_groups(&text);
        // A repeated message is shown once, and the newest one matters: the log has the others.
        self.shown.retain(|toast| toast.kind != kind && toast.text != text);
        self.count += 1;
        let until = Instant::now() + SHORTEST + A_LETTER * u32::try_from(text.chars().count()).unwrap_or(u32::MAX);
        self.shown.push(Toast {
            id: Id::unique(("toast", self.count)),
            kind,
            text,
            until,
            is_of_settings: false,
            typed: None,
        });
    }

    /// Whether no message is shown.
    #[cfg(test)]
    pub(crate) fn is_empty(&self) -> bool {
        self.shown.is_empty()
    }

    /// Draws them, and lets go of those whose time is over.
    pub(crate) fn show(&mut self, ctx: &egui::Context, is_dialog_open: bool) {
        let now = Instant::now();
        let newest = self.shown.len();
        let mut room = room(ctx, is_dialog_open);
        for (at, toast) in self.shown.iter_mut().enumerate().rev() {
            if at + 1 < newest && room.width() < theme::NARROWEST_TOAST {
                // A message without room is shown once the newer ones are gone: its time has not begun.
                toast.until = toast.until.max(now + SHORTEST);
                continue;
            }
            let response = toast.ui(ctx, room);
            room.max.x = response.rect.left() - theme::GAP;
            if response.clicked() {
                toast.until = now;
            } else if response.contains_pointer() {
                toast.until = toast.until.max(now + AFTER);
            }
        }
        self.shown.retain(|toast| toast.until > now);
        if let Some(next) = self.shown.iter().map(|toast| toast.until).min() {
            let left = next.saturating_duration_since(now);
            ctx.request_repaint_after(left);
            // Once for each message, and where its time became longer.
            if self.rings_at.is_none_or(|at| at <= now) {
                self.rings_at = Some(next);
                alarm::ring(ctx, left);
            }
        }
    }
}

/// Where they stand: the newest at the right end, older ones to its left.
fn room(ctx: &egui::Context, is_dialog_open: bool) -> Rect {
    let whole = ctx.content_rect().shrink2(theme::TOAST_MARGIN);
    if is_dialog_open {
        // The largest dialog ends there.
        return whole.with_max_y(ctx.content_rect().top() + theme::GALLERY_MARGIN / 2.0);
    }
    let kept = |place| ctx.data(|data| data.get_temp::<Rect>(room_id(place)));
    let top = kept(Place::TopBar).filter(|room| room.width() >= theme::NARROWEST_ROOM);
    top.or_else(|| kept(Place::BottomBar)).unwrap_or(whole)
}

/// The frame of a message: low, for its room is a line of a bar.
fn frame(style: &egui::Style) -> Frame {
    Frame::popup(style).inner_margin(theme::TOAST_PADDING).shadow(egui::Shadow::NONE)
}

impl Toast {
    fn ui(&self, ctx: &egui::Context, room: Rect) -> egui::Response {
        let (words, width) = self.laid_out(ctx, room);
        let height = words.size().y + frame(&ctx.global_style()).total_margin().sum().y;
        let top = room.top() + ((room.height() - height) / 2.0).max(0.0);
        let area = Area::new(self.id).order(Order::Foreground).fixed_pos(pos2(room.right() - width, top));
        let shown = area.sense(Sense::click()).show(ctx, |ui| {
            frame(ui.style()).show(ui, |ui| {
                let label = ui.add(Label::new(words).extend().selectable(false));
                ui.ctx().accesskit_node_builder(label.id, |node| node.set_live(Live::Polite));
            });
        });
        shown.response
    }

    /// The words, as wide as is easy to read; if these lines have no room, as wide as the room is. Words that still have no
    /// room are cut, and shown on hover. Returns the width of the message, too.
    fn laid_out(&self, ctx: &egui::Context, room: Rect) -> (Arc<Galley>, f32) {
        let style = ctx.global_style();
        let painter = ctx.layer_painter(LayerId::background());
        let (sign, color) = self.kind.sign(theme::of(style.visuals.dark_mode));
        let mut job = LayoutJob::default();
        for text in [RichText::new(format!("{sign}  ")).color(color), RichText::new(&self.text)] {
            text.small().append_to(&mut job, &style, FontSelection::Default, Align::Center);
        }
        let around = frame(&style).total_margin().sum();
        let within = |width: f32, rows: usize| {
            let mut job = job.clone();
            (job.wrap.max_width, job.wrap.max_rows) = ((width - around.x).max(1.0), rows);
            painter.layout_job(job)
        };
        let whole = within(room.width().min(theme::TOAST_WIDTH), usize::MAX);
        let is_low = |words: &Galley| words.size().y + around.y <= room.height();
        let words = if is_low(&whole) { whole } else { within(room.width(), usize::MAX) };
        let row = words.size().y / words.rows.len().max(1) as f32;
        let most = ((room.height() - around.y) / row) as usize;
        let words = if is_low(&words) { words } else { within(room.width(), most.max(1)) };
        let width = words.size().x + around.x;
        (words, width)
    }
}

impl Kind {
    fn sign(self, palette: &Palette) -> (&'static str, Color32) {
        match self {
            Self::Done => ("✔", palette.good),
            Self::Note => ("ℹ", palette.accent),
            Self::Warning => ("⚠", palette.warn),
            Self::Failure => ("⚠", palette.bad),
        }
    }
}
