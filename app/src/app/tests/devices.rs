//! The device: chosen, undone, kept, and planned for where it is not here.

use egui_kittest::kittest::NodeT;
use plimsoll_engine::{
    device::profile,
    error::LimitedBy,
    memory::{Category, host::FreeMemory},
};

use super::*;

const CARD: &str = "GeForce RTX 4060, 8 GB";

fn choose(window: &mut Window, name: &str) {
    window.get_by_role_and_label(Role::Button, "Device").click();
    window.run_steps(3);
    window.get_by_label(name).click();
    window.run_steps(3);
}

fn choose_containing(window: &mut Window, name: &str) {
    window.get_by_role_and_label(Role::Button, "Device").click();
    window.run_steps(3);
    window.get_by_label_contains(name).click();
    window.run_steps(3);
}

fn planned_on(app: &App, device: &str) -> bool {
    app.state.plan().is_some_and(|plan| plan.experiment.device == device)
}

fn on_card() -> Window {
    let mut window = window(Experiment { budget: Bytes::gib(2), ..digits() });
    choose(&mut window, CARD);
    until(&mut window, |app| planned_on(app, "rtx4060-8g"));
    window
}

#[test]
fn a_card_is_chosen_by_its_name_and_undo_takes_it_back() {
    let mut window = on_card();
    let plan = app(&window).state.plan().expect("a plan");
    let card = profile::named("rtx4060-8g").expect("ships");
    assert_eq!(plan.peak.process, card.context + plan.peak.reserved);
    assert_eq!(plan.categories_at_peak.get(Category::Context), card.context);
    window.key_press_modifiers(Modifiers::COMMAND, Key::Z);
    until(&mut window, |app| planned_on(app, "cpu"));
    assert!(window.query_by_label("Memory pool").is_none());
}

#[test]
fn the_controls_of_a_gpu_are_there_with_one_and_change_the_plan() {
    let mut window = on_card();
    let before = app(&window).state.plan().expect("a plan").peak;
    window.get_by_role_and_label(Role::ComboBox, "Memory pool").click();
    window.run_steps(3);
    window.get_by_label("reserve all at once").click();
    until(&mut window, |app| app.state.plan().is_some_and(|plan| plan.peak.reserved > before.reserved));
    let after = app(&window).state.plan().expect("a plan").peak;
    assert_eq!(after.live, before.live);
    window.get_by_role_and_label(Role::Slider, "Workspace, MiB").increment_accesskit();
    until(&mut window, |app| app.state.plan().is_some_and(|plan| plan.peak.live == before.live + Bytes::mib(32)));
    for name in ["f32 products", "Repeatable"] {
        assert!(window.query_all_by_label(name).next().is_some(), "{name}");
    }
}

#[test]
fn every_address_is_planned_where_that_is_chosen() {
    let mut window = on_card();
    let before = app(&window).state.plan().expect("a plan").peak;
    window.get_by_role_and_label(Role::ComboBox, "Memory pool").click();
    window.run_steps(3);
    window.get_by_label("plan every address").click();
    until(&mut window, |app| app.state.plan().is_some_and(|plan| plan.places.is_some()));
    let after = app(&window).state.plan().expect("a plan").peak;
    assert!(after.live == before.live && after.reserved <= before.reserved, "{after:?} and {before:?}");
}

#[test]
fn nothing_trains_on_a_card_that_is_only_planned_for_and_it_is_said_why() {
    let mut window = on_card();
    let reason = app(&window).state.why_no_training().expect("a reason");
    assert!(reason.contains("only planned for") && reason.contains(CARD), "{reason}");
    window.key_press_modifiers(Modifiers::COMMAND, Key::Enter);
    window.run_steps(5);
    assert!(app(&window).state.session.latest().is_none());
    assert!(window.query_by_label("Train anyway").is_none());
}

#[test]
fn a_card_that_is_short_of_memory_is_offered_a_higher_budget() {
    let card = profile::named("rtx4060-8g").expect("ships");
    let little = Experiment { budget: card.context + card.pool.segment + Bytes::mib(1), ..digits() };
    let mut window = window(little);
    choose(&mut window, CARD);
    settle(&mut window);
    assert!(planned_on(app(&window), "rtx4060-8g"));
    let offer = crate::advice::words(&app(&window).state.prediction.options.nearest[0]);
    assert!(offer.starts_with("budget "), "{offer}");
    window.get_by_label(&offer).click();
    until(&mut window, |app| app.state.plan().is_some_and(|plan| plan.fits() && plan.target.is_gpu()));
}

#[test]
fn a_card_has_a_budget_of_its_own_and_the_processor_gets_its_own_back() {
    let mut window = window(Experiment { budget: Bytes::mib(4), ..digits() });
    choose(&mut window, CARD);
    let budget = |window: &Window| app(window).state.document.experiment.budget;
    let room = profile::named("rtx4060-8g").expect("ships").usable_memory();
    assert_eq!(budget(&window), room);
    let told = |app: &App| app.state.log.entries.iter().any(|entry| entry.text.contains("budget changed as well"));
    assert!(told(app(&window)));
    window.key_press_modifiers(Modifiers::COMMAND, Key::Z);
    assert!(!app(&window).toasts.is_empty(), "it is told");
    until(&mut window, |app| planned_on(app, "cpu"));
    assert!(app(&window).toasts.is_empty(), "and is not so any more");
    assert_eq!(budget(&window), Bytes::mib(4));
    choose(&mut window, CARD);
    let name = app(&window).state.devices.as_ref().and_then(|devices| devices.cpu.name.clone().ok());
    choose_containing(&mut window, &format!("CPU: {}", name.unwrap_or_default()));
    assert_eq!(budget(&window), Bytes::mib(4));
}

