//! Files that no run can go on from: each is refused by its name, with the place and the mend, and nothing is allocated by
//! what they say of themselves.

mod folders;
mod scales;

use std::{
    fs,
    ops::Range,
    path::{Path, PathBuf},
    sync::OnceLock,
    time::Duration,
};

use plimsoll_engine::{
    Bytes, Experiment,
    experiment::{OptimizerKind, Precision, Run, preset},
    hardware::Machine,
    memory::bookkeeping::ENGINE,
    plan::Resolved,
    train::{Checkpoint, Command, Event, Keep, Outcome, Start, Trainer},
};
use proptest::prelude::*;

fn experiment() -> Experiment {
    let mut experiment = Experiment::default();
    (experiment.model.width, experiment.batch.micro, experiment.run.steps) = (8, 16, Some(2));
    experiment
}

fn outcome(start: Start) -> Outcome {
    let trainer = Trainer::new(|| {});
    trainer.send(Command::Start(Box::new(start)));
    loop {
        let event = trainer.events().recv_timeout(Duration::from_secs(120)).expect("the trainer goes on");
        if let Event::Ended { outcome, .. } = event {
            return outcome;
        }
    }
}

/// The bytes of a checkpoint after two steps.
fn whole() -> &'static [u8] {
    static WHOLE: OnceLock<Vec<u8>> = OnceLock::new();
    WHOLE.get_or_init(|| {
        let folder = tempfile::tempdir().expect("a folder");
        let start = Start { keep: Keep::in_folder(folder.path()), ..Start::new(experiment()) };
        assert!(matches!(outcome(start), Outcome::Finished));
        fs::read(folder.path().join("last.safetensors")).expect("it was saved")
    })
}

fn header_length(bytes: &[u8]) -> usize {
    u64::from_le_bytes(*bytes.first_chunk().expect("a length")) as usize
}

/// A file of these bytes, in a folder that lives as long as its place is kept.
fn file(bytes: &[u8]) -> (tempfile::TempDir, PathBuf) {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("run.safetensors");
    fs::write(&path, bytes).expect("written");
    (folder, path)
}

/// What is said of a file of these bytes.
#[track_caller]
fn said(bytes: &[u8]) -> String {
    let (_folder, path) = file(bytes);
    let error = Checkpoint::open(&path).expect_err("no checkpoint").to_string();
    assert!(error.starts_with(path.to_str().expect("text")), "it names the file: {error}");
    error
}

/// The checkpoint with `from` replaced in its header by as many bytes.
fn with(from: &str, to: &str) -> Vec<u8> {
    assert_eq!(from.len(), to.len());
    let mut bytes = whole().to_vec();
    let at = bytes.windows(from.len()).position(|window| window == from.as_bytes()).expect("it is in the header");
    bytes[at..at + from.len()].copy_from_slice(to.as_bytes());
    bytes
}

/// The place of the checksum in a file.
fn checksum_at(bytes: &[u8]) -> Range<usize> {
    let name = b"\"checksum\":\"";
    let at = bytes.windows(name.len()).position(|window| window == name).expect("a checksum") + name.len();
    at..at + 8
}

/// The same file, with the checksum of what it has now.
fn sealed(mut bytes: Vec<u8>) -> Vec<u8> {
    let place = checksum_at(&bytes);
    bytes[place.clone()].copy_from_slice(b"00000000");
    let checksum = format!("{:08x}", crc32fast::hash(&bytes));
    bytes[place].copy_from_slice(checksum.as_bytes());
    bytes
}

/// The same file in the first version of the format, whose checksum leaves out the header.
fn of_first_version() -> Vec<u8> {
    let mut bytes = with("\"plimsoll\":\"2\"", "\"plimsoll\":\"1\"");
    let checksum = format!("{:08x}", crc32fast::hash(&bytes[8 + header_length(&bytes)..]));
    let place = checksum_at(&bytes);
    bytes[place].copy_from_slice(checksum.as_bytes());
    bytes
}

