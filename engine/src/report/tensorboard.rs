//! A run as an event file of TensorBoard: its curves as scalars, its description and settings as text, and the settings
//! again for the table of hyperparameters.
//!
//! Owns the file: records with masked CRC-32C sums (TensorFlow's `TFRecord`), each an `Event` of protocol buffers
//! (`tensorboard/compat/proto/event.proto`, `summary.proto`, `plugins/hparams/plugin_data.proto`). Always holds: the first
//! record names the version, and every record is whole. A scalar has the step and the time of its point.

mod proto;

use self::proto::Message;
use crate::report::curves::{Curve, Curves, Group};

/// The part of a file's name that TensorBoard looks for.
pub const FILE_NAME: &str = "events.out.tfevents.plimsoll";

/// The description of a run in an event file, in addition to its curves.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct About {
    /// Its name.
    pub name: String,
    /// Its description, in Markdown.
    pub description: String,
    /// The run's preset.
    pub preset: String,
    /// The run's settings: keys with values as in a preset.
    pub settings: Vec<(String, String)>,
}

/// Kinds of tensor elements (`tensorboard/compat/proto/types.proto`).
const FLOAT: u64 = 1;
const STRING: u64 = 7;
/// The kinds of data (`DataClass` of `summary.proto`).
const SCALAR_CLASS: u64 = 1;
const TENSOR_CLASS: u64 = 2;
/// The hyperparameters' plugin and its tags.
const HPARAMS: &str = "hparams";
const SESSION: &str = "_hparams_/session_start_info";
const EXPERIMENT: &str = "_hparams_/experiment";

/// The bytes of the event file.
pub fn events(curves: &Curves, about: &About) -> Vec<u8> {
    let began = curves.began_secs.unwrap_or_default();
    let mut file = Vec::new();
    record(&mut file, &Message::new().double(1, began).text(3, "brain.Event:2"));
    for (tag, text) in [("description", &about.description), ("preset", &fenced(&about.preset))] {
        if !text.is_empty() {
            summary(&mut file, began, 0, text_value(tag, text));
        }
    }
    if !about.settings.is_empty() {
        summary(&mut file, began, 0, plugin_value(EXPERIMENT, &experiment(curves, about, began)));
        summary(&mut file, began, 0, plugin_value(SESSION, &session(about, began)));
    }
    for (group, curve) in curves.iter() {
        scalars(&mut file, group, curve, began);
    }
    file
}

/// A preset in Markdown, as it is.
fn fenced(preset: &str) -> String {
    if preset.is_empty() { String::new() } else { format!("```toml\n{preset}\n```") }
}

fn scalars(file: &mut Vec<u8>, group: &Group, curve: &Curve, began: f64) {
    let points = group.steps.iter().zip(&group.secs).zip(&curve.values);
    for (i, ((step, secs), value)) in points.enumerate() {
        let mut message = Message::new().text(1, &curve.name).float(2, *value as f32);
        if i == 0 {
            let plugin = Message::new().text(1, "scalars");
            let metadata = Message::new().message(1, &plugin).text(3, &curve.about).number(4, SCALAR_CLASS);
            message = message.message(9, &metadata);
        }
        summary(file, began + secs, *step, message);
    }
}

fn text_value(tag: &str, text: &str) -> Message {
    let tensor = Message::new().number(1, STRING).message(2, &Message::new()).bytes(8, text.as_bytes());
    let plugin = Message::new().text(1, "text");
    let metadata = Message::new().message(1, &plugin).number(4, TENSOR_CLASS);
    Message::new().text(1, tag).message(8, &tensor).message(9, &metadata)
}

/// A value of the hyperparameters' plugin: all of it stands in the plugin's own data.
fn plugin_value(tag: &str, content: &Message) -> Message {
    let plugin = Message::new().text(1, HPARAMS).message(2, content);
    let metadata = Message::new().message(1, &plugin).number(4, TENSOR_CLASS);
    // The loader drops values without a tensor.
    let tensor = Message::new().number(1, FLOAT).message(2, &Message::new()).float_list(5, &[0.0]);
    Message::new().text(1, tag).message(8, &tensor).message(9, &metadata)
}

/// Which hyperparameters there are, and which curves judge them.
fn experiment(curves: &Curves, about: &About, began: f64) -> Message {
    let mut experiment = Message::new().double(3, began);
    for (key, value) in &about.settings {
        let kind = match Setting::of(value) {
            Setting::Text(_) => 1,
            Setting::Bool(_) => 2,
            Setting::Number(_) => 3,
        };
        experiment = experiment.message(4, &Message::new().text(1, key).number(4, kind));
    }
    for (_, curve) in curves.iter() {
        let name = Message::new().text(2, &curve.name);
        experiment = experiment.message(5, &Message::new().message(1, &name));
    }
    Message::new().message(2, &experiment)
}

/// The hyperparameters of this run.
fn session(about: &About, began: f64) -> Message {
    let mut session = Message::new();
    for (key, value) in &about.settings {
        let value = match Setting::of(value) {
            Setting::Number(number) => Message::new().double(2, number),
            Setting::Text(text) => Message::new().text(3, text),
            Setting::Bool(is_so) => Message::new().number_or_zero(4, u64::from(is_so)),
        };
        session = session.message(1, &Message::new().text(1, key).message(2, &value));
    }
    session = session.text(4, &about.name).double(5, began);
    Message::new().message(3, &session)
}

/// A value of a preset.
enum Setting<'a> {
    Number(f64),
    Text(&'a str),
    Bool(bool),
}

impl<'a> Setting<'a> {
    fn of(value: &'a str) -> Self {
        match (value, value.parse()) {
            ("true" | "false", _) => Self::Bool(value == "true"),
            (_, Ok(number)) => Self::Number(number),
            _ => Self::Text(value.trim_matches('"')),
        }
    }
}

fn summary(file: &mut Vec<u8>, secs: f64, step: u64, value: Message) {
    let summary = Message::new().message(1, &value);
    record(file, &Message::new().double(1, secs).number(2, step).message(5, &summary));
}

/// Adds a record: its length with a sum, then its bytes with theirs.
fn record(file: &mut Vec<u8>, event: &Message) {
    let (bytes, length) = (event.encoded(), (event.encoded().len() as u64).to_le_bytes());
    file.extend(length);
    file.extend(masked(crc32c(&length)).to_le_bytes());
    file.extend(bytes);
    file.extend(masked(crc32c(bytes)).to_le_bytes());
}

/// A sum of bytes that hold sums themselves is weak, so the format turns each.
fn masked(sum: u32) -> u32 {
    sum.rotate_right(15).wrapping_add(0xa282_ead8)
}

/// CRC-32C (Castagnoli), as RFC 3720 defines it.
fn crc32c(bytes: &[u8]) -> u32 {
    let step = |sum: u32, byte: &u8| (sum >> 8) ^ TABLE[((sum ^ u32::from(*byte)) & 0xff) as usize];
    !bytes.iter().fold(!0, step)
}

const TABLE: [u32; 256] = {
    let mut table = [0; 256];
    let mut i = 0;
    while i < 256 {
        let (mut sum, mut bit) = (i as u32, 0);
        while bit < 8 {
            sum = (sum >> 1) ^ (if sum & 1 == 1 { 0x82f6_3b78 } else { 0 });
            bit += 1;
        }
        table[i] = sum;
        i += 1;
    }
    table
};

#[cfg(test)]
mod tests;
