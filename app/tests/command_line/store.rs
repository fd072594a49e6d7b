//! Stores that are hardly to be used, and runs by what they are called: what a user is told.

use std::os::unix::fs::PermissionsExt;

use super::*;

/// A folder with a store in it, and the commands on it.
struct Place {
    folder: tempfile::TempDir,
    store: PathBuf,
}

impl Place {
    fn new() -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        let store = folder.path().join("store");
        Self { folder, store }
    }

    fn command(&self, arguments: &[&str]) -> Command {
        let mut program = program();
        program.args(arguments).arg("--store").arg(&self.store).current_dir(self.folder.path());
        program
    }

    /// What a command that must succeed wrote to stdout.
    #[track_caller]
    fn told(&self, arguments: &[&str]) -> String {
        let output = self.command(arguments).output().expect("the program starts");
        assert!(output.status.success(), "{arguments:?}: {}{}", text(&output.stdout), text(&output.stderr));
        text(&output.stdout)
    }

    /// What a command that must fail said.
    #[track_caller]
    fn refused(&self, arguments: &[&str]) -> String {
        let output = self.command(arguments).output().expect("the program starts");
        assert_eq!(output.status.code(), Some(1), "{arguments:?}: {}", text(&output.stdout));
        text(&output.stderr)
    }

    /// Trains a small run, and gives its key.
    #[track_caller]
    fn train(&self, more: &[&str]) -> String {
        let small = ["train", "mlp-digits", "--steps", "2", "--set", "model.width=8", "--json"];
        let events = lines(&self.told(&[&small[..], more].concat()));
        let kept = events.iter().find(|event| event["event"] == "kept").expect("kept");
        kept["run"].as_str().expect("a key").to_owned()
    }
}

#[test]
fn a_store_may_be_named_before_the_command_that_uses_it() {
    let place = Place::new();
    let run = |arguments: &[&str]| {
        let mut command = program();
        command.arg("--store").arg(&place.store).args(arguments).output().expect("the program starts")
    };
    let trained = run(&["train", "mlp-digits", "--steps", "1", "--quiet"]);
    assert!(trained.status.success(), "{}", text(&trained.stderr));
    let listed = run(&["runs", "tag", "last", "first"]);
    assert!(listed.status.success(), "{}", text(&listed.stderr));
    let shown = text(&run(&["show", "last"]).stdout);
    assert!(shown.contains("Tags: first") && shown == place.told(&["show", "last"]), "{shown}");
    // A command that neither reads nor keeps runs has no store.
    let refused = run(&["plan", "mlp-digits"]);
    let said = text(&refused.stderr);
    assert!(
        refused.status.code() == Some(2) && said.starts_with("error: unexpected argument '--store' found"),
        "{said}"
    );
    let mistyped = run(&["trian", "mlp-digits", "--steps", "1"]);
    assert!(text(&mistyped.stderr).contains("did you mean train?"), "{}", text(&mistyped.stderr));
}

/// Rights to a folder and to the files in it; all are given back at the end.
struct Rights<'a>(&'a Path);

impl Rights<'_> {
    fn set(&self, folder: u32, file: u32) {
        let change = |path: &Path, mode| fs::set_permissions(path, fs::Permissions::from_mode(mode)).expect("changed");
        change(self.0, 0o755);
        for entry in fs::read_dir(self.0).expect("a folder") {
            let path = entry.expect("an entry").path();
            change(&path, if path.is_dir() { folder } else { file });
        }
        change(self.0, folder);
    }
}

impl Drop for Rights<'_> {
    fn drop(&mut self) {
        self.set(0o755, 0o644);
    }
}

/// The command as of a user whom rights bind: the administrator goes without the privilege to pass over them.
fn bound(command: &Command) -> Command {
    use std::os::unix::fs::MetadataExt;

    let is_administrator = fs::metadata("/proc/self").is_ok_and(|this| this.uid() == 0);
    let mut bound = Command::new(if is_administrator { "setpriv" } else { "env" });
    if is_administrator {
        bound.args(["--bounding-set", "-dac_override,-dac_read_search"]);
    }
    bound.envs(command.get_envs().filter_map(|(name, value)| Some((name, value?))));
    bound.arg(command.get_program()).args(command.get_args()).current_dir(command.get_current_dir().expect("one"));
    bound
}

