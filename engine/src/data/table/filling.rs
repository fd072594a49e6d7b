//! The columns of a table while they are filled, row by row.
//!
//! Refuses a row that does not go on as the table began, by line and column, or counts it where such rows are left out.

use std::path::Path;

use csv::ByteRecord;

use super::{
    Choice, Table,
    column::{self, ColumnKind, Field, MOST_CATEGORIES},
    dialect::Dialect,
    label::Label,
    names::in_list,
    reader::Columns,
    records::Rows,
};
use crate::{
    bytes::{Bytes, counted},
    error::{Error, MemoryRefused, Result},
    experiment::settings,
};

/// The most bytes of cells.
const MOST_CELLS: usize = 16 << 30;
/// The longest part of a field that is quoted in a message.
const QUOTED: usize = 40;

/// Columns that are being filled.
pub(super) struct Filling<'a> {
    path: &'a Path,
    dialect: Dialect,
    skips: bool,
    plan: Columns,
    cells: Vec<f32>,
    pub(super) rows: usize,
    left_out: Option<(usize, String)>,
}

/// A fault of a row: in which column, and how to fix it.
struct Wrong {
    column: Option<String>,
    /// The line, if it differs from the row's.
    line: Option<u64>,
    message: String,
}

impl Wrong {
    fn of(column: &str, message: String) -> Self {
        Self { column: Some(column.to_owned()), line: None, message }
    }

    /// A number that is farther from the first of its column than 32 bits hold; names the larger one of the two.
    fn too_far(column: &str, number: f64, (first, line): (f64, u64)) -> Self {
        let is_first = first.abs() > number.abs();
        let largest = if is_first { first } else { number };
        let message = format!(
            "{largest:e} is too far from the other numbers of its column, which is held in 32 bits: its numbers differ by {:.1e} at \
             most; fix the field, leave it empty if it is not known, or write the column in another unit",
            f32::MAX
        );
        Self { line: is_first.then_some(line), ..Self::of(column, message) }
    }
}

impl<'a> Filling<'a> {
    pub(super) fn new(path: &'a Path, plan: Columns, dialect: Dialect, skips: bool) -> Self {
        Self { path, dialect, skips, plan, cells: Vec::new(), rows: 0, left_out: None }
    }

    /// Makes room for about as many rows as the file has, by its `bytes` and the rows in the `at` bytes that were read.
    pub(super) fn expect(&mut self, at: u64, bytes: u64) -> Result<()> {
        let rows = (self.rows as f64 * bytes as f64 / at.max(1) as f64 * 1.02) as usize;
        let more = rows.saturating_sub(self.rows).saturating_mul(self.plan.columns.len());
        let asked = more.saturating_mul(size_of::<f32>());
        if asked > MOST_CELLS {
            let message = format!(
                "its columns take about {} as numbers, and at most {} are held; leave columns out (data.leave_out)",
                Bytes(asked as u64),
                Bytes(MOST_CELLS as u64)
            );
            return Err(Error::file(self.path, message));
        }
        let refused = |_| MemoryRefused { label: "a table", ..MemoryRefused::of(Bytes(asked as u64)) };
        Ok(self.cells.try_reserve_exact(more).map_err(refused)?)
    }

    /// Takes a row.
    pub(super) fn row(&mut self, rows: &Rows<'_>) -> Result<()> {
        if rows.swallows_the_rest() {
            let message = "a quotation mark is not closed, and all rows after it are in its text; close it, or double it inside a text";
            return Err(Error::file_at(self.path, format!("line {}", rows.line()), message));
        }
        let begin = self.cells.len();
        let Err(Wrong { column, line, message }) = self.fields(&rows.record, rows.line()) else {
            self.rows += 1;
            return if self.rows > u32::MAX as usize {
                Err(Error::file(self.path, "more rows than can be numbered; take fewer"))
            } else {
                Ok(())
            };
        };
        self.forget(begin);
        let line = line.unwrap_or_else(|| rows.line());
        let place = match column {
            Some(name) => format!("line {line}, column `{name}`"),
            None => format!("line {line}"),
        };
        if !self.skips {
            let message = format!("{message}, or write data.skip_broken = true to leave such rows out");
            return Err(Error::file_at(self.path, place, message));
        }
        let first = || Error::file_at(self.path, place, message).to_string();
        self.left_out.get_or_insert_with(|| (0, first())).0 += 1;
        Ok(())
    }

    /// Takes back the cells of a row from `begin` on.
    fn forget(&mut self, begin: usize) {
        for (cell, column) in self.cells.drain(begin..).zip(&mut self.plan.columns) {
            if let ColumnKind::Category(categories) = &mut column.kind {
                categories.forget(cell as usize);
            }
        }
    }

