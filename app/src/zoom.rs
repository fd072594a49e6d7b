//! The limit of the window's zoom: it must have room for a pane with the bars around it.
//!
//! Always holds: the chosen zoom comes back as soon as the window is large enough for it, and the pointer is where it is seen.

use eframe::egui::{
    Button, Context, Event, InputState, KeyboardShortcut, PointerState, Pos2, RawInput, Ui, Vec2,
    gui_zoom::{self, kb_shortcuts},
    vec2,
};

use crate::widgets::tip::Tip as _;

/// The least room, in points.
const LEAST: Vec2 = vec2(640.0, 400.0);

/// The step by which the toolkit's keys change the zoom, and its ends here: text below half its size cannot be read.
const STEP: f32 = 0.1;
const SMALLEST: f32 = 0.5;
const LARGEST: f32 = 5.0;

/// The zoom that was asked for, and the one that is.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Zoom {
    asked: f32,
    set: f32,
}

impl Default for Zoom {
    fn default() -> Self {
        Self { asked: 1.0, set: 1.0 }
    }
}

impl Zoom {
    /// Keeps the zoom within the room of the window.
    pub(crate) fn limit(&mut self, ctx: &Context) {
        let now = ctx.zoom_factor();
        if now != self.set {
            self.asked = now.clamp(SMALLEST, LARGEST);
            // The toolkit has its place in points of the zoom before. So the pointer is gone until the next frame, which
            // [`Pointer`] tells where it is: a picture would point at something where it is not.
            ctx.input_mut(|input| input.pointer = PointerState::default());
            ctx.request_repaint();
        }
        let native = ctx.content_rect().size() * now;
        self.set = allowed(native, self.asked);
        if self.set != now {
            ctx.set_zoom_factor(self.set);
        }
    }
}

/// Where the pointer is. The native window knows its place in points of the zoom at its last move, and clicks there until the
/// next one.
#[derive(Debug, Default)]
pub(crate) struct Pointer {
    /// The last move, and the zoom then.
    moved: Option<(Pos2, f32)>,
    zoom: f32,
}

impl Pointer {
    /// Corrects the events before a frame in this zoom: after another one the pointer comes back in its place, and clicks in it.
    pub(crate) fn correct(&mut self, zoom: f32, input: &mut RawInput) {
        let now = |(at, then): (Pos2, f32)| at * (then / zoom);
        let is_new = std::mem::replace(&mut self.zoom, zoom) != zoom;
        let back = self.moved.filter(|_| is_new).map(|moved| Event::PointerMoved(now(moved)));
        for event in &mut input.events {
            match event {
                Event::PointerMoved(at) => self.moved = Some((*at, zoom)),
                Event::PointerGone => self.moved = None,
                Event::PointerButton { pos, .. } => {
                    // A touch has a place of its own.
                    let last = self.moved.filter(|(at, _)| at == pos);
                    *pos = last.map_or(*pos, now);
                }
                _ => {}
            }
        }
        input.events.splice(0..0, back);
    }
}

/// Why a key that was pressed zooms no farther.
pub(crate) fn refused(ctx: &Context) -> Option<String> {
    let native = ctx.content_rect().size() * ctx.zoom_factor();
    // The toolkit may have passed the end by a step, which is taken back.
    let zoom = ctx.zoom_factor().max(SMALLEST);
    let is_pressed = |keys: &[KeyboardShortcut]| ctx.input(|input| keys.iter().any(|keys| is_pressed(input, keys)));
    let why = if is_pressed(&[kb_shortcuts::ZOOM_IN, kb_shortcuts::ZOOM_IN_SECONDARY]) && !has_larger(native, zoom) {
        "a larger one needs a larger window"
    } else if is_pressed(&[kb_shortcuts::ZOOM_OUT]) && zoom <= SMALLEST {
        "it is the smallest"
    } else {
        return None;
    };
    Some(format!("The zoom stays at {:.0}%: {why}.", zoom * 100.0))
}

/// Whether keys were pressed, which stay the toolkit's.
fn is_pressed(input: &InputState, keys: &KeyboardShortcut) -> bool {
    input.events.iter().any(|event| {
        matches!(event, Event::Key { key, pressed: true, modifiers, .. }
            if *key == keys.logical_key && modifiers.matches_logically(keys.modifiers))
    })
}

