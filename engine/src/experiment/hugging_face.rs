//! `config.json` files of Hugging Face, of language models and of networks for images, opened as experiments.
//!
//! Owns the words of those files: the meaning of each field here. The description lists fields that have no meaning here.
//! Always holds: an imported experiment has no problem, and sizes are those of the file. Refuses kinds it does not know with
//! the list of those it does, and every impossible field with its name and how to fix it.

mod decoders;
mod fields;
mod images;

use std::path::Path;

use serde_json::{Map, Value};

use self::decoders::{gpt2, llama, mistral, qwen2, qwen3};
use crate::{
    bytes::{Bytes, counted},
    error::{Error, Result},
    experiment::{
        Batch, Data, DataKind, Experiment, Model, Precision,
        check::check,
        limits::{MAX_VOCABULARY, MIN_VOCABULARY},
        settings,
    },
};

/// A kind of file: its `model_type`, its class's name before `ForCausalLM` or `LMHeadModel`, and its family.
struct Kind {
    name: &'static str,
    class: &'static str,
    title: &'static str,
    import: fn(&Config<'_>) -> Result<Imported>,
    /// Field names in place of keys, for problems of the whole experiment.
    fields: &'static [(&'static str, &'static str)],
}

const KINDS: [Kind; 6] = [
    Kind { name: "gpt2", class: "GPT2", title: "GPT-2", import: gpt2, fields: GPT2_FIELDS },
    Kind { name: "llama", class: "Llama", title: "Llama", import: llama, fields: LLAMA_FIELDS },
    Kind { name: "mistral", class: "Mistral", title: "Mistral", import: mistral, fields: LLAMA_FIELDS },
    Kind { name: "qwen2", class: "Qwen2", title: "Qwen2", import: qwen2, fields: LLAMA_FIELDS },
    Kind { name: "qwen3", class: "Qwen3For", title: "Qwen3", import: qwen3, fields: LLAMA_FIELDS },
    Kind { name: "vit", class: "ViTFor", title: "ViT", import: images::vit, fields: images::VIT_FIELDS },
];

/// Files of timm, which name an architecture in place of a kind.
const TIMM: Kind = Kind { name: "timm", class: "", title: "timm", import: images::timm, fields: &[] };

const GPT2_FIELDS: &[(&str, &str)] = &[
    ("model.width", "n_embd"),
    ("model.depth", "n_layer"),
    ("model.heads", "n_head"),
    ("model.hidden", "n_inner"),
    ("model.dropout", "resid_pdrop"),
    ("data.length", "n_positions"),
    ("data.vocabulary", "vocab_size"),
];

const LLAMA_FIELDS: &[(&str, &str)] = &[
    ("model.width", "hidden_size"),
    ("model.depth", "num_hidden_layers"),
    ("model.heads", "num_attention_heads"),
    ("model.kv_heads", "num_key_value_heads"),
    ("model.head_dim", "head_dim"),
    ("model.hidden", "intermediate_size"),
    ("model.rotary_base", "rope_theta"),
    ("data.length", "max_position_embeddings"),
    ("data.vocabulary", "vocab_size"),
];

/// A way out if a model cannot be made here: another value in its file would make another model of its weights.
const OTHER: &str = "choose another model";

/// The longest sequence that an opened file begins with. Published models take 100,000 tokens and more, and few trainings do.
const LENGTH: usize = 1024;

/// The largest size that is read at all; the checks have the real limits.
const MOST: usize = 1 << 32;

/// The parts of a file that have a place in an experiment.
struct Imported {
    model: Model,
    samples: Samples,
    /// The fields without a meaning here, in words.
    omitted: Vec<String>,
    /// Fields that change the model's results: published weights make another model here.
    unlike: Vec<String>,
}

/// The samples that a model reads.
enum Samples {
    /// Sequences of at most this many tokens.
    Tokens(usize),
    /// Images of this side, in this many classes.
    Images { side: usize, classes: usize },
}

/// The model of a file whose weights lie next to it, as the file describes it.
pub(crate) struct Published {
    /// The architecture.
    pub(crate) model: Model,
    /// Fields without a place here that change the model's results.
    pub(crate) unlike: Vec<String>,
}

/// Reads a configuration for the weights next to it.
///
/// # Errors
/// Fails if [`parse`] does, except for fields that do not affect a weight.
pub(crate) fn published(text: &str, path: &Path) -> Result<Published> {
    let config = Config { path, fields: fields::read(text.trim_start_matches('\u{feff}'), path)? };
    let kind = config.kind()?;
    let Imported { model, mut unlike, .. } = (kind.import)(&config)?;
    unlike.extend(config.given("quantization_config").map(|_| "quantization_config".to_owned()));
    let class = config.class().filter(|class| !class.starts_with(kind.class.trim_end_matches("For")));
    unlike.extend(class.map(|class| format!("architectures {}", shortened(&class.into()))));
    Ok(Published { model, unlike })
}

/// A file's fields.
struct Config<'a> {
    path: &'a Path,
    fields: Map<String, Value>,
}

