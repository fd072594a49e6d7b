//! The form of the store's database: its mark, its tables, and the migrations from each earlier form to the next.

/// Marks a database as a store of runs: "Plim".
pub(super) const MARK: i32 = 0x506c_696d;

/// The changes that bring a store from each version to the next. A store that has gone through all of them is of this
/// version. An entry here is never changed, because stores of that form exist.
pub(super) const MIGRATIONS: &[&str] = &[
    "
    CREATE TABLE runs (
        number INTEGER PRIMARY KEY,
        key TEXT NOT NULL UNIQUE,
        title TEXT NOT NULL,
        name TEXT,
        note TEXT NOT NULL DEFAULT '',
        tags TEXT NOT NULL DEFAULT '',
        starred INTEGER NOT NULL DEFAULT 0,
        discarded INTEGER,
        state TEXT NOT NULL,
        message TEXT,
        origin TEXT NOT NULL,
        started INTEGER NOT NULL,
        ended INTEGER,
        system TEXT NOT NULL,
        pid INTEGER NOT NULL,
        began INTEGER NOT NULL,
        pulse INTEGER NOT NULL,
        version TEXT NOT NULL,
        device TEXT NOT NULL,
        device_name TEXT NOT NULL,
        is_gpu INTEGER NOT NULL,
        seed INTEGER NOT NULL,
        settings TEXT NOT NULL,
        budget INTEGER NOT NULL,
        predicted_live INTEGER NOT NULL,
        predicted_reserved INTEGER NOT NULL,
        predicted_process INTEGER NOT NULL,
        total_steps INTEGER NOT NULL,
        measured_live INTEGER NOT NULL DEFAULT 0,
        measured_reserved INTEGER NOT NULL DEFAULT 0,
        measured_process INTEGER NOT NULL DEFAULT 0,
        steps INTEGER NOT NULL DEFAULT 0,
        secs REAL NOT NULL DEFAULT 0,
        steps_secs REAL NOT NULL DEFAULT 0,
        skipped INTEGER NOT NULL DEFAULT 0,
        train_loss REAL,
        test_loss REAL,
        test_accuracy REAL,
        best_test_accuracy REAL,
        kept_bytes INTEGER NOT NULL DEFAULT 0
    );
    CREATE TABLE details (
        run INTEGER PRIMARY KEY REFERENCES runs ON DELETE CASCADE,
        preset TEXT NOT NULL,
        prediction BLOB NOT NULL,
        process_is_sampled INTEGER,
        left_over INTEGER,
        measured_in_step INTEGER,
        measured_step BLOB
    );
    CREATE TABLE blocks (
        run INTEGER NOT NULL REFERENCES runs ON DELETE CASCADE,
        series INTEGER NOT NULL,
        first INTEGER NOT NULL,
        count INTEGER NOT NULL,
        data BLOB NOT NULL,
        PRIMARY KEY (run, series, first)
    );
    CREATE TABLE events (
        run INTEGER NOT NULL REFERENCES runs ON DELETE CASCADE,
        place INTEGER NOT NULL,
        at INTEGER NOT NULL,
        step INTEGER NOT NULL,
        kind TEXT NOT NULL,
        text TEXT NOT NULL,
        PRIMARY KEY (run, place)
    );
",
    "
    ALTER TABLE runs ADD COLUMN became TEXT;
    ALTER TABLE runs ADD COLUMN became_bytes INTEGER;
    ALTER TABLE runs ADD COLUMN became_whole_bytes INTEGER;
    ALTER TABLE runs ADD COLUMN became_accuracy REAL;
    ALTER TABLE runs ADD COLUMN became_trained_accuracy REAL;
",
];

/// The version of stores that this program writes.
pub(super) const VERSION: i64 = MIGRATIONS.len() as i64;
