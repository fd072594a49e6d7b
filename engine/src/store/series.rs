//! The series of a run: a value of each kind for each step, and for each evaluation; and their blocks.
//!
//! Owns the content of a block. Always holds: records read back to the last bit.

use serde::{Serialize, Serializer};

use crate::{
    bytes::Bytes,
    plan,
    store::columns::{Columns, Reader},
    train::StepRecord,
};

/// Records in a block that is full.
pub(super) const BLOCK: usize = plan::RECORDED_STEPS;

/// One evaluation on the test data.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Evaluation {
    /// After this many steps.
    pub step: u64,
    /// Seconds since the run began, pauses excluded.
    pub at_secs: f64,
    /// The mean loss.
    pub loss: f64,
    /// Share classified right.
    pub accuracy: f64,
}

/// Everything that was measured in the course of a run.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct Series {
    /// A value for each step.
    pub steps: Steps,
    /// A value for each evaluation.
    pub evaluations: Evaluations,
    /// The part that could not be read, in words; `None` if all could be.
    pub damage: Option<String>,
}

/// One column of a series.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Column<'a> {
    /// A column of counts.
    Counts(&'a [u64]),
    /// Amounts of memory.
    Bytes(&'a [Bytes]),
    /// A column of numbers.
    Numbers(&'a [f64]),
    /// Yes or no.
    Flags(&'a [bool]),
}

impl Serialize for Column<'_> {
    /// A list; amounts of memory as bytes, numbers that are not finite as nothing.
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::Counts(counts) => counts.serialize(serializer),
            Self::Bytes(bytes) => serializer.collect_seq(bytes.iter().map(|bytes| bytes.0)),
            Self::Numbers(numbers) => numbers.serialize(serializer),
            Self::Flags(flags) => flags.serialize(serializer),
        }
    }
}

/// A record that a series consists of.
pub(super) trait Record: Copy {
    /// The series' number in the store.
    const NUMBER: i64;
    /// The series: a column a value.
    type Series: Default;

    /// The step that it belongs to.
    fn step(&self) -> u64;

    /// Writes the columns of some records.
    fn write(records: &[Self], columns: &mut Columns);

