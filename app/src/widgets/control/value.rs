//! The value that a control edits: a number or one of a few, and its place in the experiment.

use plimsoll_engine::{Bytes, Experiment, experiment::Setting};

use crate::format;

/// The specification of a control: its key in the preset, its name, and two sentences of help.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Spec {
    /// The key in the preset.
    pub(crate) key: &'static str,
    /// The name on screen.
    pub(crate) name: &'static str,
    /// Its effect on memory and time.
    pub(crate) help: &'static str,
}

/// A number, and where its slider stops.
#[derive(Clone, Copy)]
pub(crate) struct Number {
    /// The values that the slider stops at, rising.
    pub(crate) stops: &'static [f64],
    /// The word for zero, where zero means something else than a number.
    pub(crate) zero: Option<&'static str>,
    /// Where the value lies.
    pub(crate) place: Place<f64>,
}

/// One of a few.
pub(crate) struct Choice<T: 'static> {
    /// The choices with their names, from the least memory to the most if there is such an order.
    pub(crate) options: &'static [(T, &'static str)],
    /// Where the value lies.
    pub(crate) place: Place<T>,
}

/// Where the value of a control lies.
#[derive(Clone, Copy)]
pub(crate) enum Place<T: 'static> {
    /// In the setting of the control's key: the engine's table of settings reads and writes it.
    Setting,
    /// Elsewhere: in a part of a setting, or in a setting whose change brings others along. A number is a whole one.
    Own {
        /// Reads it.
        get: fn(&Experiment) -> T,
        /// Writes it.
        set: fn(&mut Experiment, T),
    },
}

/// The setting that `spec` controls.
fn setting(spec: Spec) -> &'static Setting {
    Setting::of(spec.key).expect("the key of a control is a setting's, unless the control says where its value lies")
}

impl Number {
    /// The present value.
    pub(crate) fn get(&self, spec: Spec, experiment: &Experiment) -> f64 {
        match self.place {
            Place::Setting => match setting(spec).value::<Bytes>(experiment) {
                Some(bytes) => shortest_mib(*bytes),
                None => setting(spec).number(experiment).unwrap_or_default(),
            },
            Place::Own { get, .. } => get(experiment),
        }
    }

    /// Makes `value` the present one.
    pub(crate) fn set(&self, spec: Spec, experiment: &mut Experiment, value: f64) {
        match self.place {
            Place::Setting => setting(spec).set_number(experiment, value),
            Place::Own { set, .. } => set(experiment, value),
        }
    }

    /// Whether only whole numbers can be typed.
    pub(crate) fn is_whole(&self, spec: Spec, experiment: &Experiment) -> bool {
        match self.place {
            Place::Setting => setting(spec).is_whole(experiment),
            Place::Own { .. } => true,
        }
    }

    /// `value` as it is shown.
    pub(crate) fn text(&self, value: f64, is_whole: bool) -> String {
        text(value, self.zero, is_whole)
    }
}

/// `value` as it is shown, with the word for zero.
pub(super) fn text(value: f64, zero: Option<&str>, is_whole: bool) -> String {
    match zero {
        Some(word) if value == 0.0 => word.to_owned(),
        _ if is_whole => format::count(value.round().max(0.0) as u64),
        _ if value != 0.0 && value.abs() < 1e-3 => format!("{value:e}"),
        _ => format!("{value}"),
    }
}

/// The MiB of the fewest decimals that are these bytes: what was typed, and not what a whole number of bytes makes of it.
fn shortest_mib(bytes: Bytes) -> f64 {
    let rounded = |decimals| {
        let scale = 10_f64.powi(decimals);
        (bytes.as_mib() * scale).round() / scale
    };
    (0..=7).map(rounded).find(|mib| Bytes::from_mib(*mib) == bytes).unwrap_or(bytes.as_mib())
}

impl<T: Copy + PartialEq> Choice<T> {
    /// The present value.
    pub(crate) fn get(&self, spec: Spec, experiment: &Experiment) -> T {
        match self.place {
            Place::Setting => *setting(spec).value(experiment).expect("the choices of a setting have its type"),
            Place::Own { get, .. } => get(experiment),
        }
    }

    /// Makes `value` the present one.
    pub(crate) fn set(&self, spec: Spec, experiment: &mut Experiment, value: T) {
        match self.place {
            Place::Setting => {
                *setting(spec).value_mut(experiment).expect("the choices of a setting have its type") = value;
            }
            Place::Own { set, .. } => set(experiment, value),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mib_are_shown_as_they_were_typed() {
        for typed in [0.1, 0.25, 12.3, 64.0, 4095.99] {
            assert_eq!(shortest_mib(Bytes::from_mib(typed)), typed);
        }
        for bytes in [1, 1_048_577, 123_456_789] {
            assert_eq!(Bytes::from_mib(shortest_mib(Bytes(bytes))), Bytes(bytes));
        }
    }
}
