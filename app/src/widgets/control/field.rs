//! The field of a number. What is typed there and is no number is said with the problems of the experiment, until the settings
//! change or something else is typed.
//!
//! Owns the words for the last such text. Always holds: the setting keeps its value.

use std::{cell::RefCell, ops::RangeInclusive};

use eframe::egui::{self, Context, DragValue, Id, Response, Ui};

use super::{Number, Spec};

/// Numbers that a field takes.
const RANGE: RangeInclusive<f64> = 0.0..=1e15;

/// Letters of what was typed that are repeated.
const REPEATED: usize = 24;

/// The last text that is no number.
#[derive(Debug, Clone)]
struct Refused {
    key: &'static str,
    words: String,
    /// The state of the settings that it was typed over.
    generation: u64,
}

fn id() -> Id {
    Id::unique("no number")
}

/// A field for any value. A text that is no number changes nothing, and is said.
pub(super) fn field(
    ui: &mut Ui,
    (spec, number): (Spec, Number),
    is_whole: bool,
    value: f64,
    (width, generation): (f32, u64),
) -> (Response, f64) {
    let mut new = value;
    let typed: RefCell<Option<(String, bool)>> = RefCell::default();
    let mut field = DragValue::new(&mut new)
        .custom_formatter(move |v, _| number.text(v, is_whole))
        .custom_parser(|text| {
            let taken = number.parse(text).filter(|number| RANGE.contains(number));
            typed.replace(Some((text.to_owned(), taken.is_some() || text.trim().is_empty())));
            taken
        })
        .range(RANGE)
        .update_while_editing(false)
        .speed(if is_whole { 0.25 } else { value.abs().max(1e-6) * 0.01 });
    if is_whole {
        field = field.max_decimals(0);
    }
    let size = egui::vec2(width, ui.spacing().interact_size.y);
    let response = ui.add_sized(size, field).accessible_name(format!("{} value", spec.name));
    match typed.into_inner() {
        Some((text, false)) => {
            let shown = number.text(value, is_whole);
            note(ui.ctx(), (spec, number), is_whole, (&text, &shown), generation);
        }
        Some((_, true)) => forget(ui.ctx(), spec.key),
        None if response.gained_focus() => forget(ui.ctx(), spec.key),
        None => {}
    }
    (response, if is_whole { new.round() } else { new })
}

/// Notes that `typed` is no number that a control takes, and keeps its value `shown`.
fn note(ctx: &Context, (spec, number): (Spec, Number), is_whole: bool, (typed, shown): (&str, &str), generation: u64) {
    let kind = if is_whole { "a whole number" } else { "a number" };
    let word = number.zero.map(|word| format!(" or “{word}”")).unwrap_or_default();
    let mut repeated: String = typed.trim().chars().take(REPEATED).collect();
    if typed.trim().chars().count() > REPEATED {
        repeated.push('…');
    }
    let words =
        format!("{}: “{repeated}” is not {kind} of 0 or more; write {kind}{word}. It is still {shown}.", spec.name);
    ctx.data_mut(|data| data.insert_temp(id(), Refused { key: spec.key, words, generation }));
}

/// Forgets what was typed over the setting of this key.
fn forget(ctx: &Context, key: &str) {
    if ctx.data(|data| data.get_temp::<Refused>(id())).is_some_and(|known| known.key == key) {
        ctx.data_mut(|data| data.remove::<Refused>(id()));
    }
}

/// Whether it was typed over the setting of this key.
pub(super) fn is_refused(ctx: &Context, key: &str, generation: u64) -> bool {
    known(ctx, generation).is_some_and(|known| known.key == key)
}

/// The words for it, as long as the settings are those of then.
pub(crate) fn refused(ctx: &Context, generation: u64) -> Option<String> {
    known(ctx, generation).map(|known| known.words)
}

fn known(ctx: &Context, generation: u64) -> Option<Refused> {
    ctx.data(|data| data.get_temp::<Refused>(id())).filter(|known| known.generation == generation)
}
