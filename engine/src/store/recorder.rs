//! The recorder of one run: takes its events as they come, and writes them on a thread of its own.
//!
//! Always holds: taking an event costs a lock and a copy, and never waits for a disk. A store that cannot be written never
//! ends a run: records are held back, up to a limit, and tried again; each problem is reported once. The recorder's memory
//! belongs to threads that no meter counts. A run that is refused was never begun, and is not kept. A checkpoint is put in
//! its place after the steps before it are in the store, where that takes them.

mod shared;

use std::{
    path::{self, Path, PathBuf},
    sync::Arc,
    thread::JoinHandle,
    time::{Duration, Instant},
};

use crossbeam_channel::{Receiver, RecvTimeoutError, Sender};
use jiff::Timestamp;

use self::shared::Shared;
use crate::{
    error::Result,
    store::{Evaluation, EventKind, Origin, RunKey, files, folders, measured::Measured, series::BLOCK, writer::Writer},
    sync::Mutex,
    train::{Event, Folder, Keep, Latest, RecordFirst},
};

/// The time between two writes.
const EVERY: Duration = Duration::from_secs(1);
/// After a failure, the next attempt comes this much later.
const AGAIN: Duration = Duration::from_secs(3);
/// How long the end of a run is tried to be written.
const LAST_TRIES: Duration = Duration::from_secs(8);
/// The pause between two attempts once nothing more comes.
const HASTE: Duration = Duration::from_millis(5);

/// The subject of a record, and its place.
#[derive(Debug, Clone)]
pub struct Recording {
    /// The store's folder.
    pub folder: PathBuf,
    /// The origin of the run.
    pub origin: Origin,
    /// The run may begin although it does not fit. Where it then meets its budget, it was not refused but ended there.
    pub is_forced: bool,
    /// The kept run that is taken up again; `None` for a new one.
    pub continued: Option<RunKey>,
}

/// Records one run.
///
/// # Examples
///
/// ```
/// use plimsoll_engine::{Experiment, store::{Origin, Recorder, Recording, Store}, train::{Command, Event, Start, Trainer}};
///
/// let folder = tempfile::tempdir()?;
/// let recording =
///     Recording { folder: folder.path().into(), origin: Origin::CommandLine, is_forced: false, continued: None };
/// let recorder = Recorder::new(recording);
///
/// let mut experiment = Experiment::default();
/// experiment.run.steps = Some(3);
/// let trainer = Trainer::new(|| {});
/// trainer.send(Command::Start(Box::new(Start::new(experiment))));
/// for event in trainer.events() {
///     recorder.take(&event);
///     if matches!(event, Event::Ended { .. }) {
///         break;
///     }
/// }
/// let key = recorder.key().clone();
/// assert_eq!(recorder.finish(), None, "nothing went wrong");
///
/// let store = Store::open(folder.path())?;
/// assert_eq!((store.get(&key)?.steps, store.series(&key)?.steps.len()), (3, 3));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct Recorder {
    key: RunKey,
    recording: Recording,
    shared: Arc<Mutex<Shared>>,
    /// Disconnected once the store was opened, or could not be.
    opened: Receiver<()>,
    /// Disconnected once the first writing was tried.
    tried: Receiver<()>,
    thread: Option<JoinHandle<()>>,
}

impl Recorder {
    /// A recorder of a run that is about to begin. [`Recorder::warning`] reports problems of the store.
    pub fn new(recording: Recording) -> Self {
        Self::writing_every(recording, EVERY)
    }

    /// A recorder that writes at this interval the records that nothing waits for.
    pub(super) fn writing_every(recording: Recording, every: Duration) -> Self {
        let key = recording.continued.clone().unwrap_or_else(|| RunKey::new(Timestamp::now()));
        let shared = Arc::<Mutex<Shared>>::default();
        let (wake, woken) = crossbeam_channel::bounded(1);
        shared.lock().wake = Some(wake);
        let [(unopened, opened), (untried, tried)] = [crossbeam_channel::bounded(0), crossbeam_channel::bounded(0)];
        let writer = Writer::new(recording.clone(), key.clone());
        let of_thread = Arc::clone(&shared);
        let write = move || {
            write(writer, &of_thread, &woken, [unopened, untried], every);
            of_thread.lock().close();
        };
        let thread = std::thread::Builder::new().name("recorder".to_owned()).spawn(write);
        if let Err(error) = &thread {
            let mut shared = shared.lock();
            shared.warning = Some(format!("the run is not kept: the system provides no thread for it ({error})"));
            shared.close();
        }
        Self { key, recording, shared, opened, tried, thread: thread.ok() }
    }

