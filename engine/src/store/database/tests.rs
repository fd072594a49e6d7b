//! Stores of every form and in every place, as they are opened.

use super::*;

/// A store of the first form with a run in it.
fn old(folder: &Path) -> Connection {
    let mut connection = Connection::open(folder.join(FILE)).expect("a file");
    prepare(&mut connection, &MIGRATIONS[..1]).expect("made");
    let sql = "INSERT INTO runs (key, title, state, origin, started, system, pid, began, pulse, version, device, \
               device_name, is_gpu, seed, settings, budget, predicted_live, predicted_reserved, predicted_process, \
               total_steps) VALUES ('a', 'old', 'finished', 'window', 1, '', 1, 1, 1, '0', 'cpu', '', 0, 1, '', 1, 1, 1, 1, 1)";
    connection.execute(sql, []).expect("added");
    connection
}

fn said(folder: &Path) -> String {
    Database::open(folder).expect_err("refused").to_string()
}

#[test]
fn an_older_store_is_brought_up_to_date_and_keeps_its_runs() {
    let folder = tempfile::tempdir().expect("a folder");
    drop(old(folder.path()));
    let next: Vec<&str> = MIGRATIONS.iter().copied().chain(["ALTER TABLE runs ADD COLUMN mood TEXT"]).collect();
    let mut connection = Connection::open(folder.path().join(FILE)).expect("a file");
    prepare(&mut connection, &next).expect("brought up to date");
    prepare(&mut connection, &next).expect("once is enough");
    let row = "SELECT title FROM runs WHERE mood IS NULL";
    assert_eq!(connection.query_row(row, [], |row| row.get(0)), Ok("old".to_owned()));
    // This program knows one form less.
    let message = said(folder.path());
    assert!(message.contains("newer version") && message.contains("PLIMSOLL_STORE"), "{message}");
    // A migration that fails leaves the store as it was.
    let folder = tempfile::tempdir().expect("a folder");
    let mut connection = old(folder.path());
    let broken: Vec<&str> = MIGRATIONS.iter().copied().chain(["DROP TABLE events; nonsense"]).collect();
    assert!(prepare(&mut connection, &broken).is_err());
    drop(connection);
    let database = Database::open(folder.path()).expect("as it was");
    let events = |db: &Connection| db.query_row("SELECT count(*) FROM events", [], |row| row.get::<_, i64>(0));
    assert_eq!(database.with(events), Ok(0));
}

#[test]
fn a_foreign_file_is_left_as_it_is() {
    let folder = tempfile::tempdir().expect("a folder");
    let place = folder.path().join(FILE);
    let other = Connection::open(&place).expect("a file");
    other.execute_batch("CREATE TABLE songs (name TEXT)").expect("made");
    drop(other);
    let before = fs::read(&place).expect("there");
    assert!(said(folder.path()).contains("a database of another program"));
    assert_eq!(fs::read(&place).expect("there"), before);
    fs::write(&place, "not a database at all, but long enough to be looked at by one").expect("written");
    assert!(said(folder.path()).contains("is not a store of runs"));
    fs::remove_file(&place).expect("removed");
    fs::create_dir(&place).expect("made");
    assert!(said(folder.path()).contains("cannot be opened"), "{}", said(folder.path()));
}

#[cfg(unix)]
#[test]
fn a_pipe_is_refused_and_not_waited_for() {
    let folder = tempfile::tempdir().expect("a folder");
    let place = folder.path().join(FILE);
    assert!(std::process::Command::new("mkfifo").arg(&place).status().expect("mkfifo runs").success());
    let refused = [Database::open(folder.path()).err(), Database::open_existing(folder.path()).err()];
    for said in refused.map(|error| error.expect("refused").to_string()) {
        assert!(said.contains("a pipe, a folder or a device"), "{said}");
    }
}

#[test]
fn a_damaged_page_is_said() {
    let folder = tempfile::tempdir().expect("a folder");
    drop(Database::open(folder.path()).expect("made"));
    let place = folder.path().join(FILE);
    let mut bytes = fs::read(&place).expect("there");
    // The first page holds the schema; the tables follow.
    bytes[4096..].fill(0x5a);
    fs::write(&place, bytes).expect("written");
    let database = Database::open(folder.path()).expect("the header is whole");
    let runs = |db: &Connection| db.query_row("SELECT count(*) FROM runs", [], |row| row.get::<_, i64>(0));
    let message = database.with(runs).expect_err("damaged").to_string();
    assert!(message.contains("is damaged") && message.contains("recover"), "{message}");
    // They were not looked at.
    assert!(message.contains("files in runs next to it are not touched by this"), "{message}");
}

#[test]
fn a_full_disk_is_said_and_what_was_there_stays() {
    let folder = tempfile::tempdir().expect("a folder");
    let connection = old(folder.path());
    let mut database = Database {
        path: folder.path().join(FILE),
        connection,
        is_frozen: false,
        lacks_room: false,
        emptied: None,
        place: None,
    };
    database.with(|db| db.pragma_update(None, "max_page_count", 12)).expect("limited");
    let fill = |db: &Transaction<'_>| {
        (0..1000).try_for_each(|_| db.execute("UPDATE runs SET note = note || zeroblob(9000)", []).map(drop))
    };
    assert!(database.write(fill).expect_err("full").to_string().contains("the disk is full; make room"));
    let note = |db: &Connection| db.query_row("SELECT note FROM runs", [], |row| row.get::<_, String>(0));
    assert_eq!(database.with(note), Ok(String::new()));
}
/// The names and contents of all files in a folder.
fn contents(folder: &Path) -> Vec<(PathBuf, Vec<u8>)> {
    let paths = fs::read_dir(folder).expect("a folder").map(|entry| entry.expect("an entry").path());
    let mut contents: Vec<_> = paths.map(|path| (path.clone(), fs::read(path).expect("a file"))).collect();
    contents.sort();
    contents
}

