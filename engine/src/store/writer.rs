//! Writes what a recorder took, a transaction at a time.
//!
//! Always holds: what a transaction did not write is written by the next, once and in order, also where nobody knows
//! whether the failed one was written after all: the store is asked how far it came.

use std::{sync::Arc, time::Instant};

use jiff::Timestamp;
use rusqlite::{Connection, OptionalExtension, Transaction, params};

use crate::{
    bytes::Bytes,
    error::{Error, Result},
    experiment::{Experiment, preset},
    hardware,
    plan::{Peak, Plan},
    store::{
        Evaluation, EventKind, KeptEvent, Prediction, RunKey, RunState, columns,
        database::Database,
        events,
        owner::{Owner, PULSE},
        recorder::{Batch, End, Recording},
        tail::Tail,
    },
    train::StepRecord,
};

/// Settings that say nothing of how a run trains.
const WORDS: [&str; 3] = ["title", "description", "version"];

/// Writes one run.
#[derive(Debug)]
pub(super) struct Writer {
    recording: Recording,
    key: RunKey,
    started: Timestamp,
    /// What is yet to be written.
    backlog: Batch,
    /// How many steps, evaluations and events of this recorder are in the store for sure.
    written: [u64; 3],
    /// How many of each were in the store before this recorder's first.
    before: [i64; 3],
    /// The plan that the run began with.
    plan: Option<Arc<Plan>>,
    reached: Reached,
    open: Option<Open>,
    /// When the last sign of life was written.
    pulse: Option<Instant>,
    has_ended: bool,
}

/// An open store.
#[derive(Debug)]
struct Open {
    database: Database,
    run: Option<Run>,
}

/// The run in it.
#[derive(Debug)]
struct Run {
    number: i64,
    steps: Tail<StepRecord>,
    evaluations: Tail<Evaluation>,
    events: u64,
    /// Of the preset and the prediction.
    bytes: usize,
}

/// How far a run has come.
#[derive(Debug, Clone, Copy, Default)]
struct Reached {
    steps: u64,
    secs: f64,
    steps_secs: f64,
    skipped: u64,
    measured: Peak,
    train_loss: Option<f64>,
    test_loss: Option<f64>,
    test_accuracy: Option<f64>,
    best_test_accuracy: Option<f64>,
}

impl Reached {
    fn step(&mut self, record: &StepRecord) {
        self.steps = record.step;
        self.secs = record.at_secs;
        self.steps_secs += record.secs;
        self.skipped += u64::from(record.skipped);
        self.train_loss = Some(record.loss);
        self.measured = Peak {
            live: self.measured.live.max(record.live),
            reserved: self.measured.reserved.max(record.reserved),
            process: self.measured.process.max(record.process),
        };
    }

    fn evaluated(&mut self, evaluation: &Evaluation) {
        let accuracy = evaluation.accuracy;
        self.secs = self.secs.max(evaluation.at_secs);
        (self.test_loss, self.test_accuracy) = (Some(evaluation.loss), Some(accuracy));
        self.best_test_accuracy = Some(self.best_test_accuracy.map_or(accuracy, |best| best.max(accuracy)));
    }

    fn ended(&mut self, end: &End, is_continued: bool) {
        let Some(summary) = &end.summary else { return };
        self.steps = self.steps.max(summary.steps);
        let Peak { live, reserved, process } = self.measured;
        let measured = summary.measured;
        // The summary has what no step shows: the tests, and the mark that the system keeps of the process.
        self.measured = Peak {
            live: live.max(measured.live),
            reserved: reserved.max(measured.reserved),
            process: if is_continued { process.max(measured.process) } else { measured.process },
        };
        self.secs = self.secs.max(summary.secs);
    }
}

impl Writer {
    pub(super) fn new(recording: Recording, key: RunKey) -> Self {
        Self {
            recording,
            key,
            started: Timestamp::now(),
            backlog: Batch::default(),
            written: [0; 3],
            before: [0; 3],
            plan: None,
            reached: Reached::default(),
            open: None,
            pulse: None,
            has_ended: false,
        }
    }

    /// What is yet to be written.
    pub(super) fn backlog(&self) -> &Batch {
        &self.backlog
    }

    /// Takes what came.
    pub(super) fn receive(&mut self, mut batch: Batch) {
        if let Some(plan) = batch.plan.take() {
            (self.plan, self.started) = (Some(plan), Timestamp::now());
        }
        self.backlog.append(batch);
    }

