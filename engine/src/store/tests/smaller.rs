//! The form of a run's model is kept with the run.

use super::*;
use crate::{experiment::CodedWeights, step::Compressed};

#[test]
fn what_a_model_became_is_found_again_and_nothing_of_one_that_stayed_as_it_was() {
    let folder = folder();
    let plain = kept(folder.path(), 10);
    let recorder = Recorder::new(recording(folder.path()));
    recorder.take(&Event::Started { run: 1, plan: plan() });
    recorder.take(&Event::Step(some_step(1)));
    let compressed = Compressed {
        weights: CodedWeights::Int4,
        bytes: Bytes(3000),
        dense_bytes: Bytes(20_000),
        test_accuracy: 0.75,
        trained_accuracy: 0.875,
        test_loss: 0.5,
        trained_loss: 0.25,
        test_secs: 0.5,
        trained_test_secs: Some(1.0),
        is_of_values: false,
    };
    let summary = Summary { steps: 1, compressed: Some(compressed), ..Summary::default() };
    recorder.take(&Event::Ended { run: 1, outcome: Outcome::Finished, summary: Box::new(summary) });
    let key = recorder.key().clone();
    assert_eq!(recorder.finish(), None);
    let store = Store::open(folder.path()).expect("open");
    let smaller = store.get(&key).expect("kept").smaller.expect("it became smaller");
    assert_eq!(Some(smaller), SmallerModel::of(&summary));
    assert_eq!((smaller.became, smaller.bytes, smaller.whole_bytes), (Became::Weights4, Bytes(3000), Bytes(20_000)));
    assert_eq!((smaller.accuracy, smaller.trained_accuracy), (0.75, 0.875));
    assert_eq!(store.get(&plain).expect("kept").smaller, None);
}
