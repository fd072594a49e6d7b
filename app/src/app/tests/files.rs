//! Opening, saving and dropping presets, if no desktop dialog answers.

use std::{fs, sync::Arc};

use super::*;

/// A file as a desktop drops it.
#[derive(Debug)]
struct Dropped(PathBuf);

impl egui::DroppedFile for Dropped {
    fn path(&self) -> &Path {
        &self.0
    }

    fn bytes(&self) -> Result<Vec<u8>, String> {
        fs::read(&self.0).map_err(|error| error.to_string())
    }
}

fn folder() -> tempfile::TempDir {
    tempfile::tempdir().expect("a folder")
}

/// Presses a key and waits for the field in which a path is typed.
fn ask(window: &mut Window, modifiers: Modifiers, key: Key) {
    window.key_press_modifiers(modifiers, key);
    until(window, |app| matches!(app.state.dialog, Some(Dialog::Path { .. })));
    window.run_steps(2);
}

/// Types a path in place of what the field holds and presses Enter.
fn enter(window: &mut Window, path: &Path) {
    window.key_press_modifiers(Modifiers::COMMAND, Key::A);
    window.run_steps(1);
    window.get_by_label("Path").type_text(&path.display().to_string());
    window.run_steps(2);
    window.key_press(Key::Enter);
    window.run_steps(3);
}

#[test]
fn a_preset_is_saved_and_opened_by_a_typed_path_where_no_dialog_answers() {
    let folder = folder();
    let path = folder.path().join("mine.toml");
    let mut window = window(digits());
    ask(&mut window, Modifiers::COMMAND, Key::S);
    let suggested = window.get_by_label("Path").value().unwrap_or_default();
    assert!(suggested.ends_with("tiny.toml"), "{suggested}");
    enter(&mut window, &path);
    assert_eq!(preset::read(&path).expect("it was written"), digits());
    assert_eq!(
        (app(&window).state.document.path.as_ref(), app(&window).state.document.is_changed()),
        (Some(&path), false)
    );

    window.get_by_role_and_label(Role::Slider, "Micro-batch").increment_accesskit();
    window.run_steps(2);
    window.key_press_modifiers(Modifiers::COMMAND, Key::S);
    window.run_steps(3);
    assert_eq!(
        preset::read(&path).expect("it was written").batch.micro,
        96,
        "a known file is saved without a question"
    );

    window.key_press_modifiers(Modifiers::COMMAND, Key::N);
    window.run_steps(3);
    ask(&mut window, Modifiers::COMMAND, Key::O);
    let suggested = window.get_by_label("Path").value().unwrap_or_default();
    assert_eq!(PathBuf::from(suggested), folder.path().join(""), "where files were saved before");
    enter(&mut window, &path);
    assert_eq!(app(&window).state.document.experiment.batch.micro, 96);
}

#[test]
fn what_a_file_gives_and_nothing_uses_is_told_and_stops_nothing() {
    let folder = folder();
    let path = folder.path().join("mine.toml");
    let text = "version = 2\n[optimizer]\nkind = \"adamw\"\nmomentum = 0.8\n[data]\nmodulus = 7\n";
    fs::write(&path, text).expect("writes");
    let mut window = window(digits());
    ask(&mut window, Modifiers::COMMAND, Key::O);
    enter(&mut window, &path);
    assert_eq!(app(&window).state.document.path.as_ref(), Some(&path));
    let log = &app(&window).state.log.entries;
    for words in ["(line 4, column 1): optimizer.momentum is not used by adamw", "(line 6, column 1): data.modulus is"]
    {
        assert!(log.iter().any(|entry| entry.text.contains(words)), "{log:?}");
    }
    assert!(window.query_by_label_contains("The log names 1 more setting that is not used").is_some());
}

#[test]
fn another_file_is_replaced_only_after_a_question() {
    let folder = folder();
    let other = folder.path().join("other.toml");
    fs::write(&other, "precious").expect("writes");
    let mut window = window(digits());
    ask(&mut window, Modifiers::COMMAND | Modifiers::SHIFT, Key::S);
    enter(&mut window, &other);
    window.get_by_role_and_label(Role::Button, "Cancel").click();
    window.run_steps(3);
    assert_eq!(fs::read_to_string(&other).expect("there"), "precious");
    ask(&mut window, Modifiers::COMMAND | Modifiers::SHIFT, Key::S);
    enter(&mut window, &other);
    window.get_by_role_and_label(Role::Button, "Replace").click();
    window.run_steps(3);
    assert_eq!(preset::read(&other).expect("it was written"), digits());
}

