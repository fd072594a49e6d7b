//! Short messages that go by themselves, over the title of the document, where nothing is to be pressed.
//!
//! Always holds: of each kind there is one message at most, the newest; a message stays while the pointer is on it; a click
//! takes it away and reaches nothing below it; a screen reader tells it as it comes.

use std::time::{Duration, Instant};

use eframe::egui::{
    self, Area, Color32, FontSelection, Frame, Id, Label, Order, Pos2, Rect, RichText, Sense, Ui, accesskit::Live,
    pos2, text::LayoutJob,
};

use crate::theme;

/// How long a message without a word would stay, and what each letter adds.
const SHORTEST: Duration = Duration::from_secs(3);
const A_LETTER: Duration = Duration::from_millis(40);
/// How long one stays after the pointer has left it.
const AFTER: Duration = Duration::from_secs(1);

/// The room that the top bar keeps for them: that of the title.
pub(crate) fn keep_room(ui: &Ui) {
    let room = ui.available_rect_before_wrap();
    ui.data_mut(|data| data.insert_temp(room_id(), room));
}

fn room_id() -> Id {
    Id::unique("room for messages")
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
}

/// The messages that are shown, the oldest highest.
#[derive(Debug, Default)]
pub(crate) struct Toasts {
    shown: Vec<Toast>,
    count: u64,
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

    /// Tells that something is not as it was asked for.
    pub(crate) fn warning(&mut self, text: impl Into<String>) {
        self.add(Kind::Warning, text.into());
    }

    /// Tells that something failed.
    pub(crate) fn error(&mut self, text: impl Into<String>) {
        self.add(Kind::Failure, text.into());
    }

    fn add(&mut self, kind: Kind, text: String) {
        // What is told again is told once, and what is newer is what matters: the log has the others.
        self.shown.retain(|toast| toast.kind != kind && toast.text != text);
        self.count += 1;
        let until = Instant::now() + SHORTEST + A_LETTER * u32::try_from(text.chars().count()).unwrap_or(u32::MAX);
        self.shown.push(Toast { id: Id::unique(("toast", self.count)), kind, text, until });
    }

    /// Whether nothing is told.
    #[cfg(test)]
    pub(crate) fn is_empty(&self) -> bool {
        self.shown.is_empty()
    }

    /// Draws them, and lets go of those whose time is over.
    pub(crate) fn show(&mut self, ctx: &egui::Context) {
        let (now, mut place) = (Instant::now(), place(ctx));
        self.shown.retain_mut(|toast| {
            let response = toast.ui(ctx, place);
            place.min.y += response.rect.height() + theme::GAP;
            if response.contains_pointer() {
                toast.until = toast.until.max(now + AFTER);
            }
            let left = toast.until.saturating_duration_since(now);
            ctx.request_repaint_after(left);
            left > Duration::ZERO && !response.clicked()
        });
    }
}

/// Where the first one stands, and how wide they may be: over the title, or below it where that is narrow.
fn place(ctx: &egui::Context) -> Rect {
    let whole = ctx.content_rect().shrink2(theme::TOAST_MARGIN);
    let title = ctx.data(|data| data.get_temp(room_id())).unwrap_or(whole);
    let at = |corner: Pos2, width: f32| Rect::from_min_max(corner, pos2(corner.x + width, whole.bottom()));
    if title.width() >= theme::NARROWEST_TOAST {
        at(pos2(title.left(), whole.top()), title.width().min(theme::TOAST_WIDTH))
    } else {
        // The first line below the bar is words, with a button at its right end.
        at(pos2(whole.left(), title.bottom() + whole.top()), theme::TOAST_WIDTH.min(whole.width() - theme::TOAST_ASIDE))
    }
}

impl Toast {
    fn ui(&self, ctx: &egui::Context, place: Rect) -> egui::Response {
        let area = Area::new(self.id).order(Order::Foreground).fixed_pos(place.min);
        let shown = area.sense(Sense::click()).show(ctx, |ui| {
            Frame::popup(ui.style()).show(ui, |ui| {
                ui.set_max_width(place.width() - Frame::popup(ui.style()).total_margin().sum().x);
                let (sign, color) = self.kind.sign(ui);
                let mut words = LayoutJob::default();
                for text in [RichText::new(format!("{sign}  ")).color(color), RichText::new(&self.text)] {
                    let (style, align) = (ui.style().clone(), ui.layout().vertical_align());
                    text.append_to(&mut words, &style, FontSelection::Default, align);
                }
                let label = ui.add(Label::new(words).wrap().selectable(false));
                ui.ctx().accesskit_node_builder(label.id, |node| node.set_live(Live::Polite));
            });
        });
        shown.response
    }
}

impl Kind {
    fn sign(self, ui: &egui::Ui) -> (&'static str, Color32) {
        let palette = theme::palette(ui);
        match self {
            Self::Done => ("✔", palette.good),
            Self::Note => ("ℹ", palette.accent),
            Self::Warning => ("⚠", palette.warn),
            Self::Failure => ("⚠", palette.bad),
        }
    }
}