    /// The run's name in the store.
    pub fn key(&self) -> &RunKey {
        &self.key
    }

    /// Where the run's files will lie.
    pub fn files(&self) -> PathBuf {
        files(&self.recording.folder, &self.key)
    }

    /// Makes the folder of the run's files at once.
    ///
    /// # Errors
    /// Fails if the folder cannot be made, and in the folder of a store that is another program's or a newer version's.
    pub fn make_files(&self) -> Result<PathBuf> {
        let files = self.files();
        folders::make(&self.recording.folder, &files).map(|()| files)
    }

    /// Checkpoints in the folder of the run's files, which is made when the run begins. They are written after the records
    /// before them are in the store.
    pub fn keep(&self) -> Keep {
        let (folder, files) = (self.recording.folder.clone(), self.files());
        let made = Folder::made_by(files.clone(), move || folders::make(&folder, &files));
        Keep { folder: Some(made), record: Some(self.first()) }
    }

    /// The condition that the run's checkpoints wait for: everything before them is in the store.
    pub fn first(&self) -> RecordFirst {
        let shared = Arc::clone(&self.shared);
        RecordFirst::new(self.opened.clone(), move |step, evaluations| shared.lock().want(step, evaluations))
    }

    #[cfg(test)]
    pub(super) fn want(&self, step: u64, evaluations: u64) -> Receiver<()> {
        self.shared.lock().want(step, evaluations)
    }

    /// Takes an event of the run.
    pub fn take(&self, event: &Event) {
        let mut shared = self.shared.lock();
        let shared = &mut *shared;
        let had_begun = shared.batch.has_begun;
        // A checkpoint stays even if the program is killed: its line in the record must not wait for the next turn.
        let is_saved = matches!(event, Event::Saved { .. });
        match event {
            Event::Machine(_) | Event::Teaching { .. } | Event::Ways { .. } => return,
            Event::Started { plan, .. } => {
                (shared.has_plan, shared.batch.plan) = (true, Some(Arc::clone(plan)));
                shared.step = plan.resolved.resumed().map_or(0, |resumed| resumed.step);
            }
            Event::Step(record) => shared.step(record),
            Event::Evaluating { .. } => shared.batch.has_begun = true,
            Event::Evaluated { step, at_secs, loss, accuracy, .. } => {
                let (step, at_secs, loss, accuracy) = (*step, *at_secs, *loss, *accuracy);
                shared.batch.evaluations.push(Evaluation { step, at_secs, loss, accuracy });
                shared.evaluations += 1;
            }
            Event::Thinned { stripped, .. } => shared.note(EventKind::Thinned, &stripped.to_string()),
            Event::Saved { path, bytes, why, .. } => {
                // One that lies elsewhere is found by its whole path.
                let file = path.strip_prefix(self.files()).map(Path::to_owned);
                let file = file.or_else(|_| path::absolute(path)).unwrap_or_else(|_| path.clone());
                let file = file.display();
                shared.note(EventKind::Saved, &format!("{}: {file}, {bytes}", why.key()));
            }
            Event::Compressed(compressed) => shared.note(EventKind::Compressed, &compressed.to_string()),
            Event::Paused(true) => shared.note(EventKind::Paused, ""),
            Event::Paused(false) => shared.note(EventKind::Resumed, ""),
            Event::Warning(text) => shared.note(EventKind::Warning, text),
            Event::Ended { outcome, summary, .. } => shared.end(outcome, summary, self.recording.is_forced),
        }
        let is_news = shared.batch.end.is_some() || shared.batch.has_begun != had_begun || is_saved;
        // Otherwise a model of the fastest steps would gather tens of thousands of them between two writes.
        let is_block = matches!(event, Event::Step(_)) && shared.batch.steps.len().is_multiple_of(BLOCK);
        if is_news || is_block || shared.has_what_is_wanted() {
            shared.wake();
        }
    }

    /// Takes the newest measurement of a step, op by op. It comes before the event of the end: that one closes the record.
    pub fn take_latest(&self, latest: &Latest) {
        if let Some(measured) = Measured::of(latest) {
            self.shared.lock().batch.measured = Some(measured);
        }
    }