    /// Reads the columns of a block and adds them; leaves the series unchanged if they are not such columns.
    fn read(reader: &mut Reader<'_>, series: &mut Self::Series) -> Option<()>;

    /// All records of a series, in order.
    fn all(series: &Self::Series) -> Vec<Self>;
}

/// A block of these records.
pub(super) fn block<R: Record>(records: &[R]) -> Vec<u8> {
    let mut columns = Columns::new();
    R::write(records, &mut columns);
    columns.finish()
}

/// Adds the records of a block to a series; `None` for bytes that are not a block of this many records.
pub(super) fn add_block<R: Record>(bytes: &[u8], count: usize, series: &mut R::Series) -> Option<()> {
    R::read(&mut Reader::new(bytes, count)?, series)
}

/// Writes a series: each column once, with its name and the kind of its values.
macro_rules! series {
    ($(#[$about:meta])* pub struct $name:ident of $record:ident, number $number:literal {
        $($(#[$doc:meta])* $column:ident: $kind:ident as $key:literal,)+
    }) => {
        $(#[$about])*
        #[derive(Debug, Clone, Default, PartialEq)]
        pub struct $name {
            $($(#[$doc])* pub $column: Vec<series!(@type $kind)>,)+
        }

        impl $name {
            /// How many records there are.
            pub fn len(&self) -> usize {
                self.step.len()
            }

            /// Whether there are no records.
            pub fn is_empty(&self) -> bool {
                self.step.is_empty()
            }

            /// The record at `index`.
            pub fn get(&self, index: usize) -> Option<$record> {
                Some($record { $($column: *self.$column.get(index)?,)+ })
            }

            /// All records, in order.
            pub fn records(&self) -> impl Iterator<Item = $record> + '_ {
                (0..self.len()).filter_map(|index| self.get(index))
            }

            /// Every column with its name, such as `live_bytes`.
            pub fn columns(&self) -> Vec<(&'static str, Column<'_>)> {
                vec![$(($key, series!(@column $kind)(&self.$column)),)+]
            }
        }

        impl Serialize for $name {
            /// `{name: [value, …]}` of all columns.
            fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                serializer.collect_map(self.columns())
            }
        }

        impl FromIterator<$record> for $name {
            fn from_iter<T: IntoIterator<Item = $record>>(records: T) -> Self {
                let mut series = Self::default();
                for record in records {
                    $(series.$column.push(record.$column);)+
                }
                series
            }
        }

        impl Record for $record {
            const NUMBER: i64 = $number;
            type Series = $name;

            fn step(&self) -> u64 {
                self.step
            }

            fn write(records: &[Self], columns: &mut Columns) {
                $(series!(@write $kind)(columns, &mut records.iter().map(|record| record.$column));)+
            }

            fn read(reader: &mut Reader<'_>, series: &mut $name) -> Option<()> {
                $(let $column = series!(@read $kind)(reader)?;)+
                $(series.$column.extend($column);)+
                Some(())
            }

            fn all(series: &$name) -> Vec<Self> {
                series.records().collect()
            }
        }
    };
    (@type count) => { u64 };
    (@type bytes) => { Bytes };
    (@type number) => { f64 };
    (@type flag) => { bool };
    (@column count) => { Column::Counts };
    (@column bytes) => { Column::Bytes };
    (@column number) => { Column::Numbers };
    (@column flag) => { Column::Flags };
    (@write count) => { counts };
    (@write bytes) => { amounts };
    (@write number) => { numbers };
    (@write flag) => { flags };
    (@read count) => { Reader::ints };
    (@read bytes) => { read_amounts };
    (@read number) => { Reader::floats };
    (@read flag) => { read_flags };
}

fn counts(columns: &mut Columns, values: &mut dyn Iterator<Item = u64>) {
    columns.ints(values);
}

fn amounts(columns: &mut Columns, values: &mut dyn Iterator<Item = Bytes>) {
    columns.ints(values.map(|bytes| bytes.0));
}

fn numbers(columns: &mut Columns, values: &mut dyn Iterator<Item = f64>) {
    columns.floats(values);
}

fn flags(columns: &mut Columns, values: &mut dyn Iterator<Item = bool>) {
    columns.ints(values.map(u64::from));
}

fn read_amounts(reader: &mut Reader<'_>) -> Option<Vec<Bytes>> {
    Some(reader.ints()?.into_iter().map(Bytes).collect())
}

fn read_flags(reader: &mut Reader<'_>) -> Option<Vec<bool>> {
    Some(reader.ints()?.into_iter().map(|flag| flag != 0).collect())
}

series! {
    /// A value of each kind for each step, as [`StepRecord`] has them.
    pub struct Steps of StepRecord, number 0 {
        /// The step, counted from 1.
        step: count as "step",
        /// Mean loss over the effective batch.
        loss: number as "loss",
        /// Share of the effective batch that was classified right.
        accuracy: number as "accuracy",
        /// The learning rate.
        learning_rate: number as "learning_rate",
        /// Norm of the whole gradient before clipping.
        gradient_norm: number as "gradient_norm",
        /// The loss scale.
        loss_scale: number as "loss_scale",
        /// The update was skipped.
        skipped: flag as "skipped",
        /// Seconds since the run began, pauses excluded.
        at_secs: number as "at_secs",
        /// Seconds of this step.
        secs: number as "secs",
        /// Measured: most bytes alive.
        live: bytes as "live_bytes",
        /// Measured: most bytes that the allocator held.
        reserved: bytes as "reserved_bytes",
        /// Measured: bytes of the process.
        process: bytes as "process_bytes",
    }
}

series! {
    /// A value of each kind for each evaluation.
    pub struct Evaluations of Evaluation, number 1 {
        /// After this many steps.
        step: count as "step",
        /// Seconds since the run began, pauses excluded.
        at_secs: number as "at_secs",
        /// The mean loss.
        loss: number as "loss",
        /// Share classified right.
        accuracy: number as "accuracy",
    }
}

#[cfg(test)]
pub(super) use tests::step as some_step;

#[cfg(test)]
mod tests {
    use super::*;

    /// A step as a run reports it.
    pub(in crate::store) fn step(step: u64) -> StepRecord {
        let loss = f64::from(2.0f32 / (step as f32 + 0.7));
        StepRecord {
            step,
            loss,
            accuracy: (step % 65) as f64 / 64.0,
            learning_rate: 1e-3,
            gradient_norm: loss.sqrt(),
            loss_scale: 1.0,
            skipped: step.is_multiple_of(50),
            at_secs: std::time::Duration::from_nanos(step * 301_417).as_secs_f64(),
            secs: std::time::Duration::from_nanos(300_000 + step % 1000).as_secs_f64(),
            live: Bytes(1_234_567),
            reserved: Bytes(2_000_000 + step % 2),
            process: Bytes::mib(40 + step / 700),
        }
    }

    #[test]
    fn a_block_holds_its_records_and_is_small() {
        let records: Vec<StepRecord> = (1..=BLOCK as u64).map(step).collect();
        let bytes = block(&records);
        let mut series = Steps::default();
        add_block::<StepRecord>(&bytes, records.len(), &mut series).expect("a block");
        assert_eq!(series.records().collect::<Vec<_>>(), records);
        assert!(bytes.len() < 25 * BLOCK, "{} bytes a step", bytes.len() / BLOCK);
        // Another count than the block's is refused, or leaves the series whole.
        assert_eq!(add_block::<StepRecord>(&bytes, records.len() + 1, &mut series), None);
        assert_eq!(series.len(), records.len());
    }

    #[test]
    fn a_series_is_written_for_scripts_column_by_column() {
        let series: Evaluations =
            [Evaluation { step: 5, at_secs: 0.5, loss: f64::NAN, accuracy: 0.25 }].into_iter().collect();
        let json = serde_json::to_value(&series).expect("JSON");
        assert_eq!(json, serde_json::json!({"step": [5], "at_secs": [0.5], "loss": [null], "accuracy": [0.25]}));
    }
}
