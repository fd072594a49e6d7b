//! The field of a number. What is typed there and is no number is said with the problems of the experiment, until the settings
//! change or something else is typed. A field of its own, such as that of the budget, says it in the same place.
//!
//! Owns the words for the last such text. Always holds: the setting keeps its value.

use std::{cell::RefCell, ops::RangeInclusive};

use eframe::egui::{self, Context, DragValue, Id, Key, Response, Ui};

use super::{Number, Spec, value};

/// Numbers that the field of a setting takes.
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
    /// Whether it was typed over a setting.
    is_setting: bool,
    /// The state of the settings that it was typed over.
    generation: u64,
    /// When it was refused, in seconds of the window.
    at: f64,
}

fn id() -> Id {
    Id::unique("no number")
}

/// A number that can be typed.
#[derive(Debug, Clone)]
pub(crate) struct Typed {
    /// Tells its refusals from those of other fields.
    pub(crate) key: &'static str,
    /// Its name on screen.
    pub(crate) name: &'static str,
    /// The word for zero, where zero means something else than a number.
    pub(crate) zero: Option<&'static str>,
    /// Whether only whole numbers are taken.
    pub(crate) is_whole: bool,
    /// The least and the largest that is taken.
    pub(crate) range: RangeInclusive<f64>,
    /// Whether it is a setting of the experiment, whose pane says what is wrong with them.
    pub(crate) is_setting: bool,
    /// How far the value goes with a point that the pointer is dragged.
    pub(crate) speed: f64,
}

impl Typed {
    /// That of a setting with this value.
    pub(super) fn setting(spec: Spec, number: Number, is_whole: bool, value: f64) -> Self {
        let speed = if is_whole { 0.25 } else { value.abs().max(1e-6) * 0.01 };
        Self { key: spec.key, name: spec.name, zero: number.zero, is_whole, range: RANGE, is_setting: true, speed }
    }

    /// `value` as it is shown.
    fn text(&self, value: f64) -> String {
        value::text(value, self.zero, self.is_whole)
    }

    /// The number that was typed, or why it is not taken.
    fn read(&self, text: &str) -> Result<f64, Fault> {
        let text: String = text.chars().filter(|c| !c.is_whitespace() && *c != '_').collect();
        if text.is_empty() {
            return Err(Fault::Empty);
        }
        if self.zero.is_some_and(|word| word.eq_ignore_ascii_case(&text)) {
            return Ok(0.0);
        }
        match text.parse::<f64>() {
            Ok(number) if number.is_nan() => Err(Fault::Kind),
            Ok(number) if number < *self.range.start() => Err(Fault::TooSmall),
            Ok(number) if number > *self.range.end() => Err(Fault::TooLarge),
            Ok(number) if self.is_whole && number.fract() != 0.0 => Err(Fault::Kind),
            Ok(number) => Ok(number),
            Err(_) => Err(Fault::Kind),
        }
    }

    /// Why a text is not taken.
    fn why(&self, text: &str, fault: Fault) -> String {
        let kind = if self.is_whole { "a whole number" } else { "a number" };
        let word = self.zero.map(|word| format!(" or “{word}”")).unwrap_or_default();
        let mut repeated: String = text.trim().chars().take(REPEATED).collect();
        if text.trim().chars().count() > REPEATED {
            repeated.push('…');
        }
        // The limits of a setting are told with its problems: they depend on others.
        let has_limits = self.range != RANGE;
        let fault = match fault {
            Fault::Empty => return format!("the field was left empty; write {kind}{word}"),
            Fault::Kind => format!("is not {kind}"),
            Fault::TooSmall if has_limits => {
                return format!("“{repeated}” is too small; write {} or more", self.text(*self.range.start()));
            }
            Fault::TooLarge if has_limits => {
                return format!("“{repeated}” is too large; write {} or less", self.text(*self.range.end()));
            }
            Fault::TooSmall => format!("is below {}", self.range.start()),
            Fault::TooLarge => "is too large".to_owned(),
        };
        format!("“{repeated}” {fault}; write {kind}{word}")
    }
}

/// Why a field does not take what was typed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Fault {
    Empty,
    /// It is no number, or has a fraction where only whole numbers are taken.
    Kind,
    TooSmall,
    TooLarge,
}

