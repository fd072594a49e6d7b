//! Plain tables: the first column to the left, the others to the right.

use std::{borrow::Cow, fmt};

use crate::cli::plain;

/// Rows under a heading.
#[derive(Debug)]
pub(super) struct Table<const N: usize> {
    rows: Vec<[String; N]>,
    left: usize,
}

impl<const N: usize> Table<N> {
    /// A table with these headings.
    pub(super) fn new(heading: [&str; N]) -> Self {
        Self { rows: vec![heading.map(str::to_owned)], left: 1 }
    }

    /// The first `columns` columns hold words, and stand to the left.
    pub(super) fn words(mut self, columns: usize) -> Self {
        self.left = columns;
        self
    }

    /// Adds a row.
    pub(super) fn row(&mut self, row: [String; N]) {
        self.rows.push(row);
    }
}

impl<const N: usize> fmt::Display for Table<N> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Two columns are a list: a name and its description.
        let left = if N == 2 && self.left == 1 { 2 } else { self.left };
        let rows: Vec<&[String]> = self.rows.iter().map(<[String; N]>::as_slice).collect();
        f.write_str(&aligned(&rows, left))
    }
}

/// A column is not wider.
const WIDEST: usize = 4000;

/// Rows of the same number of cells as lines, whose first `left` columns stand to the left.
pub(super) fn aligned(rows: &[&[String]], left: usize) -> String {
    let rows: Vec<Vec<Cow<'_, str>>> =
        rows.iter().map(|row| row.iter().map(|cell| plain::line(cell)).collect()).collect();
    let columns = rows.iter().map(Vec::len).max().unwrap_or_default();
    let mut widths = vec![0; columns];
    for row in &rows {
        for (width, cell) in widths.iter_mut().zip(row) {
            // A longer cell pushes the rest of its line aside; no text is filled up beyond that.
            *width = (*width).max(cell.chars().count()).min(WIDEST);
        }
    }
    let mut text = String::new();
    for row in &rows {
        let cells = row.iter().zip(&widths).enumerate().map(|(column, (cell, width))| {
            if column < left { format!("{cell:<width$}") } else { format!("{cell:>width$}") }
        });
        text.push_str(cells.collect::<Vec<_>>().join("  ").trim_end());
        text.push('\n');
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_line_up() {
        let mut table = Table::new(["name", "ms", "bytes"]);
        table.row(["a".to_owned(), "10.5".to_owned(), "7".to_owned()]);
        assert_eq!(table.to_string(), "name    ms  bytes\na     10.5      7\n");
        // A line break of a cell ends no row.
        let mut table = Table::new(["a", "b"]);
        table.row(["x\n\u{1b}".to_owned(), "1".to_owned()]);
        assert_eq!(table.to_string(), "a          b\nx\\n\\u{1b}  1\n");
    }
}
