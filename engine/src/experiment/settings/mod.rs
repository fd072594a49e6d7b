//! The settings: the facts about each field of an experiment that the preset format, the command line and the checks use.
//!
//! Owns [`settings!`], which writes a group's struct, its defaults and a row for each field in one place: the row has the
//! field's effect, its limits, when it is used and its earlier name. Reading, writing, `--set`, the list of keys and the
//! checks of ranges all go by the rows. Always holds: every field has a row, because the macro makes both.
//! [`check`](super::check) has the rules for several settings together.

mod field;
mod limits;
mod number;
mod paragraph;
mod rule;

use std::any::Any;

use toml_edit::Value;

use self::rule::Decides;
pub(crate) use self::{
    field::{Field, quoted},
    limits::Limits,
    number::Number,
    rule::{Bears, KERNELS, NOTHING, Rule, SIZES},
};
use crate::{error::Problem, experiment::Experiment, suggest::meant};

/// The fault of a value, and the valid values.
pub(crate) type Wrong = (String, String);

/// One setting: a key of the preset format, its field and its rule.
///
/// # Examples
///
/// ```
/// use plimsoll_engine::{Experiment, experiment::{Precision, Setting}};
///
/// let mut experiment = Experiment::default();
/// let width = Setting::of("model.width").expect("a key");
/// width.set_number(&mut experiment, 96.0);
/// assert_eq!(experiment.model.width, 96);
///
/// let precision = Setting::of("precision").expect("a key");
/// *precision.value_mut(&mut experiment).expect("its type") = Precision::Bf16Mixed;
/// assert_eq!(experiment.precision, Precision::Bf16Mixed);
/// ```
#[derive(Debug)]
pub struct Setting {
    /// The key; a dot parts the group from the name in it.
    pub(crate) key: &'static str,
    pub(crate) get: fn(&Experiment) -> &dyn Field,
    pub(crate) get_mut: fn(&mut Experiment) -> &mut dyn Field,
    pub(crate) rule: Rule,
}

