//! Disks that are full: simulated by the largest file that the system lets a program write.

use super::*;

/// The command, with files of at most `kib` KiB. A write beyond fails, as on a full disk, where the signal is ignored.
fn within(kib: u64, command: &Command) -> Command {
    let mut shell = Command::new("bash");
    shell.args(["-c", &format!("trap '' XFSZ; ulimit -f {kib}; exec \"$0\" \"$@\"")]);
    shell.envs(command.get_envs().filter_map(|(name, value)| Some((name, value?))));
    shell.arg(command.get_program()).args(command.get_args()).stdout(Stdio::piped()).stderr(Stdio::piped());
    shell
}

#[test]
fn a_full_disk_costs_no_checkpoint_that_was_there_and_is_said() {
    const STEPS: u64 = 6;
    let case = Case::new(7, STEPS, 1);
    // The rate of a shorter run is then that of the whole one.
    let constant = ["--set", "optimizer.schedule=constant"];
    let wanted = to_the_end(case.command(&case.run("whole")).args(constant));
    let (run, size) = (case.run("full"), whole(&case.run("whole")).1.len() as u64 >> 10);
    to_the_end(case.command(&run).args(constant).args(["--set", "run.steps=2"]));
    let before = fs::read(run.join("last.safetensors")).expect("a checkpoint");
    // From the first byte on to nearly the last.
    for kib in [0, 1, size / 3, size / 2, size - 1] {
        let mut command = case.command(&run);
        command.args(["--steps", &STEPS.to_string()]);
        let output = within(kib, &command).output().expect("it starts");
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(1), "{kib} KiB: {said}");
        assert!(said.contains("last.safetensors: cannot be saved") || said.contains("takes no checkpoint"), "{said}");
        // Three checkpoints fail before the end, by the same fault.
        let warned = String::from_utf8_lossy(&output.stdout).matches("tried without this message").count();
        assert_eq!(warned, usize::from(!said.contains("takes no checkpoint")), "{kib} KiB");
        assert!(fs::read(run.join("last.safetensors")).expect("there") == before, "{kib} KiB: as it was");
        assert_eq!(names(&run), ["last.safetensors"], "{kib} KiB");
    }
    let told = to_the_end(case.command(&run).args(["--steps", &STEPS.to_string()]));
    assert_eq!(told.losses, wanted.losses.into_iter().filter(|(step, _)| *step > 2).collect());
    assert!(whole(&run).1 == whole(&case.run("whole")).1, "other weights");
}
