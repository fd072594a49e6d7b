//! The pane of kept runs with little height, and its words for the state of a run and for the picked one.

use egui_kittest::kittest::NodeT;
use plimsoll_engine::store::{RunKey, RunState, StoredRun};

use super::{
    pictures::{set_size, texts_at},
    runs::{ask, folder, keys, on, show, train, two_runs},
    *,
};
use crate::{command::RunsAction, naming::Names};

/// Whether what has the focus is in sight.
fn is_in_sight(window: &Window) -> bool {
    let focused = window.ctx.memory(|memory| memory.focused()).and_then(|id| window.ctx.read_response(id));
    focused.is_some_and(|response| response.interact_rect.height() >= response.rect.height() * 0.9)
}

#[test]
fn in_a_short_pane_every_control_of_a_run_is_reached_by_the_tab_key_and_seen() {
    let (store, _) = two_runs();
    let mut window = on(&store, digits());
    show(&mut window, Pane::Runs);
    for (size, scale) in [([960.0, 600.0], 1.0), ([1280.0, 800.0], 1.5)] {
        window.set_pixels_per_point(scale);
        window.set_size(vec2(size[0], size[1]) / scale);
        let both = keys(&window);
        ask(&mut window, RunsAction::Pick(vec![both[0].clone()]));
        window.run_steps(5);
        window.get_by_role_and_label(Role::ListBox, "Kept runs: Run 2: micro-batch 96, Tiny").focus();
        window.run_steps(3);
        // The words are shorter where the pane is narrow.
        let load =
            if window.query_by_role_and_label(Role::Button, "Load").is_some() { "Load" } else { "Load settings" };
        for (role, name) in [
            (Role::Button, "Star"),
            (Role::TextInput, "Name of the kept run"),
            (Role::TextInput, "Note"),
            (Role::TextInput, "Tags"),
            (Role::Button, "Open"),
            (Role::Button, load),
            (Role::Button, "Delete"),
        ] {
            let has_it =
                |window: &Window| window.query_by_role_and_label(role, name).is_some_and(|node| node.is_focused());
            let mut tabs = 0;
            while !has_it(&window) {
                window.key_press(Key::Tab);
                window.run_steps(24);
                tabs += 1;
                // The headings of the columns come first.
                assert!(tabs < 16, "{name} is not reached at {size:?}, {scale}");
            }
            assert!(is_in_sight(&window), "{name} is not in sight at {size:?}, {scale}");
        }
    }
}

#[test]
fn a_run_that_did_not_finish_shows_it() {
    let store = folder();
    let mut window = on(&store, digits());
    train(&mut window);
    show(&mut window, Pane::Runs);
    window.get_by_role_and_label(Role::Button, "Step").click();
    until(&mut window, |app| app.state.session.latest().and_then(|run| run.last).is_some_and(|step| step.step == 1));
    window.get_by_role_and_label(Role::Button, "Stop").click();
    until(&mut window, |app| app.state.runs.rows().iter().any(|row| row.run.state == RunState::Stopped));
    window.run_steps(3);
    assert_eq!(window.query_all_by_label("stopped").filter(|node| node.rect().width() < 30.0).count(), 1, "its mark");
    let rows = || window.query_all_by_label_contains(", stopped").count();
    assert_eq!(rows(), 1, "and the name of its row");
}

#[test]
fn with_several_picked_the_lines_below_say_whose_they_are() {
    let (store, _) = two_runs();
    let mut window = on(&store, digits());
    show(&mut window, Pane::Runs);
    let both = keys(&window);
    ask(&mut window, RunsAction::Pick(both.clone()));
    assert!(window.query_by_label("The last of 2 picked: Run 1: Tiny").is_some());
    ask(&mut window, RunsAction::Name(both[1].clone(), "small".to_owned()));
    until(&mut window, |app| app.state.runs.front().is_some_and(|row| row.run.name.is_some()));
    window.run_steps(2);
    assert!(window.query_by_label("The last of 2 picked: Run 1: small, Tiny").is_some());
}