    /// Whether there is a run to write.
    pub(super) fn has_begun(&self) -> bool {
        self.plan.is_some() && self.backlog.has_begun
    }

    /// Whether the run's end has come.
    pub(super) fn has_ended(&self) -> bool {
        self.has_ended || self.backlog.end.is_some()
    }

    /// The recorder is gone: a run that has not ended is interrupted. Says whether there is something to write.
    pub(super) fn abandon(&mut self) -> bool {
        if !self.has_ended() {
            let message = Some("its program ended before it did".to_owned());
            self.backlog.end = Some(End { at: Timestamp::now(), state: RunState::Interrupted, message, summary: None });
        }
        self.has_begun()
    }

    /// What was lost, in words, once all is over.
    pub(super) fn losses(&self, failure: Option<&Error>) -> Option<String> {
        let lost = self.backlog.lost;
        match failure {
            Some(error) if self.pulse.is_none() => Some(format!("the run was not kept: {error}")),
            Some(error) => Some(format!("the end of the run was not kept: {error}")),
            None if lost > 0 => {
                Some(format!("{lost} steps of the run were not kept, because the store could not be written"))
            }
            None => None,
        }
    }

    /// Opens the store.
    ///
    /// # Errors
    /// Says what is wrong with the store.
    pub(super) fn open(&mut self) -> Result<()> {
        if self.open.is_none() {
            let database = Database::open(&self.recording.folder)?;
            let run = database.with(|db| Run::load(db, &self.key))?;
            self.open = Some(Open { database, run });
        }
        Ok(())
    }

    /// Writes the backlog. Where there is none, gives a sign of life now and then.
    ///
    /// # Errors
    /// Says what is wrong with the store; what is yet to be written is then kept.
    pub(super) fn write(&mut self) -> Result<()> {
        if self.backlog.is_empty() && self.pulse.is_some_and(|pulse| pulse.elapsed() < PULSE) {
            return Ok(());
        }
        let written = self.open().and_then(|()| self.begin()).and_then(|()| self.append());
        if written.is_err() {
            // What the store holds now is looked up before anything else is written.
            self.open = None;
        }
        written
    }

    /// Makes sure that the run stands in the store.
    fn begin(&mut self) -> Result<()> {
        let Some(plan) = self.plan.clone() else { return Ok(()) };
        let Some(Open { database, run }) = &mut self.open else { return Ok(()) };
        let is_new = self.pulse.is_none();
        let prediction = if is_new || run.is_none() { Prediction::of(&plan).to_bytes() } else { Vec::new() };
        match run {
            Some(run) if is_new => {
                let first = self.backlog.steps.first().map(|record| record.step);
                let taken_up = database.write(|db| run.take_up(db, first, &plan, &prediction))?;
                self.reached = taken_up;
                let step = self.reached.steps;
                if self.recording.continued.is_some() {
                    let event =
                        KeptEvent { at: Timestamp::now(), step, kind: EventKind::Continued, text: String::new() };
                    self.backlog.events.insert(0, event);
                }
            }
            Some(_) => {}
            None => {
                let new = New { recording: &self.recording, key: &self.key, started: self.started, plan: &plan };
                *run = Some(database.write(|db| new.insert(db, &prediction))?);
            }
        }
        if let Some(run) = run {
            let totals = run.totals();
            if is_new {
                self.before = totals.map(|total| total as i64);
            }
            self.skip(totals);
        }
        self.pulse.get_or_insert_with(Instant::now);
        Ok(())
    }

    /// Leaves out of the backlog what the store turns out to hold.
    fn skip(&mut self, totals: [u64; 3]) {
        let Batch { steps, evaluations, events, .. } = &mut self.backlog;
        let held = [steps.len(), evaluations.len(), events.len()];
        let mut skipped = [0; 3];
        for (place, skipped) in skipped.iter_mut().enumerate() {
            let known = totals[place] as i64 - self.before[place];
            let more = known - self.written[place] as i64;
            if more < 0 {
                // Someone took the run out of the store: it begins there anew.
                self.before[place] = totals[place] as i64 - self.written[place] as i64;
            }
            *skipped = usize::try_from(more).unwrap_or_default().min(held[place]);
            self.written[place] += *skipped as u64;
        }
        for record in steps.drain(..skipped[0]) {
            self.reached.step(&record);
        }
        for evaluation in evaluations.drain(..skipped[1]) {
            self.reached.evaluated(&evaluation);
        }
        events.drain(..skipped[2]);
    }

