//! The weights of a checkpoint, copied out of it and read by another program's reader.

use std::{collections::HashMap, path::Path};

use candle_core::{Device, Tensor, safetensors};
use plimsoll_engine::{
    Experiment,
    experiment::{Precision, preset},
    train::{Checkpoint, Command, Event, Keep, Start, Trainer},
};

/// Trains a few steps and leaves a checkpoint in `folder`.
fn trained(folder: &Path, precision: Precision) -> Checkpoint {
    let mut experiment = Experiment { precision, ..Experiment::default() };
    (experiment.model.width, experiment.batch.micro, experiment.run.steps) = (8, 8, Some(2));
    let trainer = Trainer::new(|| {});
    let start = Start { keep: Keep::in_folder(folder), ..Start::new(experiment) };
    trainer.send(Command::Start(Box::new(start)));
    let ended = trainer.events().iter().any(|event| matches!(event, Event::Ended { .. }));
    assert!(ended, "every run ends");
    Checkpoint::open(Checkpoint::at(folder).expect("one was saved")).expect("whole")
}

fn read(path: &Path) -> HashMap<String, Tensor> {
    safetensors::load(path, &Device::Cpu).expect("a safetensors file")
}

#[test]
fn the_weights_are_those_of_the_checkpoint_and_nothing_else_is_there() {
    for precision in [Precision::F32, Precision::Bf16Mixed] {
        let folder = tempfile::tempdir().expect("a folder");
        let checkpoint = trained(folder.path(), precision);
        let path = folder.path().join("weights-alone.safetensors");
        let bytes = checkpoint.write_weights(&path).expect("written");
        assert_eq!(std::fs::metadata(&path).expect("there").len(), bytes.0);
        let (whole, weights) = (read(checkpoint.path()), read(&path));
        let expected: Vec<&String> = whole.keys().filter(|name| !name.starts_with("optimizer.")).collect();
        assert!(!expected.is_empty() && expected.len() < whole.len(), "{:?}", whole.keys());
        assert_eq!(weights.len(), expected.len());
        for name in expected {
            let (from, to) = (&whole[name], &weights[name]);
            assert_eq!((from.dims(), from.dtype()), (to.dims(), to.dtype()), "{name}");
            let elements = |tensor: &Tensor| tensor.flatten_all().and_then(|flat| flat.to_vec1::<f32>()).expect("f32");
            let bits = |tensor: &Tensor| elements(tensor).into_iter().map(f32::to_bits).collect::<Vec<u32>>();
            assert_eq!(bits(from), bits(to), "{name}");
        }
        // It says what it belongs to, and is not a checkpoint to go on from.
        let header = std::fs::read(&path).expect("there");
        let length = u64::from_le_bytes(header[..8].try_into().expect("eight")) as usize;
        assert_eq!(length % 8, 0);
        let head: serde_json::Value = serde_json::from_slice(&header[8..8 + length]).expect("JSON");
        let text = head["__metadata__"]["plimsoll_experiment"].as_str().expect("the experiment");
        assert_eq!(preset::parse(text, "weights").expect("a preset").precision, precision);
        assert!(Checkpoint::open(&path).expect_err("no checkpoint").to_string().contains("another program"));
    }
}