/// Sixty rows, which differ by their seed.
fn sixty(window: &Window) -> Vec<crate::runs::Row> {
    let known = app(window).state.runs.rows()[0].run.clone();
    let one = |i: u64| {
        let started = known.started - jiff::SignedDuration::from_secs(i as i64);
        StoredRun { key: RunKey::new(started), started, settings: vec![format!("run.seed={i}")], ..known.clone() }
    };
    // All of them are told from a first run without a seed.
    let mut names = Names::default();
    names.of("the first", &known.title, &[]);
    crate::runs::rows((0..60).map(one).collect(), |_| None, &mut names)
}

#[test]
fn six_runs_are_seen_in_the_default_layout_with_one_picked() {
    let (store, _) = two_runs();
    let mut window = on(&store, digits());
    window.set_size(vec2(1280.0, 800.0));
    show(&mut window, Pane::Runs);
    let rows = sixty(&window);
    let first = rows[0].run.key.clone();
    window.state_mut().as_mut().expect("drawn").state.runs.read(rows);
    ask(&mut window, RunsAction::Pick(vec![first]));
    window.run_steps(5);
    let list = window
        .query_all_by_role(Role::ListBox)
        .find(|node| node.accesskit_node().label().is_some_and(|label| label.starts_with("Kept runs: ")));
    let list = list.expect("the table").rect();
    let is_whole = |seed: &u64| {
        let words = format!(": seed {seed}, Tiny");
        let row = window.query_all_by_label_contains(&words).find(|node| node.accesskit_node().role() == Role::Button);
        row.is_some_and(|row| row.rect().bottom() <= list.bottom() + 0.5)
    };
    assert_eq!((0..60).filter(is_whole).count(), 6, "{list:?}");
}

#[test]
fn a_window_opens_the_runs_at_the_newest_wherever_the_last_one_left_them() {
    let (store, _) = two_runs();
    let is_seen = |window: &Window| window.query_all_by_label_contains(": seed 0, Tiny").next().is_some();
    let mut kept: Option<String> = None;
    for session in 1..=2 {
        let mut window = on(&store, digits());
        let rows = sixty(&window);
        window.state_mut().as_mut().expect("drawn").state.runs.read(rows);
        if let Some(kept) = &kept {
            let data = serde_json::from_str(kept).expect("as it was written");
            window.ctx.memory_mut(|memory| memory.data = data);
        }
        show(&mut window, Pane::Runs);
        window.run_steps(5);
        assert!(is_seen(&window), "the newest in session {session}");
        let at = window.get_by_role_and_label(Role::ListBox, "Kept runs: 60").rect().center();
        window.hover_at(at);
        window.event(egui::Event::MouseWheel {
            unit: egui::MouseWheelUnit::Point,
            source: egui::MouseWheelSource::Wheel,
            delta: vec2(0.0, -300.0),
            modifiers: Modifiers::NONE,
            phase: egui::TouchPhase::Move,
        });
        window.run_steps(60);
        assert!(!is_seen(&window), "scrolled away in session {session}");
        let data = window.ctx.memory(|memory| memory.data.clone());
        kept = Some(serde_json::to_string(&data).expect("plain data"));
    }
}

