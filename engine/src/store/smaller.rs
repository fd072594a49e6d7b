//! The form of a run's model in the end, if it is smaller than the trained model: as integers, without its pruned parts, or
//! factored.
//!
//! Always holds: of several changes the last counts, because integers and factors already leave the zeros out.

use rusqlite::{Row, Transaction, params};
use serde::{Serialize, Serializer};

use super::run::word;
pub use crate::step::Became;
use crate::{bytes::Bytes, train::Summary};

/// A trained model that became smaller.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct SmallerModel {
    /// Its form.
    pub became: Became,
    /// Bytes of its weights.
    #[serde(serialize_with = "as_number")]
    pub bytes: Bytes,
    /// Bytes of the weights as they would be otherwise, with all channels and every layer whole.
    #[serde(serialize_with = "as_number")]
    pub whole_bytes: Bytes,
    /// Its accuracy on the test set; of values the share of the labels' variance that is explained (R²).
    pub accuracy: f64,
    /// The accuracy of the model as it was trained.
    pub trained_accuracy: f64,
}

fn as_number<S: Serializer>(bytes: &Bytes, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_u64(bytes.0)
}

impl SmallerModel {
    /// The form that the model of a run took; `None` if it stayed as it was.
    pub fn of(summary: &Summary) -> Option<Self> {
        let whole_bytes = summary.whole_bytes()?;
        if let Some(integers) = summary.compressed {
            return Some(Self {
                became: Became::of(integers.weights),
                bytes: integers.bytes,
                whole_bytes,
                accuracy: integers.test_accuracy,
                trained_accuracy: integers.trained_accuracy,
            });
        }
        let accuracy = summary.test_accuracy?;
        let smaller = |became, bytes| Self { became, bytes, whole_bytes, accuracy, trained_accuracy: accuracy };
        if let Some(stripped) = summary.stripped.filter(|stripped| stripped.gone > 0) {
            return Some(smaller(Became::Pruned, stripped.bytes));
        }
        summary.factored.map(|factored| smaller(Became::Factored, factored.bytes))
    }

    /// Writes the form that the model of a run took, or that it stayed as it was.
    pub(super) fn write(this: Option<Self>, db: &Transaction<'_>, number: i64) -> rusqlite::Result<()> {
        let bytes = |bytes: fn(&Self) -> Bytes| this.as_ref().map(|this| bytes(this).0 as i64);
        db.execute(
            "UPDATE runs SET became = ?2, became_bytes = ?3, became_whole_bytes = ?4, became_accuracy = ?5, \
             became_trained_accuracy = ?6 WHERE number = ?1",
            params![
                number,
                this.map(|this| this.became.key()),
                bytes(|this| this.bytes),
                bytes(|this| this.whole_bytes),
                this.map(|this| this.accuracy),
                this.map(|this| this.trained_accuracy),
            ],
        )?;
        Ok(())
    }

    /// Reads it from the columns of a row from `at` on.
    pub(super) fn read(row: &Row<'_>, at: usize) -> rusqlite::Result<Option<Self>> {
        if row.get::<_, Option<String>>(at)?.is_none() {
            return Ok(None);
        }
        let bytes = |column: usize| row.get::<_, i64>(column).map(|bytes| Bytes(bytes as u64));
        Ok(Some(Self {
            became: word(row, at)?,
            bytes: bytes(at + 1)?,
            whole_bytes: bytes(at + 2)?,
            accuracy: row.get(at + 3)?,
            trained_accuracy: row.get(at + 4)?,
        }))
    }
}