/// A file with this header, and as many zeros after it.
fn of_header(header: &str, elements: usize) -> Vec<u8> {
    let mut bytes = (header.len() as u64).to_le_bytes().to_vec();
    bytes.extend_from_slice(header.as_bytes());
    bytes.resize(bytes.len() + elements, 0);
    bytes
}

#[test]
fn a_checkpoint_says_what_its_run_was() {
    let (_folder, path) = file(whole());
    let checkpoint = Checkpoint::open(&path).expect("whole");
    assert_eq!((checkpoint.step(), checkpoint.path()), (2, path.as_path()));
    assert_eq!(preset::changes(&experiment(), &checkpoint.experiment().expect("an experiment")), Vec::<String>::new());
    // As other programs read it.
    let bytes = whole();
    let header: serde_json::Value =
        serde_json::from_slice(&bytes[8..8 + header_length(bytes)]).expect("a header in JSON");
    assert_eq!(header["head.classes.weight"]["shape"], serde_json::json!([10, 8]));
    assert_eq!(header["__metadata__"]["step"], "2");
    assert_eq!(header_length(bytes) % 8, 0);
}

#[test]
fn a_file_that_was_cut_short_is_refused_wherever_it_was_cut() {
    let bytes = whole();
    let header = header_length(bytes);
    for length in [0, 1, 7, 8, 9, 8 + header / 2, 7 + header, 8 + header, 9 + header, bytes.len() - 1] {
        let said = said(&bytes[..length]);
        assert!(said.contains("cut short"), "{length}: {said}");
    }
    assert!(said(&[bytes, b"more"].concat()).contains("after its last tensor"));
}

#[test]
fn what_a_header_claims_is_held_against_the_file() {
    // Lengths that no machine could hold.
    for length in [u64::MAX, 1 << 62, whole().len() as u64, 100 << 20] {
        let mut bytes = whole().to_vec();
        bytes[..8].copy_from_slice(&length.to_le_bytes());
        assert!(said(&bytes).contains("cut short, or is not a safetensors file"), "{length}");
    }
    let tensor = |dtype: &str, shape: &str, offsets: &str| {
        let header = format!("{{\"a\":{{\"dtype\":\"{dtype}\",\"shape\":{shape},\"data_offsets\":{offsets}}}}}");
        said(&of_header(&header, 16))
    };
    let huge = "[4611686018427387904,4611686018427387904]";
    assert!(tensor("F32", huge, "[0,16]").contains("(tensor a): has the shape"));
    assert!(tensor("F32", "[4]", "[0,18446744073709551615]").contains("(tensor a): lies at"));
    assert!(tensor("F32", "[4]", "[16,0]").contains("(tensor a): lies at"));
    assert!(tensor("F32", "[4]", "[4,20]").contains("16 bytes are due at 0"));
    assert!(tensor("I64", "[2]", "[0,16]").contains("of another program"));
    assert!(tensor("F32", "[8]", "[0,32]").contains("cut short"));
    assert!(said(&of_header("{\"a\": 1}", 0)).contains("header"));
    assert!(said(&of_header(&"[".repeat(100_000), 0)).contains("header"));
}

