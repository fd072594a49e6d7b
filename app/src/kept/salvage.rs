//! What can be read of a kept state in which something cannot: entry by entry.
//!
//! Always holds: an entry that can be read is there; one that cannot is handed back as it was, with the reason.

use serde_json::{Map, Value};

use super::experiments;
use crate::app::PersistedState;

/// Entries of which each part can be left out by itself.
const OF_PARTS: [&str; 2] = ["view", "budgets"];

/// Why an entry is lost that is sound in itself.
const UNKNOWN: &str = "not known to this version of the program";

/// An entry that cannot be read.
#[derive(Debug)]
pub(super) struct Lost {
    /// Its name in the file.
    pub(super) name: String,
    /// What was there.
    pub(super) value: Value,
    /// Why it cannot be read.
    pub(super) why: String,
}

/// Reads a state, and what of it cannot be read.
///
/// # Errors
/// Text that is no state at all.
pub(super) fn read(text: &str) -> Result<(PersistedState, Vec<Lost>), String> {
    let whole: Value = serde_json::from_str(text).map_err(|error| error.to_string())?;
    // A list could stand for the entries in their order, but no version of the program wrote one.
    let why = match serde_json::from_str(text) {
        Ok(_) if !whole.is_object() => "it has no entries with names".to_owned(),
        Ok(state) => return Ok(with_lost_settings(&whole, state, Vec::new())),
        Err(error) => error.to_string(),
    };
    let Value::Object(entries) = whole else { return Err(why) };
    let (mut sound, mut lost) = (Map::new(), Vec::new());
    for (name, value) in entries {
        if let Some(value) = sound_part(&name, value, &mut lost) {
            sound.insert(name, value);
        }
    }
    let sound = Value::Object(sound);
    let state = serde_json::from_value(sound.clone()).map_err(|error| error.to_string())?;
    Ok(with_lost_settings(&sound, state, lost))
}

/// A state that was read from `text`, with what its experiments lost and the entries that another version of the program wrote.
fn with_lost_settings(text: &Value, state: PersistedState, mut lost: Vec<Lost>) -> (PersistedState, Vec<Lost>) {
    let kept = serde_json::to_value(&state).unwrap_or_default();
    lost.extend(experiments::lost(text, &kept));
    let state = if lost.iter().any(|lost| lost.name == "pin") { state.without_pin() } else { state };
    let unknown = text.as_object().into_iter().flatten().filter(|(name, _)| kept.get(name).is_none());
    lost.extend(unknown.map(|(name, value)| Lost {
        name: name.clone(),
        value: value.clone(),
        why: UNKNOWN.to_owned(),
    }));
    (state, lost)
}

/// The part of an entry that can be read.
fn sound_part(name: &str, value: Value, lost: &mut Vec<Lost>) -> Option<Value> {
    let of_state = |value: Value| {
        let state = Value::Object(Map::from_iter([(name.to_owned(), value)]));
        serde_json::from_value::<PersistedState>(state).map(drop).map_err(|error| error.to_string())
    };
    let Err(why) = of_state(value.clone()) else { return Some(value) };
    let mut keep = |name: String, value: Value, alone: Value| match of_state(alone) {
        Ok(()) => Some(value),
        Err(why) => {
            lost.push(Lost { name, value, why });
            None
        }
    };
    match value {
        Value::Object(parts) if OF_PARTS.contains(&name) => {
            let part = |(key, value): (String, Value)| {
                let alone = Value::Object(Map::from_iter([(key.clone(), value.clone())]));
                Some((key.clone(), keep(format!("{name}.{key}"), value, alone)?))
            };
            Some(Value::Object(parts.into_iter().filter_map(part).collect()))
        }
        Value::Array(items) if of_state(Value::Array(Vec::new())).is_ok() => {
            let item =
                |(at, value): (usize, Value)| keep(format!("{name}[{at}]"), value.clone(), Value::Array(vec![value]));
            Some(Value::Array(items.into_iter().enumerate().filter_map(item).collect()))
        }
        value => {
            lost.push(Lost { name: name.to_owned(), value, why });
            None
        }
    }
}
