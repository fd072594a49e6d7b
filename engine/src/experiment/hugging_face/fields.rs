//! The text of a `config.json` as its fields.
//!
//! Owns [`read`]. Always holds: each field of the result was given once. Refuses text that is not JSON or not an object, and
//! a field that is given twice, because JSON readers silently take the last.

use std::{fmt, path::Path};

use serde::{
    Deserialize, Deserializer,
    de::{MapAccess, Visitor},
};
use serde_json::{Map, Value};

use crate::error::{Error, Result};

/// The fields of a text; `path` is for messages.
pub(super) fn read(text: &str, path: &Path) -> Result<Map<String, Value>> {
    if text.trim().is_empty() {
        return Err(Error::file(path, "is empty; a model's config.json is one object of fields"));
    }
    let Entries(entries) = serde_json::from_str(text).map_err(|error| {
        if error.is_data() {
            return Error::file(path, "is JSON, but not an object of fields, as a model's config.json is");
        }
        // At the end of a line that was not read yet, the reader counts from 0.
        let place = format!("line {}, column {}", error.line(), error.column().max(1));
        let whole = error.to_string();
        let message = whole.split(" at line ").next().unwrap_or(&whole).to_owned();
        Error::file_at(path, place, format!("is not JSON: {message}; a model's config.json is one object of fields"))
    })?;
    let mut fields = Map::new();
    for (name, value) in entries {
        if fields.contains_key(&name) {
            return Err(Error::file_at(path, name, "is given twice; take one of the two out"));
        }
        fields.insert(name, value);
    }
    Ok(fields)
}

/// The entries of an object, in order, with those that are given twice.
struct Entries(Vec<(String, Value)>);

impl<'de> Deserialize<'de> for Entries {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Object;

        impl<'de> Visitor<'de> for Object {
            type Value = Entries;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object of fields")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Entries, A::Error> {
                let mut entries = Vec::new();
                while let Some(entry) = map.next_entry()? {
                    entries.push(entry);
                }
                Ok(Entries(entries))
            }
        }

        deserializer.deserialize_map(Object)
    }
}