#[test]
fn the_devices_pane_tells_what_is_known_of_the_card() {
    let mut window = on_card();
    window.state_mut().as_mut().expect("drawn").layout.set_shown(Pane::Devices, true);
    until(&mut window, |app| app.state.devices.is_some());
    window.run_steps(3);
    assert!(window.query_by_label("Planned for: GeForce RTX 4060, 8 GB").is_some());
}

fn open_shipped(window: &mut Window, name: &str) {
    let index = app(window).state.shipped.iter().position(|s| s.name == name).expect("ships");
    // The document may be changed: nothing of it is to be kept.
    let state = window.state_mut().as_mut().expect("drawn");
    state.state.document.saved = state.state.document.experiment.clone();
    let generation = state.state.document.generation;
    state.sender.send(crate::command::Action::OpenShipped(index));
    until(window, |app| app.state.document.generation > generation && app.state.plan().is_some());
}

#[test]
fn a_shipped_preset_opens_as_it_was_written_whatever_was_planned_for_before() {
    let mut window = on_card();
    window.get_by_role_and_label(Role::Slider, "Workspace, MiB").increment_accesskit();
    window.run_steps(2);
    for name in ["cnn-shapes-checkpoint", "gpt2-rtx4060-plan", "cnn-shapes-checkpoint"] {
        open_shipped(&mut window, name);
        let shipped = app(&window).state.shipped.iter().find(|s| s.name == name).expect("ships");
        assert_eq!(app(&window).state.document.experiment, shipped.experiment, "{name}");
        assert!(!app(&window).state.document.is_changed());
    }
    assert_eq!(app(&window).state.document.experiment.budget, Bytes::mib(24));
    assert_eq!(app(&window).state.why_no_training(), None);
    assert!(!window.get_by_role_and_label(Role::Button, "Train").accesskit_node().is_disabled());
}

#[test]
fn a_lesson_is_offered_the_card_that_was_planned_for_and_gets_its_own_budget_back() {
    let mut window = on_card();
    open_shipped(&mut window, "cnn-shapes-checkpoint");
    for _ in 0..2 {
        window.get_by_label(&format!("Plan for {CARD}")).click();
        until(&mut window, |app| planned_on(app, "rtx4060-8g"));
        assert_eq!(app(&window).state.document.experiment.budget, Bytes::gib(2));
        window.get_by_label("Plan for CPU").click();
        until(&mut window, |app| planned_on(app, "cpu"));
        assert_eq!(app(&window).state.document.experiment.budget, Bytes::mib(24));
        assert!(!app(&window).state.document.is_changed());
    }
    // A user who goes on with lessons is offered the card again; one who never planned for a card is not.
    open_shipped(&mut window, "cnn-digits");
    assert!(window.query_by_label(&format!("Plan for {CARD}")).is_some());
    let mut fresh = self::window(digits());
    open_shipped(&mut fresh, "cnn-digits");
    assert!(fresh.query_by_label_contains("Plan for").is_none());
    // With the offer and without it, the settings are at the same place.
    let place = |window: &Window| window.get_by_role_and_label(Role::Slider, "Micro-batch").rect();
    fresh.run_steps(10);
    window.run_steps(10);
    assert_eq!(place(&fresh), place(&window));
}

#[test]
fn nothing_trains_anyway_where_the_machine_ends_before_the_budget() {
    let mut window = window(digits());
    let over = Experiment { budget: Bytes::kib(100), ..digits() };
    for (free, may) in [(None, true), (Some(Bytes::gib(1)), true), (Some(Bytes::kib(50)), false)] {
        let base = Machine::nominal();
        let data = Plan::of(&over, &base).expect("a plan").host.total();
        let free = free.map(|free| FreeMemory { bytes: data + free, limited_by: LimitedBy::Machine });
        let plan = Plan::of(&over, &base.with_free_memory(free)).expect("a plan");
        let state = &mut window.state_mut().as_mut().expect("drawn").state;
        state.prediction.plan = Some(std::sync::Arc::new(plan));
        state.prediction.plan_generation = state.document.generation;
        assert_eq!(state.may_train_anyway(), may, "{free:?}");
        assert_eq!(state.why_no_training().is_some_and(|why| why.contains("train anyway")), may);
    }
}

#[cfg(all(target_os = "linux", feature = "cuda"))]
#[test]
fn a_gpu_that_a_run_has_opened_is_planned_for_as_it_was_measured() {
    // A process that has a GPU, and has never seen it.
    let cache = tempfile::tempdir().expect("a folder");
    let cache = [("XDG_CACHE_HOME", cache.path().to_str().expect("a name"))];
    let name = "app::tests::devices::a_gpu_that_a_run_has_opened_is_planned_for_as_it_was_measured";
    plimsoll_tests::on_simulated_gpu(name, &cache, || {
        let mut long = digits();
        (long.device, long.budget, long.run.steps) = ("cuda:0".to_owned(), Bytes::gib(2), Some(1_000_000));
        let mut window = window(long);
        let is_estimate =
            |app: &App| app.state.plan().and_then(|plan| plan.target.profile()).map(profile::Profile::is_estimate);
        assert_eq!(is_estimate(app(&window)), Some(true));
        window.get_by_role_and_label(Role::Button, "Train").click();
        until(&mut window, |app| app.state.session.active().is_some_and(|run| run.last.is_some()));
        until(&mut window, |app| is_estimate(app) == Some(false));
        let (shown, run) = (app(&window).state.plan().expect("a plan"), app(&window).state.session.active());
        assert_eq!(shown.peak, run.and_then(|run| run.plan.as_ref()).expect("a plan").peak);
        window.get_by_role_and_label(Role::Button, "Stop").click();
        until(&mut window, |app| app.state.session.active().is_none());
    });
}
