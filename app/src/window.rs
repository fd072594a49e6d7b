//! The native window: its options, and the state that is kept on disk between sessions.

use std::path::PathBuf;

use eframe::egui;

use crate::{
    app::App,
    closing::{self, Closing},
    files::FileDialogs,
    kept::{self, Keeper},
    theme,
};

/// The name of the toolkit's folder and file.
const NAME: &str = "plimsoll";

/// Opens the window, on a preset if one is given, its runs kept in the store of `store` or why they are not, and returns when
/// it is closed.
pub(crate) fn run(open: Option<PathBuf>, store: Result<PathBuf, String>) -> anyhow::Result<()> {
    let options = eframe::NativeOptions {
        viewport: egui::ViewportBuilder::default()
            .with_title("Plimsoll")
            .with_app_id(NAME)
            .with_inner_size([1280.0, 800.0])
            .with_min_inner_size([960.0, 600.0])
            .with_drag_and_drop(true),
        // It hides steps in gradients, of which the window has none, and costs time at every pixel.
        dithering: false,
        ..eframe::NativeOptions::default()
    };
    let folder = eframe::storage_dir(NAME);
    kept::guard_zoom(folder.as_deref());
    let create: eframe::AppCreator<'_> = Box::new(move |cc| {
        let (keeper, persisted, damage) = Keeper::open(folder.as_deref());
        // Earlier versions kept it in the toolkit's file.
        let before = || serde_json::from_str(&cc.storage?.get_string(NAME)?).ok();
        let persisted = persisted.or_else(before).unwrap_or_default();
        let files = FileDialogs::desktop(cc.egui_ctx.clone());
        let app = App::new(&cc.egui_ctx, files, persisted, store, open.as_deref())?;
        let ctx = cc.egui_ctx.clone();
        let signals = Closing::listen(closing::SIGNALS, move || ctx.request_repaint());
        Ok(Box::new(Window(app.kept_by(keeper, damage).drawn_by(&renderer(cc)).closed_by(signals))))
    });
    eframe::run_native(NAME, options, create).map_err(|error| {
        let reason = without_place(&error.to_string());
        let reason = reason.trim_end_matches('.');
        anyhow::anyhow!("no window could be opened: {reason}. The command line works without one: plimsoll --help")
    })
}

/// OpenGL's name of the renderer; empty if there is none.
fn renderer(cc: &eframe::CreationContext<'_>) -> String {
    use eframe::glow::{HasContext, RENDERER};
    // SAFETY: the context is the window's and current while the window is made.
    cc.gl.as_ref().map(|gl| unsafe { gl.get_parameter_string(RENDERER) }).unwrap_or_default()
}

/// A message of winit without the place in winit's source, which is a path of the machine that built the program:
/// `os error at /home/builder/x.rs:12: no display` becomes `os error: no display`.
fn without_place(message: &str) -> String {
    const BEFORE: &str = "os error at ";
    let Some((before, rest)) = message.split_once(BEFORE) else { return message.to_owned() };
    let ends = rest.match_indices(": ").find(|(at, _)| {
        let line = rest[..*at].rsplit(':').next().unwrap_or_default();
        !line.is_empty() && line.bytes().all(|byte| byte.is_ascii_digit())
    });
    match ends {
        Some((at, _)) => format!("{before}os error{}", &rest[at..]),
        None => message.to_owned(),
    }
}

struct Window(App);

impl eframe::App for Window {
    fn raw_input_hook(&mut self, ctx: &egui::Context, input: &mut egui::RawInput) {
        self.0.correct(ctx, input);
    }

    fn logic(&mut self, ctx: &egui::Context, _: &mut eframe::Frame) {
        self.0.logic(ctx);
    }

    fn ui(&mut self, ui: &mut egui::Ui, frame: &mut eframe::Frame) {
        // A frame that is laid out again counts once.
        if let Some(secs) = frame.info().cpu_usage.filter(|_| ui.ctx().current_pass_index() == 0) {
            self.0.frame_took(secs);
        }
        self.0.ui(ui);
    }

    // Panes have this colour without painting it: a renderer on the processor pays for every pixel.
    fn clear_color(&self, visuals: &egui::Visuals) -> [f32; 4] {
        theme::of(visuals.dark_mode).pane.to_normalized_gamma_f32()
    }

    fn on_exit(&mut self, _: Option<&eframe::glow::Context>) {
        self.0.keep_last();
        self.0.finish();
    }

    fn save(&mut self, storage: &mut dyn eframe::Storage) {
        self.0.keep();
        storage.remove_string(NAME);
    }
}

#[cfg(test)]
mod tests {
    use super::without_place;

    #[test]
    fn a_message_names_no_path_of_the_builder() {
        let said =
            "winit error: os error at /home/b/winit-0.30.13/src/platform_impl/linux/mod.rs:765: no display is set";
        assert_eq!(without_place(said), "winit error: os error: no display is set");
        assert_eq!(without_place("winit error: nothing else"), "winit error: nothing else");
        assert_eq!(without_place("os error at C:\\b\\x.rs:3: gone"), "os error: gone");
    }
}
