//! Requests of a user. A [`UiCommand`] owns its label, its tooltip and its shortcut; an [`Action`] is a command or a change
//! with its data. Panels only send; `dispatch` is the one place that acts.

use std::{cell::RefCell, path::PathBuf};

use eframe::egui::{self, Key, KeyboardShortcut, Modifiers};
use plimsoll_engine::{Experiment, store::RunKey as Kept};
use strum::VariantArray;

use crate::{
    files::Purpose, panels::pane::Pane, state::RunKey, takeaway::Take, trials::TryWith, widgets::tip::Tip as _,
};

const CTRL_SHIFT: Modifiers = Modifiers::COMMAND.plus(Modifiers::SHIFT);

/// A command without data. Menus, buttons and keys share it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, VariantArray)]
pub(crate) enum UiCommand {
    /// A fresh experiment.
    New,
    /// The gallery of presets.
    Presets,
    /// Choose a preset file.
    Open,
    /// Open by a typed path.
    OpenPath,
    /// Save to the file it came from.
    Save,
    /// Save to another file.
    SaveAs,
    /// One step back.
    Undo,
    /// One undone step again.
    Redo,
    /// Begin a run.
    Train,
    /// Begin a run although it does not fit.
    TrainAnyway,
    /// Wait, or go on.
    Pause,
    /// One step, then wait.
    Step,
    /// End the run.
    Stop,
    /// Test the model now.
    Evaluate,
    /// Hold the present configuration for comparison.
    Pin,
    /// Dark or light.
    Theme,
    /// The focus to the region after the one that has it.
    NextRegion,
    /// The focus to the region before it.
    PreviousRegion,
    /// The panes as they were at first.
    ResetLayout,
    /// The list of keys.
    Shortcuts,
    /// Times of frames.
    FrameTimes,
    /// Close the window.
    Quit,
}

impl UiCommand {
    /// Every command, in the order of the list of keys.
    pub(crate) const ALL: &'static [Self] = Self::VARIANTS;