#[test]
fn a_file_of_another_program_or_a_newer_version_is_told_apart_from_damage() {
    let weights = "{\"a\":{\"dtype\":\"F32\",\"shape\":[4],\"data_offsets\":[0,16]}}";
    assert!(said(&of_header(weights, 16)).contains("of another program"));
    assert!(said(b"version = 2\n[model]\nkind = \"cnn\"\n").contains("not a safetensors file"));
    assert!(said(&with("\"plimsoll\":\"2\"", "\"plimsoll\":\"9\"")).contains("newer version"));
    assert!(said(&with("\"updates\":\"2\"", "\"updates\":\"x\"")).contains("(header, updates)"));
    let mut bytes = whole().to_vec();
    *bytes.last_mut().expect("elements") ^= 1;
    assert!(said(&bytes).contains("(header, checksum)"));
    // One bit of what would change training in silence.
    let learning_rate = format!("learning_rate = {}", experiment().optimizer.learning_rate);
    let another = format!(
        "{}{}",
        &learning_rate[..learning_rate.len() - 1],
        (*learning_rate.as_bytes().last().expect("text") ^ 1) as char
    );
    for (from, to) in
        [(learning_rate.as_str(), another.as_str()), ("seed = 1", "seed = 0"), ("\"place\":\"32\"", "\"place\":\"30\"")]
    {
        assert!(said(&with(from, to)).contains("(header, checksum)"), "{from}");
    }
    let folder = tempfile::tempdir().expect("a folder");
    assert!(Checkpoint::at(folder.path()).expect_err("empty").to_string().contains("has no checkpoint"));
    assert!(Checkpoint::open(folder.path()).expect_err("a folder").to_string().contains("is a folder"));
    assert!(Checkpoint::open(folder.path().join("none")).expect_err("none").to_string().contains("no such file"));
}

#[test]
fn a_checkpoint_of_the_first_version_is_read() {
    let (_folder, path) = file(&of_first_version());
    assert_eq!(Checkpoint::open(&path).expect("whole").step(), 2);
    assert!(matches!(going_on(&of_first_version(), |_| {}), Outcome::Finished));
    let mut bytes = of_first_version();
    *bytes.last_mut().expect("elements") ^= 1;
    assert!(said(&bytes).contains("(header, checksum)"));
}

#[test]
#[cfg(unix)]
fn a_pipe_is_refused_and_not_waited_for() {
    let folder = tempfile::tempdir().expect("a folder");
    let pipe = folder.path().join("last.safetensors");
    assert!(std::process::Command::new("mkfifo").arg(&pipe).status().expect("mkfifo runs").success());
    assert!(Checkpoint::open(&pipe).expect_err("a pipe").to_string().contains("is a pipe or a device"));
}

/// How a run that goes on from the checkpoint as `change` has it ends.
fn going_on(bytes: &[u8], change: impl FnOnce(&mut Experiment)) -> Outcome {
    let (_folder, path) = file(bytes);
    let mut experiment = experiment();
    experiment.run.steps = Some(3);
    change(&mut experiment);
    outcome(Start { resume: Some(path), ..Start::new(experiment) })
}

#[test]
fn a_checkpoint_of_another_experiment_is_refused_with_what_differs() {
    assert!(matches!(going_on(whole(), |_| {}), Outcome::Finished));
    // What neither tensors nor samples hang on.
    let free = |e: &mut Experiment| (e.optimizer.learning_rate, e.batch.micro, e.batch.accumulation) = (1e-4, 8, 2);
    assert!(matches!(going_on(whole(), free), Outcome::Finished));
    let refused = |change: fn(&mut Experiment)| match going_on(whole(), change) {
        Outcome::Failed(error) => error.to_string(),
        other => panic!("{other:?}"),
    };
    assert!(refused(|e| e.model.width = 9).contains("model.width=9"));
    assert!(refused(|e| e.optimizer.kind = OptimizerKind::Sgd).contains("optimizer.kind=\"sgd\""));
    assert!(refused(|e| e.precision = Precision::F64).contains("precision=\"f64\""));
    assert!(refused(|e| e.run.seed = 2).contains("run.seed=2"));
    assert!(refused(|e| e.batch.micro = 17).contains("has batch.micro=17, so 17 samples in a step and not 16;"));
    let said = refused(|e| (e.batch.micro, e.batch.accumulation) = (8, 3));
    assert!(said.contains("has batch.micro=8, batch.accumulation=3, so 24 samples in a step and not 16;"), "{said}");
    let said = refused(|e| e.batch.accumulation = 3);
    assert!(said.contains("has batch.accumulation=3, so 48 samples in a step and not 16;"), "{said}");
    assert!(refused(|e| e.data.test_fraction = 0.5).contains("data.test_fraction=0.5"));
    assert!(refused(|e| e.run.steps = Some(2)).contains("was written after 2"));
}

