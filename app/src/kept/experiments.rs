//! Settings of kept experiments that cannot be read: a kept experiment is read setting by setting, and one that cannot be
//! read has its default.
//!
//! Always holds: an experiment that lost something is handed back as it was, with what it lost.

use serde_json::Value;

use super::salvage::Lost;

/// The experiments in `kept`, a state that was read from `text`, that are not all of what `text` says.
pub(super) fn lost(text: &Value, kept: &Value) -> Vec<Lost> {
    let mut lost = Vec::new();
    walk("", text, kept, &mut lost);
    lost
}

fn walk(name: &str, text: &Value, kept: &Value, lost: &mut Vec<Lost>) {
    match (text, kept) {
        (Value::Object(text), Value::Object(kept)) => {
            for (key, text) in text {
                let inner = if name.is_empty() { key.clone() } else { format!("{name}.{key}") };
                kept.get(key).into_iter().for_each(|kept| walk(&inner, text, kept, lost));
            }
        }
        // Items may be left out, and the others are then at other places.
        (Value::Array(text), Value::Array(kept)) if text.len() == kept.len() => {
            text.iter()
                .zip(kept)
                .enumerate()
                .for_each(|(at, (text, kept))| walk(&format!("{name}[{at}]"), text, kept, lost));
        }
        (Value::String(text), Value::String(kept)) if text != kept => {
            if let Some(why) = why(text, kept) {
                lost.push(Lost { name: name.to_owned(), value: Value::String(text.clone()), why });
            }
        }
        _ => {}
    }
}

/// What an experiment of this text has not become; `None` if nothing is lost, or if it is no experiment.
fn why(text: &str, kept: &str) -> Option<String> {
    let kept: toml::Table = kept.parse().ok().filter(|table: &toml::Table| table.contains_key("version"))?;
    let text: toml::Table = match text.parse() {
        Ok(table) => table,
        Err(error) => return Some(error.message().to_owned()),
    };
    // An earlier version had other names for some settings, and those are read.
    if text.get("version").and_then(toml::Value::as_integer) < kept["version"].as_integer() {
        return None;
    }
    let mut other = Vec::new();
    for (group, value) in &text {
        match (value, kept.get(group)) {
            (toml::Value::Table(settings), Some(toml::Value::Table(kept))) => {
                let changed = settings.iter().filter(|(name, value)| kept.get(*name) != Some(value));
                other.extend(changed.map(|(name, _)| format!("{group}.{name}")));
            }
            (value, kept) if kept != Some(value) => other.push(group.clone()),
            _ => {}
        }
    }
    (!other.is_empty()).then(|| format!("only {} of it, which is not known here", other.join(", ")))
}

#[cfg(test)]
mod tests {
    use plimsoll_engine::{Experiment, experiment::OptimizerKind};

    use super::*;

    /// What is lost of an experiment after a change of its text.
    fn after(change: impl Fn(&str) -> String) -> Vec<Lost> {
        let mut experiment = Experiment { budget: plimsoll_engine::Bytes::mib(5), ..Experiment::default() };
        (experiment.optimizer.kind, experiment.optimizer.weight_decay) = (OptimizerKind::Lion, 1e-3);
        let whole = serde_json::to_value(&experiment).expect("a text");
        let text = Value::String(change(whole.as_str().expect("a text")));
        let kept: Experiment = serde_json::from_value(text.clone()).expect("it refuses nothing");
        let state = |value: Value| serde_json::json!({ "drafts": [{ "experiment": value }], "path": "version = 3" });
        lost(&state(text), &state(serde_json::to_value(&kept).expect("a text")))
    }

    #[test]
    fn an_experiment_that_is_read_whole_has_lost_nothing() {
        assert!(after(str::to_owned).is_empty());
        assert!(after(|text| text.replacen("version = 2", "version = 1", 1)).is_empty());
        assert!(after(|text| text.replacen("0.001", "1e-3", 1)).is_empty());
    }

    #[test]
    fn what_an_experiment_has_lost_is_named_and_its_text_is_handed_back() {
        let text = |text: &str| text.replacen("\"lion\"", "\"quantum\"", 1);
        let lost = after(text);
        let [Lost { name, value, why }] = &lost[..] else { panic!("{lost:?}") };
        assert_eq!(
            (name.as_str(), why.as_str()),
            ("drafts[0].experiment", "only optimizer.kind of it, which is not known here")
        );
        assert!(value.as_str().expect("its text").contains("\"quantum\""));
        let unknown = after(|text| format!("{text}\n[run_of_tomorrow]\nhow = 1\n"));
        assert!(unknown.len() == 1 && unknown[0].why.contains("run_of_tomorrow"), "{unknown:?}");
        assert_eq!(after(|_| "version = [".to_owned()).len(), 1);
        assert_eq!(after(|text| text.replacen("version = 2", "version = 9", 1)).len(), 1);
    }
}
