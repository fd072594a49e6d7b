//! Short messages that go by themselves, in the corner where nothing is to be pressed.
//!
//! Always holds: a message stays while the pointer is on it; a click takes it away and reaches nothing below it; a screen
//! reader tells it as it comes.

use std::time::{Duration, Instant};

use eframe::egui::{
    self, Align2, Area, Color32, FontSelection, Frame, Id, Label, Order, RichText, Sense, accesskit::Live,
    text::LayoutJob, vec2,
};

use crate::theme;

/// How long a message without a word would stay, and what each letter adds.
const SHORTEST: Duration = Duration::from_secs(3);
const A_LETTER: Duration = Duration::from_millis(40);
/// How long one stays after the pointer has left it.
const AFTER: Duration = Duration::from_secs(1);

#[derive(Debug, Clone, Copy)]
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

/// The messages that are shown, the oldest lowest.
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
        // What is told again is told once.
        self.shown.retain(|toast| toast.text != text);
        self.count += 1;
        let until = Instant::now() + SHORTEST + A_LETTER * u32::try_from(text.chars().count()).unwrap_or(u32::MAX);
        self.shown.push(Toast { id: Id::unique(("toast", self.count)), kind, text, until });
    }

    /// Draws them, and lets go of those whose time is over.
    pub(crate) fn show(&mut self, ctx: &egui::Context) {
        let (now, mut below) = (Instant::now(), theme::TOAST_MARGIN.y);
        self.shown.retain_mut(|toast| {
            let response = toast.ui(ctx, below);
            below += response.rect.height() + theme::GAP;
            if response.contains_pointer() {
                toast.until = toast.until.max(now + AFTER);
            }
            let left = toast.until.saturating_duration_since(now);
            ctx.request_repaint_after(left);
            left > Duration::ZERO && !response.clicked()
        });
    }
}

impl Toast {
    fn ui(&self, ctx: &egui::Context, below: f32) -> egui::Response {
        let offset = vec2(-theme::TOAST_MARGIN.x, -below);
        let area = Area::new(self.id).order(Order::Foreground).anchor(Align2::RIGHT_BOTTOM, offset);
        let shown = area.sense(Sense::click()).show(ctx, |ui| {
            Frame::popup(ui.style()).show(ui, |ui| {
                ui.set_max_width(theme::TOAST_WIDTH);
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