#[cfg(target_os = "linux")]
#[test]
fn a_store_without_rights_is_read_and_what_cannot_be_is_said() {
    let place = Place::new();
    let run = place.train(&[]);
    let rights = Rights(&place.store);
    rights.set(0o555, 0o444);
    let output = |arguments: &[&str]| bound(&place.command(arguments)).output().expect("it starts");
    for arguments in [&["runs"][..], &["show", "last"], &["export", "last", "--format", "csv", "-o", "-"]] {
        let output = output(arguments);
        let (told, said) = (text(&output.stdout), text(&output.stderr));
        assert!(output.status.success() && said.is_empty(), "{arguments:?}: {said}");
        assert!(told.contains(&run) || arguments[0] == "export", "{told}");
    }
    assert_eq!(fs::read_dir(&place.store).expect("a folder").count(), 2, "nothing is made next to the store");
    let renamed = output(&["runs", "rename", "last", "new"]);
    assert_eq!(renamed.status.code(), Some(1));
    assert!(text(&renamed.stderr).contains("no rights to it, or the disk is read-only"), "{}", text(&renamed.stderr));
    let deleted = output(&["runs", "delete", "last", "--yes"]);
    assert_eq!(deleted.status.code(), Some(1));
    assert!(text(&deleted.stderr).contains("this user has no rights to it"), "{}", text(&deleted.stderr));
    // A folder that may not even be looked into has not "no runs".
    rights.set(0o000, 0o000);
    let closed = output(&["runs"]);
    assert_eq!(closed.status.code(), Some(1), "{}", text(&closed.stdout));
    assert!(text(&closed.stderr).contains("this user has no rights to its folder"), "{}", text(&closed.stderr));
    rights.set(0o755, 0o644);
    assert_eq!(fs::read_dir(place.store.join("runs").join(&run)).expect("files").count(), 1, "nothing was deleted");
}

#[cfg(unix)]
#[test]
fn nothing_is_written_over_the_store_itself() {
    let place = Place::new();
    let run = place.train(&["--set", "run.save_every=1"]);
    let at = |name: &str| place.store.join(name);
    let weights = format!("runs/{run}/last.safetensors");
    let before = (fs::read(at("runs.db")).expect("there"), fs::read(at(&weights)).expect("saved"));
    std::os::unix::fs::symlink(&place.store, place.folder.path().join("link")).expect("made");
    std::os::unix::fs::symlink(at("runs.db"), place.folder.path().join("file.lock")).expect("made");
    let by_link = place.folder.path().join("link/runs/../runs.db-shm");
    let places =
        [at("runs.db"), at("runs.db-wal"), at("runs/../runs.db-journal"), at(&weights), at("runs/any"), by_link];
    let linked = [place.folder.path().join("file.lock")];
    for output in places.iter().chain(&linked).map(|path| path.to_str().expect("text")) {
        for format in ["safetensors", "csv"] {
            let said = place.refused(&["export", "last", "-f", format, "-o", output, "--force"]);
            assert!(said.contains("belongs to the store of kept runs"), "{said}");
        }
        // Of what plans alone no store is named.
        assert!(fails(1, &["lock", "mlp-digits", "-o", output, "--force"]).contains("belongs to the store"));
    }
    let said = place.refused(&["export", "last", "-f", "tensorboard", "-o", at("runs").to_str().expect("text")]);
    assert!(said.contains("belongs to the store"), "{said}");
    assert!(before == (fs::read(at("runs.db")).expect("there"), fs::read(at(&weights)).expect("saved")));
    // Next to those it may lie, by any path.
    for name in ["out.csv", "runs/../other.csv"] {
        place.told(&["export", "last", "-f", "csv", "-o", at(name).to_str().expect("text")]);
    }
}

#[cfg(target_os = "linux")]
#[test]
fn a_full_disk_keeps_nobody_from_reading() {
    let place = Place::new();
    let run = place.train(&[]);
    let mut full = Command::new("bash");
    full.args([
        "-c",
        "trap '' XFSZ; ulimit -f 0; \"$0\" \"$@\" | cat",
        env!("CARGO_BIN_EXE_plimsoll"),
        "runs",
        "--store",
    ]);
    let output = full.arg(&place.store).output().expect("it starts");
    assert!(text(&output.stdout).contains(&run), "{}{}", text(&output.stdout), text(&output.stderr));
}

#[test]
fn a_store_is_opened_by_its_path_and_nothing_else() {
    for name in ["file:x", "a?mode=memory#b%41", ":memory:"] {
        let mut place = Place::new();
        place.store = PathBuf::from(name);
        let run = place.train(&[]);
        assert!(place.told(&["runs"]).contains(&run), "{name}");
        assert!(place.folder.path().join(name).join("runs.db").is_file(), "{name}");
    }
}

