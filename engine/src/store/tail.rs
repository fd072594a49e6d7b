//! The end of a series that grows: records become blocks, and small pieces until a block is full.
//!
//! Always holds: an appended record is in the store as soon as its transaction is, at the cost of a piece, not of a block. A
//! full block takes the place of its pieces.

use std::collections::BTreeMap;

use rusqlite::{Connection, Transaction, params};

use crate::store::series::{BLOCK, Record, add_block, block};

/// Records in a piece that is not written again.
const PIECE: usize = 256;

/// The end of a series in the store.
#[derive(Debug)]
pub(super) struct Tail<R> {
    /// The records of the block that is not full.
    records: Vec<R>,
    /// The place of the first of them in the series.
    first: u64,
    /// How many of them are in pieces that stay.
    settled: usize,
    /// The bytes of each block and piece, by the place of its first record.
    bytes: BTreeMap<u64, usize>,
}

impl<R: Record> Tail<R> {
    /// Loads the tail of a series as it is in the store.
    pub(super) fn load(db: &Connection, run: i64) -> rusqlite::Result<Self> {
        let mut statement =
            db.prepare("SELECT first, count, length(data) FROM blocks WHERE run = ?1 AND series = ?2 ORDER BY first")?;
        let mut rows = statement.query(params![run, R::NUMBER])?;
        let (mut bytes, mut total) = (BTreeMap::new(), 0);
        while let Some(row) = rows.next()? {
            let (first, count, length): (i64, i64, i64) = (row.get(0)?, row.get(1)?, row.get(2)?);
            bytes.insert(first as u64, length as usize);
            total = first.saturating_add(count) as u64;
        }
        // The old records stay as they are: a new block begins after them.
        Ok(Self { records: Vec::new(), first: total, settled: 0, bytes })
    }

    /// Records of the whole series.
    pub(super) fn total(&self) -> u64 {
        self.first + self.records.len() as u64
    }

    /// Bytes of the whole series.
    pub(super) fn bytes(&self) -> usize {
        self.bytes.values().sum()
    }

    /// Adds records. After an error, the tail is to be loaded again.
    pub(super) fn append(&mut self, db: &Transaction<'_>, run: i64, mut new: &[R]) -> rusqlite::Result<()> {
        while self.records.len() + new.len() >= BLOCK {
            let (taken, rest) = new.split_at(BLOCK - self.records.len());
            self.records.extend(taken);
            new = rest;
            let pieces = "DELETE FROM blocks WHERE run = ?1 AND series = ?2 AND first >= ?3";
            db.execute(pieces, params![run, R::NUMBER, self.first as i64])?;
            self.bytes.split_off(&self.first);
            self.put(db, run, 0)?;
            self.first += BLOCK as u64;
            (self.settled, self.records) = (0, Vec::new());
        }
        self.records.extend(new);
        if self.records.len() > self.settled {
            self.put(db, run, self.settled)?;
        }
        if self.records.len() - self.settled >= PIECE {
            self.settled = self.records.len();
        }
        Ok(())
    }

    /// Writes the records from one on.
    fn put(&mut self, db: &Transaction<'_>, run: i64, from: usize) -> rusqlite::Result<()> {
        let (first, records) = (self.first + from as u64, &self.records[from..]);
        let data = block(records);
        let sql = "INSERT OR REPLACE INTO blocks VALUES (?1, ?2, ?3, ?4, ?5)";
        db.execute(sql, params![run, R::NUMBER, first as i64, records.len() as i64, data])?;
        self.bytes.insert(first, data.len());
        Ok(())
    }

    /// Takes the records of `step` and of all later steps away, and loads the rest.
    pub(super) fn cut(db: &Transaction<'_>, run: i64, step: u64) -> rusqlite::Result<Self> {
        loop {
            let sql =
                "SELECT first, count, data FROM blocks WHERE run = ?1 AND series = ?2 ORDER BY first DESC LIMIT 1";
            let mut statement = db.prepare(sql)?;
            let mut rows = statement.query(params![run, R::NUMBER])?;
            let Some(row) = rows.next()? else { break };
            let (first, count): (i64, usize) = (row.get(0)?, row.get::<_, i64>(1)?.max(0) as usize);
            let mut series = R::Series::default();
            if add_block::<R>(row.get_ref(2)?.as_blob()?, count, &mut series).is_none() {
                // A piece that cannot be read is left for a repair.
                break;
            }
            let records = R::all(&series);
            let kept: Vec<R> = records.iter().copied().filter(|record| record.step() < step).collect();
            if kept.len() == records.len() {
                break;
            }
            let block = params![run, R::NUMBER, first];
            db.execute("DELETE FROM blocks WHERE run = ?1 AND series = ?2 AND first = ?3", block)?;
            if !kept.is_empty() {
                let mut tail = Self { records: kept, first: first as u64, settled: 0, bytes: BTreeMap::new() };
                tail.put(db, run, 0)?;
                break;
            }
        }
        Self::load(db, run)
    }
}
