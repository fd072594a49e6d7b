//! Tables: a file of comma-separated values, each row a sample, one column the label.
//!
//! Owns [`TableFile`], the source. The file is read once, row by row, into columns of 32-bit numbers in host memory; that
//! says how many rows, features and classes there are. Numbers have mean 0 and deviation 1 over the training rows,
//! categories become a feature each. Always holds: the kept data are bounded by rows times columns, for any texts in them.
//! Refuses rows with too many or too few fields, fields that should be numbers and are not, columns without a value, labels
//! that are missing: each by its line and column.

mod column;
mod dialect;
mod facts;
mod filling;
mod label;
mod meant;
mod names;
mod reader;
mod records;
mod rows;
#[cfg(test)]
mod tests;

use std::{
    path::{Path, PathBuf},
    sync::Arc,
    time::SystemTime,
};

pub(super) use self::rows::TableRows;
use self::{
    column::{Column, ColumnKind},
    label::{Goal, Label},
};
pub use self::{
    facts::{ColumnFacts, ColumnUse, TableFacts},
    rows::TableRow,
};
use crate::{
    bytes::Bytes,
    data::{
        DatasetInfo, Input, Inspection, divide,
        source::{Source, Store, chosen_path},
        weighed::Weighed,
    },
    error::{Error, Problem, Result},
    experiment::{Data, LabelKind, Placement, TableTask},
    memory::probe::uncounted,
};

/// The tables that ship with the program.
const TABLES: [(&str, &[u8]); 1] = [("ships.csv", include_bytes!("../../../../assets/data/ships.csv"))];
/// The most features of a row.
const MOST_FEATURES: usize = 1 << 16;

/// A table in a file.
pub(super) struct TableFile;

/// The findings in the file of a choice.
#[derive(Debug)]
pub(super) struct Found {
    table: Arc<Weighed<Table>>,
    goal: Goal,
}

/// A table, read.
#[derive(Debug)]
struct Table {
    path: PathBuf,
    stamp: Option<Stamp>,
    choice: Choice,
    /// Bytes of the file, and their checksum.
    bytes: u64,
    checksum: u32,
    /// The line of the first row that is not UTF-8.
    foreign: Option<u64>,
    dialect: dialect::Dialect,
    /// Names of all columns of the file, in its order.
    names: Vec<String>,
    /// The columns that are features.
    columns: Vec<Column>,
    /// Columns of texts that look like numbers, by their places in the file: each with one of them, and the number it may be.
    number_like: Vec<(usize, [String; 2])>,
    /// The label's column, by its place in the file.
    label_at: usize,
    label: Label,
    /// `[row, column]`: numbers less the column's first one, NaN where one is missing; or the number of a category.
    cells: Vec<f32>,
    rows: usize,
    /// Rows that were left out, and the first of them with its fault.
    left_out: Option<(usize, String)>,
}

/// Length and time of a file.
type Stamp = (u64, Option<SystemTime>);

/// The settings that decide how a file is read.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Choice {
    label: String,
    categorical: String,
    leave_out: String,
    skip_broken: bool,
}

impl Choice {
    fn of(data: &Data) -> Self {
        let Data { label, categorical, leave_out, skip_broken, .. } = data.clone();
        Self { label, categorical, leave_out, skip_broken }
    }
}

impl Source for TableFile {
    /// The file is read once for all that is asked of it.
    fn inspect(&self, data: &Data, known: Option<&Inspection>) -> Result<Inspection> {
        self.limits(data)?;
        let found = uncounted(|| Found::new(data, known.and_then(Inspection::table)).map(Arc::new))?;
        let (info, held) = (found.info(data)?, found.held_bytes());
        let (facts, note) = (found.facts(), names::note(&found.table.names));
        let foreign = found.table.foreign.map(|line| {
            format!("line {line} is not UTF-8: signs that cannot be read are shown as \u{fffd}; save the file as UTF-8")
        });
        Ok(Inspection::new(data, info, held).with_table(found, facts).with_notes(note).with_notes(foreign))
    }

    fn open_inspected(&self, data: &Data, found: &Inspection, seed: u64) -> Result<Store> {
        let found = Found::new(data, found.table())?;
        let (_, test) = divide(found.table.rows, data.test_fraction)?;
        Ok(Store::Table(TableRows::new(found, test, seed)))
    }

    fn info(&self, data: &Data) -> Result<DatasetInfo> {
        Ok(*self.inspect(data, None)?.info())
    }

    fn limits(&self, data: &Data) -> Result<()> {
        if data.placement == Placement::Device {
            let message =
                "rows of a table are made of columns as they are needed, which a training set on a device is not";
            return Err(Problem::new("data.placement", message, "write \"host\"").into());
        }
        Ok(())
    }

    fn open(&self, data: &Data, _: &DatasetInfo, seed: u64) -> Result<Store> {
        self.open_inspected(data, &self.inspect(data, None)?, seed)
    }