#[test]
fn what_is_no_store_is_said_and_stays() {
    let place = Place::new();
    fs::write(&place.store, "a file").expect("written");
    assert!(place.refused(&["runs"]).contains("there is a file in its place"));
    fs::remove_file(&place.store).expect("removed");
    fs::create_dir(&place.store).expect("made");
    let database = place.store.join("runs.db");
    fs::write(&database, "").expect("written");
    let said = place.refused(&["runs"]);
    assert!(said.contains("is an empty file, so no run is in it"), "{said}");
    assert_eq!(fs::read(&database).expect("there"), b"");
    // As it is said there.
    assert!(said.contains("the next run is kept in this file"), "{said}");
    place.told(&["train", "mlp-digits", "--steps", "1", "--quiet"]);
    assert_eq!(place.told(&["runs", "--json"]).lines().count(), 1);
}

#[test]
fn a_title_cannot_drive_the_terminal() {
    let place = Place::new();
    let file = place.folder.path().join("sly.toml");
    fs::write(&file, "title = \"a\\u001b[31mred\\u0007\"\nbudget = \"64MiB\"\n[run]\nsteps = 2\n").expect("written");
    place.told(&["train", "sly.toml", "--quiet"]);
    place.told(&["runs", "note", "last", "n\u{1b}]0;x\u{7}"]);
    place.told(&["runs", "tag", "last", "t\u{9b}1m"]);
    for arguments in [&["runs"][..], &["show", "last"], &["compare", "last", "sly.toml"], &["train", "sly.toml"]] {
        let output = place.command(arguments).output().expect("it starts");
        let all = text(&output.stdout) + &text(&output.stderr);
        let sly = |c: char| c.is_control() && c != '\n' && c != '\t';
        assert!(output.status.success() && !all.contains(sly), "{arguments:?}: {all:?}");
        assert!(all.contains("a\\u{1b}[31mred\\u{7}"), "{arguments:?}: {all}");
    }
    let row = &lines(&place.told(&["runs", "--json"]))[1];
    assert_eq!(row["title"], "a\u{1b}[31mred\u{7}", "a script gets it as it is");
}

#[test]
fn a_run_is_meant_by_its_name_and_gives_its_key_to_files() {
    let place = Place::new();
    let [first, second] = [place.train(&[]), place.train(&[])];
    place.told(&["runs", "rename", &first, "wider head"]);
    assert!(place.told(&["show", "wider head"]).starts_with(&first));
    place.told(&["resume", "wider head", "--steps", "3", "--quiet"]);
    assert!(place.told(&["show", "wider head"]).contains("3 of 3 steps"));
    place.told(&["export", "wider head", "--format", "csv"]);
    place.told(&["export", "last", "--format", "svg"]);
    for file in [format!("{first}.csv"), format!("{second}.svg")] {
        assert!(place.folder.path().join(&file).is_file(), "{file}");
    }
    let renamed = place.command(&["runs", "rename", &second, "wider head"]).output().expect("it starts");
    let said = text(&renamed.stderr);
    assert!(
        renamed.status.success() && said.contains(&format!("another run is called wider head as well: {first};")),
        "{said}"
    );
    let both = place.refused(&["show", "wider head"]);
    assert!(
        both.contains("run wider head: 2 runs have this name: ") && both.contains(&first) && both.contains(&second),
        "{both}"
    );
    let of_preset = place.refused(&["show", "mlp-digits"]);
    assert!(of_preset.contains("run mlp-digits: 2 runs are of this preset: "), "{of_preset}");
    // Side by side, they are told apart by when they began.
    let compared: Value = serde_json::from_str(&place.told(&["compare", &first, &second, "--json"])).expect("JSON");
    let names = [0, 1].map(|i| compared["subjects"][i]["name"].as_str().expect("a name").to_owned());
    assert!(names[0] != names[1] && names.iter().all(|name| name.starts_with("wider head, ")), "{names:?}");
    let page = place.told(&["export", &first, &second, "--format", "html", "-o", "-"]);
    assert!(names.iter().all(|name| page.contains(name.as_str())));
    assert!([&first, &second].iter().all(|key| page.contains(&format!("<td>{key}</td>"))), "{page}");
    let missing = place.refused(&["export", "last", "--format", "csv", "-o", "none/run.csv"]);
    assert!(missing.contains("none/run.csv: cannot be written: there is no folder none"), "{missing}");
}

