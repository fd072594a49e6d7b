//! The names of a model's classes, by the files that hold its weights or lie next to them.
//!
//! Always holds: a name for each number from 0 on, or none at all.

use std::{fs::File, io::Read, path::Path};

use serde_json::{Map, Value};

use super::mapped::Mapped;
use crate::experiment::weights::own;

/// The longest configuration that is read: one of 20,000 classes has 2 MiB.
const MOST: u64 = 16 << 20;
/// Fields of transformers.
const NAMES: &str = "id2label";
const NUMBERS: &str = "label2id";
/// The field of timm.
const OF_TIMM: &str = "label_names";
/// The key under which timm describes an architecture's published weights.
pub(super) const PUBLISHED: &str = "pretrained_cfg";

impl Mapped {
    /// The names of the classes, if a file has them.
    pub(super) fn class_names(&self) -> Option<Vec<String>> {
        own::class_names(&self.facts).or_else(|| in_config(self.config.as_deref()?))
    }
}

/// The names of a `config.json`.
fn in_config(path: &Path) -> Option<Vec<String>> {
    let mut text = String::new();
    File::open(path).ok()?.take(MOST).read_to_string(&mut text).ok()?;
    let fields: Value = serde_json::from_str(&text).ok()?;
    let of_timm = || fields.get(OF_TIMM).or_else(|| fields.get(PUBLISHED)?.get(OF_TIMM));
    let names = fields.get(NAMES).filter(|names| !names.is_null()).or_else(of_timm)?;
    let text = |name: &Value| name.as_str().map(str::to_owned);
    match names {
        Value::Array(names) => names.iter().map(text).collect(),
        Value::Object(names) => (0..names.len()).map(|number| text(names.get(&number.to_string())?)).collect(),
        _ => None,
    }
}

/// The fields of transformers for classes of these names, or without names.
pub(super) fn of_transformers(names: Option<&[String]>, classes: usize) -> [(&'static str, Value); 2] {
    let name = |number: usize| names.map_or_else(|| format!("LABEL_{number}"), |names| names[number].clone());
    let labels: Map<String, Value> = (0..classes).map(|i| (i.to_string(), name(i).into())).collect();
    let numbers: Map<String, Value> = (0..classes).map(|i| (name(i), i.into())).collect();
    [(NAMES, labels.into()), (NUMBERS, numbers.into())]
}

/// Adds the names of the classes to the fields of timm, in place of any that were there.
pub(super) fn put_for_timm(fields: &mut Map<String, Value>, names: Option<&[String]>) {
    const STALE: [&str; 2] = [OF_TIMM, "label_descriptions"];
    STALE.iter().for_each(|name| drop(fields.remove(*name)));
    if let Some(published) = fields.get_mut(PUBLISHED).and_then(Value::as_object_mut) {
        STALE.iter().for_each(|name| drop(published.remove(*name)));
    }
    if let Some(names) = names {
        fields.insert(OF_TIMM.to_owned(), names.into());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_found_as_transformers_and_timm_write_them() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("config.json");
        let of = |text: &str| {
            std::fs::write(&path, text).expect("writable");
            in_config(&path)
        };
        let found = Some(vec!["cat".to_owned(), "dog".to_owned()]);
        assert_eq!(of(r#"{"id2label": {"1": "dog", "0": "cat"}}"#), found);
        assert_eq!(of(r#"{"label_names": ["cat", "dog"]}"#), found);
        assert_eq!(of(r#"{"pretrained_cfg": {"label_names": {"0": "cat", "1": "dog"}}}"#), found);
        // A number without a name, and no names.
        assert_eq!(of(r#"{"id2label": {"0": "cat", "2": "dog"}}"#), None);
        assert_eq!(of(r#"{"id2label": null, "label_names": [1]}"#), None);
        assert_eq!(of("["), None);
    }

    #[test]
    fn names_of_the_weights_before_go_from_what_timm_reads() {
        let text = r#"{"label_names": ["a"], "pretrained_cfg": {"label_names": ["a"], "mean": [1]}}"#;
        let mut fields: Map<String, Value> = serde_json::from_str(text).expect("an object");
        put_for_timm(&mut fields, None);
        assert_eq!(Value::from(fields.clone()).to_string(), r#"{"pretrained_cfg":{"mean":[1]}}"#);
        put_for_timm(&mut fields, Some(&["b".to_owned()]));
        assert_eq!(fields[OF_TIMM], serde_json::json!(["b"]));
    }
}