    /// The name in menus and on buttons.
    pub(crate) fn label(self) -> &'static str {
        match self {
            Self::New => "New experiment",
            Self::Presets => "Presets…",
            Self::Open => "Open…",
            Self::OpenPath => "Open by path…",
            Self::Save => "Save",
            Self::SaveAs => "Save as…",
            Self::Undo => "Undo",
            Self::Redo => "Redo",
            Self::Train => "Train",
            Self::TrainAnyway => "Train anyway",
            Self::Pause => "Pause",
            Self::Step => "Step",
            Self::Stop => "Stop",
            Self::Evaluate => "Evaluate",
            Self::Pin => "Pin for comparison",
            Self::Theme => "Dark or light",
            Self::NextRegion => "Next region",
            Self::PreviousRegion => "Previous region",
            Self::ResetLayout => "Reset layout",
            Self::Shortcuts => "Keyboard shortcuts",
            Self::FrameTimes => "Frame times",
            Self::Quit => "Quit",
        }
    }

    /// Its effect, in a sentence.
    pub(crate) fn tooltip(self) -> &'static str {
        match self {
            Self::New => "Start from the default experiment.",
            Self::Presets => "Show every preset: lessons, model families, plans for cards, your drafts and files.",
            Self::Open => "Choose a preset file, or a model's config.json, and load it.",
            Self::OpenPath => "Type or paste the path of a preset file.",
            Self::Save => "Write the experiment to the file it came from.",
            Self::SaveAs => "Write the experiment to a file you choose.",
            Self::Undo => "Undo the last change of the experiment, its opening, or the deletion of runs.",
            Self::Redo => "Redo what was undone.",
            Self::Train => "Plan the run, and train inside the budget.",
            Self::TrainAnyway => {
                "Train although the prediction crosses the budget. The run stops cleanly at the allocation that would cross \
                 the budget: nothing beyond it is ever taken, and the program goes on."
            }
            Self::Pause => "Pause after the current step; the model and its memory stay. Press again to resume.",
            Self::Step => {
                "Run one optimizer step, then pause. Without a run, start one and pause after its first step."
            }
            Self::Stop => "End the run after the current step and release all its memory.",
            Self::Evaluate => "Test the model on the held-out data after the current step.",
            Self::Pin => {
                "Hold the current configuration: the bar then shows the difference to it, and the timeline its outline. Press \
                 again to let it go."
            }
            Self::Theme => "Change between dark and light.",
            Self::NextRegion => {
                "Move the keyboard's focus to the next region: the bars at the top, each pane, the bar with Train."
            }
            Self::PreviousRegion => {
                "Move the keyboard's focus to the region before. Without a focus, to the bar with Train."
            }
            Self::ResetLayout => "Put every pane back to its default place.",
            Self::Shortcuts => "List the keyboard shortcuts.",
            Self::FrameTimes => "Show how long the window takes to draw.",
            Self::Quit => "Close the window.",
        }
    }

    /// Its key.
    pub(crate) fn shortcut(self) -> Option<KeyboardShortcut> {
        let (modifiers, key) = match self {
            Self::New => (Modifiers::COMMAND, Key::N),
            Self::Presets => (Modifiers::COMMAND, Key::G),
            Self::Open => (Modifiers::COMMAND, Key::O),
            Self::OpenPath => (CTRL_SHIFT, Key::O),
            Self::Save => (Modifiers::COMMAND, Key::S),
            Self::SaveAs => (CTRL_SHIFT, Key::S),
            Self::Undo => (Modifiers::COMMAND, Key::Z),
            Self::Redo => (CTRL_SHIFT, Key::Z),
            Self::Train => (Modifiers::COMMAND, Key::Enter),
            Self::TrainAnyway => return None,
            Self::Pause => (Modifiers::NONE, Key::Space),
            Self::Step => (Modifiers::NONE, Key::F10),
            Self::Stop => (Modifiers::COMMAND, Key::Period),
            Self::Evaluate => (Modifiers::COMMAND, Key::E),
            Self::Pin => (Modifiers::COMMAND, Key::P),
            Self::Theme => (Modifiers::COMMAND, Key::D),
            Self::NextRegion => (Modifiers::NONE, Key::F6),
            Self::PreviousRegion => (Modifiers::SHIFT, Key::F6),
            Self::ResetLayout => (CTRL_SHIFT, Key::L),
            Self::Shortcuts => (Modifiers::NONE, Key::F1),
            Self::FrameTimes => (Modifiers::NONE, Key::F12),
            Self::Quit => (Modifiers::COMMAND, Key::Q),
        };
        Some(KeyboardShortcut::new(modifiers, key))
    }

    /// Another key for it, where other programs have another.
    fn other_shortcut(self) -> Option<KeyboardShortcut> {
        matches!(self, Self::Redo).then_some(KeyboardShortcut::new(Modifiers::COMMAND, Key::Y))
    }

    /// The tooltip with the key after it.
    pub(crate) fn tooltip_with_key(self, ctx: &egui::Context) -> String {
        match self.shortcut() {
            Some(shortcut) => format!("{} ({})", self.tooltip(), ctx.format_shortcut(&shortcut)),
            None => self.tooltip().to_owned(),
        }
    }

    /// A menu entry; true when it was chosen.
    pub(crate) fn menu_entry(self, ui: &mut egui::Ui, enabled: bool) -> bool {
        let mut button = egui::Button::new(self.label());
        if let Some(shortcut) = self.shortcut() {
            button = button.shortcut_text(ui.ctx().format_shortcut(&shortcut));
        }
        let clicked = ui.add_enabled(enabled, button).tip(self.tooltip()).clicked();
        if clicked {
            ui.close();
        }
        clicked
    }

    /// Whether its key works while a dialog is open, because it changes nothing below the dialog.
    pub(crate) fn works_beside_a_dialog(self) -> bool {
        matches!(self, Self::Theme | Self::FrameTimes | Self::Quit)
    }

    /// Whether it goes a step back or forth.
    pub(crate) fn is_a_step(self) -> bool {
        matches!(self, Self::Undo | Self::Redo)
    }

    /// Whether it acts on the settings or on a run, and so on what is typed in a field.
    pub(crate) fn reads_fields(self) -> bool {
        !matches!(
            self,
            Self::Theme | Self::NextRegion | Self::PreviousRegion | Self::Shortcuts | Self::FrameTimes | Self::Quit
        )
    }

    /// The commands whose keys were pressed, in the order of the keys: a slow frame may have several of them. A key without
    /// modifiers belongs to the widget that has the focus, and so does that of a command which is not `asked_for` there.
    pub(crate) fn pressed(ctx: &egui::Context, asked_for: impl Fn(&Self) -> bool) -> Vec<Self> {
        let typing = ctx.memory(|memory| memory.focused().is_some());
        let mut pressed = Vec::new();
        ctx.input_mut(|input| {
            input.events.retain(|event| {
                let &egui::Event::Key { key, pressed: true, modifiers, .. } = event else { return true };
                let is_typed = key == Key::Space && typing;
                let command = Self::of(KeyboardShortcut::new(modifiers, key)).filter(|_| !is_typed).filter(&asked_for);
                pressed.extend(command);
                command.is_none()
            });
        });
        pressed
    }

    /// The command that has these keys.
    pub(crate) fn of(keys: KeyboardShortcut) -> Option<Self> {
        let matches = |shortcut: &KeyboardShortcut| {
            // Shift makes another key of one that stands alone: Shift+F10 opens a menu, F10 begins a run.
            let is_other = shortcut.modifiers.is_none() && keys.modifiers.shift;
            let is_same = shortcut.logical_key == keys.logical_key;
            is_same && !is_other && keys.modifiers.matches_logically(shortcut.modifiers)
        };
        let has_keys =
            |command: &Self| command.shortcut().into_iter().chain(command.other_shortcut()).any(|s| matches(&s));
        // The longer combination first: Ctrl+Shift+S also reads as Ctrl+S.
        let with_shift = |command: &Self| command.shortcut().is_some_and(|shortcut| shortcut.modifiers.shift);
        let mut commands = Self::ALL.iter().copied().filter(has_keys);
        commands.clone().find(with_shift).or_else(|| commands.next())
    }
}