#[test]
fn a_kept_run_is_told_with_the_prediction_that_was_kept_with_it() {
    let place = Place::new();
    let run = place.train(&[]);
    let shown: Value = serde_json::from_str(&place.told(&["show", &run, "--json"])).expect("JSON");
    let process = shown["predicted"]["process_bytes"].as_u64().expect("bytes");
    let page = place.told(&["export", &run, "--format", "html", "-o", "-"]);
    let told =
        format!("<td>process (predicted: an estimate)</td><td class=\"n\">{}</td>", plimsoll_engine::Bytes(process));
    assert!(page.contains(&told), "{told} in {page}");
    let compared = || place.told(&["compare", &run, "cnn-digits"]);
    let row = |text: String| text.lines().find(|line| line.contains("estimated time")).map(str::to_owned);
    let both = row(compared()).expect("a row");
    assert_eq!(both.matches("estimated now").count(), 1, "{both}");
    let compared: Value = serde_json::from_str(&place.told(&["compare", &run, "cnn-digits", "--json"])).expect("JSON");
    assert_eq!(compared["subjects"][0]["step_secs"], shown["predicted"]["step_secs"]);
}

#[test]
fn a_name_by_which_a_run_cannot_be_meant_is_refused_or_warned_of() {
    let place = Place::new();
    let run = place.train(&[]);
    assert!(place.told(&["show", "mlp-digits"]).starts_with(&run), "the run of a shipped preset");
    for name in ["last", " last ", "2026", &run] {
        let output = place.command(&["runs", "rename", &run, name]).output().expect("it starts");
        let said = text(&output.stderr);
        assert!(output.status.code() == Some(2) && said.contains("always means"), "{name}: {said}");
    }
    let other = place.train(&[]);
    let warned = |run: &str, name: &str| {
        let output = place.command(&["runs", "rename", run, name]).output().expect("it starts");
        assert!(output.status.success() && text(&output.stdout).contains("is called"), "{name}");
        text(&output.stderr)
    };
    assert_eq!(warned(&run, "20 layers"), "");
    assert!(warned(&other, "20 layers").contains("another run is called 20 layers as well"));
    assert!(warned(&other, "cnn-digits").contains("is a shipped preset"));
    let twice = place.command(&["compare", &run, "20 layers"]).output().expect("it starts");
    assert!(text(&twice.stderr).contains(&format!("are one run, {run}")), "{}", text(&twice.stderr));
    fs::create_dir(place.folder.path().join("last")).expect("made");
    assert!(place.refused(&["resume", "last"]).contains(&format!("plimsoll resume {other}")));
}

#[test]
fn a_run_has_one_prediction_wherever_it_is_told() {
    let place = Place::new();
    let trained = place.told(&["train", "mlp-digits", "--steps", "2", "--set", "model.width=8"]);
    let predicted = |told: &str| {
        let line = told.lines().find(|line| line.starts_with("process")).expect("a line").to_owned();
        let words: Vec<&str> = line.split_whitespace().collect();
        let unit = words.iter().position(|word| *word == "MiB").expect("a figure");
        words[unit - 1].to_owned()
    };
    assert_eq!(predicted(&trained), predicted(&place.told(&["show", "last"])));
}

#[test]
fn a_shell_is_offered_the_presets_and_runs_that_there_are() {
    let place = Place::new();
    let run = place.train(&[]);
    place.told(&["runs", "rename", "last", "baseline"]);
    fs::write(place.folder.path().join("cnn-mine.toml"), "").expect("written");
    let offered = |shell: &str, words: &[&str]| {
        let mut program = program();
        program.env("PLIMSOLL_COMPLETE", shell).env("_CLAP_COMPLETE_INDEX", (words.len() - 1).to_string());
        program.env("_CLAP_IFS", "\n").env("PLIMSOLL_STORE", &place.store).current_dir(place.folder.path());
        let output = program.arg("--").args(words).output().expect("it starts");
        assert!(output.status.success() && output.stderr.is_empty(), "{}", text(&output.stderr));
        text(&output.stdout)
    };
    for shell in ["bash", "zsh", "fish", "powershell", "elvish"] {
        assert!(offered(shell, &["plimsoll", "runs", "pr"]).contains("prune"), "{shell}");
        assert!(offered(shell, &["plimsoll", "show", ""]).contains(&run), "{shell}");
        assert!(stdout(&["completions", shell]).contains("PLIMSOLL_COMPLETE"), "{shell}");
    }
    let presets = offered("bash", &["plimsoll", "train", "cnn"]);
    assert!(presets.lines().any(|line| line == "cnn-digits") && presets.contains("cnn-mine.toml"), "{presets}");
    assert!(!presets.contains("mlp-digits"), "{presets}");
    assert_eq!(offered("bash", &["plimsoll", "show", "ba"]), "baseline");
    assert_eq!(offered("bash", &["plimsoll", "show", "--store", "/none", "ba"]), "");
    assert_eq!(offered("bash", &["plimsoll", "resume", &run[..15]]), run);
}
