//! Programs that are asked to end: they save first.

use super::*;

fn signal(name: &str, child: &Child) {
    assert!(Command::new("kill").args([name, &child.id().to_string()]).status().expect("kill runs").success());
}

/// Starts a run that would last for hours, and waits until it trains.
fn begun(case: &Case, run: &Path) -> Child {
    let mut child = case.command(run).spawn().expect("the program starts");
    let mut stdout = BufReader::new(child.stdout.take().expect("piped"));
    let mut line = String::new();
    while !line.contains("\"event\":\"step\"") {
        line.clear();
        assert!(stdout.read_line(&mut line).expect("text") > 0, "it trains");
    }
    child.stdout = Some(stdout.into_inner());
    child
}

#[test]
fn a_run_that_is_asked_to_end_saves_and_goes_on_later() {
    for (name, status) in [("-INT", 130), ("-TERM", 143)] {
        let case = Case::new(9, 1_000_000, 0);
        let run = case.run("stopped");
        let mut child = begun(&case, &run);
        signal(name, &child);
        // What was read into the buffer of `begun` is lost; the last event is not.
        let told = gather(&mut child);
        assert_eq!(child.wait().expect("it ends").code(), Some(status), "{name}");
        let last = told.join().expect("lines").last.expect("events");
        assert_eq!((&last["event"], last["steps"].as_u64()), (&"stopped".into(), Some(saved_step(&run))), "{name}");
        let step = saved_step(&run);
        assert!(step > 0);
        let told = to_the_end(case.command(&run).args(["--steps", &(step + 2).to_string()]));
        assert_eq!(told.losses.keys().copied().collect::<Vec<_>>(), [step + 1, step + 2]);
        assert_eq!(saved_step(&run), step + 2);
    }
}

#[test]
fn a_second_signal_ends_the_program_at_once_and_what_was_saved_is_whole() {
    let case = Case::new(0, 1_000_000, 1);
    let run = case.run("stopped");
    let mut child = begun(&case, &run);
    signal("-INT", &child);
    signal("-INT", &child);
    let told = gather(&mut child);
    assert_eq!(child.wait().expect("it ends").code(), Some(130));
    drop(told.join());
    // The first step was told of, and it is saved before the second one begins.
    if run.join("last.safetensors").exists() {
        whole(&run);
    }
}

#[test]
fn a_run_that_cannot_go_on_says_why() {
    let case = Case::new(0, 3, 0);
    let run = case.run("done");
    to_the_end(&mut case.command(&run));
    let said = |arguments: &[&str]| {
        let output = Command::new(env!("CARGO_BIN_EXE_plimsoll")).args(arguments).output().expect("it starts");
        assert_eq!(output.status.code(), Some(1), "{arguments:?}");
        String::from_utf8(output.stderr).expect("text")
    };
    let path = run.to_str().expect("text");
    assert!(said(&["resume", path]).contains("was written after 3; write more than 3 (--steps)"));
    assert!(said(&["resume", case.folder.path().to_str().expect("text")]).contains("has no checkpoint"));
    assert!(said(&["resume", case.preset.to_str().expect("text")]).contains("not a safetensors file"));
    let file = run.join("last.safetensors");
    let bytes = fs::read(&file).expect("there");
    fs::write(&file, &bytes[..bytes.len() - 5]).expect("written");
    let said = said(&["resume", path, "--steps", "5"]);
    assert!(said.contains("last.safetensors (byte") && said.contains("cut short"), "{said}");
}