#[test]
fn a_file_that_another_program_changed_is_replaced_only_after_a_question() {
    let folder = folder();
    let file = folder.path().join("mine.toml");
    preset::write(&file, &digits()).expect("writes");
    let mut window = opened(PersistedState::default(), Some(file.clone()));
    window.run_steps(3);
    window.get_by_role_and_label(Role::Slider, "Micro-batch").increment_accesskit();
    window.run_steps(2);
    let mut theirs = digits();
    theirs.run.seed = 99;
    preset::write(&file, &theirs).expect("writes");
    window.key_press_modifiers(Modifiers::COMMAND, Key::S);
    window.run_steps(3);
    assert_eq!(preset::read(&file).expect("there"), theirs);
    window.get_by_role_and_label(Role::Button, "Replace").click();
    window.run_steps(3);
    assert_eq!(preset::read(&file).expect("there"), app(&window).state.document.experiment);
    // What was written here is not another program's change.
    window.get_by_role_and_label(Role::Slider, "Micro-batch").increment_accesskit();
    window.run_steps(2);
    window.key_press_modifiers(Modifiers::COMMAND, Key::S);
    window.run_steps(3);
    assert_eq!(preset::read(&file).expect("there"), app(&window).state.document.experiment);
}

#[test]
fn what_cannot_be_saved_is_said_until_it_is_read_and_nothing_is_lost() {
    let folder = folder();
    let locked = folder.path().join("locked.toml");
    preset::write(&locked, &Experiment::default()).expect("writes");
    let mut rights = fs::metadata(&locked).expect("there").permissions();
    rights.set_readonly(true);
    fs::set_permissions(&locked, rights).expect("set");
    let mut window = window(digits());
    window.get_by_role_and_label(Role::Slider, "Micro-batch").increment_accesskit();
    window.run_steps(2);
    for path in [folder.path().join("nowhere/mine.toml"), locked.clone()] {
        ask(&mut window, Modifiers::COMMAND | Modifiers::SHIFT, Key::S);
        enter(&mut window, &path);
        if path.exists() {
            window.get_by_role_and_label(Role::Button, "Replace").click();
            window.run_steps(3);
        }
        let Some(Notice::Unsaved(text)) = &app(&window).state.notice else { panic!("nothing was said of {path:?}") };
        assert!(text.contains(&path.display().to_string()), "{text}");
        assert!(window.query_by_label("It was not saved.").is_some());
        assert!(app(&window).state.document.is_changed() && app(&window).state.document.path.is_none());
        window.get_by_role_and_label(Role::Button, "Dismiss").click();
        window.run_steps(3);
        assert!(app(&window).state.notice.is_none());
    }
    assert_eq!(preset::read(&locked).expect("as before"), Experiment::default());
}

#[test]
fn a_folder_in_place_of_a_file_leaves_the_field_open_with_what_to_add() {
    let folder = folder();
    let mut window = window(digits());
    ask(&mut window, Modifiers::COMMAND | Modifiers::SHIFT, Key::S);
    enter(&mut window, folder.path());
    // It is not asked about: a folder cannot be replaced.
    assert!(window.query_by_role_and_label(Role::Button, "Replace").is_none());
    let file = folder.path().join("tiny.toml");
    let said =
        format!("{} is a folder. Add the name of a file to it, such as {}.", folder.path().display(), file.display());
    assert!(window.query_by_label(&said).is_some() && app(&window).state.notice.is_none(), "{said}");
    let typed = window.get_by_label("Path").value().unwrap_or_default();
    assert_eq!(PathBuf::from(typed), folder.path());
    assert!(window.get_by_label("Path").is_focused(), "one types on");
    enter(&mut window, &file);
    assert!(file.is_file() && app(&window).state.dialog.is_none());
}

