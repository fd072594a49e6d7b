//! The progress of a run when it is saved, and its texts in a file.
//!
//! Numbers are written so that they read back to the last bit.

use std::{collections::HashMap, str::FromStr};

use crate::{
    bytes::Bytes,
    data::Position,
    experiment::limits::MAX_STEPS,
    header::THINNED,
    plan::{Peak, SoFar},
    step::Counters,
};

/// More seconds than any run takes.
const LONGEST_SECS: f64 = 1e10;

/// Where a run stands between two steps.
#[derive(Debug, Clone, PartialEq, Default)]
pub(in crate::train) struct Progress {
    /// The number of steps done.
    pub(in crate::train) step: u64,
    /// Steps of the whole run, by which the learning rate goes.
    pub(in crate::train) total_steps: u64,
    /// The place of the next step in the data.
    pub(in crate::train) position: Position,
    /// The number of training samples.
    pub(in crate::train) samples: u64,
    /// The checksum of their files, where they are read whole before a run; none in the checkpoints of earlier versions.
    pub(in crate::train) data_checksum: Option<u32>,
    /// The checksum of the tokenizer that made tokens of them, with its template; none in the checkpoints of earlier versions.
    pub(in crate::train) tokenizer_checksum: Option<u32>,
    /// The checksum of the teacher's weights, where one teaches.
    pub(in crate::train) teacher_checksum: Option<u32>,
    /// Updates that were skipped.
    pub(in crate::train) skipped_steps: u64,
    /// Seconds so far, pauses excluded.
    pub(in crate::train) secs: f64,
    /// The best accuracy of the tests that count in the end, which are those after pruning; none if there was none, and in the
    /// checkpoints of earlier versions.
    pub(in crate::train) best_final: Option<f64>,
    /// The record of it so far.
    pub(in crate::train) so_far: SoFar,
}

/// The name of a fact that is missing in the file, or malformed.
type Missing = &'static str;

/// The texts of a checkpoint's header, by name.
pub(super) struct HeaderTexts<'a>(pub(super) &'a HashMap<String, String>);

impl HeaderTexts<'_> {
    fn number<T: FromStr>(&self, name: &'static str) -> Result<T, Missing> {
        self.0.get(name).and_then(|text| text.parse().ok()).ok_or(name)
    }

    fn number_if_any<T: FromStr>(&self, name: &'static str) -> Result<Option<T>, Missing> {
        if self.0.contains_key(name) { self.number(name).map(Some) } else { Ok(None) }
    }

    /// Bytes that were measured.
    fn bytes(&self, name: &'static str) -> Result<Bytes, Missing> {
        let bytes = self.number_if_any::<u64>(name)?.unwrap_or_default();
        // The store counts bytes below that.
        if i64::try_from(bytes).is_ok() { Ok(Bytes(bytes)) } else { Err(name) }
    }

    /// A number that steps are counted by.
    fn count(&self, name: &'static str) -> Result<u64, Missing> {
        self.number(name).and_then(|count| if count <= MAX_STEPS { Ok(count) } else { Err(name) })
    }

    /// A number from `least` to `most`.
    fn real(&self, name: &'static str, least: f64, most: f64) -> Result<f64, Missing> {
        self.number(name).and_then(|number| if (least..=most).contains(&number) { Ok(number) } else { Err(name) })
    }

    /// Where the run stands.
    pub(super) fn progress(&self) -> Result<Progress, Missing> {
        Ok(Progress {
            step: self.count("step")?,
            total_steps: self.count("total_steps")?,
            position: Position { epoch: self.count("epoch")?, place: self.number("place")? },
            samples: self.number("samples")?,
            data_checksum: self.number_if_any("data_checksum")?,
            tokenizer_checksum: self.number_if_any("tokenizer_checksum")?,
            teacher_checksum: self.number_if_any("teacher_checksum")?,
            skipped_steps: self.count("skipped_steps")?,
            secs: self.real("secs", 0.0, LONGEST_SECS)?,
            best_final: self.number_if_any("best_final_accuracy")?,
            so_far: self.so_far()?,
        })
    }

    fn so_far(&self) -> Result<SoFar, Missing> {
        Ok(SoFar {
            measured: Peak {
                live: self.bytes("measured_live")?,
                reserved: self.bytes("measured_reserved")?,
                process: self.bytes("measured_process")?,
            },
            train_loss: self.number_if_any("train_loss")?,
            tested: self.count("tested")?,
            test_loss: self.number_if_any("test_loss")?,
            test_accuracy: self.number_if_any("test_accuracy")?,
            best_test_accuracy: self.number_if_any("best_test_accuracy")?,
        })
    }

    /// The counters of the session.
    pub(super) fn counters(&self) -> Result<Counters, Missing> {
        let passes = self.0.get("dropout_passes").ok_or("dropout_passes")?.split_whitespace().map(str::parse);
        Ok(Counters {
            updates: self.count("updates")?,
            loss_scale: (
                self.real("loss_scale", f64::MIN_POSITIVE, f64::from(f32::MAX))?,
                self.count("loss_scale_good_steps")?,
            ),
            passes: passes.collect::<Result<_, _>>().map_err(|_| "dropout_passes")?,
            is_thinned: self.number_if_any(THINNED)?.unwrap_or(false),
        })
    }
}