#[test]
fn the_title_of_a_run_is_read_next_to_a_long_name() {
    const TITLE: &str = "Convolutions on hand-written digits";
    let (store, _) = two_runs();
    let mut window = on(&store, digits());
    show(&mut window, Pane::Runs);
    let settings = |width: usize| {
        ["batch.micro=16", "batch.accumulation=4", "checkpointing=\"blocks\"", &format!("model.width={width}")]
            .map(str::to_owned)
            .to_vec()
    };
    let one = |number: u64| {
        let run = with_settings(&window, number, &[]);
        StoredRun {
            // One of another: a title that all have stands in the heading.
            title: if number == 9 { "Shapes".to_owned() } else { TITLE.to_owned() },
            settings: if number == 1 { Vec::new() } else { settings(number as usize) },
            ..run
        }
    };
    let runs: Vec<StoredRun> = (1..=9).map(one).collect();
    for (size, scale, least) in
        [([1280.0, 800.0], 1.0, 62.0), ([960.0, 600.0], 1.0, 54.0), ([1280.0, 800.0], 1.5, 54.0)]
    {
        set_size(&mut window, size, scale);
        // Each time anew: the store is read in between.
        let rows = crate::runs::rows(runs.clone(), |_| None, &mut Names::default());
        assert!(rows[3].short_name().len() > 50, "{}", rows[3].short_name());
        window.state_mut().as_mut().expect("drawn").state.runs.read(rows);
        window.run_steps(5);
        let (_, pane) = app(&window).layout.rects().into_iter().find(|(pane, _)| *pane == Pane::Runs).expect("there");
        let pane = pane.expect("drawn");
        let widths = |words: &str| -> Vec<f32> {
            let cells = window.query_all_by_role(Role::Label).filter(|node| {
                node.accesskit_node().value().is_some_and(|text| text.starts_with(words))
                    && pane.x_range().contains(node.rect().left())
                    && node.rect().height() < 30.0
            });
            cells.map(|node| node.rect().width()).collect()
        };
        let titles = widths(TITLE);
        assert!(!titles.is_empty() && titles.iter().all(|width| *width >= least), "{size:?} at {scale}: {titles:?}");
        // What sets a run apart is read next to it, whatever else its name has no room for.
        let names = window.query_all_by_role(Role::Label).filter_map(|node| {
            let name =
                node.accesskit_node().value().filter(|text| text.starts_with("micro-batch 16, accumulation 4"))?;
            (pane.x_range().contains(node.rect().left()) && node.rect().height() < 30.0)
                .then(|| (name, node.rect().center()))
        });
        // Rows that are scrolled out of sight are there, and not drawn.
        let drawn = names.map(|(name, at)| (name, texts_at(&window, at))).filter(|(_, drawn)| !drawn.is_empty());
        let drawn: Vec<(String, Vec<String>)> = drawn.collect();
        assert!(drawn.len() >= 2, "{size:?} at {scale}: {drawn:?}");
        for (name, drawn) in drawn {
            let width = name.rsplit(", ").next().unwrap_or_default();
            assert!(width.starts_with("width ") && drawn.iter().any(|text| text.ends_with(width)), "{name}: {drawn:?}");
        }
    }
}

#[test]
fn names_that_differ_at_their_end_are_read_apart_where_they_have_no_room() {
    let (store, _) = two_runs();
    let mut window = on(&store, digits());
    show(&mut window, Pane::Runs);
    let budgets = ["8MiB", "4MiB", "2MiB", "1MiB"];
    let one = |(i, budget): (usize, &&str)| {
        let run = with_settings(&window, i as u64 + 1, &["batch.micro=96", &format!("budget=\"{budget}\"")]);
        StoredRun { title: "Convolutions on hand-written digits".to_owned(), ..run }
    };
    let mut runs: Vec<StoredRun> = budgets.iter().enumerate().map(one).collect();
    // One has the micro-batch of the first, and is told by its budget alone.
    runs[3].settings.remove(0);
    let mut told = Names::default();
    told.of("the first", &runs[0].title, &[]);
    for (size, scale) in [([1280.0, 800.0], 1.0), ([960.0, 600.0], 1.0), ([1280.0, 800.0], 1.5)] {
        set_size(&mut window, size, scale);
        window.state_mut().as_mut().expect("drawn").state.runs.read(crate::runs::rows(
            runs.clone(),
            |_| None,
            &mut Names::clone(&told),
        ));
        window.run_steps(5);
        for (i, budget) in ["8 MiB", "4 MiB", "2 MiB", "1 MiB"].into_iter().enumerate() {
            let whole = if i == 3 { format!("budget {budget}") } else { format!("micro-batch 96, budget {budget}") };
            let cell = window.query_all_by_role(Role::Label).find(|node| {
                node.accesskit_node().value().is_some_and(|text| text == whole) && node.rect().height() < 30.0
            });
            let at = cell.expect("the whole name, for a screen reader").rect().center();
            let drawn = texts_at(&window, at);
            assert!(drawn.iter().any(|text| text.ends_with(budget)), "{size:?} at {scale}: {drawn:?} of {whole}");
        }
        // The title that all have takes no room of theirs: their heading tells it.
        let heading = window.get_by_role_and_label(Role::Button, "Sort by run").rect();
        let drawn = texts_at(&window, heading.center());
        assert!(drawn.iter().any(|text| text.starts_with("run of Co")), "{size:?} at {scale}: {drawn:?}");
    }
}

