//! States that meet: a run that is over next to an experiment that does not fit, memory that reaches up to the words of the
//! timeline, a budget of next to nothing. They are judged as the panes are, if there is least room and if there is the
//! usual.

use std::collections::BTreeSet;

use super::{
    pictures::{FRONTS, assert_none, both_themes, pieces, shortened},
    *,
};
use crate::command::Action;

/// The usual window, and both that are zoomed as far as may be.
const TIGHT_AND_USUAL: [([f32; 2], f32); 3] = [([1280.0, 800.0], 1.0), ([960.0, 600.0], 1.5), ([1280.0, 800.0], 2.0)];

fn shipped(name: &str) -> Experiment {
    presets::shipped().into_iter().find(|shipped| shipped.name == name).expect("it ships").experiment
}

fn picture(window: &mut Window, state: &str, faults: &mut BTreeSet<String>) {
    let mut known = BTreeSet::new();
    for (size, scale) in TIGHT_AND_USUAL {
        both_themes(window, (state, size, scale), &FRONTS[..1], &mut known, faults);
    }
    window.set_pixels_per_point(1.0);
    window.run_steps(2);
    window.set_size(vec2(1280.0, 800.0));
    window.run_steps(4);
}

/// Texts that are cut in the window as it is, of those that `are_meant`.
fn cut(window: &Window, are_meant: impl Fn(&str) -> bool) -> Vec<String> {
    shortened(&pieces(window)).into_iter().map(|(text, _)| text).filter(|text| are_meant(text)).collect()
}

#[test]
fn a_run_that_is_over_can_be_read_beside_an_experiment_that_does_not_fit() {
    let mut window = window(Experiment { title: "A run with a title of some length".to_owned(), ..digits() });
    window.key_press_modifiers(Modifiers::COMMAND, Key::Enter);
    until(&mut window, |app| app.state.session.latest().is_some_and(|run| run.summary.is_some()));
    let mut experiment = Experiment { title: "Over the line: make it fit with one change".to_owned(), ..digits() };
    (experiment.model.width, experiment.batch.micro, experiment.budget) = (256, 512, Bytes::mib(2));
    experiment.run.save_every = 2;
    window.state_mut().as_mut().expect("drawn").sender.send(Action::Adopt(Box::new(experiment)));
    until(&mut window, |app| app.state.may_train_anyway());
    settle(&mut window);
    let mut faults = BTreeSet::new();
    picture(&mut window, "a run that is over, and one that does not fit", &mut faults);
    assert_none(&faults);
    // Its forecast, and the reason why it cannot train, are written out in a window of the usual size.
    let are_lost = |text: &str| text.contains("a step") || text.contains("does not fit");
    assert_eq!(cut(&window, are_lost), Vec::<String>::new());
    assert!(window.query_by_label_contains("samples/s").is_some());
}

#[test]
fn names_of_phases_stand_out_from_memory_that_reaches_up_to_them() {
    let mut window = window(Experiment { device: "rtx4060-8g".to_owned(), ..shipped("mlp-digits") });
    window.state_mut().as_mut().expect("drawn").view.pass = Some(plimsoll_engine::plan::Pass::Steady);
    settle(&mut window);
    let mut faults = BTreeSet::new();
    picture(&mut window, "every step on a card", &mut faults);
    assert_none(&faults);
}

#[test]
fn a_budget_of_next_to_nothing_can_be_read_and_says_why_nothing_fits() {
    let mut window = window(Experiment { budget: Bytes::kib(100), ..shipped("vit-digits") });
    until(&mut window, |app| app.state.prediction.options.shortfall.is_some());
    settle(&mut window);
    let mut faults = BTreeSet::new();
    picture(&mut window, "next to no budget", &mut faults);
    assert_none(&faults);
    let why = window.get_by_label_contains("Weights and optimizer state alone").rect();
    assert_eq!(cut(&window, |text| text.contains("Weights and optimizer")), Vec::<String>::new());
    window.hover_at(why.center());
    window.run_steps(60);
    let told = window.query_all_by_label_contains("Weights and optimizer state alone").count();
    assert_eq!(told, 1, "in the row, where all of it can be read");
}