#[test]
fn a_dropped_preset_opens_and_a_broken_one_loses_nothing() {
    let folder = folder();
    let (good, bad) = (folder.path().join("good.toml"), folder.path().join("bad.toml"));
    let experiment = Experiment { precision: Precision::Bf16, ..digits() };
    preset::write(&good, &experiment).expect("writes");
    fs::write(&bad, "version = 1\nprecison = \"f32\"\n").expect("writes");
    let mut window = window(Experiment::default());
    for path in [&good, &bad] {
        window.input_mut().dropped_files.push(Arc::new(Dropped(path.clone())));
        window.run_steps(3);
        assert_eq!(app(&window).state.document.experiment, experiment);
        assert_eq!(app(&window).state.document.path.as_ref(), Some(&good));
    }
    let Some(Notice::Unopened(text)) = &app(&window).state.notice else { panic!("nothing was said") };
    assert!(window.query_by_label("It cannot be opened.").is_some());
    assert!(text.contains("precison") && text.contains("line 2") && text.contains("precision"), "{text}");
}

#[test]
fn a_dropped_preset_waits_for_the_question_of_unsaved_changes() {
    let folder = folder();
    let good = folder.path().join("good.toml");
    preset::write(&good, &digits()).expect("writes");
    let mut window = window(Experiment::default());
    window.get_by_role_and_label(Role::Slider, "Micro-batch").increment_accesskit();
    window.run_steps(2);
    window.input_mut().dropped_files.push(Arc::new(Dropped(good)));
    window.run_steps(3);
    assert_eq!(app(&window).state.document.experiment.batch.micro, 96);
    window.get_by_label("Don't save").click();
    window.run_steps(3);
    assert_eq!(app(&window).state.document.experiment, digits());
}

#[test]
fn changes_that_are_not_to_be_saved_are_gone_at_the_next_start() {
    let folder = folder();
    let path = folder.path().join("lesson.toml");
    preset::write(&path, &digits()).expect("writes");
    for saves in [false, true] {
        let mut window = opened(PersistedState::default(), Some(path.clone()));
        settle(&mut window);
        let before = app(&window).state.document.experiment.batch.micro;
        window.get_by_role_and_label(Role::Slider, "Micro-batch").increment_accesskit();
        window.run_steps(3);
        let after = app(&window).state.document.experiment.batch.micro;
        assert_ne!(before, after);
        let root = window.input_mut().viewports.entry(egui::ViewportId::ROOT).or_default();
        root.events.push(egui::ViewportEvent::Close);
        window.run_steps(3);
        assert_eq!(app(&window).state.dialog, Some(Dialog::Unsaved(Then::Quit)));
        window.get_by_role_and_label(Role::Button, if saves { "Save" } else { "Don't save" }).click();
        window.run_steps(3);
        let kept = app(&window).persisted();
        let kept = [kept.experiment, kept.saved].map(|kept| kept.map(|kept| kept.batch.micro));
        assert_eq!(kept, [Some(if saves { after } else { before }); 2]);
    }
}

#[test]
fn a_models_config_opens_as_an_experiment_that_is_not_saved_over_it() {
    let folder = folder();
    let path = folder.path().join("config.json");
    let text =
        r#"{"model_type": "gpt2", "n_embd": 64, "n_layer": 2, "n_head": 4, "n_positions": 32, "vocab_size": 100}"#;
    fs::write(&path, text).expect("writes");
    let mut window = window(Experiment::default());
    window.input_mut().dropped_files.push(Arc::new(Dropped(path.clone())));
    window.run_steps(3);
    let document = &app(&window).state.document;
    assert_eq!((document.experiment.model.width, document.experiment.data.vocabulary), (64, 100));
    assert_eq!(document.path, None);
    ask(&mut window, Modifiers::COMMAND, Key::S);
    assert_eq!(fs::read_to_string(&path).expect("there"), text);
    fs::write(&path, r#"{"model_type": "bert"}"#).expect("writes");
    window.key_press(Key::Escape);
    window.run_steps(3);
    window.input_mut().dropped_files.push(Arc::new(Dropped(path)));
    window.run_steps(3);
    let Some(Notice::Unopened(said)) = &app(&window).state.notice else { panic!("nothing was said") };
    assert!(said.contains("gpt2, llama, mistral, qwen2"), "{said}");
}