#[test]
fn a_run_that_is_picked_elsewhere_is_brought_into_sight() {
    let (store, _) = two_runs();
    let mut window = on(&store, digits());
    show(&mut window, Pane::Runs);
    let rows = sixty(&window);
    let last = rows[59].run.key.clone();
    window.state_mut().as_mut().expect("drawn").state.runs.read(rows);
    window.run_steps(5);
    let is_seen = |window: &Window| window.query_all_by_label_contains("seed 59, Tiny").next().is_some();
    assert!(!is_seen(&window));
    ask(&mut window, RunsAction::Pick(vec![last]));
    window.run_steps(30);
    assert!(is_seen(&window));
}

#[test]
fn a_click_on_a_row_that_is_seen_in_part_moves_nothing() {
    let (store, _) = two_runs();
    let mut window = on(&store, digits());
    show(&mut window, Pane::Runs);
    let rows = sixty(&window);
    window.state_mut().as_mut().expect("drawn").state.runs.read(rows);
    window.run_steps(5);
    let of_seed = |window: &Window, seed: u64| {
        let words = format!(": seed {seed}, Tiny");
        let row = window.query_all_by_label_contains(&words).find(|node| node.accesskit_node().role() == Role::Button);
        row.map(|node| node.rect())
    };
    let second = of_seed(&window, 1).expect("drawn");
    window.hover_at(second.center());
    window.event(egui::Event::MouseWheel {
        unit: egui::MouseWheelUnit::Point,
        source: egui::MouseWheelSource::Wheel,
        delta: vec2(0.0, -second.height() * 0.4),
        modifiers: Modifiers::NONE,
        phase: egui::TouchPhase::Move,
    });
    window.run_steps(30);
    let before = of_seed(&window, 1).expect("drawn");
    assert!(before.top() < second.top(), "scrolled by a part of a row");
    let bottom = window.get_by_role_and_label(Role::ListBox, "Kept runs: 60").rect().bottom();
    let is_seen = |seed: &u64| of_seed(&window, *seed).is_some_and(|row| row.top() + 4.0 < bottom);
    let last = (1..60).rev().find(is_seen).expect("the last that is seen");
    let row = of_seed(&window, last).expect("drawn");
    // Beside the star.
    let at =
        egui::pos2(window.get_by_role_and_label(Role::ListBox, "Kept runs: 60").rect().center().x, row.top() + 3.0);
    for pressed in [true, false] {
        let (button, modifiers) = (egui::PointerButton::Primary, Modifiers::NONE);
        window.hover_at(at);
        window.event(egui::Event::PointerButton { pos: at, button, pressed, modifiers });
        window.step();
    }
    window.run_steps(30);
    let picked = app(&window).state.runs.front().map(|row| row.differs.clone());
    assert_eq!(picked, Some(format!("seed {last}")), "clicked at {at:?}, above {bottom}");
    assert_eq!(of_seed(&window, 1), Some(before));
}