/// Whether a window of `native` points has room for more than a zoom.
fn has_larger(native: Vec2, zoom: f32) -> bool {
    allowed(native, zoom + STEP).min(LARGEST) > zoom
}

/// Draws the entries of a menu that zoom, with their keys, which the toolkit listens to.
pub(crate) fn menu(ui: &mut Ui) {
    let zoom = ui.ctx().zoom_factor();
    let native = ui.ctx().content_rect().size() * zoom;
    type Act = fn(&Context);
    let entries: [(&str, KeyboardShortcut, bool, Act, &str); 3] = [
        (
            "Zoom in",
            kb_shortcuts::ZOOM_IN,
            has_larger(native, zoom),
            gui_zoom::zoom_in,
            "Everything is as large as this window has room for. A larger window has room for more.",
        ),
        (
            "Zoom out",
            kb_shortcuts::ZOOM_OUT,
            zoom > SMALLEST,
            gui_zoom::zoom_out,
            "Everything is as small as it can be read.",
        ),
        (
            "Reset zoom",
            kb_shortcuts::ZOOM_RESET,
            zoom != 1.0,
            |ctx| ctx.set_zoom_factor(1.0),
            "Everything has its usual size.",
        ),
    ];
    for (name, shortcut, is_possible, act, why_not) in entries {
        let button = Button::new(name).shortcut_text(ui.ctx().format_shortcut(&shortcut));
        let zoomed = format!("Now {:.0}%.", zoom * 100.0);
        let entry = ui.add_enabled(is_possible, button).tip(&zoomed);
        if entry.tip_disabled(format!("{zoomed} {why_not}")).clicked() {
            act(ui.ctx());
        }
    }
}

/// The zoom of a window of `native` points that comes nearest to the one that was asked for.
pub(crate) fn allowed(native: Vec2, asked: f32) -> f32 {
    let most = (native.x / LEAST.x).min(native.y / LEAST.y);
    // A window that is not laid out yet has no size.
    if most > 0.1 { asked.min(most) } else { asked }
}

#[cfg(test)]
mod tests {
    use eframe::egui::{Modifiers, PointerButton, pos2};

    use super::*;

    #[test]
    fn a_click_right_after_a_zoom_meets_what_is_under_the_pointer() {
        let (ctx, mut zoom, mut pointer) = (Context::default(), Zoom::default(), Pointer::default());
        let mut frame = |events: Vec<Event>| {
            let mut input = RawInput { events, ..RawInput::default() };
            pointer.correct(ctx.zoom_factor(), &mut input);
            ctx.run_ui(input, |ui| zoom.limit(ui.ctx())).textures_delta.clear();
            ctx.input(|input| input.pointer.latest_pos())
        };
        let at = pos2(100.0, 60.0);
        assert_eq!(frame(vec![Event::PointerMoved(at)]), Some(at));
        for (zoom, place) in [(2.0, pos2(50.0, 30.0)), (0.5, pos2(200.0, 120.0)), (1.0, at)] {
            ctx.set_zoom_factor(zoom);
            assert_eq!(frame(Vec::new()), None, "{zoom}: not in the place of before");
            assert_eq!(frame(Vec::new()), Some(place), "{zoom}");
            // The window clicks where the last move was.
            let button = |pressed| Event::PointerButton {
                pos: at,
                button: PointerButton::Primary,
                pressed,
                modifiers: Modifiers::NONE,
            };
            assert_eq!([frame(vec![button(true)]), frame(vec![button(false)])], [Some(place); 2], "{zoom}");
        }
        assert_eq!(frame(vec![Event::PointerGone]), None);
        ctx.set_zoom_factor(2.0);
        assert_eq!([frame(Vec::new()), frame(Vec::new())], [None; 2], "a pointer that is gone stays so");
    }

    #[test]
    fn a_window_is_zoomed_as_far_as_it_has_room() {
        assert_eq!(allowed(vec2(1280.0, 800.0), 2.0), 2.0);
        assert_eq!(allowed(vec2(960.0, 600.0), 2.0), 1.5);
        assert_eq!(allowed(vec2(960.0, 600.0), 1.0), 1.0);
        assert_eq!(allowed(Vec2::ZERO, 1.5), 1.5);
    }
}
