//! `plimsoll evaluate`: a model on its test set.

use std::process::ExitCode;

use clap::Args;
use plimsoll_engine::{
    data::ValueErrors,
    experiment::Task,
    train::{Answers, Evaluation, OfClass, Tester},
};
use serde_json::{Value, json};

use crate::{
    cli::{
        out,
        table::{Table, aligned},
        tried::{ModelChoice, errors_in_words, took_as_json, took_in_words, weights_as_json, weights_in_words},
    },
    format,
};

/// The most classes for which a table shows people which was taken for which.
const MOST_SHOWN: usize = 16;
/// Mistakes that are named if there are more classes.
const MISTAKES: usize = 8;

/// The note on a run that makes a model of integers.
const OF_INTEGERS: &str = "the trained weights are tested. The model of integers that quantise.kind makes of them is tested when \
                           the run ends, and plimsoll show has its figures";

/// Test a model on its test set: loss, accuracy, and the answers for each class; for values RMSE, MAE and R²
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  plimsoll evaluate last
  plimsoll evaluate last --last                      the last checkpoint, even if another was the best
  plimsoll evaluate runs/last.safetensors --device cpu
  plimsoll evaluate resnet18-shapes --set weights.path=resnet18.safetensors
  plimsoll evaluate last --json | jq '{loss, accuracy, samples}'

A run is tested with its best checkpoint if it has one (run.save_best), and otherwise with its last. The figures are those that
the run reported there. A preset is tested with the weights that it names, and otherwise as it is initialised. A test that
would cross the budget is refused before anything is allocated (exit status 1).")]
pub(super) struct Evaluate {
    #[command(flatten)]
    model: ModelChoice,
    /// Write one JSON object
    #[arg(long)]
    json: bool,
}

impl Evaluate {
    pub(super) fn run(&self) -> anyhow::Result<ExitCode> {
        let mut tester = Tester::new();
        let tried = self.model.tried(tester.machine())?;
        let evaluation = tester.evaluate(&tried)?;
        evaluation.caution.iter().for_each(|caution| out::say("warning", caution));
        if !tried.experiment.quantise.kind.is_none() {
            out::say("note", OF_INTEGERS);
        }
        match self.json {
            true => out::json(&as_json(&evaluation, &tried.experiment.device))?,
            false => out::text(&format!("{} {}", self.model.name(), describe(&evaluation)))?,
        }
        Ok(ExitCode::SUCCESS)
    }
}

fn as_json(evaluation: &Evaluation, device: &str) -> Value {
    let Evaluation { loss, accuracy, samples, weights, took, .. } = evaluation;
    let mut object = json!({
        "loss": loss,
        "samples": samples,
        "device": device,
        "weights": weights_as_json(weights),
        "memory": took_as_json(took),
        "caution": evaluation.caution,
    });
    match &evaluation.errors {
        Some(ValueErrors { rmse, mae, r2 }) => {
            (object["rmse"], object["mae"], object["r2"]) = ((*rmse).into(), (*mae).into(), (*r2).into());
        }
        None => object["accuracy"] = (*accuracy).into(),
    }
    if let Some(perplexity) = evaluation.perplexity() {
        object["perplexity"] = perplexity.into();
    }
    let Some(answers) = &evaluation.answers else { return object };
    if evaluation.task == Task::Mask {
        object["mean_iou"] = answers.mean_iou().into();
    }
    let class = |(of_class, name): (&OfClass, &String)| {
        json!({
            "class": name,
            "count": of_class.labels,
            "correct": of_class.right,
            "answered": of_class.answered,
            "recall": of_class.recall(),
            "precision": of_class.precision(),
            "iou": of_class.iou(),
        })
    };
    object["classes"] = answers.classes.iter().zip(&evaluation.class_names).map(class).collect();
    if let Some(table) = &answers.confusion {
        object["confusion"] = table.chunks(answers.classes.len().max(1)).map(Value::from).collect();
    }
    object
}

fn describe(evaluation: &Evaluation) -> String {
    let Evaluation { loss, accuracy, samples, .. } = evaluation;
    let mut text = format!("{}\n", weights_in_words(&evaluation.weights));
    let reached = match &evaluation.errors {
        Some(errors) => errors_in_words(errors),
        None => format!("accuracy {}", format::share(*accuracy)),
    };
    let mut measures = format!("Loss {loss:.4}, {reached}");
    if let Some(perplexity) = evaluation.perplexity() {
        measures.push_str(&format!(", perplexity {}", format::three(perplexity)));
    }
    let answers = evaluation.answers.as_ref();
    if let Some(iou) = answers.filter(|_| evaluation.task == Task::Mask).and_then(Answers::mean_iou) {
        measures.push_str(&format!(", mean IoU {iou:.4}"));
    }
    text.push_str(&format!("{measures}, of {}\n", format::counted(*samples as u64, "sample")));
    text.push_str(&took_in_words(&evaluation.took));
    if let Some(answers) = answers {
        text.push_str(&format!("\n{}", by_class(evaluation, answers)));
        text.push_str(&confused(evaluation, answers));
    }
    text
}

fn by_class(evaluation: &Evaluation, answers: &Answers) -> String {
    let share = |share: Option<f64>| share.map_or_else(|| "-".to_owned(), format::share);
    let is_mask = evaluation.task == Task::Mask;
    let of = if is_mask { "pixels" } else { "samples" };
    let mut table = Table::new(["class", of, "right", "recall", "precision", if is_mask { "IoU" } else { "" }]);
    for (of_class, name) in answers.classes.iter().zip(&evaluation.class_names) {
        let iou = if is_mask { share(of_class.iou()) } else { String::new() };
        table.row([
            name.clone(),
            of_class.labels.to_string(),
            of_class.right.to_string(),
            share(of_class.recall()),
            share(of_class.precision()),
            iou,
        ]);
    }
    table.to_string()
}

/// Which class was taken for which: all of it of few classes, the most frequent mistakes of many.
fn confused(evaluation: &Evaluation, answers: &Answers) -> String {
    let (classes, names) = (answers.classes.len(), &evaluation.class_names);
    if classes <= MOST_SHOWN {
        let heading = std::iter::once("is \\ answered".to_owned()).chain(names.iter().cloned()).collect();
        let row = |label: usize| -> Vec<String> {
            let cells = (0..classes).map(|answer| answers.confused(label, answer).to_string());
            std::iter::once(names[label].clone()).chain(cells).collect()
        };
        let rows: Vec<Vec<String>> = std::iter::once(heading).chain((0..classes).map(row)).collect();
        let rows: Vec<&[String]> = rows.iter().map(Vec::as_slice).collect();
        return format!("\n{}", aligned(&rows, 1));
    }
    let mut pairs: Vec<(u64, usize, usize)> = (0..classes * classes)
        .map(|at| (answers.confused(at / classes, at % classes), at / classes, at % classes))
        .filter(|(count, label, answer)| *count > 0 && label != answer)
        .collect();
    pairs.sort_by_key(|(count, label, answer)| (std::cmp::Reverse(*count), *label, *answer));
    let mut table = Table::new(["most frequent mistakes", "answered", "times"]).words(2);
    for (count, label, answer) in pairs.iter().take(MISTAKES) {
        table.row([names[*label].clone(), names[*answer].clone(), count.to_string()]);
    }
    if pairs.is_empty() { String::new() } else { format!("\n{table}") }
}