/// A run that was stopped in its last test, or killed behind it, has all its steps; what is missing of it is its end.
#[test]
fn a_run_with_all_its_steps_and_no_end_comes_to_its_end() {
    let untested = sealed(with("\"tested\":\"2\"", "\"tested\":\"0\""));
    for (bytes, lacks_end, tests) in [(&untested[..], false, 1), (whole(), true, 0)] {
        let (folder, path) = file(bytes);
        let keep = Keep::in_folder(folder.path());
        let trainer = Trainer::new(|| {});
        let start = Start { keep, resume: Some(path), lacks_end, ..Start::new(experiment()) };
        trainer.send(Command::Start(Box::new(start)));
        let (mut steps, mut tested) = (0, 0);
        let (outcome, summary) = loop {
            match trainer.events().recv_timeout(Duration::from_secs(120)).expect("the trainer goes on") {
                Event::Step(_) => steps += 1,
                Event::Evaluated { .. } => tested += 1,
                Event::Ended { outcome, summary, .. } => break (outcome, summary),
                _ => {}
            }
        };
        assert!(matches!(outcome, Outcome::Finished) && summary.test_accuracy.is_some(), "{outcome:?}");
        assert_eq!((steps, tested, summary.steps), (0, tests, 2));
        // Nothing is predicted for steps that are not made.
        let (predicted, measured) = (summary.predicted.live, summary.measured.live);
        let most = measured + ENGINE + Bytes::kib(16);
        assert!((measured..=most).contains(&predicted), "{measured} measured, {predicted} predicted");
        let last = fs::read(folder.path().join("last.safetensors")).expect("saved at its end");
        let elements = |bytes: &[u8]| bytes[8 + header_length(bytes)..].to_vec();
        assert!(elements(&last) == elements(whole()), "other weights");
    }
}

#[test]
fn a_checkpoint_whose_tensors_are_not_those_of_its_experiment_is_refused() {
    let refused = |bytes: &[u8]| match going_on(bytes, |_| {}) {
        Outcome::Failed(error) => error.to_string(),
        other => panic!("{other:?}"),
    };
    let with = |from: &str, to: &str| sealed(with(from, to));
    let said = refused(&with("\"head.classes.weight\"", "\"head.clazzes.weight\""));
    assert!(
        said.contains("(tensor head.classes.weight): is not there") && said.contains("another architecture"),
        "{said}"
    );
    let said = refused(&with("\"shape\":[10,8]", "\"shape\":[8,10]"));
    assert!(said.contains("f32 [8, 10], and the experiment has f32 [10, 8]"), "{said}");
    let said = refused(&with("\"dtype\":\"F32\"", "\"dtype\":\"I32\""));
    assert!(said.contains("I32"), "{said}");
    assert!(refused(&with("\"samples\":\"1", "\"samples\":\"2")).contains("the data have changed"));
    assert!(refused(&with("\"place\":\"32\"", "\"place\":\"33\"")).contains("is not a place"));
}

/// What stands in a run's folder is held against the run before its weights are handed out.
#[test]
fn weights_are_those_of_the_run() {
    let holds = |bytes: &[u8], change: fn(&mut Experiment)| {
        let (_folder, path) = file(bytes);
        let mut experiment = experiment();
        change(&mut experiment);
        let resolved = Resolved::new(&experiment, &Machine::nominal()).expect("an experiment");
        let held = Checkpoint::open(path).expect("whole").holds_the_run(&experiment, Some(&resolved));
        held.map_err(|error| error.to_string())
    };
    assert_eq!(holds(whole(), |_| {}), Ok(()));
    assert_eq!(holds(whole(), |e| e.run.steps = Some(9)), Ok(()));
    let said = holds(whole(), |e| e.model.width = 32).expect_err("another width");
    assert!(
        said.contains("is not a checkpoint of this run") && said.contains("model.width (here 8, of the run 32)"),
        "{said}"
    );
    let other = sealed(with("\"head.classes.weight\"", "\"head.clazzes.weight\""));
    let said = holds(&other, |_| {}).expect_err("another tensor");
    assert!(said.contains("head.classes.weight") && said.contains("another architecture"), "{said}");
    let said = holds(&sealed(with("\"shape\":[10,8]", "\"shape\":[8,10]")), |_| {}).expect_err("another shape");
    assert!(said.contains("f32 [8, 10], and the experiment has f32 [10, 8]"), "{said}");
}

