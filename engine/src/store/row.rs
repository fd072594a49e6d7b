//! A run's rows in the database: how they are added, updated, and taken up again.

use jiff::Timestamp;
use rusqlite::{Connection, OptionalExtension, Transaction, params};

use crate::{
    bytes::Bytes,
    experiment::{Experiment, preset},
    hardware,
    plan::{Peak, Plan, Resumed, SoFar},
    store::{
        Evaluation, Prediction, RunKey, RunState, SmallerModel,
        batch::End,
        each_record,
        owner::Owner,
        recorder::Recording,
        run::{time, word},
        tail::Tail,
    },
    train::StepRecord,
};

/// Settings that say nothing of how a run trains.
const WORDS: [&str; 3] = ["title", "description", "version"];

/// The run in it.
#[derive(Debug)]
pub(super) struct Run {
    pub(super) number: i64,
    pub(super) steps: Tail<StepRecord>,
    pub(super) evaluations: Tail<Evaluation>,
    pub(super) events: u64,
    /// Bytes of the preset and the prediction.
    pub(super) bytes: usize,
}

/// The owner of a run in the store.
#[derive(Debug, Default)]
pub(super) struct Standing {
    /// The process that recorded it last; `None` if the run is not there.
    pub(super) owner: Option<Owner>,
    /// The number of that process, where it is still at it.
    pub(super) alive: Option<u32>,
}

/// The owner of the run of this number and name.
pub(super) fn standing(db: &Connection, number: i64, key: &RunKey) -> rusqlite::Result<Standing> {
    let sql = "SELECT state, system, pid, began, pulse FROM runs WHERE number = ?1 AND key = ?2";
    let found = db.query_row(sql, params![number, key.as_str()], |row| {
        let (pid, began): (i64, i64) = (row.get(2)?, row.get(3)?);
        let owner = Owner { system: row.get(1)?, pid: pid as u32, began: began as u64 };
        let trains = word::<RunState>(row, 0)? == RunState::Running && owner.is_alive(time(row, 4)?, Timestamp::now());
        Ok(Standing { alive: trains.then_some(owner.pid), owner: Some(owner) })
    });
    Ok(found.optional()?.unwrap_or_default())
}

/// How far a run has come.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Reached {
    pub(super) steps: u64,
    secs: f64,
    steps_secs: f64,
    skipped: u64,
    so_far: SoFar,
}

impl Reached {
    /// Takes over the facts of a checkpoint, which may never have come into the store.
    pub(super) fn known(&mut self, resumed: &Resumed) {
        let (own, known) = (&mut self.so_far, resumed.so_far);
        own.measured = own.measured.max(known.measured);
        if self.steps < resumed.step {
            own.train_loss = known.train_loss.or(own.train_loss);
        }
        if own.tested < known.tested {
            (own.tested, own.test_loss, own.test_accuracy) = (known.tested, known.test_loss, known.test_accuracy);
        }
        own.best_test_accuracy = own.best_test_accuracy.into_iter().chain(known.best_test_accuracy).reduce(f64::max);
    }

    pub(super) fn step(&mut self, record: &StepRecord) {
        let StepRecord { live, reserved, process, .. } = *record;
        self.steps = record.step;
        self.secs = record.at_secs;
        self.steps_secs += record.secs;
        self.skipped += u64::from(record.skipped);
        self.so_far.train_loss = Some(record.loss);
        self.so_far.measured = self.so_far.measured.max(Peak { live, reserved, process });
    }

    pub(super) fn evaluated(&mut self, evaluation: &Evaluation) {
        let (own, accuracy) = (&mut self.so_far, evaluation.accuracy);
        self.secs = self.secs.max(evaluation.at_secs);
        (own.tested, own.test_loss, own.test_accuracy) = (evaluation.step, Some(evaluation.loss), Some(accuracy));
        own.best_test_accuracy = Some(own.best_test_accuracy.map_or(accuracy, |best| best.max(accuracy)));
    }

    pub(super) fn ended(&mut self, end: &End, is_continued: bool) {
        let Some(summary) = &end.summary else { return };
        self.steps = self.steps.max(summary.steps);
        // The summary has figures that no step shows: those of tests, and the system's high-water mark of the process.
        let measured = self.so_far.measured.max(summary.measured);
        let process = if is_continued { measured.process } else { summary.measured.process };
        self.so_far.measured = Peak { process, ..measured };
        self.secs = self.secs.max(summary.secs);
        if summary.stripped.is_some() {
            // Tests before the model was pruned are of another one.
            self.so_far.best_test_accuracy = summary.best_test_accuracy.or(self.so_far.best_test_accuracy);
        }
    }
}

impl Run {
    /// The run as it is in the store; `None` if it is not.
    pub(super) fn load(db: &Connection, key: &RunKey) -> rusqlite::Result<Option<Self>> {
        let sql = "SELECT number, length(preset) + length(prediction), (SELECT count(*) FROM events WHERE run = number) \
                   FROM runs JOIN details ON run = number WHERE key = ?1";
        let found =
            db.query_row(sql, [key.as_str()], |row| Ok((row.get(0)?, row.get::<_, i64>(1)?, row.get::<_, i64>(2)?)));
        let Some((number, bytes, events)) = found.optional()? else { return Ok(None) };
        let (steps, evaluations) = (Tail::load(db, number)?, Tail::load(db, number)?);
        Ok(Some(Self { number, steps, evaluations, events: events as u64, bytes: bytes as usize }))
    }

