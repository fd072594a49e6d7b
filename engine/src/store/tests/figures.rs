//! How long a large store takes to be listed and opened.

use super::*;

/// How long a list of 10,000 runs takes, and opening one of 1,000,000 steps:
/// `cargo test --release -p plimsoll-engine --lib store_figures -- --ignored --nocapture`
#[test]
#[ignore = "figures, of an optimised build"]
fn store_figures() {
    let folder = folder();
    let key = kept(folder.path(), 1);
    let mut store = Store::open(folder.path()).expect("open");
    let number = store.number(&key).expect("kept");
    let mut tail = store.database.with(|db| tail::Tail::load(db, number)).expect("a series");
    for first in (1..1_000_000).step_by(5_000) {
        let records: Vec<_> = (first..first + 5_000).map(|step| some_step(step + 1)).collect();
        store.database.write(|db| tail.append(db, number, &records)).expect("written");
    }
    let columns: Vec<&str> = run::COLUMNS.split(", ").skip(2).collect();
    let columns = columns.join(", ");
    store
        .database
        .write(|db| {
            for run in 0..9_999 {
                let sql = format!("INSERT INTO runs (key, {columns}) SELECT '20200101-000000-{run:04}', {columns} FROM runs WHERE number = ?1");
                db.execute(&sql, [number])?;
                let sql = "INSERT INTO details SELECT ?1, preset, prediction, 0, 0, NULL, NULL FROM details WHERE run = ?2";
                db.execute(sql, [db.last_insert_rowid(), number])?;
            }
            Ok(())
        })
        .expect("written");
    drop(store);
    for _ in 0..5 {
        let since = std::time::Instant::now();
        let store = Store::open(folder.path()).expect("open");
        let runs = store.list().expect("a list").len();
        let listed = since.elapsed();
        let since = std::time::Instant::now();
        let (details, series) = (store.details(&key).expect("details"), store.series(&key).expect("series"));
        let opened = since.elapsed();
        let (steps, layers) = (series.steps.len(), details.prediction.layers.len());
        println!("{runs} runs listed in {listed:.1?}; {steps} steps, {layers} layers opened in {opened:.1?}");
    }
    let bytes = fs::metadata(folder.path().join("runs.db")).expect("there").len();
    println!("{} on disk", Bytes(bytes));
}
