//! The writer of a recorder's records, a transaction at a time.
//!
//! Always holds: records that a transaction did not write are written by the next, once and in order. If it is unknown
//! whether the failed one was written after all, the store shows how far it came.

use std::{sync::Arc, time::Instant};

use jiff::Timestamp;
use rusqlite::params;

use crate::{
    bytes::counted,
    error::Error,
    plan::Plan,
    store::{
        EventKind, KeptEvent, Prediction, RunKey, RunState,
        batch::{Batch, End},
        database::Database,
        events,
        fault::Fault,
        owner::{Owner, PULSE},
        recorder::Recording,
        row::{New, Reached, Run, standing},
    },
};

/// Writes one run.
#[derive(Debug)]
pub(super) struct Writer {
    recording: Recording,
    key: RunKey,
    started: Timestamp,
    /// The records that have yet to be written.
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
    /// The process that has taken the run over.
    other: Option<u32>,
    /// The store was taken away, and the run is to begin there again.
    is_anew: bool,
    /// A remark for the user on what was written.
    remark: Option<String>,
}

/// An open store.
#[derive(Debug)]
struct Open {
    database: Database,
    run: Option<Run>,
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
            other: None,
            is_anew: false,
            remark: None,
        }
    }

    /// The records that have yet to be written.
    pub(super) fn backlog(&self) -> &Batch {
        &self.backlog
    }

    /// Whether the run is in the store up to a step, with this many evaluations of this recorder.
    pub(super) fn holds(&self, step: u64, evaluations: u64) -> bool {
        self.reached.steps >= step && self.written[1] >= evaluations
    }

    /// Takes new records.
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

    /// Why nothing more is written: another process records the run.
    pub(super) fn taken_over(&self) -> Option<String> {
        let pid = self.other?;
        Some(format!("process {pid} has taken the run over: the steps of this one from here on are not kept"))
    }

    /// Marks the recorder as gone: a run that has not ended is interrupted. Returns whether there is something to write.
    pub(super) fn abandon(&mut self) -> bool {
        if !self.has_ended() {
            let message = Some("its program ended before it did".to_owned());
            self.backlog.end = Some(End { at: Timestamp::now(), state: RunState::Interrupted, message, summary: None });
        }
        self.has_begun()
    }

    /// A remark for the user on what was written, once.
    pub(super) fn remark(&mut self) -> Option<String> {
        self.remark.take()
    }

    /// The losses, in words, once all is over.
    pub(super) fn losses(&self, failure: Option<&Fault>) -> Option<String> {
        let lost = self.backlog.lost;
        let failure = failure.map(|fault| self.error(fault));
        match failure {
            Some(error) if self.pulse.is_none() && self.recording.continued.is_some() => {
                Some(format!("the steps after the run's checkpoint were not kept: {error}"))
            }
            Some(error) if self.pulse.is_none() => Some(format!("the run was not kept: {error}")),
            Some(error) => Some(format!("the end of the run was not kept: {error}")),
            None if lost > 0 => {
                let steps = counted(lost, "step");
                Some(format!("the store could not be written, so the run is kept without {steps}"))
            }
            None => None,
        }
    }

    /// A failure as the error of this store.
    pub(super) fn error(&self, fault: &Fault) -> Error {
        fault.of(&self.recording.folder)
    }

    /// Opens the store.
    ///
    /// # Errors
    /// Says what is wrong with the store.
    pub(super) fn open(&mut self) -> Result<(), Fault> {
        if self.open.is_none() {
            let database = Database::try_open(&self.recording.folder)?;
            self.remark = database.caution().or(self.remark.take());
            let run = database.look(|db| Run::load(db, &self.key))?;
            self.open = Some(Open { database, run });
        }
        Ok(())
    }

    /// Writes the backlog. If there is none, writes a sign of life now and then.
    ///
    /// # Errors
    /// Says what is wrong with the store; the records that have yet to be written are then kept.
    pub(super) fn write(&mut self) -> Result<(), Fault> {
        // SQLite writes on into a file that was removed.
        let is_gone = self.open.as_ref().is_some_and(|open| !open.database.is_in_place());
        if is_gone {
            self.open = None;
            self.is_anew |= self.pulse.is_some();
        }
        if !is_gone && self.backlog.is_empty() && self.pulse.is_some_and(|pulse| pulse.elapsed() < PULSE) {
            return Ok(());
        }
        let written = match self.append_to_run() {
            // Someone took the run out of the store: it begins there again.
            Ok(false) if self.other.is_none() => {
                self.open = None;
                self.append_to_run()
            }
            written => written,
        };
        if written.is_err() {
            // The store's progress is looked up before anything else is written.
            self.open = None;
        }
        written.map(drop)
    }

    /// Writes the backlog into the run, which is there afterwards; `false` where it no longer is, or is another's.
    fn append_to_run(&mut self) -> Result<bool, Fault> {
        self.open()?;
        self.begin()?;
        if self.other.is_some() { Ok(false) } else { self.append() }
    }

    /// Makes sure that the run stands in the store.
    fn begin(&mut self) -> Result<(), Fault> {
        let Some(plan) = self.plan.clone() else { return Ok(()) };
        let Some(Open { database, run }) = &mut self.open else { return Ok(()) };
        let is_new = self.pulse.is_none();
        let prediction = if is_new || run.is_none() { Prediction::of(&plan) } else { Prediction::default() };
        match run {
            Some(run) if is_new => {
                let resumed = plan.resolved.resumed().map(|resumed| resumed.step + 1);
                let first = resumed.or(self.backlog.steps.first().map(|record| record.step));
                match database.try_write(|db| run.take_up_alone(db, &self.key, first, &plan, prediction))? {
                    Ok(reached) => self.reached = reached,
                    Err(other) => {
                        self.other = Some(other);
                        return Ok(());
                    }
                }
                let step = self.reached.steps;
                if self.recording.continued.is_some() {
                    self.backlog.events.insert(0, continued(step));
                    if let Some(first) = first.filter(|first| *first > step + 1) {
                        let lacks = lacks(step + 1, first - 1);
                        self.remark = Some(lacks.text.clone());
                        self.backlog.events.insert(1, lacks);
                    }
                }
            }
            Some(_) => {}
            None => {
                let new = New { recording: &self.recording, key: &self.key, started: self.started, plan: &plan };
                *run = Some(database.try_write(|db| new.insert(db, &prediction.to_bytes()))?);
                if std::mem::take(&mut self.is_anew) {
                    let begins = begins_anew(self.reached.steps + 1);
                    self.remark = Some(begins.text.clone());
                    self.backlog.events.push(begins);
                }
                // A new run may go on from a checkpoint of another store, or of none.
                if let Some(step) = plan.resolved.resumed().map(|resumed| resumed.step).filter(|_| is_new) {
                    self.backlog.events.insert(0, continued(step));
                }
            }
        }
        if let Some(run) = run {
            let totals = run.totals();
            if is_new {
                self.before = totals.map(|total| total as i64);
                if let Some(resumed) = plan.resolved.resumed() {
                    self.reached.known(resumed);
                }
            }
            self.skip(totals);
        }
        self.pulse.get_or_insert_with(Instant::now);
        Ok(())
    }

    /// Leaves records out of the backlog that are already in the store.
    fn skip(&mut self, totals: [u64; 3]) {
        let Batch { steps, evaluations, events, .. } = &mut self.backlog;
        let held = [steps.len(), evaluations.len(), events.len()];
        let mut skipped = [0; 3];
        for (place, skipped) in skipped.iter_mut().enumerate() {
            let known = totals[place] as i64 - self.before[place];
            let more = known - self.written[place] as i64;
            if more < 0 {
                // Someone took the run out of the store: it begins there again.
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

    fn append(&mut self) -> Result<bool, Fault> {
        let Some(Open { database, run: Some(run) }) = &mut self.open else { return Ok(true) };
        let backlog = &self.backlog;
        let mut reached = self.reached;
        backlog.steps.iter().for_each(|record| reached.step(record));
        backlog.evaluations.iter().for_each(|evaluation| reached.evaluated(evaluation));
        let is_continued = self.recording.continued.is_some();
        if let Some(end) = &backlog.end {
            reached.ended(end, is_continued);
        }
        let owner = database.try_write(|db| {
            let standing = standing(db, run.number, &self.key)?;
            if standing.owner != Some(Owner::this()) {
                return Ok(standing.owner);
            }
            run.steps.append(db, run.number, &backlog.steps)?;
            run.evaluations.append(db, run.number, &backlog.evaluations)?;
            events::write(db, run.number, run.events, &backlog.events)?;
            if let Some(measured) = &backlog.measured
                && let Some(bytes) = measured.to_bytes()
            {
                let sql = "UPDATE details SET measured_in_step = ?2, measured_step = ?3 WHERE run = ?1";
                db.execute(sql, params![run.number, measured.step as i64, bytes])?;
            }
            run.update(db, &reached, backlog.end.as_ref(), is_continued)?;
            Ok(standing.owner)
        })?;
        if owner != Some(Owner::this()) {
            self.other = owner.map(|owner| owner.pid);
            return Ok(false);
        }
        run.events += backlog.events.len() as u64;
        self.reached = reached;
        let lengths = [backlog.steps.len(), backlog.evaluations.len(), backlog.events.len()];
        for (written, length) in self.written.iter_mut().zip(lengths) {
            *written += length as u64;
        }
        self.has_ended |= backlog.end.is_some();
        self.backlog = Batch { has_begun: true, lost: backlog.lost, ..Batch::default() };
        self.pulse = Some(Instant::now());
        Ok(true)
    }
}

/// Says which steps of a run are not in the store.
fn lacks(first: u64, last: u64) -> KeptEvent {
    let which = if first == last {
        format!("step {first} of the run is")
    } else {
        format!("steps {first} to {last} of the run are")
    };
    let text = format!("{which} not in the store: its program ended before it had written that");
    KeptEvent { at: Timestamp::now(), step: last, kind: EventKind::Warning, text }
}

/// Says that the run goes on after `step`.
fn continued(step: u64) -> KeptEvent {
    KeptEvent { at: Timestamp::now(), step, kind: EventKind::Continued, text: String::new() }
}

/// Says that a store was taken away while the run trained.
fn begins_anew(step: u64) -> KeptEvent {
    let text = format!(
        "the store was moved or removed while the run trained, and the record of the run went with it: a new record of the \
         run starts at step {step}"
    );
    KeptEvent { at: Timestamp::now(), step: step - 1, kind: EventKind::Warning, text }
}