/// Whether a text is such a file rather than a preset: no line of a preset begins with a brace.
pub(super) fn is_config(text: &str) -> bool {
    text.trim_start_matches('\u{feff}').trim_start().starts_with('{')
}

/// Reads a configuration; `path` is for messages. The micro-batch is one sequence, as long as the model allows and at
/// most 1,024 tokens.
///
/// # Errors
/// [`Error::File`] with the place in the text, or the field that is not supported.
pub fn parse(text: &str, path: impl AsRef<Path>) -> Result<Experiment> {
    opened(text, path.as_ref()).map(|(experiment, _)| experiment)
}

/// Opens the experiment, with notes for the user.
pub(super) fn opened(text: &str, path: &Path) -> Result<(Experiment, Vec<String>)> {
    let config = Config { path, fields: fields::read(text.trim_start_matches('\u{feff}'), path)? };
    let kind = config.kind()?;
    let Imported { model, samples, omitted, .. } = (kind.import)(&config)?;
    let (data, notes) = config.data(kind, &samples)?;
    let experiment = Experiment {
        title: format!("{} of {}", kind.title, config.name()),
        description: described(kind.title, &samples, &omitted),
        budget: Bytes::gib(24),
        precision: config.precision()?,
        model,
        data,
        batch: Batch { micro: 1, ..Batch::default() },
        ..Experiment::default()
    };
    match check(&experiment, None).into_iter().next() {
        None => Ok((experiment, notes)),
        Some(problem) => Err(config.wrong(kind.field(&problem.key), format!("{}; {}", problem.message, problem.mend))),
    }
}

impl Kind {
    /// The file's name for the setting of `key`.
    fn field<'a>(&self, key: &'a str) -> &'a str {
        self.fields.iter().find(|(of, _)| *of == key).map_or(key, |of| of.1)
    }
}

fn described(title: &str, samples: &Samples, omitted: &[String]) -> String {
    let data = match samples {
        Samples::Tokens(_) => "over generated tokens of the same vocabulary",
        Samples::Images { .. } => "over generated images of the same size",
    };
    let mut text = format!(
        "The architecture of a {title} config.json, {data}. Look at what its parameters, their gradients and the optimizer's \
         state take before the first activation, and at what checkpointing and loss_chunk leave of the rest."
    );
    if !omitted.is_empty() {
        text.push_str(&format!(" Left out of the file: {}.", omitted.join("; ")));
    }
    text
}

