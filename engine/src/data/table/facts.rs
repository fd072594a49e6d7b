//! The facts of a table, for callers that show them.

use std::path::PathBuf;

use super::{
    Found, Table,
    column::{ColumnKind, MOST_SLOTS},
    decided,
    label::Goal,
};
use crate::{bytes::Bytes, experiment::TableTask};

/// The use of a column of a table.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ColumnUse {
    /// Numbers, scaled to mean 0 and deviation 1 over the training rows.
    Numbers,
    /// Categories: how many, and how many of them share a feature because they are rare.
    Categories {
        /// The number of different categories.
        count: usize,
        /// The number of categories that share one feature.
        shared: usize,
    },
    /// The label, which is learned.
    Label,
    /// The column was left out.
    LeftOut,
}

/// A column of a table.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ColumnFacts {
    /// The column's name.
    pub name: String,
    /// Its use.
    pub used: ColumnUse,
    /// Rows in which it has no value.
    pub missing: usize,
    /// One of its texts, and the number that it may be, if texts that look like numbers made it categories or classes.
    pub number_like: Option<[String; 2]>,
}

/// The facts of a table that are known before a run.
#[derive(Debug, Clone, PartialEq)]
pub struct TableFacts {
    /// The table's file.
    pub path: PathBuf,
    /// Bytes of it, unpacked.
    pub bytes: Bytes,
    /// How its fields are separated, in words: `commas`.
    pub separator: &'static str,
    /// Whether a comma stands before decimals.
    pub has_decimal_commas: bool,
    /// Rows that are samples.
    pub rows: usize,
    /// All columns, in the order of the file.
    pub columns: Vec<ColumnFacts>,
    /// Numbers of a row as a model sees it.
    pub features: usize,
    /// The column of the label.
    pub label: String,
    /// The task that is learned from it.
    pub task: TableTask,
    /// The names of its classes; empty for a regression.
    pub classes: Vec<String>,
    /// Rows that were left out because they cannot be read.
    pub left_out_count: usize,
    /// The first of them, with its fault.
    pub first_left_out: Option<String>,
}

impl TableFacts {
    /// The most features of a column of categories.
    pub const MOST_CATEGORIES: usize = MOST_SLOTS;

    pub(super) fn of(found: &Found) -> Self {
        let Table { path, bytes, dialect, names, columns, number_like, label_at, rows, left_out, .. } = &**found.table;
        let column = |(at, name): (usize, &String)| {
            let own = columns.iter().find(|column| column.at == at);
            let used = match own.map(|column| &column.kind) {
                _ if at == *label_at => ColumnUse::Label,
                None => ColumnUse::LeftOut,
                Some(ColumnKind::Number { .. }) => ColumnUse::Numbers,
                Some(ColumnKind::Category(categories)) => {
                    ColumnUse::Categories { count: categories.len(), shared: categories.shared() }
                }
            };
            let like = number_like.iter().find(|(own, _)| *own == at).map(|(_, like)| like.clone());
            let number_like = like.filter(|_| used != ColumnUse::LeftOut);
            ColumnFacts { name: name.clone(), used, missing: own.map_or(0, |column| column.missing), number_like }
        };
        let (label, task) = decided(found);
        Self {
            path: path.clone(),
            bytes: Bytes(*bytes),
            separator: dialect.words(),
            has_decimal_commas: dialect.decimal_comma,
            rows: *rows,
            columns: names.iter().enumerate().map(column).collect(),
            features: found.features(),
            label: label.to_owned(),
            task,
            classes: match &found.goal {
                Goal::Classes(classes) => classes.iter().map(|class| class.name.clone()).collect(),
                Goal::Value => Vec::new(),
            },
            left_out_count: left_out.as_ref().map_or(0, |(count, _)| *count),
            first_left_out: left_out.as_ref().map(|(_, first)| first.clone()),
        }
    }
}
