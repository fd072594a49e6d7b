//! A file of comma-separated values, read row by row into columns.
//!
//! Its first [`HEAD`] rows say which columns are numbers; then all of it is read once.

use std::path::Path;

use super::{
    Choice, Table,
    column::{self, Categories, Column, ColumnKind, Field},
    dialect::{self, Dialect},
    filling::Filling,
    label::{Ends, Label},
    meant,
    names::{label_at, listed, names},
    records::{BOM, LOOK, Rows, head},
    stamp,
};
use crate::error::{Error, Problem, Result};

/// Rows that decide which columns are numbers.
const HEAD: usize = 1000;
/// One text among this many values is a slip, and does not make a column of categories.
const SLIP: usize = 10;
/// Reads the table at `path`.
pub(super) fn read(path: &Path, choice: Choice) -> Result<Table> {
    let stamp = stamp(path);
    let head = head(path)?;
    if let Some(reason) = dialect::foreign(&head) {
        return Err(Error::file(path, reason));
    }
    let mut dialect = Dialect::of(head.strip_prefix(BOM).unwrap_or(&head), head.len() < LOOK);
    let plan = Columns::plan(path, &choice, &mut dialect)?;
    let mut filling = Filling::new(path, plan, dialect, choice.skip_broken);
    let mut rows = Rows::open(path, dialect)?;
    rows.next()?;
    while rows.next()? {
        filling.row(&rows)?;
        if filling.rows == HEAD {
            filling.expect(rows.at(), rows.bytes)?;
        }
    }
    let (bytes, checksum) = rows.ended();
    let foreign = rows.foreign;
    filling.into_table(stamp, choice, bytes, checksum).map(|table| Table { foreign, ..table })
}

/// The columns of a table by their use.
pub(super) struct Columns {
    pub(super) names: Vec<String>,
    pub(super) columns: Vec<Column>,
    pub(super) number_like: Vec<(usize, [String; 2])>,
    pub(super) label_at: usize,
    pub(super) label: Label,
}

/// The first rows' fields in a column.
#[derive(Clone, Default)]
struct Head {
    numbers: usize,
    texts: usize,
    /// Texts that look like numbers, and the first of them with the number it may be.
    number_like: usize,
    first_like: Option<[String; 2]>,
}

impl Head {
    /// The first rows' fields in each of `count` columns.
    fn of_columns(path: &Path, rows: &mut Rows<'_>, dialect: &mut Dialect, count: usize) -> Result<Vec<Self>> {
        let mut heads = vec![Self::default(); count];
        let mut seen = 0;
        while seen < HEAD && rows.next()? {
            seen += 1;
            for (head, bytes) in heads.iter_mut().zip(rows.record.iter()) {
                match column::field(bytes, dialect.separator != b',', &mut dialect.decimal_comma) {
                    Field::Missing => {}
                    Field::Number(_) | Field::Endless => head.numbers += 1,
                    Field::Text => head.text(bytes),
                }
            }
        }
        if seen == 0 {
            return Err(Error::file(path, "it has a line of names and no row below it; add rows"));
        }
        Ok(heads)
    }

    /// A text stands in a row.
    fn text(&mut self, bytes: &[u8]) {
        self.texts += 1;
        if let Some(number) = meant::number(bytes) {
            self.number_like += 1;
            self.first_like.get_or_insert_with(|| [String::from_utf8_lossy(bytes.trim_ascii()).into_owned(), number]);
        }
    }

    /// One of its texts, if most of them look like numbers.
    fn looks_like_numbers(&self) -> Option<[String; 2]> {
        self.first_like.clone().filter(|_| self.number_like * 2 > self.texts)
    }
}

impl Columns {
    /// Looks at the first rows.
    fn plan(path: &Path, choice: &Choice, dialect: &mut Dialect) -> Result<Self> {
        let mut rows = Rows::open(path, *dialect)?;
        if !rows.next()? {
            return Err(Error::file(path, "it is empty; choose a file with a line of names and rows below it"));
        }
        let names = names(&rows)?;
        let [categorical, leave_out] =
            [("data.categorical", &choice.categorical), ("data.leave_out", &choice.leave_out)]
                .map(|(key, list)| listed(key, list, &names));
        let (categorical, leave_out) = (categorical?, leave_out?);
        let label_at = label_at(&choice.label, &names)?;
        apart(&names, label_at, &categorical, &leave_out)?;
        let heads = Head::of_columns(path, &mut rows, dialect, names.len())?;
        let is_text = |at: usize| {
            let Head { numbers, texts, .. } = heads[at];
            categorical.contains(&at) || texts > 0 && texts * SLIP > numbers
        };
        let is_taken_for_text = |at: &usize| !categorical.contains(at) && is_text(*at);
        let number_like = (0..names.len()).filter(is_taken_for_text);
        let number_like = number_like.filter_map(|at| Some((at, heads[at].looks_like_numbers()?))).collect();
        let own = (0..names.len()).filter(|at| *at != label_at && !leave_out.contains(at));
        let columns: Vec<Column> = own
            .map(|at| {
                let kind = match is_text(at) {
                    true => ColumnKind::Category(Categories::default()),
                    false => ColumnKind::Number { first: None, line: 0 },
                };
                Column { name: names[at].clone(), at, kind, missing: 0 }
            })
            .collect();
        if columns.is_empty() {
            let message = format!(
                "the label `{}` is its only column, and nothing is left to learn it from; add a column",
                names[label_at]
            );
            return Err(Error::file(path, message));
        }
        let label = match is_text(label_at) {
            true => Label::Texts { numbers: Vec::new(), categories: Categories::default() },
            false => Label::Numbers { values: Vec::new(), ends: Ends::default() },
        };
        Ok(Self { names, columns, number_like, label_at, label })
    }
}

/// Refuses a label that is left out, and a column that is in both lists.
fn apart(names: &[String], label_at: usize, categorical: &[usize], leave_out: &[usize]) -> Result<()> {
    if leave_out.contains(&label_at) {
        let message = format!("`{}` is the label, which cannot be left out", names[label_at]);
        let mend = "take it out of the list, or choose another data.label";
        return Err(Problem::new("data.leave_out", message, mend).into());
    }
    if let Some(twice) = leave_out.iter().find(|at| categorical.contains(at)) {
        let message = format!("`{}` is left out, and a column of categories in data.categorical", names[*twice]);
        return Err(Problem::new("data.leave_out", message, "take it out of one of the lists").into());
    }
    Ok(())
}
