//! The field of a number. What is typed there and is no number is said with the problems of the experiment, until the settings
//! change or something else is typed. A field of its own, such as that of the budget, says it in the same place.
//!
//! Owns the words for the last such text. Always holds: the setting keeps its value.

use std::{cell::RefCell, ops::RangeInclusive};

use eframe::egui::{self, Context, DragValue, Id, Key, Response, Ui};

use super::{Number, Spec};

/// Numbers that a field takes.
const RANGE: RangeInclusive<f64> = 0.0..=1e15;

/// Seconds after a refusal in which no run begins: longer than between the clicks of a double click.
const MOMENT: f64 = 0.7;

/// Letters of what was typed that are repeated.
const REPEATED: usize = 24;

/// The last text that is no number.
#[derive(Debug, Clone)]
struct Refused {
    key: &'static str,
    words: String,
    /// The state of the settings that it was typed over.
    generation: u64,
    /// When it was refused, in seconds of the window.
    at: f64,
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
    let typed: RefCell<Option<(String, Option<Fault>)>> = RefCell::default();
    let escaped = Id::unique(("left by Escape", spec.key));
    let is_taken_back = ui.data(|data| data.get_temp(escaped).unwrap_or(false));
    let mut field = DragValue::new(&mut new)
        .custom_formatter(move |v, _| number.text(v, is_whole))
        .custom_parser(|text| {
            if is_taken_back {
                return None;
            }
            let read = number.parse(text);
            let fault = Fault::of(read, is_whole).filter(|_| !text.trim().is_empty());
            typed.replace(Some((text.to_owned(), fault)));
            read.filter(|_| fault.is_none())
        })
        .range(RANGE)
        .update_while_editing(false)
        .speed(if is_whole { 0.25 } else { value.abs().max(1e-6) * 0.01 });
    if is_whole {
        field = field.max_decimals(0);
    }
    let size = egui::vec2(width, ui.spacing().interact_size.y);
    let response = ui.add_sized(size, field).accessible_name(format!("{} value", spec.name));
    // The toolkit counts a field as left for two frames, and asks for Escape in each of them.
    let by_escape = is_taken_back || ui.input(|input| input.key_pressed(Key::Escape));
    let is_escaped = by_escape && response.lost_focus();
    ui.data_mut(|data| data.insert_temp(escaped, is_escaped));
    match typed.into_inner() {
        Some((text, Some(fault))) => {
            let shown = number.text(value, is_whole);
            note(ui.ctx(), (spec, number), (is_whole, fault), (&text, &shown), generation);
        }
        Some((_, None)) => forget(ui.ctx(), spec.key),
        None if is_escaped => forget(ui.ctx(), spec.key),
        None if response.gained_focus() => forget(ui.ctx(), spec.key),
        None => {}
    }
    (response, if is_whole { new.round() } else { new })
}

/// Why a field does not take what was typed.
#[derive(Debug, Clone, Copy)]
enum Fault {
    /// It is no number, or has a fraction where only whole numbers are taken.
    Kind,
    Negative,
    TooLarge,
}

impl Fault {
    /// The fault of what was read.
    fn of(read: Option<f64>, is_whole: bool) -> Option<Self> {
        match read.filter(|number| !number.is_nan()) {
            None => Some(Self::Kind),
            Some(number) if number < *RANGE.start() => Some(Self::Negative),
            Some(number) if number > *RANGE.end() => Some(Self::TooLarge),
            Some(number) if is_whole && number.fract() != 0.0 => Some(Self::Kind),
            Some(_) => None,
        }
    }
}

/// Notes that `typed` is no number that a control takes, and keeps its value `shown`.
fn note(
    ctx: &Context,
    (spec, number): (Spec, Number),
    (is_whole, fault): (bool, Fault),
    (typed, shown): (&str, &str),
    generation: u64,
) {
    let kind = if is_whole { "a whole number" } else { "a number" };
    let fault = match fault {
        Fault::Kind => format!("is not {kind}"),
        Fault::Negative => "is below 0".to_owned(),
        Fault::TooLarge => "is too large".to_owned(),
    };
    let word = number.zero.map(|word| format!(" or “{word}”")).unwrap_or_default();
    let mut repeated: String = typed.trim().chars().take(REPEATED).collect();
    if typed.trim().chars().count() > REPEATED {
        repeated.push('…');
    }
    refuse(ctx, spec, (&format!("“{repeated}” {fault}; write {kind}{word}"), shown), generation);
}

/// Says why a field does not take what was typed, and that its value is still what is `shown`.
pub(crate) fn refuse(ctx: &Context, spec: Spec, (why, shown): (&str, &str), generation: u64) {
    let words = format!("{}: {why}. It is still {shown}.", spec.name);
    let refused = Refused { key: spec.key, words, generation, at: ctx.input(|input| input.time) };
    ctx.data_mut(|data| data.insert_temp(id(), refused));
}

/// Forgets what was typed over the setting of this key.
pub(crate) fn forget(ctx: &Context, key: &str) {
    if ctx.data(|data| data.get_temp::<Refused>(id())).is_some_and(|known| known.key == key) {
        ctx.data_mut(|data| data.remove::<Refused>(id()));
    }
}

/// Forgets the text, as when a run begins with the settings as they are.
pub(crate) fn forget_refused(ctx: &Context) {
    ctx.data_mut(|data| data.remove::<Refused>(id()));
}

/// Whether it was typed over the setting of this key.
pub(crate) fn is_refused(ctx: &Context, key: &str, generation: u64) -> bool {
    known(ctx, generation).is_some_and(|known| known.key == key)
}

/// The words for it, as long as the settings are those of then.
pub(crate) fn refused(ctx: &Context, generation: u64) -> Option<String> {
    known(ctx, generation).map(|known| known.words)
}

/// The same, where it was refused a moment ago: by the click or the key that acts on it now, or the first click of two.
pub(crate) fn just_refused(ctx: &Context, generation: u64) -> Option<String> {
    let now = ctx.input(|input| input.time);
    known(ctx, generation).filter(|known| now < known.at + MOMENT).map(|known| known.words)
}

fn known(ctx: &Context, generation: u64) -> Option<Refused> {
    ctx.data(|data| data.get_temp::<Refused>(id())).filter(|known| known.generation == generation)
}