#[test]
fn a_store_is_read_where_nothing_can_be_written_whatever_its_path() {
    let outer = tempfile::tempdir().expect("a folder");
    let folder = outer.path().join("a?mode=memory&b%20c#d \u{e9}");
    fs::create_dir(&folder).expect("made");
    drop(old(&folder));
    let titles =
        |db: &Database| db.with(|db| db.query_row("SELECT title FROM runs", [], |row| row.get::<_, String>(0)));
    drop(Database::open(&folder).expect("brought up to date"));
    let before = contents(&folder);
    let mut frozen = Database::open_frozen(folder.join(FILE)).expect("read");
    assert_eq!((titles(&frozen), frozen.caution()), (Ok("old".to_owned()), None));
    let change = |db: &Transaction<'_>| db.execute("UPDATE runs SET title = 'new'", []);
    let said = frozen.write(change).expect_err("frozen").to_string();
    assert!(said.contains("this user has no rights to it, or the disk is read-only"), "{said}");
    let mut full = Database { lacks_room: true, ..frozen };
    assert_eq!(full.write(change).expect_err("full").to_string(), format!("{}: {FULL}", folder.join(FILE).display()));
    drop(full);
    assert!(contents(&folder) == before, "nothing is made next to it");
    // The writes of a program that still runs are not in the file yet.
    let mut writer = Database::open(&folder).expect("open");
    writer.write(change).expect("written");
    let frozen = Database::open_frozen(folder.join(FILE)).expect("read");
    assert!(frozen.caution().is_some_and(|said| said.contains("runs.db-wal: the last changes")));
    assert_eq!(titles(&frozen), Ok("old".to_owned()));
}

#[test]
fn what_is_no_store_to_be_read_is_told_apart_and_left() {
    let folder = tempfile::tempdir().expect("a folder");
    let read = || Database::open_existing(folder.path());
    assert!(matches!(read(), Ok(None)), "nothing is there, and nothing is made");
    assert_eq!(contents(folder.path()), []);
    let place = folder.path().join(FILE);
    fs::write(&place, "").expect("written");
    let empty = || read().expect_err("empty").to_string();
    assert!(empty().contains("is an empty file") && empty().contains("there is nothing to do"));
    // The files of runs next to it are not hidden.
    let files = folder.path().join(crate::store::FILES);
    for name in ["20261122-141205-k3f9", "20261122-141205-k3fa", "of somebody else"] {
        fs::create_dir_all(files.join(name)).expect("made");
        fs::write(files.join(name).join(crate::train::Checkpoint::NAMES[0]), "").expect("written");
    }
    let text = empty();
    assert!(text.contains("2 folders lie in runs next to it, and `plimsoll resume FILE` goes on"), "{text}");
    assert!(!text.contains("there is nothing to do") && text.contains("is kept in this file"), "{text}");
    // Who writes the next run into it is told of them as well, and the next reader finds a store.
    let written = Database::open(folder.path()).expect("made");
    assert_eq!(written.caution(), Some(text));
    drop(written);
    assert_eq!(Database::open(folder.path()).expect("there").caution(), None);
    fs::remove_dir_all(files).expect("removed");
    fs::remove_file(&place).expect("removed");
    fs::write(&place, "").expect("written");
    let under = Database::open_existing(&place).expect_err("a file").to_string();
    assert!(under.contains("there is a file in its place"), "{under}");
    assert_eq!(contents(folder.path()), [(place.clone(), Vec::new())]);
    // A database of another program that has no tables yet.
    let other = Connection::open(&place).expect("a file");
    other.pragma_update(None, "application_id", 7).expect("marked");
    drop(other);
    let before = contents(folder.path());
    assert!(read().expect_err("foreign").to_string().contains("a database of another program"));
    assert!(said(folder.path()).contains("a database of another program"));
    assert!(contents(folder.path()) == before);
}

#[test]
fn rows_are_changed_in_place_without_a_log() {
    let folder = tempfile::tempdir().expect("a folder");
    drop(old(folder.path()));
    drop(Database::open(folder.path()).expect("brought up to date"));
    // As an opening leaves it that found no room for the whole.
    fs::write(folder.path().join(INDEX), [0; 4096]).expect("written");
    let mut alone = Database::open_in_place(folder.path()).expect("alone");
    let mode = |db: &Connection| db.pragma_query_value(None, "journal_mode", |row| row.get::<_, String>(0));
    assert_eq!(alone.with(mode), Ok("memory".to_owned()));
    assert_eq!(alone.write(|db| db.execute("DELETE FROM runs", [])), Ok(1));
    let files: Vec<PathBuf> = contents(folder.path()).into_iter().map(|(path, _)| path).collect();
    assert_eq!(files, [folder.path().join(FILE)], "nothing is next to it");
    drop(alone);
    let again = Database::open(folder.path()).expect("open");
    assert_eq!(again.with(mode), Ok("wal".to_owned()));
    let runs = |db: &Connection| db.query_row("SELECT count(*) FROM runs", [], |row| row.get::<_, i64>(0));
    assert_eq!(again.with(runs), Ok(0));
}
