//! The window's two halves: [`App::logic`] receives, [`App::ui`] draws. Neither waits for anything.

mod asked;
mod persisted;

use std::{
    path::{Path, PathBuf},
    time::{Duration, Instant},
};

use eframe::egui;
use plimsoll_engine::{
    hardware::{Machine, Watcher},
    train::{Command, Trainer},
};

use self::asked::Waiting;
pub(crate) use self::persisted::PersistedState;
use crate::{
    alarm,
    closing::Closing,
    command::Sender,
    dispatch::{Dispatcher, Recorders, Services},
    files::FileDialogs,
    focus::Opener,
    frames::{Frames, Pace},
    gallery::Painter,
    kept::Keeper,
    layout::Layout,
    librarian::{Change, Librarian},
    panels::{self, PanelContext},
    passes,
    planner::Planner,
    presets,
    recent::Recent,
    regions,
    state::{Level, State},
    takeaway::Porter,
    theme,
    trials::Trials,
    typing::InOrder,
    view::View,
    widgets::{control, tip, toasts::Toasts},
    zoom::{self, Zoom},
};

/// A worker's news are drawn this much later at most. Not zero: that would draw two frames for each.
const WAKE: Duration = Duration::from_millis(16);

/// The window.
pub(crate) struct App {
    state: State,
    view: View,
    layout: Layout,
    services: Services,
    recorders: Recorders,
    sender: Sender,
    toasts: Toasts,
    frames: Frames,
    zoom: Zoom,
    pointer: zoom::Pointer,
    opener: Opener,
    pace: Pace,
    title: String,
    /// `None` in tests, which keep nothing.
    keeper: Option<Keeper>,
    /// `None` if no signal closes it.
    signals: Option<Closing>,
    /// Commands that act on what was typed in a field, which is taken first.
    waiting: Option<Waiting>,
}

impl App {
    /// A window on the persisted state, or on the preset to open.
    pub(crate) fn new(
        ctx: &egui::Context,
        files: FileDialogs,
        mut persisted: PersistedState,
        store: Result<PathBuf, String>,
        open: Option<&Path>,
    ) -> std::io::Result<Self> {
        theme::install(ctx);
        ctx.add_plugin(InOrder::default());
        passes::install(ctx);
        let wake = || {
            let ctx = ctx.clone();
            move || ctx.request_repaint_after(WAKE)
        };
        let pace = Pace::default();
        let (delay, of_trainer) = (pace.delay(), ctx.clone());
        let wake_paced = move || of_trainer.request_repaint_after(delay());
        let services = Services {
            planner: Planner::new(Machine::nominal().with_process_measured(), wake())?,
            painter: Painter::new(wake())?,
            trainer: Trainer::in_background(wake_paced),
            watcher: Watcher::new(wake()),
            store: store.as_ref().ok().cloned(),
            librarian: Librarian::new(store, wake())?,
            files,
            porter: Porter::new(ctx.clone()),
            trials: Trials::new(wake())?,
        };
        let shipped = presets::shipped();
        let document = persisted.document(&shipped);
        let (budgets, drafts, pin_asked) = (persisted.budgets, persisted.drafts, persisted.pin);
        let pin_is_of_another = persisted.pin_is_of_another;
        let recent = Recent::kept(persisted.recent, persisted.recent_shipped);
        let mut app = Self {
            state: State { budgets, drafts, pin_asked, pin_is_of_another, ..State::new(document, recent, shipped) },
            view: persisted.view,
            layout: persisted.layout.map(Layout::completed).unwrap_or_default(),
            services,
            recorders: Recorders::default(),
            sender: Sender::default(),
            toasts: Toasts::default(),
            frames: Frames::default(),
            zoom: Zoom::default(),
            pointer: zoom::Pointer::default(),
            opener: Opener::default(),
            pace,
            title: String::new(),
            keeper: None,
            signals: None,
            waiting: None,
        };
        app.dispatcher(ctx).changed();
        if let Some(pin) = &app.state.pin_asked {
            app.services.planner.pin(pin.clone());
        }
        if let Some(path) = open {
            app.dispatcher(ctx).open_at_start(path);
        }
        Ok(app)
    }

