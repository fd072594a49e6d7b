//! One batch through weights from a folder, for a program that compares: logits, loss, gradients and the losses of steps.
//!
//! `one_batch FOLDER BATCH CLASSES PRECISION STEPS RATE OUT`: FOLDER has `config.json` and weights, BATCH is a safetensors file with
//! `inputs` and `labels`. OUT is a folder that is made: `results.safetensors` has `logits`, `loss` and `losses`, and the
//! gradients lie in `gradients/model.safetensors`, under the names and in the layout of the weights.
//!
//! `tests/peers/huggingface.py` runs it.

mod batch;

use std::{collections::HashMap, error::Error, fs, path::Path};

use batch::{Fed, batch_of};
use candle_core::{Device, Tensor, safetensors};
use plimsoll_engine::{
    experiment::{OptimizerKind, preset},
    interop,
};

fn main() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [folder, batch, classes, precision, steps, rate, out] = &arguments[..] else {
        return Err("usage: one_batch FOLDER BATCH CLASSES PRECISION STEPS RATE OUT".into());
    };
    let (folder, out, classes) = (Path::new(folder), Path::new(out), classes.parse()?);
    let (batch, input) = batch_of(Path::new(batch), classes)?;
    let mut fed = Fed::from_folder(folder, input, classes, batch.samples)?;
    // The peer's: plain, for any preset.
    fed.experiment.model.dropout = 0.0;
    preset::set(&mut fed.experiment, &format!("precision={precision}")).map_err(|problem| problem.to_string())?;
    fed.experiment.optimizer.choose(OptimizerKind::Sgd);
    fed.experiment.optimizer.weight_decay = 0.0;
    fed = Fed::new(fed.experiment, input, classes)?;
    fed.notes.iter().for_each(|note| eprintln!("note: {note}"));
    fs::create_dir_all(out.join("gradients"))?;
    let logits = fed.logits(&batch)?;
    let rows = logits.len() / classes;
    let (loss, gradients) = fed.gradients(&batch)?;
    let own = out.join("gradients.safetensors");
    safetensors::save(&gradients, &own)?;
    interop::export(&own, &out.join("gradients"), &fed.experiment, &fed.info, false)?;
    // Running statistics moved in the pass above: the steps begin anew.
    let mut fed = Fed::new(fed.experiment, input, classes)?;
    let losses = fed.steps(&batch, rate.parse()?, steps.parse()?)?;
    let device = &Device::Cpu;
    let results = HashMap::from([
        ("logits", Tensor::from_vec(logits, (rows, classes), device)?),
        ("loss", Tensor::from_vec(vec![loss], 1, device)?),
        ("losses", Tensor::from_vec(losses.clone(), losses.len(), device)?),
    ]);
    safetensors::save(&results, out.join("results.safetensors"))?;
    Ok(())
}