/// The request of a panel.
#[derive(Debug, Clone)]
pub(crate) enum Action {
    /// A command.
    Ui(UiCommand),
    /// A control changed the experiment.
    Edit {
        /// The key of the control, such as `batch.micro`.
        control: &'static str,
        /// The experiment after the change.
        experiment: Box<Experiment>,
    },
    /// Make a whole configuration the present one, as an edit that can be undone.
    Adopt(Box<Experiment>),
    /// Hold a configuration for comparison, such as one before a step of undo.
    PinExperiment(Box<Experiment>),
    /// Open a preset file.
    OpenFile(PathBuf),
    /// Open a preset that ships with the program, by its index.
    OpenShipped(usize),
    /// Open a draft, by its index.
    OpenDraft(usize),
    /// Throw a draft away, by its index.
    DiscardDraft(usize),
    /// Use a path that was typed.
    UsePath(Purpose, PathBuf),
    /// Choose the folder or the file of the data with a dialog.
    BrowseData,
    /// Choose the folder of the weights with a dialog.
    BrowseWeights,
    /// Choose the folder of the teacher with a dialog.
    BrowseTeacher,
    /// Ask for the folder of a tokenizer.
    BrowseTokenizer,
    /// Ask for the folder that streamed samples are kept in.
    BrowseCache,
    /// The user points at a control: show the effect of its neighbours.
    AskNeighbours {
        /// The key of the control.
        control: &'static str,
        /// The neighbours, each with its name.
        neighbours: Vec<(String, Experiment)>,
    },
    /// Show the curves of a run.
    ShowRun(RunKey),
    /// Give a run a name of its own; an empty one takes it away.
    NameRun(RunKey, String),
    /// Do something with kept runs.
    Runs(RunsAction),
    /// Try the model that is chosen.
    Try(TryWith),
    /// Choose the model to try: the one with the weights of the present experiment, or the model of the run that is shown.
    TryWeights(bool),
    /// End the text that the model writes.
    EndText,
    /// Close the open dialog.
    CloseDialog,
    /// The answer to "save first?": go on with the request.
    Proceed {
        /// Save before.
        save: bool,
    },
    /// Let go of the notice of how the last run ended.
    DismissNotice,
    /// Empty the log.
    ClearLog,
    /// Put text on the clipboard.
    Copy(String),
    /// Take a pane's content to a file or onto the clipboard.
    Take(Pane, Take),
}

/// The request about kept runs.
#[derive(Debug, Clone)]
pub(crate) enum RunsAction {
    /// Pick these, the one to look at last.
    Pick(Vec<Kept>),
    /// Show one as it was.
    Open(Kept),
    /// Make its settings the present ones, as an edit that can be undone.
    Load(Kept),
    /// Go on with it from its last checkpoint.
    Continue(Kept),
    /// Write its compressed model to a file.
    Export(Kept),
    /// Star some, or take their stars.
    Star(Vec<Kept>, bool),
    /// Give one a name.
    Name(Kept, String),
    /// Note something of one.
    Note(Kept, String),
    /// Give one tags.
    Tags(Kept, Vec<String>),
    /// Delete some.
    Delete(Vec<Kept>),
    /// Bring back the runs that were deleted last.
    Restore,
    /// Put some side by side.
    Compare(Vec<Kept>),
    /// Put one next to the present settings.
    CompareWithPresent(Kept),
    /// Put the configuration that is held next to the present settings.
    ComparePin,
}

/// The actions that the panels sent in this frame, in order.
#[derive(Debug, Default)]
pub(crate) struct Sender(RefCell<Vec<Action>>);

impl Sender {
    /// Asks for something.
    pub(crate) fn send(&self, action: Action) {
        self.0.borrow_mut().push(action);
    }

    /// Asks for a command.
    pub(crate) fn ui(&self, command: UiCommand) {
        self.send(Action::Ui(command));
    }

    /// Whether something was asked for and not yet taken.
    pub(crate) fn is_waiting(&self) -> bool {
        !self.0.borrow().is_empty()
    }

    /// Takes everything asked for.
    pub(crate) fn take(&self) -> Vec<Action> {
        self.0.take()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_two_commands_share_a_key_and_each_explains_itself() {
        for (i, a) in UiCommand::ALL.iter().copied().enumerate() {
            assert!(!a.label().is_empty() && a.tooltip().ends_with('.'), "{a:?}");
            for b in &UiCommand::ALL[i + 1..] {
                assert!(a.shortcut().is_none() || a.shortcut() != b.shortcut(), "{a:?} and {b:?}");
                assert_ne!(a.label(), b.label());
            }
        }
    }
}