impl Progress {
    /// The texts that state the progress, and the texts of `counters`.
    pub(super) fn facts(&self, counters: &Counters) -> Vec<(&'static str, String)> {
        let passes: Vec<String> = counters.passes.iter().map(u64::to_string).collect();
        let SoFar { measured, train_loss, tested, test_loss, test_accuracy, best_test_accuracy } = self.so_far;
        let mut facts = vec![
            ("step", self.step.to_string()),
            ("total_steps", self.total_steps.to_string()),
            ("epoch", self.position.epoch.to_string()),
            ("place", self.position.place.to_string()),
            ("samples", self.samples.to_string()),
            ("tested", tested.to_string()),
            ("skipped_steps", self.skipped_steps.to_string()),
            ("secs", self.secs.to_string()),
            ("measured_live", measured.live.0.to_string()),
            ("measured_reserved", measured.reserved.0.to_string()),
            ("measured_process", measured.process.0.to_string()),
            ("updates", counters.updates.to_string()),
            ("loss_scale", counters.loss_scale.0.to_string()),
            ("loss_scale_good_steps", counters.loss_scale.1.to_string()),
            ("dropout_passes", passes.join(" ")),
        ];
        let results = [
            ("train_loss", train_loss),
            ("test_loss", test_loss),
            ("test_accuracy", test_accuracy),
            ("best_test_accuracy", best_test_accuracy),
            ("best_final_accuracy", self.best_final),
        ];
        facts.extend(counters.is_thinned.then(|| (THINNED, true.to_string())));
        facts.extend(self.data_checksum.map(|checksum| ("data_checksum", checksum.to_string())));
        facts.extend(self.tokenizer_checksum.map(|checksum| ("tokenizer_checksum", checksum.to_string())));
        facts.extend(self.teacher_checksum.map(|checksum| ("teacher_checksum", checksum.to_string())));
        facts.extend(results.into_iter().filter_map(|(name, value)| Some((name, value?.to_string()))));
        facts
    }
}

/// The facts in a checkpoint in addition to its tensors. `experiment` is the text of the run's experiment, `about` describes
/// its data.
pub(in crate::train) fn facts(
    progress: &Progress,
    counters: &Counters,
    experiment: &str,
    about: &[(&'static str, String)],
) -> Vec<(&'static str, String)> {
    let mut facts = vec![
        // The mark that other programs look for.
        ("format", "pt".to_owned()),
        ("plimsoll", super::VERSION.to_string()),
        ("program", env!("CARGO_PKG_VERSION").to_owned()),
    ];
    facts.extend(progress.facts(counters));
    facts.extend(about.iter().cloned());
    facts.push(("experiment", experiment.to_owned()));
    facts
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_reads_back_to_the_last_bit() {
        let progress = Progress {
            step: 7,
            total_steps: 100,
            position: Position { epoch: 3, place: 128 },
            samples: 1437,
            data_checksum: Some(0xdead_beef),
            tokenizer_checksum: Some(5),
            teacher_checksum: Some(7),
            skipped_steps: 2,
            secs: 1e-7 / 3.0,
            best_final: Some(0.1 + 0.7),
            so_far: SoFar {
                measured: Peak { live: Bytes(1_234_567), reserved: Bytes(0), process: Bytes(98_765_432) },
                train_loss: Some(f64::MIN_POSITIVE / 3.0),
                tested: 5,
                test_loss: Some(2.0 / 3.0),
                test_accuracy: Some(1.0 / 3.0),
                best_test_accuracy: Some(0.1 + 0.2),
            },
        };
        let counters = Counters { updates: 5, loss_scale: (65536.0, 199), passes: vec![7, 8], is_thinned: true };
        let facts: HashMap<String, String> =
            progress.facts(&counters).into_iter().map(|(name, text)| (name.to_owned(), text)).collect();
        assert_eq!(HeaderTexts(&facts).progress().as_ref(), Ok(&progress));
        assert_eq!(HeaderTexts(&facts).counters(), Ok(counters));
        assert_eq!(HeaderTexts(&HashMap::new()).progress(), Err("step"));
        // Earlier versions wrote none.
        let mut earlier = facts.clone();
        earlier.retain(|name, _| !name.starts_with("measured_") && name != "test_loss");
        let so_far = HeaderTexts(&earlier).so_far();
        assert_eq!(so_far, Ok(SoFar { measured: Peak::default(), test_loss: None, ..progress.so_far }));
        let with = |name: &str, text: &str| {
            let mut facts = facts.clone();
            facts.insert(name.to_owned(), text.to_owned());
            (HeaderTexts(&facts).progress().err(), HeaderTexts(&facts).counters().err())
        };
        for text in ["NaN", "-1", "inf", "1e300"] {
            assert_eq!(with("secs", text), (Some("secs"), None), "{text}");
            assert_eq!(with("loss_scale", text), (None, Some("loss_scale")), "{text}");
        }
        let most = u64::MAX.to_string();
        assert_eq!(with("measured_live", &most), (Some("measured_live"), None));
        assert_eq!((with("epoch", &most).0, with("updates", &most).1), (Some("epoch"), Some("updates")));
    }
}