/// The row of a run of `two_runs` with other settings, by its number.
pub(super) fn with_settings(window: &Window, number: u64, settings: &[&str]) -> StoredRun {
    let known = app(window).state.runs.rows()[0].run.clone();
    let key = RunKey::new(known.started + jiff::SignedDuration::from_secs(number as i64));
    StoredRun { key, number, settings: settings.iter().map(|one| (*one).to_owned()).collect(), ..known }
}

#[test]
fn a_run_that_met_its_budget_has_one_word_in_the_window_and_on_the_command_line() {
    let (store, _) = two_runs();
    let mut window = on(&store, digits());
    show(&mut window, Pane::Runs);
    let error = plimsoll_engine::error::BudgetError {
        layer: "head".to_owned(),
        op: "matmul",
        label: "output",
        asked: Bytes(2),
        live: Bytes(1),
        budget: Bytes(2),
        limited_by: plimsoll_engine::error::LimitedBy::Budget,
        is_planned: false,
        during: plimsoll_engine::error::During::Test,
        mend: Some("write batch.evaluation=8".into()),
    };
    let ended = |number, message: String| StoredRun {
        state: RunState::Failed,
        message: Some(message),
        ..with_settings(&window, number, &["batch.micro=8"])
    };
    let runs = vec![ended(7, error.to_string()), ended(8, "the disk is full".to_owned())];
    let words: Vec<&str> = runs.iter().map(StoredRun::status).collect();
    assert_eq!(words, ["over budget", "failed"], "what `plimsoll runs` prints");
    let record = crate::session::RunRecord::kept(&runs[0], digits());
    assert_eq!(record.status.name(), "over budget");
    window.state_mut().as_mut().expect("drawn").state.runs.read(crate::runs::rows(
        runs,
        |_| None,
        &mut Names::default(),
    ));
    window.run_steps(4);
    for (number, word) in [(7, "over budget"), (8, "failed")] {
        let is_it =
            |label: String| label.starts_with(&format!("Run {number}: ")) && label.ends_with(&format!(", {word}"));
        let rows = window.query_all_by_role(Role::Button);
        assert_eq!(rows.filter(|row| row.accesskit_node().label().is_some_and(is_it)).count(), 1, "{word}");
    }
}

#[test]
fn a_teacher_that_is_a_run_is_called_as_the_run_is() {
    let (store, _) = two_runs();
    let window = on(&store, digits());
    let [teacher, named] = [1, 2].map(|number| with_settings(&window, number, &["batch.micro=8"]));
    let named = StoredRun { name: Some("wide / deep".to_owned()), title: "Other".to_owned(), ..named };
    let taught = |number, by: &str| with_settings(&window, number, &[&format!("distil.teacher=\"/runs/{by}\"")]);
    let gone = RunKey::new(teacher.started - jiff::SignedDuration::from_secs(60));
    let runs =
        vec![taught(3, teacher.key.as_str()), taught(4, named.key.as_str()), taught(5, gone.as_str()), teacher, named];
    let rows = crate::runs::rows(runs, |_| None, &mut Names::default());
    let has = |row: usize, words: &str| assert!(rows[row].differs.contains(words), "{words}: {}", rows[row].differs);
    has(0, "taught by Run 1");
    has(1, "taught by wide / deep");
    has(2, &format!("taught by {}", gone.as_str()));
}

#[test]
fn only_runs_that_answer_what_is_asked_may_teach() {
    let (store, _) = two_runs();
    let window = on(&store, digits());
    let asks = |settings: &[&str]| settings.iter().map(|one| (*one).to_owned()).collect::<Vec<_>>();
    let may = |own: &[&str], student: &[&str]| {
        let rows = crate::runs::rows(vec![with_settings(&window, 1, own)], |_| None, &mut Names::default());
        rows[0].can_teach(&asks(student))
    };
    let shapes = "data.kind=\"shapes\"";
    assert!(may(&["model.width=64"], &["model.kind=\"cnn\"", "batch.micro=8"]));
    assert!(may(&[shapes, "data.samples=100", "data.flip=true"], &[shapes, "data.samples=900"]));
    assert!(!may(&[shapes], &[]), "other data");
    assert!(!may(&[shapes, "data.classes=3"], &[shapes, "data.classes=4"]), "other classes");
    assert!(!may(&["lora.rank=8"], &[]), "adapters of a model that lies elsewhere");
    let values = ["data.kind=\"table\"", "data.task=\"regression\""];
    assert!(!may(&values, &values), "values have no classes");
}