    fn append(&mut self) -> Result<()> {
        let Some(Open { database, run: Some(run) }) = &mut self.open else { return Ok(()) };
        let backlog = &self.backlog;
        let mut reached = self.reached;
        backlog.steps.iter().for_each(|record| reached.step(record));
        backlog.evaluations.iter().for_each(|evaluation| reached.evaluated(evaluation));
        if let Some(end) = &backlog.end {
            reached.ended(end, self.recording.continued.is_some());
        }
        database.write(|db| {
            run.steps.append(db, run.number, &backlog.steps)?;
            run.evaluations.append(db, run.number, &backlog.evaluations)?;
            events::write(db, run.number, run.events, &backlog.events)?;
            if let Some((step, measured)) = &backlog.measured
                && let Some(bytes) = measured_bytes(measured)
            {
                let sql = "UPDATE details SET measured_in_step = ?2, measured_step = ?3 WHERE run = ?1";
                db.execute(sql, params![run.number, *step as i64, bytes])?;
            }
            run.update(db, &reached, backlog.end.as_ref())
        })?;
        run.events += backlog.events.len() as u64;
        self.reached = reached;
        let lengths = [backlog.steps.len(), backlog.evaluations.len(), backlog.events.len()];
        for (written, length) in self.written.iter_mut().zip(lengths) {
            *written += length as u64;
        }
        self.has_ended |= backlog.end.is_some();
        self.backlog = Batch { has_begun: true, lost: backlog.lost, ..Batch::default() };
        self.pulse = Some(Instant::now());
        Ok(())
    }
}

impl Run {
    /// The run as it is in the store; `None` where it is not.
    fn load(db: &Connection, key: &RunKey) -> rusqlite::Result<Option<Self>> {
        let sql = "SELECT number, length(preset) + length(prediction), (SELECT count(*) FROM events WHERE run = number) \
                   FROM runs JOIN details ON run = number WHERE key = ?1";
        let found =
            db.query_row(sql, [key.as_str()], |row| Ok((row.get(0)?, row.get::<_, i64>(1)?, row.get::<_, i64>(2)?)));
        let Some((number, bytes, events)) = found.optional()? else { return Ok(None) };
        let (steps, evaluations) = (Tail::load(db, number)?, Tail::load(db, number)?);
        Ok(Some(Self { number, steps, evaluations, events: events as u64, bytes: bytes as usize }))
    }

    fn totals(&self) -> [u64; 3] {
        [self.steps.total(), self.evaluations.total(), self.events]
    }

    /// Takes a kept run up again before step `first`: what came later is taken away. Returns how far it had come.
    fn take_up(
        &mut self,
        db: &Transaction<'_>,
        first: Option<u64>,
        plan: &Plan,
        prediction: &[u8],
    ) -> rusqlite::Result<Reached> {
        if let Some(first) = first {
            self.steps = Tail::cut(db, self.number, first)?;
            self.evaluations = Tail::cut(db, self.number, first)?;
        }
        let owner = Owner::this();
        db.execute(
            "UPDATE runs SET state = 'running', message = NULL, ended = NULL, discarded = NULL, system = ?2, pid = ?3, \
             began = ?4, pulse = ?5, version = ?6, total_steps = ?7 WHERE number = ?1",
            params![
                self.number,
                owner.system,
                i64::from(owner.pid),
                owner.began as i64,
                Timestamp::now().as_millisecond(),
                env!("CARGO_PKG_VERSION"),
                plan.total_steps as i64,
            ],
        )?;
        let preset = preset::to_text(&plan.experiment);
        self.bytes = preset.len() + prediction.len();
        let sql = "UPDATE details SET preset = ?2, prediction = ?3 WHERE run = ?1";
        db.execute(sql, params![self.number, preset, prediction])?;
        let mut reached = Reached::default();
        let mut damaged = Vec::new();
        let steps: super::Steps = super::read_series::<StepRecord>(db, self.number, "steps", &mut damaged)?;
        let evaluations: super::Evaluations =
            super::read_series::<Evaluation>(db, self.number, "evaluations", &mut damaged)?;
        steps.records().for_each(|record| reached.step(&record));
        evaluations.records().for_each(|evaluation| reached.evaluated(&evaluation));
        Ok(reached)
    }