impl Config<'_> {
    fn wrong(&self, field: &str, message: impl Into<String>) -> Error {
        Error::file_at(self.path, field, message)
    }

    /// The class that the file was made with.
    fn class(&self) -> Option<&str> {
        self.fields.get("architectures")?.as_array()?.first()?.as_str()
    }

    /// The kind that the file says it is.
    fn kind(&self) -> Result<&'static Kind> {
        let of_class = |class: &str| KINDS.iter().find(|kind| class.starts_with(kind.class));
        let class = self.class();
        let name = self.given("model_type").and_then(Value::as_str);
        if name.is_none() && self.given("architecture").is_some_and(Value::is_string) {
            return Ok(&TIMM);
        }
        let found = match (name, class) {
            (Some(name), _) => KINDS.iter().find(|kind| kind.name == name),
            (None, Some(class)) => of_class(class),
            (None, None) => None,
        };
        found.ok_or_else(|| {
            let said = match (name.or(class), self.given("model_type")) {
                (Some(said), _) => format!("\"{said}\" is not a kind of model that can be opened"),
                (None, Some(other)) => format!("{} is not text in double quotes", shortened(other)),
                (None, None) => "is missing, so the file does not say what kind of model it is".to_owned(),
            };
            let known: Vec<&str> = KINDS.iter().map(|kind| kind.name).collect();
            self.wrong("model_type", format!("{said}; the kinds are {}", known.join(", ")))
        })
    }

    /// The model's name: its own, else the name of the file's folder, else the file's.
    fn name(&self) -> String {
        let own = self.fields.get("_name_or_path").and_then(Value::as_str).filter(|name| !name.trim().is_empty());
        let folder = || self.path.parent().and_then(Path::file_name).map(|name| name.to_string_lossy().into_owned());
        let file = || self.path.file_name().map_or("config.json".into(), |name| name.to_string_lossy());
        let name = own.map(str::to_owned).or_else(folder).unwrap_or_else(|| file().into_owned());
        name.chars().filter(|c| !c.is_control()).take(60).collect()
    }

    /// Generated data that the model reads, and notes on them for the user.
    fn data(&self, kind: &Kind, samples: &Samples) -> Result<(Data, Vec<String>)> {
        let length = match *samples {
            Samples::Images { side, classes } => {
                let notes = match classes {
                    2..=10 => Vec::new(),
                    _ => {
                        let classes = counted(classes as u64, "class");
                        vec![format!("has {classes}; data.kind begins at generated shapes of 10")]
                    }
                };
                let classes = if (2..=10).contains(&classes) { classes } else { 10 };
                return Ok((Data { kind: DataKind::Shapes, side, classes, ..Data::default() }, notes));
            }
            Samples::Tokens(length) => length,
        };
        let vocabulary = self.count("vocab_size")?;
        if !(MIN_VOCABULARY..=MAX_VOCABULARY).contains(&vocabulary) {
            let mend = format!("write {MIN_VOCABULARY} to {MAX_VOCABULARY}");
            return Err(self.wrong("vocab_size", format!("{vocabulary} is not a vocabulary; {mend}")));
        }
        if length == 0 {
            let message = "0 leaves no position for a token; write the most tokens that the model takes, such as 1024";
            return Err(self.wrong(kind.field("data.length"), message));
        }
        let begin = length.min(LENGTH);
        let data = Data { kind: DataKind::Tokens, length: begin, vocabulary, samples: 1000, ..Data::default() };
        let mut notes = Vec::new();
        if length > LENGTH {
            notes.push(format!("allows {length} tokens; data.length begins at {LENGTH}, which can be raised"));
        }
        Ok((data, notes))
    }

    /// A field that is there and is not null.
    fn given(&self, name: &str) -> Option<&Value> {
        self.fields.get(name).filter(|value| !value.is_null())
    }

    fn maybe_count(&self, name: &str) -> Result<Option<usize>> {
        let Some(value) = self.given(name) else { return Ok(None) };
        let wrong = match value.as_u64().and_then(|n| usize::try_from(n).ok()) {
            Some(n) if n <= MOST => return Ok(Some(n)),
            None if value.as_f64().is_none_or(|n| n < MOST as f64 || n.fract() != 0.0) => {
                "is not a size; write a whole number, such as 1024".to_owned()
            }
            _ => format!("is too large; write {} or less", most(name)),
        };
        Err(self.wrong(name, format!("{} {wrong}", shortened(value))))
    }

    fn count(&self, name: &str) -> Result<usize> {
        let count = self.maybe_count(name)?;
        count.ok_or_else(|| self.wrong(name, "is missing; write a whole number, such as 1024"))
    }

    fn number(&self, name: &str, default: f64) -> Result<f64> {
        let Some(value) = self.given(name) else { return Ok(default) };
        let wrong = || self.wrong(name, format!("{} is not a number; write one, such as {default}", shortened(value)));
        value.as_f64().ok_or_else(wrong)
    }

    /// The term that a norm adds to the variance: zero if that is the number of the family here. A file without it means
    /// `default`.
    fn epsilon(&self, name: &str, default: f64, family: f64) -> Result<f64> {
        let epsilon = self.number(name, default)?;
        Ok(if epsilon == family { 0.0 } else { epsilon })
    }

    fn share(&self, name: &str) -> Result<f64> {
        let share = self.number(name, 0.1)?;
        if (0.0..1.0).contains(&share) {
            return Ok(share);
        }
        Err(self.wrong(name, format!("{share} is not a share; write a number from 0 up to, but not including, 1")))
    }

    fn flag(&self, name: &str, default: bool) -> Result<bool> {
        let Some(value) = self.given(name) else { return Ok(default) };
        value
            .as_bool()
            .ok_or_else(|| self.wrong(name, format!("{} is not a flag; write true or false", shortened(value))))
    }

    /// Refuses an activation function that is not in `known`; the first of these stands for a missing field.
    fn activation(&self, name: &str, known: &[&str]) -> Result<()> {
        let Some(value) = self.given(name) else { return Ok(()) };
        if value.as_str().is_some_and(|word| known.contains(&word)) {
            return Ok(());
        }
        let own = known[0];
        let message =
            format!("{} is not the activation of this kind; {OTHER}; to plan alone, write \"{own}\"", shortened(value));
        Err(self.wrong(name, message))
    }

    /// Fields that are given and have no place here, but where they are as they are here.
    fn omitted(&self, names: &[&str]) -> Vec<String> {
        let is_as_here = |value: &Value| value.as_f64().is_some_and(|number| number == 1e-5 || number == 0.0);
        let given = names.iter().filter_map(|name| Some((name, self.given(name)?)));
        given.filter(|(_, value)| !is_as_here(value)).map(|(name, value)| format!("{name} {}", plain(value))).collect()
    }

    /// The type in which the weights are stored; training keeps an f32 copy as well.
    fn precision(&self) -> Result<Precision> {
        let (name, value) = match (self.given("torch_dtype"), self.given("dtype")) {
            (Some(value), _) => ("torch_dtype", value),
            (None, Some(value)) => ("dtype", value),
            (None, None) => return Ok(Precision::F32),
        };
        match value.as_str() {
            Some("float32") => Ok(Precision::F32),
            Some("bfloat16") => Ok(Precision::Bf16Mixed),
            Some("float16") => Ok(Precision::F16Mixed),
            Some("float64") => Ok(Precision::F64),
            _ => {
                let mend = "write \"float32\", \"bfloat16\", \"float16\" or \"float64\"";
                Err(self.wrong(name, format!("{} is not a type to train in; {mend}", shortened(value))))
            }
        }
    }
}

/// The most that a field may be, where a setting of the same meaning says so.
fn most(field: &str) -> String {
    let keys = GPT2_FIELDS
        .iter()
        .chain(LLAMA_FIELDS)
        .chain(images::VIT_FIELDS)
        .find(|(_, name)| *name == field)
        .map(|(key, _)| *key);
    match keys {
        Some("data.vocabulary") => MAX_VOCABULARY.to_string(),
        key => key.and_then(settings::find).and_then(settings::Setting::most).unwrap_or_else(|| MOST.to_string()),
    }
}

/// A value as it is in the file, in at most about forty characters.
fn shortened(value: &Value) -> String {
    let text = value.to_string();
    let short: String = text.chars().take(40).collect();
    if short.len() < text.len() { format!("{short}…") } else { short }
}

/// A value for a sentence.
fn plain(value: &Value) -> String {
    match value {
        Value::Object(_) | Value::Array(_) => "(a group)".to_owned(),
        other => shortened(other),
    }
}

#[cfg(test)]
mod tests;