#[test]
fn what_is_typed_into_a_note_is_kept_when_the_window_closes() {
    let (store, _) = two_runs();
    let mut window = on(&store, digits());
    show(&mut window, Pane::Runs);
    let both = keys(&window);
    ask(&mut window, RunsAction::Pick(vec![both[0].clone()]));
    window.run_steps(5);
    window.get_by_role_and_label(Role::TextInput, "Note").focus();
    window.run_steps(2);
    window.get_by_role_and_label(Role::TextInput, "Note").type_text("too wide");
    window.run_steps(2);
    let root = window.input_mut().viewports.entry(eframe::egui::ViewportId::ROOT).or_default();
    root.events.push(eframe::egui::ViewportEvent::Close);
    window.run_steps(3);
    until(&mut window, |app| app.state.runs.get(&both[0]).is_some_and(|row| row.run.note == "too wide"));
}

#[test]
fn undo_in_a_note_takes_back_what_was_typed_there_and_no_setting() {
    let (store, _) = two_runs();
    let mut window = on(&store, digits());
    show(&mut window, Pane::Runs);
    let both = keys(&window);
    window.get_by_role_and_label(Role::Slider, "Micro-batch").increment_accesskit();
    window.run_steps(3);
    let micro = app(&window).state.document.experiment.batch.micro;
    ask(&mut window, RunsAction::Pick(vec![both[0].clone()]));
    window.run_steps(5);
    let note = |window: &Window| window.get_by_role_and_label(Role::TextInput, "Note").value().unwrap_or_default();
    window.get_by_role_and_label(Role::TextInput, "Note").focus();
    window.run_steps(2);
    window.get_by_role_and_label(Role::TextInput, "Note").type_text("zed");
    window.run_steps(2);
    assert_eq!(note(&window), "zed");
    window.key_press_modifiers(Modifiers::COMMAND, Key::Z);
    window.run_steps(5);
    assert_eq!((note(&window).as_str(), app(&window).state.document.experiment.batch.micro), ("", micro));
    // With nothing typed there it is of nothing, and what was taken back comes again.
    window.key_press_modifiers(Modifiers::COMMAND, Key::Z);
    window.run_steps(5);
    window.key_press_modifiers(Modifiers::COMMAND, Key::Y);
    window.run_steps(5);
    assert_eq!((note(&window).as_str(), app(&window).state.document.experiment.batch.micro), ("zed", micro));
    // A search undoes its own words.
    let search = |window: &Window| window.get_by_role_and_label(Role::TextInput, "Search runs").value();
    window.get_by_role_and_label(Role::TextInput, "Search runs").focus();
    window.run_steps(2);
    window.get_by_role_and_label(Role::TextInput, "Search runs").type_text("digits");
    window.run_steps(2);
    assert_eq!(search(&window).as_deref(), Some("digits"));
    window.key_press_modifiers(Modifiers::COMMAND, Key::Z);
    window.run_steps(5);
    assert_ne!(search(&window).as_deref(), Some("digits"));
    assert_eq!(app(&window).state.document.experiment.batch.micro, micro);
    // Out of a field it is the undo of the settings.
    window.key_press(Key::Escape);
    window.run_steps(3);
    window.key_press_modifiers(Modifiers::COMMAND, Key::Z);
    window.run_steps(5);
    assert_ne!(app(&window).state.document.experiment.batch.micro, micro);
}