    fn update(&self, db: &Transaction<'_>, reached: &Reached, end: Option<&End>) -> rusqlite::Result<()> {
        let bytes = self.bytes + self.steps.bytes() + self.evaluations.bytes();
        db.execute(
            "UPDATE runs SET pulse = ?2, steps = ?3, secs = ?4, steps_secs = ?5, skipped = ?6, measured_live = ?7, \
             measured_reserved = ?8, measured_process = ?9, train_loss = ?10, test_loss = ?11, test_accuracy = ?12, \
             best_test_accuracy = ?13, kept_bytes = ?14 WHERE number = ?1",
            params![
                self.number,
                Timestamp::now().as_millisecond(),
                reached.steps as i64,
                reached.secs,
                reached.steps_secs,
                reached.skipped as i64,
                reached.measured.live.0 as i64,
                reached.measured.reserved.0 as i64,
                reached.measured.process.0 as i64,
                reached.train_loss,
                reached.test_loss,
                reached.test_accuracy,
                reached.best_test_accuracy,
                bytes as i64,
            ],
        )?;
        if let Some(End { at, state, message, summary }) = end {
            let sql = "UPDATE runs SET state = ?2, message = ?3, ended = ?4 WHERE number = ?1";
            db.execute(sql, params![self.number, state.key(), message, at.as_millisecond()])?;
            if let Some(summary) = summary {
                let sql = "UPDATE details SET process_is_sampled = ?2, left_over = ?3 WHERE run = ?1";
                db.execute(sql, params![self.number, summary.is_process_sampled, summary.left_over.0 as i64])?;
            }
        }
        Ok(())
    }
}

/// A run that is not in the store yet.
struct New<'a> {
    recording: &'a Recording,
    key: &'a RunKey,
    started: Timestamp,
    plan: &'a Plan,
}

impl New<'_> {
    /// Adds it.
    fn insert(&self, db: &Transaction<'_>, prediction: &[u8]) -> rusqlite::Result<Run> {
        let Self { recording, key, started, plan } = self;
        let experiment = &*plan.experiment;
        let owner = Owner::this();
        let name = match plan.target.profile() {
            Some(card) => card.title.clone(),
            None => hardware::processor().unwrap_or_default(),
        };
        let peak = plan.peak;
        db.execute(
        "INSERT INTO runs (key, title, state, origin, started, system, pid, began, pulse, version, device, device_name, \
         is_gpu, seed, settings, budget, predicted_live, predicted_reserved, predicted_process, total_steps) \
         VALUES (?1, ?2, 'running', ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15, ?16, ?17, ?18, ?19)",
        params![
            key.as_str(),
            experiment.title,
            recording.origin.key(),
            started.as_millisecond(),
            owner.system,
            i64::from(owner.pid),
            owner.began as i64,
            Timestamp::now().as_millisecond(),
            env!("CARGO_PKG_VERSION"),
            experiment.device,
            name,
            plan.target.is_gpu(),
            experiment.run.seed as i64,
            settings(experiment),
            plan.budget.0 as i64,
            peak.live.0 as i64,
            peak.reserved.0 as i64,
            peak.process.0 as i64,
            plan.total_steps as i64,
        ],
    )?;
        let number = db.last_insert_rowid();
        let preset = preset::to_text(experiment);
        db.execute(
            "INSERT INTO details (run, preset, prediction) VALUES (?1, ?2, ?3)",
            params![number, preset, prediction],
        )?;
        let bytes = preset.len() + prediction.len();
        Ok(Run { number, steps: Tail::load(db, number)?, evaluations: Tail::load(db, number)?, events: 0, bytes })
    }
}

/// The settings that are not the defaults, a line each.
fn settings(experiment: &Experiment) -> String {
    let is_setting = |change: &String| !WORDS.iter().any(|word| change.starts_with(&format!("{word}=")));
    let changes = preset::changes(&Experiment::default(), experiment).into_iter().filter(is_setting);
    changes.filter(|change| !change.contains('\n')).collect::<Vec<_>>().join("\n")
}

/// What was measured op by op, as bytes; `None` where that is more than is kept.
fn measured_bytes(measured: &[Bytes]) -> Option<Vec<u8>> {
    let mut bytes =
        u32::try_from(measured.len()).ok().filter(|count| *count as usize <= columns::MOST)?.to_le_bytes().to_vec();
    let mut column = columns::Columns::new();
    column.ints(measured.iter().map(|bytes| bytes.0));
    bytes.extend(column.finish());
    Some(bytes)
}

/// Reads [`measured_bytes`]; `None` for bytes that are none.
pub(super) fn read_measured(bytes: &[u8]) -> Option<Vec<Bytes>> {
    let (count, column) = bytes.split_first_chunk()?;
    let values = columns::Reader::new(column, u32::from_le_bytes(*count) as usize)?.ints()?;
    Some(values.into_iter().map(Bytes).collect())
}