    /// Whether the run trains, and so is to be kept: a run that is refused never does.
    pub fn has_begun(&self) -> bool {
        self.shared.lock().batch.has_begun
    }

    /// Waits until the begun run is in the store, or until that failed. Says whether it is there.
    pub fn wait_until_kept(&self, patience: Duration) -> bool {
        // The thread lets go of its end once it has tried: there is nothing to receive.
        let _ = self.tried.recv_timeout(patience);
        self.is_kept()
    }

    /// Whether the run is in the store.
    pub fn is_kept(&self) -> bool {
        self.shared.lock().is_kept
    }

    /// The problem of keeping the run, each time it is a new one.
    pub fn warning(&self) -> Option<String> {
        self.shared.lock().warning.take()
    }

    /// Whether all is written, or was given up.
    pub fn is_done(&self) -> bool {
        self.thread.as_ref().is_none_or(JoinHandle::is_finished)
    }

    /// Writes the remaining records, and reports losses. A run that has not ended by then is interrupted.
    pub fn finish(mut self) -> Option<String> {
        self.close();
        self.warning()
    }

    fn close(&mut self) {
        self.shared.lock().wake = None;
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

impl Drop for Recorder {
    fn drop(&mut self) {
        self.close();
    }
}

/// Writes records as they come, until the run has ended or its recorder is gone.
/// Lets go of `unopened` once the store was opened, and of `untried` once the first writing was tried.
fn write(
    mut writer: Writer,
    shared: &Mutex<Shared>,
    woken: &Receiver<()>,
    [unopened, untried]: [Sender<()>; 2],
    every: Duration,
) {
    let mut untried = Some(untried);
    // Its memory is then there before the run measures the process.
    let mut failure = writer.open().err();
    drop(unopened);
    let (mut told, mut until) = (None, None);
    loop {
        if let Some(fault) = failure.as_ref().filter(|fault| fault.is_of_process()) {
            // Nothing that the user may do mends it while the run goes on: it is said once.
            shared.lock().warning = Some(format!("the run is not kept: {}", writer.error(fault)));
            return;
        }
        let failed = failure.as_ref().map(|fault| writer.error(fault));
        let words = failed.map(|error| format!("the run goes on, but is not kept for now: {error}"));
        if told != words {
            let mut state = shared.lock();
            // Other warnings that were not reported yet stay.
            if words.is_some() || state.warning == told {
                state.warning.clone_from(&words);
            }
            told = words;
        }
        let is_gone = wait(woken, if failure.is_some() && until.is_none() { AGAIN } else { every });
        if !receive(&mut writer, shared) || (is_gone && !writer.abandon()) {
            return;
        }
        if !writer.has_begun() {
            continue;
        }
        failure = writer.write().err();
        if let Some(words) = writer.taken_over() {
            shared.lock().warning = Some(words);
            return;
        }
        let mut state = shared.lock();
        state.warning = writer.remark().or(state.warning.take());
        state.is_kept |= failure.is_none();
        state.wanted.take_if(|wanted| failure.is_some() || writer.holds(wanted.step, wanted.evaluations));
        drop(state);
        drop(untried.take());
        if writer.has_ended() {
            let until = *until.get_or_insert_with(|| Instant::now() + LAST_TRIES);
            if Instant::now() >= until || failure.as_ref().is_none_or(|fault| !fault.may_pass()) {
                let losses = writer.losses(failure.as_ref());
                let mut state = shared.lock();
                state.warning = losses.or(state.warning.take());
                return;
            }
        }
    }
}

/// Waits for news. Says whether the recorder is gone.
fn wait(woken: &Receiver<()>, pause: Duration) -> bool {
    let since = Instant::now();
    match woken.recv_timeout(pause) {
        Ok(()) | Err(RecvTimeoutError::Timeout) => false,
        Err(RecvTimeoutError::Disconnected) => {
            // When the recorder is gone, nothing wakes this thread: a pause separates the attempts to write.
            std::thread::sleep(HASTE.saturating_sub(since.elapsed()));
            true
        }
    }
}

/// Hands new records to the writer, unless it is full. Says whether there is a run to record.
fn receive(writer: &mut Writer, shared: &Mutex<Shared>) -> bool {
    let mut shared = shared.lock();
    if !writer.backlog().is_full() {
        let has_begun = shared.batch.has_begun;
        writer.receive(std::mem::take(&mut shared.batch));
        shared.batch.has_begun = has_begun;
    }
    !shared.is_refused
}