    fn fields(&mut self, record: &ByteRecord, line: u64) -> Result<(), Wrong> {
        let Columns { names, columns, label_at, label, .. } = &mut self.plan;
        if record.len() != names.len() {
            let [fields, columns] =
                [(record.len(), "field"), (names.len(), "column")].map(|(n, one)| counted(n as u64, one));
            let message = format!("{fields}, and the first line names {columns}; fix the row");
            return Err(Wrong { column: None, line: None, message });
        }
        let comma_free = self.dialect.separator != b',';
        let is_comma = &mut self.dialect.decimal_comma;
        let of_label = &record[*label_at];
        let labelled = column::field(of_label, comma_free, is_comma);
        check_label(&names[*label_at], of_label, labelled, label, self.rows)?;
        for column in columns.iter_mut() {
            let bytes = &record[column.at];
            let cell = match &mut column.kind {
                ColumnKind::Number { first, line: of_first } => match column::field(bytes, comma_free, is_comma) {
                    Field::Number(number) => {
                        if first.is_none() {
                            (*first, *of_first) = (Some(number), line);
                        }
                        let first = first.unwrap_or_default();
                        match (number - first) as f32 {
                            cell if cell.is_finite() => cell,
                            _ => return Err(Wrong::too_far(&column.name, number, (first, *of_first))),
                        }
                    }
                    Field::Missing => f32::NAN,
                    Field::Endless => return Err(Wrong::of(&column.name, endless(bytes))),
                    Field::Text => return Err(Wrong::of(&column.name, no_number(&column.name, bytes, self.rows))),
                },
                ColumnKind::Category(categories) => {
                    let number = categories.number(if column::is_missing(bytes) { b"" } else { bytes });
                    number.ok_or_else(|| Wrong::of(&column.name, too_many(&column.name)))? as f32
                }
            };
            self.cells.push(cell);
        }
        match (label, labelled) {
            (Label::Numbers { values, ends }, Field::Number(value)) => {
                values.push(value);
                ends.take(value, line);
            }
            (Label::Texts { numbers, categories }, _) => {
                let number = categories.number(of_label);
                numbers.push(number.ok_or_else(|| Wrong::of(&names[*label_at], too_many(&names[*label_at])))?);
            }
            // They were refused as labels before.
            (Label::Numbers { .. }, Field::Missing | Field::Endless | Field::Text) => {}
        }
        Ok(())
    }

    /// Counts the missing values of each column, and gives categories their last numbers.
    fn finish(&mut self) -> Result<()> {
        let width = self.plan.columns.len();
        for (at, column) in self.plan.columns.iter_mut().enumerate() {
            column.missing = match &column.kind {
                ColumnKind::Number { .. } => {
                    self.cells[at..].iter().step_by(width).filter(|cell| cell.is_nan()).count()
                }
                ColumnKind::Category(categories) => categories.missing(),
            };
            if column.missing == self.rows {
                let message = format!(
                    "is empty in all {}; remove it, or write data.leave_out = {}",
                    counted(self.rows as u64, "row"),
                    as_setting(&column.name)
                );
                return Err(Error::file_at(self.path, format!("column `{}`", column.name), message));
            }
            if let ColumnKind::Category(categories) = &mut column.kind {
                categories.finish();
            }
        }
        match &mut self.plan.label {
            Label::Texts { numbers, categories } => {
                numbers.shrink_to_fit();
                categories.finish();
            }
            Label::Numbers { values, .. } => values.shrink_to_fit(),
        }
        Ok(())
    }

    pub(super) fn into_table(
        mut self,
        stamp: Option<super::Stamp>,
        choice: Choice,
        bytes: u64,
        checksum: u32,
    ) -> Result<Table> {
        if self.rows == 0 {
            let message = match &self.left_out {
                Some((count, first)) => {
                    format!("it has nothing but {}; the first: {first}", counted(*count as u64, "broken row"))
                }
                None => "it has a line of names and no row below it; add rows".to_owned(),
            };
            return Err(Error::file(self.path, message));
        }
        self.finish()?;
        let Columns { names, columns, number_like, label_at, label } = self.plan;
        self.cells.shrink_to_fit();
        Ok(Table {
            path: self.path.to_owned(),
            stamp,
            choice,
            bytes,
            checksum,
            foreign: None,
            dialect: self.dialect,
            names,
            columns,
            number_like,
            label_at,
            label,
            cells: self.cells,
            rows: self.rows,
            left_out: self.left_out,
        })
    }
}

fn check_label(name: &str, bytes: &[u8], field: Field, label: &Label, rows: usize) -> Result<(), Wrong> {
    match (label, field) {
        (_, Field::Missing) => {
            Err(Wrong::of(name, "the row has no label; give it one, or take the row out".to_owned()))
        }
        (Label::Numbers { .. }, Field::Endless) => Err(Wrong::of(name, endless(bytes))),
        (Label::Numbers { .. }, Field::Text) => Err(Wrong::of(name, no_number(name, bytes, rows))),
        (Label::Numbers { .. }, Field::Number(_))
        | (Label::Texts { .. }, Field::Number(_) | Field::Endless | Field::Text) => Ok(()),
    }
}

fn endless(bytes: &[u8]) -> String {
    format!("{} is not finite; write a finite number, or leave the field empty if it is not known", quoted(bytes))
}

fn no_number(name: &str, bytes: &[u8], rows: usize) -> String {
    let before = match rows {
        0 => "the rows after it have numbers".to_owned(),
        1 => "the row before it has a number".to_owned(),
        rows => format!("the {rows} rows before it have numbers"),
    };
    format!(
        "{} is not a number, and {before}; fix the field, leave it empty if it is not known, write data.categorical = {} where \
         the column holds categories",
        quoted(bytes),
        as_setting(name)
    )
}

/// A list of one column, as a preset has it.
fn as_setting(name: &str) -> String {
    settings::quoted(&in_list(name))
}

fn too_many(name: &str) -> String {
    format!(
        "more than {MOST_CATEGORIES} different texts are too many for categories; leave the column out (data.leave_out = {})",
        as_setting(name)
    )
}

/// A field in a message, shortened.
fn quoted(bytes: &[u8]) -> String {
    let text = String::from_utf8_lossy(bytes.trim_ascii());
    let short: String = text.chars().take(QUOTED).flat_map(char::escape_debug).collect();
    if text.chars().count() > QUOTED { format!("\"{short}…\"") } else { format!("\"{short}\"") }
}