/// A field for any value. A text that is no number changes nothing, and is said. `generation` is the state of the settings.
pub(crate) fn number(ui: &mut Ui, typed: &Typed, value: f64, (width, generation): (f32, u64)) -> (Response, f64) {
    let mut new = value;
    let read: RefCell<Option<(String, Option<Fault>)>> = RefCell::default();
    let escaped = Id::unique(("left by Escape", typed.key));
    let is_taken_back = ui.data(|data| data.get_temp(escaped).unwrap_or(false));
    let mut field = DragValue::new(&mut new)
        .custom_formatter(|v, _| typed.text(v))
        .custom_parser(|text| {
            if is_taken_back {
                return None;
            }
            let number = typed.read(text);
            read.replace(Some((text.to_owned(), number.err())));
            number.ok()
        })
        .range(typed.range.clone())
        .update_while_editing(false)
        .speed(typed.speed);
    if typed.is_whole {
        field = field.max_decimals(0);
    }
    let size = egui::vec2(width, ui.spacing().interact_size.y);
    let response = ui.add_sized(size, field);
    // The toolkit counts a field as left for two frames, and asks for Escape in each of them.
    let by_escape = is_taken_back || ui.input(|input| input.key_pressed(Key::Escape));
    let is_escaped = by_escape && response.lost_focus();
    ui.data_mut(|data| data.insert_temp(escaped, is_escaped));
    match read.into_inner() {
        Some((text, Some(fault))) => {
            let words = (typed.why(&text, fault), typed.text(value));
            refuse(ui.ctx(), (typed.key, typed.name, typed.is_setting), (&words.0, &words.1), generation);
        }
        Some((_, None)) => forget(ui.ctx(), typed.key),
        None if is_escaped => forget(ui.ctx(), typed.key),
        None if response.gained_focus() => forget(ui.ctx(), typed.key),
        None => {}
    }
    (response, if typed.is_whole { new.round() } else { new })
}

/// Says why a field does not take what was typed, and that its value is still what is `shown`.
pub(crate) fn refuse(
    ctx: &Context,
    (key, name, is_setting): (&'static str, &str, bool),
    (why, shown): (&str, &str),
    generation: u64,
) {
    let words = format!("{name}: {why}. It is still {shown}.");
    let refused = Refused { key, words, is_setting, generation, at: ctx.input(|input| input.time) };
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

/// The same of a text that was typed over a setting.
pub(crate) fn refused_setting(ctx: &Context, generation: u64) -> Option<String> {
    known(ctx, generation).filter(|known| known.is_setting).map(|known| known.words)
}

/// The words for the last text of all, where it was refused a moment ago: by the click or the key that acts on it now, or the first click of two.
pub(crate) fn just_refused(ctx: &Context, generation: u64) -> Option<String> {
    let now = ctx.input(|input| input.time);
    known(ctx, generation).filter(|known| now < known.at + MOMENT).map(|known| known.words)
}

fn known(ctx: &Context, generation: u64) -> Option<Refused> {
    ctx.data(|data| data.get_temp::<Refused>(id())).filter(|known| known.generation == generation)
}

#[cfg(test)]
mod tests {
    use super::*;

    const COUNT: Typed = Typed {
        key: "count",
        name: "Count",
        zero: None,
        is_whole: true,
        range: 1.0..=2000.0,
        is_setting: false,
        speed: 1.0,
    };

    #[test]
    fn a_typed_number_may_have_gaps_and_a_word_may_stand_for_zero() {
        let off = Typed { zero: Some("off"), is_whole: false, range: RANGE, ..COUNT };
        assert_eq!([off.read("off"), off.read("3e-4"), off.read("12 345")], [Ok(0.0), Ok(3e-4), Ok(12345.0)]);
        assert_eq!(
            (off.text(0.0), off.text(3e-4), off.text(0.5)),
            ("off".to_owned(), "3e-4".to_owned(), "0.5".to_owned())
        );
    }

    #[test]
    fn what_is_not_taken_says_why() {
        let why = |text: &str| COUNT.read(text).map_err(|fault| COUNT.why(text, fault));
        assert_eq!(why("17"), Ok(17.0));
        let told = [" ", "1.5", "nan", "0", "2001"].map(|text| why(text).expect_err("it cannot be"));
        assert_eq!(
            told,
            [
                "the field was left empty; write a whole number",
                "“1.5” is not a whole number; write a whole number",
                "“nan” is not a whole number; write a whole number",
                "“0” is too small; write 1 or more",
                "“2001” is too large; write 2\u{a0}000 or less",
            ]
        );
    }
}