    fn held_bytes(&self, data: &Data, _: &DatasetInfo) -> Result<usize> {
        Ok(Found::new(data, None)?.held_bytes())
    }
}

impl Found {
    /// Reads the table of a choice, unless it is `known` and its file is as it was.
    fn new(data: &Data, known: Option<&Arc<Self>>) -> Result<Self> {
        let path = chosen_path(data)?;
        let choice = Choice::of(data);
        let table = match known.filter(|known| known.table.is_of(path, &choice)) {
            Some(known) => Arc::clone(&known.table),
            None => Weighed::new(|| reader::read(path, choice))?,
        };
        let goal = table.label.goal(data.task).map_err(|message| table.wrong_label(&message))?;
        Ok(Self { table, goal })
    }

    fn info(&self, data: &Data) -> Result<DatasetInfo> {
        let Self { table, goal } = self;
        if table.rows < 2 {
            let message = "it has one row, and one is needed to train on and one to test on; add some";
            return Err(Error::file(&table.path, message));
        }
        let features = self.features();
        if features > MOST_FEATURES {
            let message = format!(
                "its columns make {features} features, and a row has at most {MOST_FEATURES}; leave some out \
                 (data.leave_out)"
            );
            return Err(Error::file(&table.path, message));
        }
        let (train, test) = divide(table.rows, data.test_fraction)?;
        let input = Input::Image { height: 1, width: 1, channels: features };
        let (classes, label) = match goal {
            Goal::Classes(classes) => (classes.len(), LabelKind::Class),
            Goal::Value => (1, LabelKind::Value),
        };
        Ok(DatasetInfo { label, ..DatasetInfo::one_label(input, classes, train, test) })
    }

    /// Numbers of a row as a model sees it.
    fn features(&self) -> usize {
        self.table.columns.iter().map(Column::features).sum()
    }

    /// Columns, labels and names; the order of the rows and their labels once they are divided.
    fn held_bytes(&self) -> usize {
        // Notes on the division, and room that is not filled.
        const BESIDE: usize = 2048;
        let scales = self.table.columns.len() * rows::SCALE_BYTES;
        let divided = self.table.rows * 2 * size_of::<u32>();
        self.shared_bytes().0 as usize + divided + scales + self.goal.bytes() + BESIDE
    }

    /// Bytes of host memory that it shares with other findings of the same file.
    pub(super) fn shared_bytes(&self) -> Bytes {
        self.table.bytes()
    }

    fn facts(&self) -> TableFacts {
        TableFacts::of(self)
    }
}

impl Table {
    /// Whether it is of this choice, and its file is as it was.
    fn is_of(&self, path: &Path, choice: &Choice) -> bool {
        let own = &self.choice;
        let is_label = own.label == choice.label
            || choice.label == self.names[self.label_at]
            || choice.label.is_empty() && self.label_at + 1 == self.names.len();
        let same = Choice { label: own.label.clone(), ..choice.clone() };
        self.path == path && is_label && same == *own && self.is_current()
    }

    fn is_current(&self) -> bool {
        self.stamp == stamp(&self.path)
    }

    fn label_name(&self) -> &str {
        &self.names[self.label_at]
    }

    fn wrong_label(&self, message: &str) -> Error {
        Error::file_at(&self.path, format!("column `{}`", self.label_name()), message)
    }

    fn row(&self, row: usize) -> &[f32] {
        let width = self.columns.len();
        &self.cells[row * width..][..width]
    }
}

fn stamp(path: &Path) -> Option<Stamp> {
    let about = std::fs::metadata(path).ok()?;
    Some((about.len(), about.modified().ok()))
}

/// The table that ships under this path, or the names of those that do.
fn shipped(path: &Path) -> Option<Result<&'static [u8]>> {
    let name = path.to_str()?.strip_prefix(Data::SHIPPED)?;
    let found = TABLES.iter().find(|(known, _)| *known == name).map(|(_, bytes)| *bytes);
    Some(found.ok_or_else(|| {
        let names: Vec<&str> = TABLES.iter().map(|(name, _)| *name).collect();
        let mend =
            format!("write {0}{1}, or the path of a file", Data::SHIPPED, names.join(&format!(", {}", Data::SHIPPED)));
        Problem::new("data.path", format!("no table `{name}` ships with the program"), mend).into()
    }))
}

/// The label and the task that `auto` stands for in the table's choice.
pub(super) fn decided(found: &Found) -> (&str, TableTask) {
    let task = match found.goal {
        Goal::Classes(_) => TableTask::Classification,
        Goal::Value => TableTask::Regression,
    };
    (found.table.label_name(), task)
}

impl Column {
    /// Features that it makes.
    fn features(&self) -> usize {
        match &self.kind {
            ColumnKind::Number { .. } => 1,
            ColumnKind::Category(categories) => categories.slots(),
        }
    }
}
