//! Where the system lets the process map little (`ulimit -v`): commands answer alike, and in words.

use std::os::unix::process::ExitStatusExt;

use super::*;

/// A command in a process that may map this many KiB.
fn limited(kib: u64, arguments: &[&str]) -> Output {
    let mut command = Command::new("sh");
    command.args(["-c", &format!("ulimit -v {kib}; exec \"$0\" \"$@\""), env!("CARGO_BIN_EXE_plimsoll")]);
    command.args(arguments).env("PLIMSOLL_STORE", program_store()).output().expect("the shell starts")
}

/// The least KiB, in steps of 1 MiB, with which the system loads the program at all.
fn least_to_load() -> u64 {
    (16..512)
        .map(|mib| mib << 10)
        .find(|kib| limited(*kib, &["presets"]).status.success())
        .expect("half a GiB is enough")
}

#[test]
fn what_fits_by_a_plan_trains_and_what_does_not_is_refused_in_words() {
    const PRESET: [&str; 4] = ["mlp-digits", "--quiet", "--set", "run.steps=2"];
    let of = |command: &'static str, more: &'static [&str]| [&[command][..], &PRESET, more].concat();
    let least = least_to_load();
    let (mut refused_to_start, mut refused, mut trained) = (0_u64, 0_u64, 0_u64);
    for kib in (0..24).map(|step| least + (step << 12)) {
        let plan = limited(kib, &of("plan", &["--check"]));
        let train = limited(kib, &of("train", &["--keep", "series"]));
        let fit = limited(kib, &of("fit", &["--seconds", "1"]));
        for output in [&plan, &train, &fit] {
            let said = format!("{}{}", text(&output.stdout), text(&output.stderr));
            assert!(output.status.signal().is_none(), "{kib} KiB: {}: {said}", output.status);
            let is_said = said.contains("ulimit -v") || said.contains("this process can have");
            assert!(output.status.success() || is_said, "{kib} KiB: {}: {said}", output.status);
        }
        let starts = !text(&plan.stderr).contains("the program starts with");
        for output in [&train, &fit] {
            assert_eq!(!text(&output.stderr).contains("the program starts with"), starts, "{kib} KiB");
        }
        assert!(
            train.status.success() || !plan.status.success(),
            "{kib} KiB: a false \"fits\": {}",
            text(&train.stderr)
        );
        match (starts, plan.status.success()) {
            (false, _) => refused_to_start += 1,
            (true, false) => refused += 1,
            (true, true) => trained += 1,
        }
    }
    assert!(refused_to_start > 0 && refused > 0 && trained > 0, "{refused_to_start} {refused} {trained}");
    // Where a plan comes to fit, MiB by MiB.
    let edge = least + ((refused_to_start + refused - 1) << 12);
    for kib in (0..12).map(|step| edge + (step << 10)) {
        if limited(kib, &of("plan", &["--check"])).status.success() {
            let train = limited(kib, &of("train", &["--keep", "series"]));
            assert!(train.status.success(), "{kib} KiB: a false \"fits\": {}", text(&train.stderr));
        }
    }
}