    pub(super) fn totals(&self) -> [u64; 3] {
        [self.steps.total(), self.evaluations.total(), self.events]
    }

    /// Takes up a run if no other process trains it, and says how far it came; or gives the process that does.
    pub(super) fn take_up_alone(
        &mut self,
        db: &Transaction<'_>,
        key: &RunKey,
        first: Option<u64>,
        plan: &Plan,
        prediction: Prediction,
    ) -> rusqlite::Result<Result<Reached, u32>> {
        let standing = standing(db, self.number, key)?;
        match standing.alive.filter(|_| standing.owner != Some(Owner::this())) {
            Some(other) => Ok(Err(other)),
            None => self.take_up(db, first, plan, prediction).map(Ok),
        }
    }

    /// Takes a kept run up again before step `first`: later records are removed. Returns how far it had come.
    fn take_up(
        &mut self,
        db: &Transaction<'_>,
        first: Option<u64>,
        plan: &Plan,
        prediction: Prediction,
    ) -> rusqlite::Result<Reached> {
        if let Some(first) = first {
            self.steps = Tail::cut(db, self.number, first)?;
            self.evaluations = Tail::cut(db, self.number, first)?;
        }
        let owner = Owner::this();
        db.execute(
            "UPDATE runs SET state = 'running', message = NULL, ended = NULL, discarded = NULL, system = ?2, pid = ?3, \
             began = ?4, pulse = ?5, version = ?6, total_steps = ?7, settings = ?8, \
             predicted_live = max(predicted_live, ?9), predicted_reserved = max(predicted_reserved, ?10) \
             WHERE number = ?1",
            params![
                self.number,
                owner.system,
                i64::from(owner.pid),
                owner.began as i64,
                Timestamp::now().as_millisecond(),
                env!("CARGO_PKG_VERSION"),
                plan.total_steps as i64,
                settings(&plan.experiment),
                plan.peak.live.0 as i64,
                plan.peak.reserved.0 as i64,
            ],
        )?;
        let preset = preset::to_text(&plan.experiment);
        let sql = "SELECT prediction FROM details WHERE run = ?1";
        let earlier: Vec<u8> = db.query_row(sql, [self.number], |row| row.get(0))?;
        let prediction = prediction.after(Prediction::from_bytes(&earlier)).to_bytes();
        self.bytes = preset.len() + prediction.len();
        let sql = "UPDATE details SET preset = ?2, prediction = ?3 WHERE run = ?1";
        db.execute(sql, params![self.number, preset, prediction])?;
        // The measurements of the tests, the saves and the repeated steps belong to this run.
        let sql = "SELECT measured_live, measured_reserved, measured_process FROM runs WHERE number = ?1";
        let measured = db.query_row(sql, [self.number], |row| {
            let bytes = |column| row.get::<_, i64>(column).map(|bytes| Bytes(bytes as u64));
            Ok(Peak { live: bytes(0)?, reserved: bytes(1)?, process: bytes(2)? })
        })?;
        let mut reached = Reached { so_far: SoFar { measured, ..SoFar::default() }, ..Reached::default() };
        each_record::<StepRecord>(db, self.number, |record| reached.step(record))?;
        each_record::<Evaluation>(db, self.number, |evaluation| reached.evaluated(evaluation))?;
        Ok(reached)
    }

    /// Writes how far the run came, and its end if that is there. Figures of a run that `is_continued` are the highest of all
    /// sittings.
    pub(super) fn update(
        &self,
        db: &Transaction<'_>,
        reached: &Reached,
        end: Option<&End>,
        is_continued: bool,
    ) -> rusqlite::Result<()> {
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
                reached.so_far.measured.live.0 as i64,
                reached.so_far.measured.reserved.0 as i64,
                reached.so_far.measured.process.0 as i64,
                reached.so_far.train_loss,
                reached.so_far.test_loss,
                reached.so_far.test_accuracy,
                reached.so_far.best_test_accuracy,
                bytes as i64,
            ],
        )?;
        if let Some(End { at, state, message, summary }) = end {
            let sql = "UPDATE runs SET state = ?2, message = ?3, ended = ?4 WHERE number = ?1";
            db.execute(sql, params![self.number, state.key(), message, at.as_millisecond()])?;
            if let Some(summary) = summary {
                let sql = "UPDATE details SET process_is_sampled = ?2, left_over = ?3 WHERE run = ?1";
                db.execute(sql, params![self.number, summary.is_process_sampled, summary.left_over.0 as i64])?;
                // It was predicted anew before the first step, with the data in place.
                if summary.predicted.process > Bytes::ZERO {
                    let sql = "UPDATE runs SET predicted_process = max(?2, CASE WHEN ?3 THEN predicted_process ELSE 0 END) \
                               WHERE number = ?1";
                    db.execute(sql, params![self.number, summary.predicted.process.0 as i64, is_continued])?;
                }
                SmallerModel::write(SmallerModel::of(summary), db, self.number)?;
            }
        }
        Ok(())
    }
}

/// A run that is not in the store yet.
pub(super) struct New<'a> {
    pub(super) recording: &'a Recording,
    pub(super) key: &'a RunKey,
    pub(super) started: Timestamp,
    pub(super) plan: &'a Plan,
}

impl New<'_> {
    /// Adds the row.
    pub(super) fn insert(&self, db: &Transaction<'_>, prediction: &[u8]) -> rusqlite::Result<Run> {
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
