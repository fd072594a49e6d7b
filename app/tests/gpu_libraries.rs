//! The program with a cuDNN that is too old or incomplete: a simulated one.
#![cfg(all(target_os = "linux", feature = "cuda"))]

use std::{
    fs,
    os::unix::fs::symlink,
    process::{Command, Output},
};

use plimsoll_tests::{manner_settings, simulated_gpu};
use tempfile::TempDir;

/// What the program does where all libraries but `missing` are.
fn run(arguments: &[&str], missing: &str, settings: &[(&str, &str)]) -> Output {
    let folder: TempDir = tempfile::tempdir().expect("a folder");
    for entry in fs::read_dir(simulated_gpu()).expect("the libraries") {
        let entry = entry.expect("a library");
        if missing.is_empty() || !entry.file_name().to_string_lossy().starts_with(missing) {
            symlink(entry.path(), folder.path().join(entry.file_name())).expect("a link");
        }
    }
    let mut program = Command::new(env!("CARGO_BIN_EXE_plimsoll"));
    for elsewhere in ["CUDA_HOME", "CUDA_PATH", "VIRTUAL_ENV", "CONDA_PREFIX"] {
        program.env_remove(elsewhere);
    }
    program
        .args(arguments)
        .env("LD_LIBRARY_PATH", folder.path())
        .env("XDG_CACHE_HOME", folder.path().join("cache"))
        .env("PLIMSOLL_STORE", folder.path().join("store"))
        .envs(manner_settings().iter().copied())
        .envs(settings.iter().copied())
        .output()
        .expect("the program starts")
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

const TRAIN: [&str; 8] = ["train", "cnn-digits", "--device", "cuda:0", "--budget", "1GiB", "--set", "run.steps=2"];

/// Convolutions run without cuDNN, and `plimsoll devices` says why with these words.
fn goes_without_cudnn(missing: &str, settings: &[(&str, &str)], why: &str) {
    let trained = run(&TRAIN, missing, settings);
    let all = text(&trained.stdout) + &text(&trained.stderr);
    assert!(trained.status.success() && all.contains("convolutions run by kernels of our own"), "{all}");
    let told = text(&run(&["devices"], missing, settings).stdout);
    let line = told.lines().find(|line| line.contains("cuDNN")).unwrap_or_else(|| panic!("nothing of cuDNN in {told}"));
    assert!(line.contains("none") && line.contains(why), "{line}");
}

#[test]
fn a_cudnn_of_which_a_part_is_missing_is_not_used_and_said_to_be() {
    // It would end the process when it is first called.
    goes_without_cudnn("libcudnn_graph", &[], "libcudnn_graph.so.9 was not found");
}

#[test]
fn a_cudnn_that_is_too_old_is_not_used_and_said_to_be() {
    goes_without_cudnn("", &[("PLIMSOLL_SIM_DNN", "8907")], "version 9 or later is needed, and 8.9 was found");
}

#[test]
fn a_cudnn_that_is_whole_is_named_with_its_version() {
    let told = text(&run(&["devices"], "", &[]).stdout);
    assert!(told.contains("cuDNN: 9.20.0"), "{told}");
}