    /// The same window, with `keeper` to write its state; `damage` is reported.
    pub(crate) fn kept_by(mut self, keeper: Keeper, damage: Option<String>) -> Self {
        self.keeper = Some(keeper);
        if let Some(damage) = damage {
            self.toasts.warning(damage.as_str());
            self.state.log.add(Level::Note, damage);
        }
        self
    }

    /// The same window, drawn by the renderer of this name.
    pub(crate) fn drawn_by(mut self, renderer: &str) -> Self {
        self.pace.drawn_by(renderer);
        self
    }

    /// The same window, closed by signals; if none can be listened to, that is noted.
    pub(crate) fn closed_by(mut self, signals: std::io::Result<Closing>) -> Self {
        match signals {
            Ok(signals) => self.signals = Some(signals),
            Err(error) => {
                let text =
                    format!("A signal ends the program without saving: the system lets none be handled ({error})");
                self.state.log.add(Level::Warning, text);
            }
        }
        self
    }

    /// Writes the state for the next session.
    pub(crate) fn keep(&mut self) {
        let state = self.persisted();
        if let Some(keeper) = &mut self.keeper {
            keeper.keep(&state);
        }
    }

    /// The same as the window closes.
    pub(crate) fn keep_last(&mut self) {
        let state = self.persisted();
        if let Some(keeper) = &mut self.keeper {
            keeper.close(&state);
        }
    }

    /// Writes it soon after something may have changed, and says once if it cannot be.
    fn keep_soon(&mut self, ctx: &egui::Context, is_touched: bool) {
        let Some(mut keeper) = self.keeper.take() else { return };
        let was_due = keeper.is_due();
        if let Some(left) = keeper.look(is_touched, || self.persisted()) {
            ctx.request_repaint_after(left);
            if !was_due {
                alarm::ring(ctx, left);
            }
        }
        if let Some(text) = keeper.untold() {
            self.toasts.warning(text.as_str());
            self.state.log.add(Level::Note, text);
        }
        self.keeper = Some(keeper);
    }

    /// The state to keep for the next session.
    pub(crate) fn persisted(&self) -> PersistedState {
        let document = &self.state.document;
        let mut drafts = self.state.drafts.persisted();
        if document.loaded.as_deref() == Some(&document.experiment)
            && let Some(draft) = document.draft()
        {
            // Its steps back, among which it is, end with the window.
            drafts.keep(draft);
        }
        let State { pin, pin_at_rest, pin_asked, .. } = &self.state;
        let pinned = pin.as_ref().or(pin_at_rest.as_ref()).map(|pin| &*pin.experiment).or(pin_asked.as_ref());
        PersistedState {
            view: self.view.clone(),
            layout: Some(self.layout.clone()),
            recent: self.state.recent.files.clone(),
            recent_shipped: self.state.recent.shipped.clone(),
            budgets: self.state.budgets.clone(),
            experiment: Some(document.experiment.clone()),
            saved: Some(document.saved.clone()),
            path: document.path.clone(),
            shipped: document.shipped.clone(),
            loaded: document.loaded.clone(),
            drafts,
            pin: pinned.cloned(),
            pin_is_of_another: self.state.pin_is_of_another || self.state.pin_at_rest.is_some(),
            // Whoever writes it adds the window, and the others.
            window: 0,
            others: Vec::new(),
        }
    }

    fn dispatcher<'a>(&'a mut self, ctx: &'a egui::Context) -> Dispatcher<'a> {
        Dispatcher {
            ctx,
            state: &mut self.state,
            view: &mut self.view,
            layout: &mut self.layout,
            services: &self.services,
            recorders: &mut self.recorders,
            toasts: &mut self.toasts,
        }
    }

    /// Corrects what the native window tells before a frame.
    pub(crate) fn correct(&mut self, ctx: &egui::Context, input: &mut egui::RawInput) {
        self.pointer.correct(ctx.zoom_factor(), input);
    }

