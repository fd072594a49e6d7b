//! The cost of a frame on the processor, without a driver: receiving, laying out and tessellating.
//! `cargo test --release -p plimsoll frame_costs -- --ignored --nocapture` prints it; nothing is asserted of time.

use super::*;

/// Frames of each measurement.
const FRAMES: usize = 400;

/// A window without accessibility, as most users have it.
struct Bare {
    ctx: egui::Context,
    app: App,
    time: f64,
}

impl Bare {
    fn new(experiment: Experiment) -> Self {
        let ctx = egui::Context::default();
        let persisted = PersistedState { experiment: Some(experiment), ..PersistedState::default() };
        let app = App::new(&ctx, FileDialogs::none(ctx.clone()), persisted, Err("no store".to_owned()), None)
            .expect("threads start");
        Self { ctx, app, time: 0.0 }
    }

    /// One frame; milliseconds of its receiving and laying out, and of its tessellation.
    fn frame(&mut self, size: egui::Vec2) -> [f64; 2] {
        self.time += 1.0 / 60.0;
        let screen_rect = Some(egui::Rect::from_min_size(egui::Pos2::ZERO, size));
        let input = egui::RawInput { screen_rect, time: Some(self.time), ..egui::RawInput::default() };
        let start = Instant::now();
        let app = &mut self.app;
        let output = self.ctx.run_ui(input, |ui| {
            app.logic(ui.ctx());
            app.ui(ui);
        });
        let drawn = start.elapsed();
        let start = Instant::now();
        drop(self.ctx.tessellate(output.shapes, output.pixels_per_point));
        [drawn, start.elapsed()].map(|time| time.as_secs_f64() * 1e3)
    }

    fn report(&mut self, what: &str, size: egui::Vec2) {
        let mut millis: Vec<[f64; 2]> = (0..FRAMES).map(|_| self.frame(size)).collect();
        let mut at = |share: f64, key: fn(&[f64; 2]) -> f64| {
            millis.sort_by(|a, b| key(a).total_cmp(&key(b)));
            key(&millis[(share * (FRAMES - 1) as f64) as usize])
        };
        println!(
            "{what:28} {:4} x {:4}: {:5.2} ms median, {:5.2} ms p95 (drawing {:5.2}, tessellating {:5.2})",
            size.x,
            size.y,
            at(0.5, |m| m[0] + m[1]),
            at(0.95, |m| m[0] + m[1]),
            at(0.5, |m| m[0]),
            at(0.5, |m| m[1]),
        );
    }
}

#[test]
#[ignore = "a measurement, not a test"]
fn frame_costs() {
    let sizes = [vec2(1280.0, 800.0), vec2(1600.0, 1000.0), vec2(1920.0, 1080.0)];
    let named = |name: &str| presets::shipped().into_iter().find(|s| s.name == name).expect("shipped").experiment;
    for (name, steps) in [("mlp-digits", 20_000), ("resnet18-shapes", 1)] {
        let mut experiment = named(name);
        (experiment.run.steps, experiment.run.epochs, experiment.run.evaluate_every) = (Some(steps), None, 1000);
        let mut window = Bare::new(experiment);
        let until = |window: &mut Bare, done: fn(&App) -> bool| {
            while !done(&window.app) {
                window.frame(sizes[0]);
                std::thread::sleep(Duration::from_millis(5));
            }
        };
        until(&mut window, |app| app.state.plan().is_some());
        sizes.iter().for_each(|size| window.report(&format!("{name}, planned"), *size));
        window.app.sender.ui(UiCommand::Train);
        until(&mut window, |app| app.state.session.latest().is_some_and(|run| run.summary.is_some()));
        sizes.iter().for_each(|size| window.report(&format!("{name}, after {steps} steps"), *size));
    }
}

/// How many frames were laid out more than once.
fn laid_out_again(window: &Window) -> u64 {
    window.ctx.cumulative_pass_nr() - window.ctx.cumulative_frame_nr()
}

#[test]
fn no_frame_of_a_run_is_laid_out_twice() {
    for size in [[960.0, 600.0], [1280.0, 800.0], [1920.0, 1080.0]] {
        let mut window = window(digits());
        window.set_size(size.into());
        settle(&mut window);
        window.run_steps(3);
        let before = laid_out_again(&window);
        window.key_press_modifiers(Modifiers::COMMAND, Key::Enter);
        until(&mut window, |app| app.state.session.latest().is_some_and(|run| run.summary.is_some()));
        window.run_steps(3);
        assert_eq!(laid_out_again(&window), before, "{size:?}");
    }
}

/// In how many parts a frame is painted: each that is cut off elsewhere than the one before takes a call of its own, which the
/// processor pays for where it draws the window.
fn parts(window: &Window) -> usize {
    let shapes = window.output().shapes.iter().filter(|shape| !matches!(shape.shape, egui::Shape::Noop));
    let places: Vec<egui::Rect> = shapes.map(|shape| shape.clip_rect).collect();
    1 + places.windows(2).filter(|pair| pair[0] != pair[1]).count()
}

#[test]
fn a_frame_of_a_run_is_painted_in_few_parts() {
    const MOST: usize = 62;
    let mut window = window(digits());
    settle(&mut window);
    window.key_press_modifiers(Modifiers::COMMAND, Key::Enter);
    until(&mut window, |app| app.state.session.latest().is_some_and(|run| run.summary.is_some()));
    window.run_steps(3);
    let parts = parts(&window);
    assert!(parts <= MOST, "{parts} parts");
}
