//! The files next to a tokenizer that say how texts begin and end: its special tokens, and the template of conversations.
//!
//! Owns [`Special`]. Refuses files that are there and cannot be read. A missing file or field decides nothing.

use std::{
    collections::BTreeMap,
    fs::File,
    io::Read,
    path::{Path, PathBuf},
};

use serde_json::{Map, Value};

use super::template::Template;
use crate::{
    data::file::unreadable,
    error::{Error, Result},
    experiment::weights::CONFIG,
};

/// The settings of a tokenizer.
const SETTINGS: &str = "tokenizer_config.json";
/// The template, if it has a file of its own.
const TEMPLATE: &str = "chat_template.jinja";
/// The longest of these files that is read.
const MOST: u64 = 16 << 20;

/// Tokens that end a text in published vocabularies, if no file says which one does.
const ENDS: [&str; 6] = ["<|endoftext|>", "<|end_of_text|>", "</s>", "<eos>", "<|im_end|>", "[SEP]"];
/// Special tokens that a template may name.
const NAMES: [&str; 5] = ["bos_token", "eos_token", "pad_token", "unk_token", "sep_token"];

/// The special tokens of a tokenizer.
#[derive(Debug, Default)]
pub(super) struct Special {
    /// The token that ends a text.
    pub(super) end: Option<u32>,
    /// The end of a text that the settings name, if it is not a token.
    pub(super) unknown_end: Option<String>,
    /// The template that renders conversations.
    pub(super) template: Option<Template>,
    /// The checksum of the settings and the template that decide how texts end and conversations are rendered.
    pub(super) checksum: u32,
}

/// The files of `folder` that are read in addition to the tokenizer.
pub(super) fn files(folder: &Path) -> [PathBuf; 3] {
    [SETTINGS, TEMPLATE, CONFIG].map(|name| folder.join(name))
}

impl Special {
    /// Reads the files in `folder`; `id_of` is the number of a token.
    ///
    /// # Errors
    /// Fails for files that cannot be read, or are not in the format that their names say.
    pub(super) fn read(folder: &Path, id_of: impl Fn(&str) -> Option<u32>) -> Result<Self> {
        let settings = object(&folder.join(SETTINGS))?.unwrap_or_default();
        let named = |name: &&str| {
            let token = settings.get(*name)?;
            let text = token.as_str().or_else(|| token.get("content")?.as_str())?;
            Some(((*name).to_owned(), text.to_owned()))
        };
        let tokens: BTreeMap<String, String> = NAMES.iter().filter_map(named).collect();
        let named_end = tokens.get("eos_token").and_then(|token| id_of(token));
        let end = match named_end {
            Some(end) => Some(end),
            None => end_of_model(&folder.join(CONFIG))?.or_else(|| ENDS.into_iter().find_map(&id_of)),
        };
        let unknown_end = tokens.get("eos_token").filter(|_| named_end.is_none()).cloned();
        let mut hasher = crc32fast::Hasher::new();
        hasher.update(format!("{end:?}").as_bytes());
        let template = match template_of(folder, &settings)? {
            Some((text, path)) => {
                hasher.update(format!("{text}{tokens:?}").as_bytes());
                Some(Template::new(&text, &path, tokens)?)
            }
            None => None,
        };
        Ok(Self { end, unknown_end, template, checksum: hasher.finalize() })
    }
}

/// The token that ends a text by the model's own configuration: the first, if it has several.
fn end_of_model(path: &Path) -> Result<Option<u32>> {
    let Some(config) = object(path)? else { return Ok(None) };
    let end = config.get("eos_token_id");
    let first = end.and_then(|end| end.as_array().map_or(Some(end), |all| all.first()));
    Ok(first.and_then(Value::as_u64).and_then(|id| u32::try_from(id).ok()))
}

/// The template's text, and where it stands.
fn template_of(folder: &Path, settings: &Map<String, Value>) -> Result<Option<(String, PathBuf)>> {
    let own = folder.join(TEMPLATE);
    if let Some(text) = text(&own)? {
        return Ok(Some((text, own)));
    }
    let path = folder.join(SETTINGS);
    match settings.get("chat_template").filter(|value| !value.is_null()) {
        None => Ok(None),
        Some(value) => match value.as_str().or_else(|| by_name(value)) {
            Some(text) => Ok(Some((text.to_owned(), path))),
            None => Err(Error::file_at(path, "chat_template", "is not text; write the template in double quotes")),
        },
    }
}

/// The template that is used when no template is asked for and there are several.
fn by_name(value: &Value) -> Option<&str> {
    let all = value.as_array()?;
    let is_default = |entry: &&Value| entry.get("name").and_then(Value::as_str) == Some("default");
    all.iter().find(is_default).or(all.first())?.get("template")?.as_str()
}

/// The fields of a JSON file; `None` if there is no such file.
fn object(path: &Path) -> Result<Option<Map<String, Value>>> {
    let Some(text) = text(path)? else { return Ok(None) };
    let parsed: Result<Map<String, Value>, _> = serde_json::from_str(&text);
    parsed.map(Some).map_err(|error| {
        let place = format!("line {}, column {}", error.line(), error.column());
        Error::file_at(path, place, format!("is not a JSON object ({error}); fetch it again, or remove it"))
    })
}

fn text(path: &Path) -> Result<Option<String>> {
    if !path.is_file() {
        return Ok(None);
    }
    let failed = |error: std::io::Error| unreadable(path, &error);
    let mut text = String::new();
    File::open(path).map_err(failed)?.take(MOST).read_to_string(&mut text).map_err(failed)?;
    Ok(Some(text.trim_start_matches('\u{feff}').to_owned()))
}