/// Defines a group of settings: the struct, its defaults, and `SETTINGS`, a row for each field. A field is written
/// `/// doc`, `pub name: Type = default, rule;`, where the rule begins with the field's effect.
macro_rules! settings {
    (
        $(#[$about:meta])*
        pub struct $name:ident in $group:ident {
            $($(#[$doc:meta])* pub $field:ident: $type:ty = $default:expr, $rule:expr;)+
        }
    ) => {
        $(#[$about])*
        #[derive(Debug, Clone, PartialEq)]
        pub struct $name {
            $($(#[$doc])* pub $field: $type,)+
        }

        impl $name {
            pub(crate) const SETTINGS: &[$crate::experiment::settings::Setting] = &[
                $($crate::experiment::settings::Setting {
                    key: concat!(stringify!($group), ".", stringify!($field)),
                    get: |e| &e.$group.$field,
                    get_mut: |e| &mut e.$group.$field,
                    rule: $rule,
                },)+
            ];
        }

        impl Default for $name {
            fn default() -> Self {
                Self { $($field: $default,)+ }
            }
        }
    };
    (
        $(#[$about:meta])*
        pub struct $name:ident {
            $($(#[$doc:meta])* pub $field:ident: $type:ty = $default:expr, $rule:expr;)+
        } and {
            $($(#[$group_doc:meta])* pub $group:ident: $group_type:ty,)+
        }
    ) => {
        $(#[$about])*
        #[derive(Debug, Clone, PartialEq)]
        pub struct $name {
            $($(#[$doc])* pub $field: $type,)+
            $($(#[$group_doc])* pub $group: $group_type,)+
        }

        impl $name {
            /// The settings of the top level and of each group, in the order of the format.
            pub(crate) const SETTINGS: &[&[$crate::experiment::settings::Setting]] = &[
                &[$($crate::experiment::settings::Setting {
                    key: stringify!($field),
                    get: |e| &e.$field,
                    get_mut: |e| &mut e.$field,
                    rule: $rule,
                },)+],
                $(<$group_type>::SETTINGS,)+
            ];
        }

        impl Default for $name {
            fn default() -> Self {
                Self { $($field: $default,)+ $($group: <$group_type>::default(),)+ }
            }
        }
    };
}

pub(crate) use settings;

/// Every setting, in the order of the format.
pub(crate) fn all() -> impl Iterator<Item = &'static Setting> {
    Experiment::SETTINGS.iter().copied().flatten()
}

/// The setting of a key, or of one that it had before.
pub(crate) fn find(key: &str) -> Option<&'static Setting> {
    Setting::of(key).or_else(|| all().find(|setting| setting.rule.former_key == Some(key)))
}

impl Setting {
    /// The setting of a key such as `model.width`.
    pub fn of(key: &str) -> Option<&'static Self> {
        all().find(|setting| setting.key == key)
    }

    /// The number that `e` holds; of a size, the MiB. `None` if it holds none.
    pub fn number(&self, e: &Experiment) -> Option<f64> {
        Some(match (self.get)(e).number()? {
            Number::Size(bytes) => bytes.as_mib(),
            number => number.real(),
        })
    }

    /// Sets the setting to `number`; for a size, to this many MiB. A setting of whole numbers takes the nearest one. A setting
    /// that is not a number stays as it is.
    pub fn set_number(&self, e: &mut Experiment, number: f64) {
        (self.get_mut)(e).set_number(number);
    }

    /// Whether the numbers that `e` may hold are whole.
    pub fn is_whole(&self, e: &Experiment) -> bool {
        !matches!((self.get)(e).number(), Some(Number::Real(_) | Number::Size(_)))
    }

    /// The setting's value, if `T` is its type.
    pub fn value<'a, T: 'static>(&self, e: &'a Experiment) -> Option<&'a T> {
        let field: &dyn Any = (self.get)(e);
        field.downcast_ref()
    }

    /// The setting's value to be changed, if `T` is its type.
    pub fn value_mut<'a, T: 'static>(&self, e: &'a mut Experiment) -> Option<&'a mut T> {
        let field: &mut dyn Any = (self.get_mut)(e);
        field.downcast_mut()
    }

    /// The name within the group.
    pub(crate) fn name(&self) -> &'static str {
        self.key.rsplit_once('.').map_or(self.key, |(_, name)| name)
    }

    /// The group; `""` for the top.
    pub(crate) fn group(&self) -> &'static str {
        self.key.rsplit_once('.').map_or("", |(group, _)| group)
    }

    /// Whether the kinds that `e` chooses make use of it.
    pub fn is_used(&self, e: &Experiment) -> bool {
        (self.rule.is_used)(e)
    }

    /// Takes a value, which may be a word of an earlier version, from under `key`, which may be an earlier one. Returns a
    /// note if a name is no longer the present one.
    ///
    /// # Errors
    /// Fails for a value of the wrong type.
    pub(crate) fn read(&self, e: &mut Experiment, key: &str, value: &Value) -> Result<Option<String>, Wrong> {
        let former = self.rule.former_words.iter().find(|(word, _)| value.as_str() == Some(word));
        let present = former.map_or_else(|| value.clone(), |(_, now)| from_text(now));
        let field = (self.get_mut)(e);
        if !field.read(&present) {
            let most = self.most();
            return Err(field
                .too_large(value, most.as_deref())
                .unwrap_or_else(|| wrong(&*field, value, most.as_deref())));
        }
        let given = value.to_string();
        let given = given.trim();
        if key != self.key || former.is_some() {
            let now = field.write().unwrap_or_default();
            return Ok(Some(format!("{key} = {given} is called {} = {now} now", self.key)));
        }
        let is_bare = given.trim_matches('"').bytes().all(|byte| byte.is_ascii_digit());
        Ok(match field.number() {
            Some(Number::Size(bytes)) if is_bare && (1..1 << 20).contains(&bytes.0) => {
                Some(format!("{key} = {given} is {} bytes: sizes have a unit, such as \"64 MiB\"", bytes.0))
            }
            _ => None,
        })
    }

    /// The value as TOML; `None` if none of the chosen kinds uses it, is left out, or is at a default that needs no line.
    pub(crate) fn line(&self, e: &Experiment) -> Option<String> {
        if !self.is_used(e) {
            return None;
        }
        let text = self.write(e)?;
        let is_default = || self.write(&Experiment::default()).as_ref() == Some(&text);
        (!(self.rule.is_quiet && is_default())).then_some(text)
    }

    /// The value as TOML; `None` for an option that is not given.
    pub(crate) fn write(&self, e: &Experiment) -> Option<String> {
        let field = (self.get)(e);
        if self.rule.is_paragraph { field.paragraph() } else { field.write() }
    }

    /// The valid values of the setting, in words.
    pub(crate) fn valid(&self, e: &Experiment) -> String {
        (self.get)(e).valid()
    }

    /// Its relation to samples and answers.
    pub(crate) fn bears(&self) -> Bears {
        self.rule.bears
    }

    /// Gives `to` the value that `from` has.
    pub(crate) fn copy(&self, from: &Experiment, to: &mut Experiment) {
        if let Some(text) = self.write(from) {
            (self.get_mut)(to).read(&from_text(&text));
        }
    }

    /// The key that it had before.
    pub(crate) fn former_key(&self) -> Option<&'static str> {
        self.rule.former_key
    }

    /// The most that its limits allow, where they say.
    pub(crate) fn most(&self) -> Option<String> {
        self.rule.limits.high().map(|high| high.to_string())
    }

    /// The problem of its value, if the limits do not allow it.
    pub(crate) fn judge(&self, e: &Experiment) -> Option<Problem> {
        let (message, mend) = self.rule.limits.judge((self.get)(e).number()?)?;
        Some(Problem::new(self.key, message, mend))
    }
}

/// A value from the text after an equals sign: TOML, or a bare word.
pub(crate) fn from_text(text: &str) -> Value {
    text.parse().unwrap_or_else(|_| Value::from(text))
}

fn wrong(field: &dyn Field, value: &Value, most: Option<&str>) -> Wrong {
    match value.as_str() {
        Some(text) if !field.words().is_empty() => {
            let near = meant(text, field.words());
            let near = near.map(|near| format!("did you mean \"{near}\"? ")).unwrap_or_default();
            (format!("\"{text}\" is not one of its values"), near + &field.valid())
        }
        text => text.and_then(|text| too_large(text, most)).unwrap_or_else(|| (field::describe(value), field.valid())),
    }
}

/// The fault of a text with a whole number that no field holds; `most` is the largest that the setting's limits allow.
pub(crate) fn too_large(text: &str, most: Option<&str>) -> Option<Wrong> {
    let digits = text.trim_start_matches(['+', '-']);
    let is_whole = !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit() || byte == b'_');
    let most = || most.map_or_else(|| i64::MAX.to_string(), str::to_owned);
    (is_whole && text.replace('_', "").parse::<i64>().is_err())
        .then(|| (format!("{text} is too large for a whole number"), format!("write {} or less", most())))
}

/// How exactly two steps are to be alike.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Likeness {
    /// The same kernels on tensors of the same sizes.
    Exact,
    /// The same kernels of this program, on tensors of any size.
    AtAnySize,
}

/// Everything that decides the kernels of a step, as text: experiments with the same text take the same steps. Settings that
/// no chosen kind uses are in it too.
pub(crate) fn step(e: &Experiment, likeness: Likeness) -> String {
    let decided = |setting: &&Setting| {
        let Rule { decides, is_switch, .. } = setting.rule;
        let is_exact = decides == Decides::Kernels || (decides == Decides::Sizes && likeness == Likeness::Exact);
        let field = (setting.get)(e);
        match is_switch && !is_exact {
            true => Some((field.number().is_some_and(|number| !number.is_zero())).to_string()),
            false if is_exact => field.write(),
            false => None,
        }
    };
    all().filter_map(|setting| Some(format!("{} = {}\n", setting.key, decided(&setting)?))).collect()
}

/// Whether `name` is a group.
pub(crate) fn is_group(name: &str) -> bool {
    !name.is_empty() && all().any(|setting| setting.group() == name)
}

/// The names of a group's keys; for the top (`""`), the groups as well.
pub(crate) fn names_in(group: &str) -> Vec<&'static str> {
    let mut names: Vec<&str> = all()
        .filter_map(|setting| match setting.group() {
            of if of == group => Some(setting.name()),
            of => group.is_empty().then_some(of),
        })
        .collect();
    names.dedup();
    names
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;
    use crate::suggest::nearest;

    #[test]
    fn no_key_has_two_meanings() {
        let mut keys = HashSet::new();
        for setting in all() {
            assert!(keys.insert(setting.key), "{} twice", setting.key);
        }
        for former in all().filter_map(|setting| setting.rule.former_key) {
            assert!(keys.insert(former), "{former} means something now");
        }
    }

    #[test]
    fn what_a_setting_bears_on_is_of_its_group() {
        for setting in all() {
            let groups: &[&str] = match setting.bears() {
                Bears::Meaning => continue,
                Bears::Feeding | Bears::Variation | Bears::Scale | Bears::Reading => &["data"],
                Bears::Training => &["model", "lora"],
                Bears::Computing | Bears::Effect => &["model"],
                Bears::Derived => &["low_rank"],
            };
            assert!(groups.contains(&setting.group()), "{}: {:?}", setting.key, setting.bears());
        }
    }

    #[test]
    fn a_value_is_copied_as_it_is() {
        let (from, mut to) = (Experiment::default(), Experiment::default());
        for (key, value) in
            [("model.dropout", "0.30000000000000004"), ("model.attention", "plain"), ("data.label", "a, b")]
        {
            let setting = Setting::of(key).expect("a setting");
            crate::experiment::preset::set(&mut to, &format!("{key}={value}")).expect("a value");
            let mut copy = from.clone();
            setting.copy(&to, &mut copy);
            assert_eq!(setting.write(&copy), setting.write(&to), "{key}");
            assert_ne!(setting.write(&copy), setting.write(&from), "{key}");
        }
    }

    #[test]
    fn every_former_word_means_a_value_of_its_setting() {
        for setting in all() {
            for (word, now) in setting.rule.former_words {
                let mut experiment = Experiment::default();
                let read = setting.read(&mut experiment, setting.key, &Value::from(*word));
                assert!(matches!(read, Ok(Some(_))), "{} = {word}: {read:?}", setting.key);
                assert_eq!(setting.write(&experiment), Some(from_text(now).to_string()), "{}", setting.key);
            }
        }
    }

    #[test]
    fn a_slip_of_the_finger_finds_its_key() {
        assert_eq!(nearest("mirco", names_in("batch")), Some("micro"));
        assert_eq!(nearest("modle", names_in("")), Some("model"));
        assert_eq!(nearest("zzzz", names_in("")), None);
    }
}
