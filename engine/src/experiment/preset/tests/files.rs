//! Files that are not presets, and files that cannot be written.

use std::{fs, path::Path};

use super::*;
use crate::whole_file;

#[test]
fn files_that_are_no_presets_are_refused_by_name() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("x.toml");
    let said = |path: &Path| read(path).expect_err("refused").to_string();
    assert!(said(&path).contains("no such file"));
    assert!(said(folder.path()).contains("is a folder"));
    fs::write(&path, "#".repeat(MAX_BYTES as usize + 1)).expect("written");
    assert!(said(&path).contains("larger than 1.00 MiB"));
    fs::write(&path, b"title = \"\xff\"").expect("written");
    assert!(said(&path).contains("(byte 9): is not UTF-8"));
}

#[test]
fn a_failed_save_leaves_the_old_file_whole() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("x.toml");
    let good = Experiment::default();
    write(&path, &good).expect("written");
    assert_eq!(read(&path).expect("read"), good);

    let bad = Experiment { budget: Bytes(0), ..Default::default() };
    assert!(write(&path, &bad).is_err());
    let mut locked = fs::metadata(&path).expect("there").permissions();
    locked.set_readonly(true);
    fs::set_permissions(&path, locked).expect("set");
    let other = Experiment { title: "Other".to_owned(), ..Default::default() };
    assert!(write(&path, &other).expect_err("locked").to_string().contains("write-protected"));
    assert_eq!(read(&path).expect("read"), good);

    let nowhere = folder.path().join("none").join("x.toml");
    assert!(write(&nowhere, &other).expect_err("no folder").to_string().contains("no such file or folder"));
    let left: Vec<_> = fs::read_dir(folder.path()).expect("listed").collect();
    assert_eq!(left.len(), 1, "nothing lies next to it: {left:?}");
}

#[test]
#[cfg(target_os = "linux")]
fn a_full_disk_is_said_to_be_full() {
    // Every write to this device fails as on a full disk.
    let mut full = fs::OpenOptions::new().write(true).open("/dev/full").expect("there");
    let error = whole_file::fill(&mut full, b"text", true).expect_err("full");
    assert_eq!(whole_file::reason(&error), "the disk is full");
}

#[test]
fn files_that_give_nothing_are_refused() {
    for text in ["", "\n\n", "# only a remark\n"] {
        assert!(answer(text).contains("gives no key; a preset begins with `version = 2`"), "{}", answer(text));
    }
    for text in ["[]", "null", "3", "\"words\"", "[1, 2]"] {
        assert!(answer(text).contains("is JSON, but neither a preset nor a model's config.json"), "{}", answer(text));
    }
}

#[test]
fn files_of_other_programs_are_called_what_they_are() {
    let folder = tempfile::tempdir().expect("a folder");
    let said = |name: &str, bytes: &[u8]| {
        let path = folder.path().join(name);
        fs::write(&path, bytes).expect("written");
        open(&path).expect_err("refused").to_string()
    };
    let header = [&20_u64.to_le_bytes()[..], b"{\"a\":{\"dtype\":\"F32\"}}", &[0xff; 8]].concat();
    for name in ["model.safetensors", "model.data"] {
        let message = said(name, &header);
        assert!(message.contains("is a file of weights (safetensors); open the config.json"), "{message}");
    }
    // Larger than any preset, and still named.
    assert!(said("large.safetensors", &vec![0; 2 << 20]).contains("safetensors"));
    let table = said("table.csv", b"a,b\n1,2\n");
    assert!(table.contains("is a table of values; choose data in the experiment"), "{table}");
    assert!(table.ends_with("choose a preset (.toml) or a model's config.json"), "{table}");
    assert!(said("image", &[0x89, b'P', b'N', b'G', 13, 10]).contains("is an image"));
}

#[test]
#[cfg(unix)]
fn a_pipe_is_refused_at_once() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("pipe");
    let made = std::process::Command::new("mkfifo").arg(&path).status().expect("mkfifo runs");
    assert!(made.success());
    assert!(open(&path).expect_err("a pipe").to_string().contains("is a pipe or a device, not a file"));
    // Also as the configuration in a model's folder, which is what the message names then.
    let config = folder.path().join("config.json");
    std::fs::rename(&path, &config).expect("renamed");
    let said = crate::experiment::shipped::open(folder.path().to_str().expect("a name in text"));
    let said = said.expect_err("a pipe").to_string();
    assert!(said.contains("config.json") && said.contains("is a pipe or a device"), "{said}");
}

#[test]
fn a_folder_without_a_model_is_answered_by_what_is_in_it() {
    let folder = tempfile::tempdir().expect("a folder");
    let said = || open(folder.path()).expect_err("no model").to_string();
    assert!(said().contains("is a folder; choose a preset (.toml) or a model's config.json in it"), "{}", said());
    std::fs::write(folder.path().join("model.safetensors"), "").expect("written");
    assert!(said().contains("weights without a config.json") && said().contains("--set weights.path="), "{}", said());
    std::fs::write(folder.path().join("adapter_config.json"), "{}").expect("written");
    assert!(said().contains("a folder of adapters") && said().contains("--merge"), "{}", said());
}