/// A checkpoint in a run's folder that another run saved: what trains would no longer be the run.
#[test]
fn a_run_goes_on_from_no_checkpoint_of_another_run() {
    let going_on = |change: fn(&mut Experiment)| {
        let (_folder, path) = file(whole());
        let mut experiment = experiment();
        experiment.run.steps = Some(3);
        change(&mut experiment);
        outcome(Start { resume: Some(path), is_same_run: true, ..Start::new(experiment) })
    };
    assert!(matches!(going_on(|e| e.title = "Renamed".to_owned()), Outcome::Finished));
    for (change, said) in [
        ((|e| e.optimizer.learning_rate = 0.25) as fn(&mut Experiment), "optimizer.learning_rate (here"),
        (|e| (e.batch.micro, e.batch.accumulation) = (8, 2), "batch.micro (here 16, of the run 8)"),
    ] {
        let Outcome::Failed(error) = going_on(change) else { panic!("{said}: it began") };
        let error = error.to_string();
        assert!(error.contains("is not a checkpoint of this run") && error.contains(said), "{error}");
    }
}

/// What a header says was measured of the bytes alive, as it stands there.
fn measured_live(bytes: &[u8]) -> String {
    let header = String::from_utf8_lossy(&bytes[8..8 + header_length(bytes)]).into_owned();
    let (_, after) = header.split_once("\"measured_live\":\"").expect("it is written");
    after.split('"').next().expect("a number").to_owned()
}

/// A peak may be measured once, and its program be killed before it is recorded.
#[test]
fn a_checkpoint_has_the_highest_memory_that_was_measured_before_it_in_the_same_run() {
    let own = measured_live(whole());
    assert!(own.parse::<u64>().is_ok_and(|bytes| bytes > 1000), "{own}");
    let higher = "9".repeat(own.len());
    let before = sealed(with(&format!("\"measured_live\":\"{own}\""), &format!("\"measured_live\":\"{higher}\"")));
    let after = |is_same_run| {
        let (folder, path) = file(&before);
        let experiment = Experiment { run: Run { steps: Some(3), ..experiment().run }, ..experiment() };
        let keep = Keep::in_folder(folder.path());
        let start = Start { resume: Some(path), is_same_run, keep, ..Start::new(experiment) };
        assert!(matches!(outcome(start), Outcome::Finished));
        measured_live(&fs::read(folder.path().join("last.safetensors")).expect("saved at its end"))
    };
    assert_eq!(after(true), higher);
    let other = after(false);
    assert!(other != higher && other.parse::<u64>().is_ok_and(|bytes| bytes > 1000), "of a run of its own: {other}");
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, ..ProptestConfig::default() })]

    /// Damage anywhere is refused, or leaves a checkpoint as whole as it was.
    #[test]
    fn no_damage_makes_it_panic_or_pass_for_whole(at in 0.0..1.0_f64, byte in any::<u8>(), cut in prop::option::of(0.0..1.0_f64)) {
        let mut bytes = whole().to_vec();
        let at = (at * bytes.len() as f64) as usize;
        let is_changed = std::mem::replace(&mut bytes[at], byte) != byte;
        if let Some(cut) = cut {
            bytes.truncate((cut * bytes.len() as f64) as usize);
        }
        let (_folder, path) = file(&bytes);
        match Checkpoint::open(&path) {
            Ok(_) => prop_assert!(cut.is_none() && !is_changed),
            Err(error) => prop_assert!(error.to_string().contains(path.to_str().expect("text"))),
        }
    }
}
