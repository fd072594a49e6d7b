//! The folders that checkpoints are written to: whose they are, and those that take none.

use super::*;

#[test]
fn a_folder_is_of_one_run_at_a_time() {
    let folder = tempfile::tempdir().expect("a folder");
    let keep = || Keep::in_folder(folder.path());
    let trainer = Trainer::new(|| {});
    let first = Start { keep: keep(), paused: true, ..Start::new(experiment()) };
    trainer.send(Command::Start(Box::new(first)));
    while !matches!(trainer.events().recv_timeout(Duration::from_secs(120)), Ok(Event::Paused(true))) {}
    let Outcome::Failed(error) = outcome(Start { keep: keep(), ..Start::new(experiment()) }) else {
        panic!("it began")
    };
    let said = format!("is being trained by process {}; stop it there first", std::process::id());
    assert!(error.to_string().contains(&said), "{error}");
    drop(trainer);
    assert!(matches!(outcome(Start { keep: keep(), ..Start::new(experiment()) }), Outcome::Finished));
}

#[test]
fn a_folder_that_takes_no_file_is_said_before_the_first_step() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("file");
    fs::write(&path, "").expect("written");
    let keep = Keep::in_folder(path.join("runs"));
    let Outcome::Failed(error) = outcome(Start { keep, ..Start::new(experiment()) }) else { panic!("it began") };
    assert!(error.to_string().contains("takes no checkpoint"), "{error}");
}

/// A store that is moved away while a run trains there takes its folder with it.
#[test]
fn a_folder_that_goes_while_a_run_trains_is_made_anew() {
    let folder = tempfile::tempdir().expect("a folder");
    let files = folder.path().join("runs").join("one");
    let mut experiment = experiment();
    (experiment.run.steps, experiment.run.save_every) = (Some(3), 1);
    let trainer = Trainer::new(|| {});
    let keep = Keep::in_folder(&files);
    trainer.send(Command::Start(Box::new(Start { keep, paused: true, ..Start::new(experiment) })));
    loop {
        match trainer.events().recv_timeout(Duration::from_secs(120)).expect("the trainer goes on") {
            Event::Paused(true) => {
                fs::rename(folder.path().join("runs"), folder.path().join("moved")).expect("moved");
                trainer.send(Command::Resume);
            }
            Event::Warning(text) => panic!("{text}"),
            Event::Ended { outcome, .. } => break assert!(matches!(outcome, Outcome::Finished), "{outcome:?}"),
            _ => {}
        }
    }
    assert_eq!(Checkpoint::open(files.join("last.safetensors")).expect("saved").step(), 3);
    assert_eq!(fs::read_dir(&files).expect("there").count(), 1, "the claim of it went");
}

/// What was begun by a program that was killed goes when the next run begins there; nothing else does.
#[test]
fn leftovers_of_a_killed_run_go() {
    let folder = tempfile::tempdir().expect("a folder");
    let [begun, other] = [".plimsoll-abc123.part", "notes.txt"].map(|name| folder.path().join(name));
    fs::write(&begun, "half").and_then(|()| fs::write(&other, "mine")).expect("written");
    let start = Start { keep: Keep::in_folder(folder.path()), ..Start::new(experiment()) };
    assert!(matches!(outcome(start), Outcome::Finished));
    let list = |path: &Path| fs::read_dir(path).expect("listed").flatten().map(|e| e.file_name()).collect::<Vec<_>>();
    let mut names = list(folder.path());
    names.sort();
    assert_eq!(names, ["last.safetensors", "notes.txt"]);
}
