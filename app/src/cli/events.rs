//! The events of a run as lines of JSON.

use plimsoll_engine::{
    Error,
    data::ValueErrors,
    experiment::LabelKind,
    memory::host::FreeMemory,
    plan::{HostObstacle, Peak, Plan},
    train::{Compressed, Event, FactoredSize, Outcome, StepRecord, Summary},
};
use serde_json::{Value, json};

use crate::advice;

fn with_peak(mut object: Value, peak: &Peak) -> Value {
    for (key, bytes) in [("live_bytes", peak.live), ("reserved_bytes", peak.reserved), ("process_bytes", peak.process)]
    {
        object[key] = bytes.0.into();
    }
    object
}

/// The event as one JSON object. Numbers that are not finite become null; a message that is not an event of the run has
/// none. `plan` is the plan that the run began with: its prediction is in the last event as in the first.
pub(super) fn as_json(event: &Event, plan: Option<&Plan>) -> Option<Value> {
    Some(match event {
        Event::Machine(_) => return None,
        Event::Started { plan, .. } => json!({
            "event": "started",
            "title": plan.experiment.title,
            "budget_bytes": plan.budget.0,
            "fits": plan.verdict().fits(),
            "parameters": plan.parameters,
            "total_steps": plan.total_steps,
            "steps_per_epoch": plan.steps_per_epoch,
            "predicted": plan.peak,
        }),
        Event::Step(step) => of_step(step, plan),
        Event::Teaching { done, of } => json!({"event": "teaching", "samples": done, "of": of}),
        Event::Ways { step, ways } => {
            let ways = ways.iter().map(|ran| json!({"layer": ran.layer, "op": ran.op, "way": ran.way}));
            json!({"event": "ways", "step": step, "ways": ways.collect::<Value>()})
        }
        Event::Evaluating { step } => json!({"event": "evaluating", "step": step}),
        Event::Evaluated { step, at_secs, loss, accuracy, errors } => {
            let object = json!({"event": "evaluated", "step": step, "at_secs": at_secs, "loss": loss});
            with_score(object, *accuracy, errors.as_ref())
        }
        Event::Thinned { step, stripped } => json!({
            "event": "thinned",
            "step": step,
            "parameters": stripped.weights - stripped.gone,
            "parameters_before": stripped.weights,
            "bytes": stripped.bytes.0,
            "bytes_before": stripped.dense_bytes.0,
        }),
        Event::Saved { step, path, bytes, live, why } => json!({
            "event": "saved",
            "step": step,
            "path": path,
            "bytes": bytes.0,
            "live_bytes": live.0,
            "why": why,
        }),
        Event::Compressed(compressed) => {
            let mut object = of_integers(compressed);
            object["event"] = "compressed".into();
            object
        }
        Event::Paused(is_paused) => json!({"event": "paused", "paused": is_paused}),
        Event::Warning(message) => json!({"event": "warning", "message": message}),
        Event::Ended { outcome, summary, .. } => ended(outcome, summary, plan),
    })
}

fn of_step(step: &StepRecord, plan: Option<&Plan>) -> Value {
    let memory = Peak { live: step.live, reserved: step.reserved, process: step.process };
    let object = json!({
        "event": "step",
        "step": step.step,
        "loss": step.loss,
        score_key(plan): step.accuracy,
        "learning_rate": step.learning_rate,
        "gradient_norm": step.gradient_norm,
        "loss_scale": step.loss_scale,
        "skipped": step.skipped,
        "at_secs": step.at_secs,
        "secs": step.secs,
    });
    with_peak(object, &memory)
}

/// The same object with the accuracy of a test; of values with R² and the errors.
fn with_score(mut object: Value, accuracy: f64, errors: Option<&ValueErrors>) -> Value {
    object[if errors.is_some() { "r2" } else { "accuracy" }] = accuracy.into();
    if let Some(ValueErrors { rmse, mae, .. }) = errors {
        (object["rmse"], object["mae"]) = ((*rmse).into(), (*mae).into());
    }
    object
}

/// A trained model as one of integers.
fn of_integers(compressed: &Compressed) -> Value {
    let scores = match compressed.is_of_values {
        true => ["test_r2", "trained_test_r2"],
        false => ["test_accuracy", "trained_test_accuracy"],
    };
    let mut object = json!({
        "weights": compressed.weights.key(),
        "bytes": compressed.bytes.0,
        "dense_bytes": compressed.dense_bytes.0,
        "test_loss": compressed.test_loss,
        "trained_test_loss": compressed.trained_loss,
        "test_secs": compressed.test_secs,
        "trained_test_secs": compressed.trained_test_secs,
    });
    object[scores[0]] = compressed.test_accuracy.into();
    object[scores[1]] = compressed.trained_accuracy.into();
    object
}

/// Whether values are learned, which have no accuracy.
fn is_of_values(plan: Option<&Plan>) -> bool {
    plan.is_some_and(|plan| plan.resolved.info().label == LabelKind::Value)
}

fn score_key(plan: Option<&Plan>) -> &'static str {
    if is_of_values(plan) { "r2" } else { "accuracy" }
}

