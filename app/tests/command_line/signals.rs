//! What ends a run from outside: signals, and a reader that goes away.

use super::*;

#[test]
fn a_reader_that_goes_away_ends_the_run_with_a_word_and_its_status() {
    let mut child = program()
        .args(["train", "mlp-digits", "--steps", "400", "--json"])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("the program starts");
    drop(child.stdout.take());
    let output = child.wait_with_output().expect("it ends");
    let said = text(&output.stderr);
    assert_eq!(output.status.code(), Some(141), "{said}");
    assert!(said.starts_with("standard output has no reader any more, so the run was ended after step "), "{said}");
    // What does not train has done its work.
    let mut child = program().args(["presets"]).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("starts");
    drop(child.stdout.take());
    let output = child.wait_with_output().expect("it ends");
    assert_eq!((output.status.code(), text(&output.stderr).as_str()), (Some(0), ""));
}

#[test]
#[cfg(unix)]
fn a_signal_ends_the_run_and_tells_what_came_of_it() {
    use std::io::{BufRead, BufReader};

    for (signal, status) in [("-INT", 130), ("-TERM", 143), ("-HUP", 129)] {
        let mut child = program()
            .args(["train", "mlp-digits", "--steps", "1000000", "--json"])
            .stdout(Stdio::piped())
            .spawn()
            .expect("the program starts");
        let mut lines = BufReader::new(child.stdout.take().expect("piped")).lines().map_while(Result::ok);
        lines.by_ref().find(|line| line.contains("\"step\"")).expect("a step");
        let killed = Command::new("kill").args([signal, &child.id().to_string()]).status().expect("kill runs");
        assert!(killed.success());
        let last: Value = serde_json::from_str(&lines.last().expect("events")).expect("an object");
        assert_eq!(last["event"], "stopped", "{signal}");
        assert!(last["steps"].as_u64() > Some(0) && last["measured"]["live_bytes"].as_u64() > Some(0), "{last}");
        assert_eq!(child.wait().expect("it ends").code(), Some(status), "{signal}");
    }
}

#[test]
#[cfg(unix)]
fn a_signal_after_the_last_step_of_a_teacher_ends_the_program_before_its_student_has_trained() {
    use std::io::{BufRead, BufReader};

    let mut child = program()
        .args(["train", "mlp-digits", "--set", "distil.teacher=mlp-digits", "--steps", "3000", "--json", "--quiet"])
        .stdout(Stdio::piped())
        .spawn()
        .expect("the program starts");
    let mut lines = BufReader::new(child.stdout.take().expect("piped")).lines().map_while(Result::ok);
    lines.by_ref().find(|line| line.contains("\"finished\"")).expect("the teacher's end");
    let killed = Command::new("kill").args(["-TERM", &child.id().to_string()]).status().expect("kill runs");
    assert!(killed.success());
    // The student may have begun before the signal came.
    assert!(lines.all(|line| !line.contains("\"finished\"")), "the student trained to its end");
    assert_eq!(child.wait().expect("it ends").code(), Some(143));
}

#[test]
#[cfg(unix)]
fn a_signal_ends_a_verification_after_what_was_measured() {
    let child = program()
        .args(["verify", "mlp-digits", "--steps", "100000"])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("the program starts");
    // Long enough for the run to have begun on any machine, and far from long enough for it to end.
    std::thread::sleep(std::time::Duration::from_secs(3));
    let killed = Command::new("kill").args(["-TERM", &child.id().to_string()]).status().expect("kill runs");
    assert!(killed.success());
    let output = child.wait_with_output().expect("it ends");
    assert_eq!(output.status.code(), Some(143));
    assert!(text(&output.stderr).contains("mlp-digits was stopped"), "{}", text(&output.stderr));
    assert!(text(&output.stdout).starts_with("run "), "{}", text(&output.stdout));
}
