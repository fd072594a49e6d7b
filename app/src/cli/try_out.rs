//! `plimsoll try`: a picture or a prompt for a trained model.

use std::{ops::ControlFlow, path::PathBuf, process::ExitCode};

use clap::Args;
use plimsoll_engine::{
    experiment::Task,
    train::{Likely, Reply, Sampling, Shown, Tester, Tried, Written},
};
use serde_json::{Value, json};

use crate::{
    cli::{
        Misuse, complete, out,
        table::Table,
        tried::{ModelChoice, took_as_json, took_in_words, weights_as_json, weights_in_words},
    },
    format,
};

/// Classes that are named, likeliest first.
const NAMED: usize = 5;

/// Try a model: show it an image, or let it write on from a prompt
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  plimsoll try last --image seven.png
  plimsoll try last --sample 12                 the sample 12 of the test set, counted from 0
  plimsoll try last --prompt \"To be\" --tokens 100 --temperature 0.8 --top-p 0.9
  plimsoll try my-llama --prompt \"To be\"         a folder with weights and a tokenizer.json
  plimsoll try sort-llama --prompt \"3 0 7 4 1 8 5 2\"   as it is initialised, when nothing is trained yet
  plimsoll try last --image seven.png --json | jq '.classes[0]'

An image is a JPEG, PNG or WebP; it is cropped to its middle and brought to the size and the channels of the model, as the images
of a folder are. A prompt uses what the data have tokens for: any text if they are a file, brackets, or numbers.
A model from a folder with a tokenizer.json uses that for text. One that learned conversations is given the prompt as a user's
message, by the template next to its tokenizer, and answers up to where the template ends an answer (--raw: as it is written).
The same seed writes the same text.

The model sees the whole prompt first; then each token is one row through the model, with the keys and values of those before
it in a cache. What that takes is a part of the memory that is predicted and measured. A text longer than the model was
trained on shifts with each token, and each token then takes a whole pass.")]
pub(super) struct Try {
    #[command(flatten)]
    model: ModelChoice,
    #[command(flatten)]
    what: What,
    /// Tokens to write, in place of as many as answer a prompt of the data
    #[arg(long, value_name = "N", requires = "prompt", allow_negative_numbers = true)]
    tokens: Option<usize>,
    /// Divide logits by this: less than 1 prefers likely tokens, 0 takes only the likeliest
    #[arg(long, value_name = "T", default_value_t = 1.0, requires = "prompt", allow_negative_numbers = true)]
    temperature: f64,
    /// Draw from the likeliest tokens that together have this share of the probability
    #[arg(long, value_name = "P", default_value_t = 1.0, requires = "prompt", allow_negative_numbers = true)]
    top_p: f64,
    /// Take the prompt as it is written, even if the model learned conversations
    #[arg(long, requires = "prompt")]
    raw: bool,
    /// The seed of the random numbers
    #[arg(long, value_name = "S", default_value_t = 1, requires = "prompt", allow_negative_numbers = true)]
    seed: u64,
    /// Write one JSON object
    #[arg(long)]
    json: bool,
}

/// The input that a model is tried with.
#[derive(Debug, Args)]
#[group(required = true, multiple = false)]
struct What {
    /// An image to show
    #[arg(long, value_name = "FILE", add = complete::pictures())]
    image: Option<PathBuf>,
    /// A sample of the test set to show, a picture or a row, by its number from 0
    #[arg(long, value_name = "N")]
    sample: Option<usize>,
    /// Text to write on from
    #[arg(long, value_name = "TEXT")]
    prompt: Option<String>,
}

impl Try {
    pub(super) fn run(&self) -> anyhow::Result<ExitCode> {
        let mut tester = Tester::new();
        let tried = self.model.tried(tester.machine())?;
        let What { image, sample, prompt } = &self.what;
        match (image, sample, prompt) {
            (Some(path), ..) => self.show(&mut tester, &tried, Shown::File(path)),
            (_, Some(index), _) => self.show(&mut tester, &tried, Shown::Sample(*index)),
            (.., Some(prompt)) => self.write(&mut tester, &tried, prompt),
            _ => Err(Misuse("nothing to try the model with; write --image, --sample or --prompt".to_owned()).into()),
        }
    }

    fn show(&self, tester: &mut Tester, tried: &Tried, shown: Shown<'_>) -> anyhow::Result<ExitCode> {
        let reply = tester.show(tried, shown)?;
        reply.caution.iter().for_each(|caution| out::say("warning", caution));
        match self.json {
            true => out::json(&reply_as_json(&reply, tried.task()))?,
            false => out::text(&format!("{} {}", self.model.name(), describe(&reply, tried.task())))?,
        }
        Ok(ExitCode::SUCCESS)
    }

