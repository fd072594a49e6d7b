//! An experiment as another program's file holds it, such as the window's memory of its last session: the text of a preset
//! with every setting, used or not, and possible or not.
//!
//! Always holds: a remembered experiment comes back equal. Refuses nothing: a setting that cannot be read keeps its default.
//! The form of earlier versions, a map of groups, is read as well.

use serde::{
    Deserialize, Deserializer, Serialize, Serializer,
    de::{MapAccess, Visitor},
};
use toml_edit::{Document, TableLike, Value};

use super::text_with;
use crate::experiment::{Experiment, VERSION, settings::find};

impl Serialize for Experiment {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&text_with(|setting| setting.write(self)))
    }
}

impl<'de> Deserialize<'de> for Experiment {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(Remembered)
    }
}

struct Remembered;

impl<'de> Visitor<'de> for Remembered {
    type Value = Experiment;

    fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("a preset")
    }

    fn visit_str<E>(self, text: &str) -> Result<Experiment, E> {
        let mut experiment = Experiment::default();
        if let Ok(document) = Document::parse(text) {
            take(&mut experiment, "", document.as_table());
        }
        Ok(Experiment { version: VERSION, ..experiment })
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Experiment, A::Error> {
        let mut experiment = Experiment::default();
        while let Some((name, value)) = map.next_entry::<String, serde_json::Value>()? {
            match value {
                serde_json::Value::Object(group) => group.iter().for_each(|(key, value)| {
                    put(&mut experiment, &format!("{name}.{key}"), toml(value).as_ref());
                }),
                value => put(&mut experiment, &name, toml(&value).as_ref()),
            }
        }
        Ok(Experiment { version: VERSION, ..experiment })
    }
}

fn take(experiment: &mut Experiment, group: &str, table: &dyn TableLike) {
    for (name, item) in table.iter() {
        match item.as_table_like() {
            Some(table) if group.is_empty() => take(experiment, name, table),
            _ if group.is_empty() => put(experiment, name, item.as_value()),
            _ => put(experiment, &format!("{group}.{name}"), item.as_value()),
        }
    }
}

fn put(experiment: &mut Experiment, key: &str, value: Option<&Value>) {
    if let (Some(setting), Some(value)) = (find(key), value) {
        // A setting that cannot be read keeps its default.
        let _ = setting.read(experiment, key, value);
    }
}

fn toml(value: &serde_json::Value) -> Option<Value> {
    match value {
        serde_json::Value::Bool(is_so) => Some(Value::from(*is_so)),
        serde_json::Value::Number(n) => n.as_i64().map(Value::from).or_else(|| n.as_f64().map(Value::from)),
        serde_json::Value::String(text) => Some(Value::from(text.as_str())),
        _ => None,
    }
}
