//! Stores that are damaged, full or hard to use, as programs meet them.

use std::fs;

use rusqlite::Connection;

use super::tests::{folder, kept};
use super::*;

/// A store of so many runs, each a copy of one.
fn store_of(folder: &Path, runs: usize) -> RunKey {
    let key = kept(folder, 3);
    let mut store = Store::open(folder).expect("open");
    let columns: Vec<&str> = run::COLUMNS.split(", ").skip(2).collect();
    let columns = columns.join(", ");
    let copy = |db: &rusqlite::Transaction<'_>| {
        (1..runs).try_for_each(|run| {
            let sql = format!("INSERT INTO runs (key, {columns}) SELECT '2020-{run:04}', {columns} FROM runs LIMIT 1");
            db.execute(&sql, [])?;
            let sql =
                "INSERT INTO details (run, preset, prediction) SELECT ?1, preset, prediction FROM details LIMIT 1";
            db.execute(sql, [db.last_insert_rowid()]).map(drop)
        })
    };
    store.database.write(copy).expect("written");
    key
}

#[test]
fn a_store_without_a_trace_of_its_runs_is_no_empty_store() {
    let folder = folder();
    store_of(folder.path(), 120);
    let file = folder.path().join(database::FILE);
    let mut bytes = fs::read(&file).expect("a file");
    let noise = (1..u64::MAX).map(|i| (i.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 56) as u8);
    bytes[4096..].iter_mut().zip(noise).for_each(|(byte, noise)| *byte = noise);
    fs::write(&file, bytes).expect("written");
    let fault = Store::open(folder.path()).and_then(|store| store.list()).expect_err("damaged").to_string();
    assert!(fault.contains("is damaged") && fault.contains("The runs' files"), "{fault}");
}

#[test]
fn a_damaged_page_hides_no_run_that_stands_on_another() {
    let folder = folder();
    const RUNS: usize = 120;
    store_of(folder.path(), RUNS);
    let file = folder.path().join(database::FILE);
    let page = |which: &str, skip: usize| {
        let db = Connection::open(&file).expect("a file");
        let sql = "SELECT pgoffset, pgsize FROM dbstat WHERE name = ?1 AND pagetype = 'leaf' LIMIT 1 OFFSET ?2";
        let place = |row: &rusqlite::Row<'_>| Ok((row.get::<_, i64>(0)? as usize, row.get::<_, i64>(1)? as usize));
        db.query_row(sql, params![which, skip as i64], place).expect("a page")
    };
    let damage = |(offset, size): (usize, usize)| {
        let mut bytes = fs::read(&file).expect("there");
        bytes[offset..offset + size].fill(0x5a);
        fs::write(&file, bytes).expect("written");
    };
    damage(page("runs", 2));
    let listed = || Store::open_existing(folder.path()).expect("open").expect("there").listed().expect("a list");
    let one = listed();
    let lost = RUNS - one.runs.len();
    assert!(lost > 0 && lost < RUNS / 2, "{lost}");
    let said = one.damage.expect("damaged");
    assert!(said.contains(&format!("{lost} runs of it cannot be read. The other {} are shown", RUNS - lost)), "{said}");
    assert!(said.contains(".recover | sqlite3 salvaged.db"), "{said}");
    assert!(said.ends_with("files in runs next to it are not touched by this"), "{said}");
    assert!(one.runs.windows(2).all(|pair| pair[0].key > pair[1].key), "newest first");
    // Without the index of the keys, the same runs are found and the others are missed.
    damage(page("sqlite_autoindex_runs_1", 0));
    let both = listed();
    assert_eq!(both.runs, one.runs);
    assert_eq!(both.damage, Some(said));
}

#[test]
fn a_row_that_no_program_wrote_costs_itself_alone() {
    let folder = folder();
    let key = store_of(folder.path(), 4);
    let mut store = Store::open(folder.path()).expect("open");
    let odd = format!("UPDATE runs SET state = 'odd' WHERE key = '{key}'");
    store.database.write(|db| db.execute(&odd, [])).expect("written");
    let Listed { runs, damage } = store.listed().expect("a list");
    assert_eq!(runs.len(), 3);
    assert!(damage.is_some_and(|said| said.contains("1 run of it cannot be read. The other 3 are shown")));
}

#[test]
fn runs_that_cannot_be_deleted_keep_their_files() {
    let folder = folder();
    let key = store_of(folder.path(), 2);
    let mut store = Store::open(folder.path()).expect("open");
    let files = store.files(&key);
    fs::create_dir_all(&files).expect("made");
    fs::write(files.join("last.safetensors"), "weights").expect("written");
    let refuse = "CREATE TRIGGER no BEFORE DELETE ON runs BEGIN SELECT RAISE(ABORT, 'no'); END";
    store.database.write(|db| db.execute(refuse, [])).expect("written");
    assert!(store.delete(std::slice::from_ref(&key)).is_err());
    assert_eq!(fs::read(files.join("last.safetensors")).expect("back"), b"weights");
    assert_eq!(store.list().expect("a list").len(), 2);
    store.database.write(|db| db.execute("DROP TRIGGER no", [])).expect("written");
    // The leftovers of a killed program go with the next run.
    fs::create_dir(folder.path().join(FILES).join("~2020-0009")).expect("made");
    store.delete(std::slice::from_ref(&key)).expect("deleted");
    assert_eq!(fs::read_dir(folder.path().join(FILES)).expect("a folder").count(), 0);
}

#[test]
fn runs_are_deleted_from_a_store_that_could_only_be_read() {
    let folder = folder();
    let key = store_of(folder.path(), 2);
    let path = folder.path().join(database::FILE);
    // As after an opening on a full disk.
    let database = Database::open_frozen(path).expect("read");
    let mut store = Store { folder: folder.path().to_owned(), database };
    store.delete(std::slice::from_ref(&key)).expect("deleted");
    assert_eq!(store.list().expect("a list").len(), 1);
    assert!(store.star(&store.list().expect("a list")[0].key.clone(), true).is_ok(), "it is written as usual now");
}

#[test]
fn the_room_of_deleted_runs_goes_back_to_the_disk() {
    let folder = folder();
    let key = store_of(folder.path(), 2);
    let mut store = Store::open(folder.path()).expect("open");
    let number = store.number(&key).expect("kept");
    let fill = |db: &rusqlite::Transaction<'_>| {
        (1..=4).try_for_each(|first| {
            let sql = "INSERT INTO blocks VALUES (?1, 9, ?2, 1, zeroblob(3000000))";
            db.execute(sql, params![number, first]).map(drop)
        })
    };
    store.database.write(fill).expect("written");
    let size = || fs::metadata(folder.path().join(database::FILE)).expect("there").len();
    store.delete(std::slice::from_ref(&key)).expect("deleted");
    assert!(size() < 1 << 20, "{}", Bytes(size()));
    assert_eq!(store.list().expect("a list").len(), 1);
}