    fn write(&self, tester: &mut Tester, tried: &Tried, prompt: &str) -> anyhow::Result<ExitCode> {
        let Self { tokens, temperature, top_p, seed, raw, .. } = *self;
        let sampling = Sampling { tokens, temperature, top_p, seed, raw };
        // Nothing is written before it is known that the model can write on.
        let (mut failure, mut before) = (None, prompt.to_owned());
        let written = tester.write(tried, prompt, sampling, &mut |text| {
            if self.json {
                return ControlFlow::Continue(());
            }
            before.push_str(text);
            failure = out::text(&std::mem::take(&mut before)).err();
            if failure.is_some() { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
        })?;
        if let Some(failure) = failure {
            return Err(failure);
        }
        written.caution.iter().for_each(|caution| out::say("warning", caution));
        match self.json {
            true => out::json(&written_as_json(&written, prompt))?,
            false => out::text("\n")?,
        }
        if !self.json && !self.model.is_quiet() {
            self.note(&written);
        }
        Ok(ExitCode::SUCCESS)
    }

    /// Reports the source of the weights and the memory of the writing.
    fn note(&self, written: &Written) {
        if written.is_answer {
            out::say(
                "note",
                "the prompt is a user's message, by the template of the tokenizer; --raw gives it as it is",
            );
        }
        let (weights, took) = (weights_in_words(&written.weights), took_in_words(&written.took));
        let seen = (written.prompt_tokens + written.tokens.len()).saturating_sub(1);
        let moved = match written.took.cached {
            Some(cached) if seen > cached.positions => " Past them, each token took a whole pass.",
            _ => "",
        };
        out::say("note", format!("{} {weights}; {}{moved}", self.model.name(), took.trim_end()).trim_end());
    }
}

fn reply_as_json(reply: &Reply, task: Task) -> Value {
    let share = if task == Task::Mask { "share" } else { "probability" };
    let class =
        |likely: &Likely| json!({"class": reply.class_names.get(likely.class as usize), share: likely.probability});
    let count = if task == Task::Mask { reply.shares.len() } else { NAMED };
    let row = reply.row.as_ref();
    let columns = row.map(|row| {
        row.columns.iter().map(|(name, text)| (name.clone(), text.clone().into())).collect::<serde_json::Map<_, _>>()
    });
    if let Some((value, row)) = reply.value.zip(row) {
        return json!({
            "row": columns,
            "label": row.label.0,
            "predicted": value,
            "true": row.value,
            "weights": weights_as_json(&reply.weights),
            "memory": took_as_json(&reply.took),
        });
    }
    json!({
        "row": columns,
        "true": reply.label.and_then(|label| reply.class_names.get(label as usize)),
        "classes": reply.ranked().iter().take(count).map(class).collect::<Vec<_>>(),
        "weights": weights_as_json(&reply.weights),
        "memory": took_as_json(&reply.took),
    })
}

fn describe(reply: &Reply, task: Task) -> String {
    let mut about = String::new();
    if let Some(row) = &reply.row {
        let mut columns = Table::new(["column", "value"]).words(2);
        for (name, text) in &row.columns {
            columns.row([name.clone(), if text.is_empty() { "(missing)".to_owned() } else { text.clone() }]);
        }
        let (label, own) = &row.label;
        about = match reply.value {
            Some(value) => format!("{columns}\n{label}: {} predicted, {own} true\n", format::figures(value)),
            None => format!("{columns}\n{label}: {own} true\n\n"),
        };
    }
    if reply.value.is_some() {
        return format!("{}\n\n{about}{}", weights_in_words(&reply.weights), took_in_words(&reply.took));
    }
    let own = reply.label.and_then(|label| reply.class_names.get(label as usize));
    if let Some(own) = own.filter(|_| reply.row.is_none()) {
        about = format!("true: {own}\n\n");
    }
    let heading = if task == Task::Mask { "share of pixels" } else { "probability" };
    let mut table = Table::new(["class", heading]);
    let ranked = reply.ranked();
    let shown = ranked.iter().filter(|likely| task != Task::Mask || likely.probability > 0.0).take(NAMED);
    for likely in shown {
        let name = reply.class_names.get(likely.class as usize).cloned().unwrap_or_default();
        table.row([name, format::share(f64::from(likely.probability))]);
    }
    format!("{}\n\n{about}{table}\n{}", weights_in_words(&reply.weights), took_in_words(&reply.took))
}

fn written_as_json(written: &Written, prompt: &str) -> Value {
    json!({
        "prompt": prompt,
        "is_answer": written.is_answer,
        "text": written.text,
        "prompt_tokens": written.prompt_tokens,
        "tokens": written.tokens,
        "weights": weights_as_json(&written.weights),
        "memory": took_as_json(&written.took),
        "cache": written.took.cached.map(|cached| {
            json!({"positions": cached.positions, "predicted_bytes": cached.bytes.0})
        }),
    })
}