    /// Receives answers of the threads, keys, and the panels' requests of the last frame.
    pub(crate) fn logic(&mut self, ctx: &egui::Context) {
        ctx.set_theme(self.view.theme);
        self.zoom.limit(ctx);
        if let Some(text) = zoom::refused(ctx) {
            self.toasts.info(text);
        }
        self.opener.resume(ctx);
        // A pass that is drawn again is not a frame of its own.
        if ctx.current_pass_index() == 0 {
            self.pace.begin(Instant::now());
        }
        self.take_keys(ctx);
        let actions = self.sender.take();
        // A pane's edge or a column is dragged without an action.
        let is_touched = !actions.is_empty() || ctx.input(|input| input.pointer.any_released());
        let runs = self.state.session.runs().len();
        let dialog = self.state.dialog.is_some();
        let mut dispatcher = self.dispatcher(ctx);
        for action in actions {
            dispatcher.act(action);
        }
        dispatcher.receive();
        if let Some(words) = control::refused(ctx, self.state.document.generation) {
            self.toasts.refuses_now(&words);
        }
        if self.state.session.runs().len() > runs {
            self.pace.probe();
            // The figure is that of the run from here on.
            self.frames = Frames::default();
            // The store has its settings from now on, and the next start has them as well.
            self.keep();
        }
        self.keep_soon(ctx, is_touched);
        self.close(ctx);
        if !dialog && self.state.dialog.is_some() {
            // A tooltip stays for as long as the pointer rests, and would lie over the dialog. So for everything below, the
            // pointer is gone until it moves.
            ctx.input_mut(|input| input.pointer = egui::PointerState::default());
        }
        self.name_window(ctx);
        let strength = self.view.smoothing;
        for run in self.state.session.all_mut() {
            run.set_smoothing(strength);
        }
    }

    /// Ends the run that is under way, and has all written that is to be kept.
    pub(crate) fn finish(&mut self) {
        const PATIENCE: Duration = Duration::from_secs(20);
        if self.recorders.is_recording() {
            self.services.trainer.send(Command::Stop);
        }
        let until = Instant::now() + PATIENCE;
        while self.recorders.is_recording() {
            let Ok(event) = self.services.trainer.events().recv_deadline(until) else { break };
            self.recorders.take(&event, &self.services.trainer);
        }
        self.recorders.finish();
        let put_away = std::mem::take(&mut self.state.runs.put_away);
        if !put_away.is_empty() {
            // There is no undo any more that could bring them back.
            self.services.librarian.change(Change::Delete(put_away));
        }
    }

    /// The document's name on the window.
    fn name_window(&mut self, ctx: &egui::Context) {
        let title = format!("{} - Plimsoll", self.state.document.name());
        if title != self.title {
            ctx.send_viewport_cmd(egui::ViewportCommand::Title(title.clone()));
            self.title = title;
        }
    }

    /// Draws the window.
    pub(crate) fn ui(&mut self, ui: &mut egui::Ui) {
        tip::follow(ui.ctx());
        regions::begin(ui.ctx());
        let mut context = PanelContext { state: &self.state, view: &mut self.view, send: &self.sender };
        let room = panels::above(ui, &mut context, &mut self.layout);
        // Panes have the colour that the window is cleared with.
        egui::CentralPanel::no_frame().show(ui, |ui| self.layout.ui(ui, &mut context, panels::draw));
        panels::below(ui, &context, room);
        panels::over(ui, &mut context);
        regions::end(ui.ctx());
        self.opener.follow(ui.ctx(), self.state.dialog.is_some());
        panels::focus_ring(ui);
        if self.view.frame_times {
            self.frames.ui(ui);
        }
        self.toasts.show(ui.ctx(), self.state.dialog.is_some());
        // Requests are carried out at the start of the next frame, so there must be one.
        if self.sender.is_waiting() || self.pace.is_probing() {
            ui.ctx().request_repaint();
        }
    }

    /// Notes how long the last frame took.
    pub(crate) fn frame_took(&mut self, secs: f32) {
        self.frames.record(secs);
    }
}

#[cfg(test)]
mod tests;
