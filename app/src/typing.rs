//! What is typed and what follows it, in their order: a slow frame may have letters and the key or the click after them. The
//! toolkit moves the focus before a field takes the frame's letters, which are lost then, or go to another field.
//!
//! Owns the events that wait for the next frame. Always holds: a frame has no letters before or after what takes the focus from
//! them, and letters after the key of a command come when a dialog that it opens has the focus; no event is lost, and none
//! overtakes another.

use eframe::egui::{Context, Event, Key, KeyboardShortcut, Plugin, RawInput};

use crate::command::UiCommand;

/// Frames from the key of a command until a dialog that it opens has the focus: one in which the field is left, one in which the
/// dialog is drawn, and one in which it asks for the focus.
const UNTIL_FOCUS: u8 = 3;

/// Ends a frame between letters and what follows them.
#[derive(Debug, Default)]
pub(crate) struct InOrder {
    waiting: Vec<Event>,
    /// Frames without letters that are still to come.
    without: u8,
}

impl Plugin for InOrder {
    fn debug_name(&self) -> &'static str {
        "typing"
    }

    fn input_hook(&mut self, ctx: &Context, input: &mut RawInput) {
        if ctx.current_pass_index() > 0 {
            // The same frame is laid out again.
            return;
        }
        let mut events = std::mem::take(&mut self.waiting);
        events.append(&mut input.events);
        self.waiting = events.split_off(end(&events, self.without > 0));
        let is_command = events.iter().any(|event| command(event).is_some());
        self.without = if is_command { UNTIL_FOCUS } else { self.without.saturating_sub(1) };
        input.events = events;
        if !self.waiting.is_empty() {
            ctx.request_repaint();
        }
    }
}

/// How many of the events the frame has, which may be one without letters.
fn end(events: &[Event], without: bool) -> usize {
    let (mut has_letters, mut is_left) = (false, without);
    for (i, event) in events.iter().enumerate() {
        let (is_letter, leaves) = (is_letter(event), leaves(event));
        if is_letter && is_left || leaves && has_letters {
            return i;
        }
        has_letters |= is_letter;
        is_left |= leaves;
    }
    events.len()
}

/// Whether it changes the text of a field.
fn is_letter(event: &Event) -> bool {
    match event {
        Event::Text(_) | Event::Paste(_) | Event::Cut | Event::Ime(_) => true,
        Event::Key { key, pressed, .. } => *pressed && matches!(key, Key::Backspace | Key::Delete),
        _ => false,
    }
}

/// Whether it may take the focus from a field.
fn leaves(event: &Event) -> bool {
    match event {
        Event::PointerButton { pressed, .. } => *pressed,
        Event::Key { key: Key::Tab | Key::Enter | Key::Escape, pressed, .. } => *pressed,
        _ => command(event).is_some(),
    }
}

/// The command whose key was pressed. A space is typed.
fn command(event: &Event) -> Option<UiCommand> {
    match event {
        Event::Key { key, pressed: true, modifiers, .. } if *key != Key::Space => {
            UiCommand::of(KeyboardShortcut::new(*modifiers, *key))
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use eframe::egui::{Modifiers, PointerButton, pos2};

    use super::*;

    fn key(key: Key, modifiers: Modifiers) -> Event {
        Event::Key { key, physical_key: None, pressed: true, repeat: false, modifiers }
    }

    /// How many events each frame has.
    fn frames(events: &[Event]) -> Vec<usize> {
        let (ctx, mut order, mut seen, mut frames) = (Context::default(), InOrder::default(), Vec::new(), Vec::new());
        let mut new = events.to_vec();
        while !new.is_empty() || !order.waiting.is_empty() {
            let mut input = RawInput { events: std::mem::take(&mut new), ..RawInput::default() };
            order.input_hook(&ctx, &mut input);
            frames.push(input.events.len());
            seen.extend(input.events);
        }
        assert_eq!(seen, events);
        frames
    }

    #[test]
    fn letters_and_what_takes_the_focus_from_them_come_in_frames_of_their_own() {
        let text = |text: &str| Event::Text(text.to_owned());
        let plain = |of| key(of, Modifiers::NONE);
        let press = Event::PointerButton {
            pos: pos2(1.0, 1.0),
            button: PointerButton::Primary,
            pressed: true,
            modifiers: Modifiers::NONE,
        };
        assert_eq!(frames(&[text("4"), text("8"), plain(Key::Tab), text("a")]), [2, 1, 1]);
        assert_eq!(frames(&[text("4"), plain(Key::Space), text(" "), press.clone(), press.clone()]), [3, 2]);
        assert_eq!(frames(&[plain(Key::Backspace), key(Key::S, Modifiers::COMMAND), text("9")]), [1, 1, 0, 0, 0, 1]);
        assert_eq!(frames(&[key(Key::A, Modifiers::COMMAND), text("9"), plain(Key::Enter), plain(Key::Tab)]), [2, 2]);
        assert_eq!(frames(&[key(Key::Z, Modifiers::COMMAND), key(Key::Y, Modifiers::COMMAND), press]), [3]);
    }
}
