//! The native window: options, and what is kept on disk between sittings.

use std::path::PathBuf;

use eframe::egui;

use crate::{
    app::{App, PersistedState},
    files::FileDialogs,
};

const STORAGE_KEY: &str = "plimsoll";

/// Opens the window, on a preset if one is given, and returns when it is closed.
pub(crate) fn run(open: Option<PathBuf>) -> anyhow::Result<()> {
    let options = eframe::NativeOptions {
        viewport: egui::ViewportBuilder::default()
            .with_title("Plimsoll")
            .with_app_id("plimsoll")
            .with_inner_size([1280.0, 800.0])
            .with_min_inner_size([960.0, 600.0])
            .with_drag_and_drop(true),
        ..eframe::NativeOptions::default()
    };
    let create: eframe::AppCreator<'_> = Box::new(move |cc| {
        let persisted = cc.storage.and_then(|s| s.get_string(STORAGE_KEY));
        let persisted = persisted.and_then(|text| serde_json::from_str(&text).ok()).unwrap_or_default();
        let files = FileDialogs::desktop(cc.egui_ctx.clone());
        Ok(Box::new(Window(App::new(&cc.egui_ctx, files, persisted, open.as_deref())?)))
    });
    eframe::run_native("plimsoll", options, create).map_err(|error| {
        anyhow::anyhow!("no window could be opened: {error}. The command line works without one: plimsoll --help")
    })
}

struct Window(App);

impl eframe::App for Window {
    fn logic(&mut self, ctx: &egui::Context, _: &mut eframe::Frame) {
        self.0.logic(ctx);
    }

    fn ui(&mut self, ui: &mut egui::Ui, frame: &mut eframe::Frame) {
        if let Some(secs) = frame.info().cpu_usage {
            self.0.frame_took(secs);
        }
        self.0.ui(ui);
    }

    fn save(&mut self, storage: &mut dyn eframe::Storage) {
        let persisted: PersistedState = self.0.persisted();
        // A layout that cannot be written is not worth a message at closing time.
        if let Ok(text) = serde_json::to_string(&persisted) {
            storage.set_string(STORAGE_KEY, text);
        }
    }
}