fn ended(outcome: &Outcome, summary: &Summary, plan: Option<&Plan>) -> Value {
    let (name, message) = match outcome {
        Outcome::Finished => ("finished", None),
        Outcome::Stopped => ("stopped", None),
        Outcome::OverBudget(refusal) => ("over_budget", Some(refusal.error.to_string())),
        Outcome::Failed(error) => ("failed", Some(error.to_string())),
    };
    let mut object = json!({
        "event": name,
        "steps": summary.steps,
        "secs": summary.secs,
        "train_loss": summary.train_loss,
        "skipped_steps": summary.skipped_steps,
        "predicted": summary.predicted,
        "measured": summary.measured,
        "process_is_sampled": summary.is_process_sampled,
        "left_over_bytes": summary.left_over.0,
        "data_secs": summary.data_secs,
        "data_bytes": summary.data_bytes.0,
        "batches_ready": summary.batches_ready,
        "host": {
            "predicted_bytes": summary.host.predicted.0,
            "measured_bytes": summary.host.measured.0,
            "predicted_disk_bytes": summary.host.predicted_disk.0,
            "measured_disk_bytes": summary.host.measured_disk.0,
        },
    });
    let scores = if is_of_values(plan) { ["test_r2", "best_test_r2"] } else { ["test_accuracy", "best_test_accuracy"] };
    object[scores[0]] = summary.test_accuracy.into();
    object[scores[1]] = summary.best_test_accuracy.into();
    if let Some(ValueErrors { rmse, mae, .. }) = summary.test_errors {
        (object["test_rmse"], object["test_mae"]) = (rmse.into(), mae.into());
    }
    if let Some(graphs) = summary.graphs {
        object["graphs"] = json!({
            "launches": graphs.launches,
            "graphs": graphs.graphs,
            "times": graphs.times,
            "allowed_bytes": graphs.allowed.0,
            "measured_bytes": graphs.took.0,
        });
    }
    let compressed = compressed(summary, scores[0]);
    if !compressed.is_null() {
        object["compressed"] = compressed;
    }
    if let Some(message) = message {
        object["message"] = message.into();
    }
    if let Outcome::OverBudget(refusal) = outcome {
        let error = &refusal.error;
        object["during"] = json!(error.during);
        object["layer"] = error.layer.as_str().into();
        object["asked_bytes"] = error.asked.0.into();
        object["live_bytes"] = error.live.0.into();
        object["budget_bytes"] = error.budget.0.into();
        object["would_fit"] = refusal.advice.iter().map(advice::words).collect();
    }
    if let (Outcome::Failed(Error::Experiment(problem)), Some(plan)) = (outcome, plan)
        && HostObstacle::is_said_by(problem)
    {
        object["would_fit"] = ways_to_feed(plan).into();
    }
    object
}

/// The ways to feed the model that would fit, as `plan` tells them: those that the plan found, or, where it still had room, those
/// that fit now.
fn ways_to_feed(plan: &Plan) -> Vec<String> {
    let free = || FreeMemory::now().map(|free| free.bytes);
    let now = if plan.host_offers.is_empty() { plan.ways_to_feed(free()) } else { Vec::new() };
    plan.host_offers.iter().chain(&now).map(ToString::to_string).collect()
}

/// The size of the trained model, if it was made smaller; null if it was not. The accuracy, or what values have in place of it, is
/// `score`.
fn compressed(summary: &Summary, score: &str) -> Value {
    let mut found = Value::Null;
    if let Some(stripped) = summary.stripped {
        found = json!({
            "bytes": stripped.bytes.0,
            "dense_bytes": stripped.dense_bytes.0,
            "sparsity": stripped.sparsity(),
        });
        found[score] = summary.test_accuracy.into();
    }
    if let Some(compressed) = &summary.compressed {
        // For a model that is pruned as well, these have its zeros left out.
        found = of_integers(compressed);
        if let Some(stripped) = summary.stripped {
            found["sparsity"] = stripped.sparsity().into();
        }
    }
    if let Some(FactoredSize { layers, bytes, .. }) = summary.factored {
        found["layers"] = layers.into();
        // Without its zeros, and as integers, where it was pruned or quantised as well.
        if summary.stripped.is_none() && summary.compressed.is_none() {
            found["bytes"] = bytes.0.into();
            found[score] = summary.test_accuracy.into();
        }
    }
    if let Some(whole) = summary.whole_bytes() {
        found["whole_bytes"] = whole.0.into();
    }
    found
}

#[cfg(test)]
mod tests {
    use plimsoll_engine::{Bytes, Experiment, experiment::DataKind, hardware::Machine, train::RanBy};

    use super::*;

    #[test]
    fn the_ways_of_a_step_name_its_layers() {
        let ran = |layer: &str, way| RanBy { layer: layer.to_owned(), op: "convolution", way };
        let ways = [ran("stem/conv", "cuDNN"), ran("block1/conv", "products of patches")].into();
        let object = as_json(&Event::Ways { step: 2, ways }, None).expect("an event of the run");
        assert_eq!(
            (&object["event"], &object["step"], &object["ways"][1]["op"]),
            (&json!("ways"), &json!(2), &json!("convolution"))
        );
        assert_eq!(object["ways"][0], json!({"layer": "stem/conv", "op": "convolution", "way": "cuDNN"}));
        assert_eq!(object["ways"].as_array().map(Vec::len), Some(2));
    }

    #[test]
    fn a_run_that_the_host_cannot_feed_ends_with_what_would_fit() {
        let mut experiment = Experiment::default();
        (experiment.data.kind, experiment.data.host_budget) = (DataKind::Shapes, Bytes::mib(2));
        let plan = Plan::of(&experiment, &Machine::nominal()).expect("a plan");
        let problem = plan.host_problem().expect("in the way");
        let ended = |error| ended(&Outcome::Failed(error), &Summary::default(), Some(&plan));
        let offers: Vec<String> = plan.host_offers.iter().map(ToString::to_string).collect();
        assert!(!offers.is_empty());
        assert_eq!(ended(Error::Experiment(problem))["would_fit"], json!(offers));
        assert!(ended(Error::Stopped).get("would_fit").is_none());
    }
}
