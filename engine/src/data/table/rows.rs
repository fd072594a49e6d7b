//! The rows of a table as a model learns from them.
//!
//! Owns [`TableRows`]. The seed decides which rows are held out; each class gives its share. Always holds: mean and deviation
//! come from the training rows only, and a number that is missing is their mean; a column that never varies is 0 everywhere.

use super::{
    Found,
    column::{Column, ColumnKind, OTHERS},
    label::Goal,
};
use crate::data::{Split, image_set};

/// Mean and deviation over training rows.
#[derive(Debug, Clone, Copy, PartialEq)]
struct Scale {
    mean: f64,
    deviation: f64,
}

impl Scale {
    /// The statistics of numbers, without those left out (Welford 1962).
    fn of(numbers: impl Iterator<Item = f64>) -> Self {
        let (mut count, mut mean, mut squares) = (0.0, 0.0, 0.0);
        for number in numbers.filter(|number| !number.is_nan()) {
            count += 1.0;
            let off = number - mean;
            mean += off / count;
            squares += off * (number - mean);
        }
        let deviation = f64::sqrt(squares / f64::max(count, 1.0));
        Self { mean, deviation: if deviation > 0.0 && deviation.is_finite() { deviation } else { 1.0 } }
    }
}

/// A row as people read it.
#[derive(Debug, Clone, PartialEq)]
pub struct TableRow {
    /// The name of each feature column and its field, which is empty if the value is missing.
    pub columns: Vec<(String, String)>,
    /// The label's column, and its field.
    pub label: (String, String),
    /// The label's value, of a regression.
    pub value: Option<f64>,
}

/// Bytes of the scaling of a column.
pub(super) const SCALE_BYTES: usize = size_of::<Scale>();

/// The rows of one table, divided.
#[derive(Debug)]
pub(in crate::data) struct TableRows {
    found: Found,
    train: Vec<u32>,
    test: Vec<u32>,
    /// The scaling of each column; categories are not scaled.
    scales: Vec<Scale>,
    /// The label of each row: a class, or the bits of a value of mean 0 and deviation 1.
    labels: Vec<u32>,
    /// The scaling of the label, in its own units.
    label_scale: Scale,
    /// Mean square of the test labels about their mean, in deviations of the training labels.
    test_variance: f64,
    /// Notes on the division.
    notes: Vec<String>,
}

impl TableRows {
    pub(super) fn new(found: Found, test: usize, seed: u64) -> Self {
        let table = &found.table;
        let classes: Vec<u32> = match &found.goal {
            Goal::Classes(classes) => table.label.classes(classes),
            Goal::Value => vec![0; table.rows],
        };
        let places: Vec<usize> = classes.iter().map(|class| *class as usize).collect();
        let (train, test) = image_set::split(seed, &places, test);
        let cell = |row: &u32, column: usize| f64::from(table.row(*row as usize)[column]);
        let scales: Vec<Scale> = table
            .columns
            .iter()
            .enumerate()
            .map(|(column, about)| match about.kind {
                ColumnKind::Number { .. } => Scale::of(train.iter().map(|row| cell(row, column))),
                ColumnKind::Category(_) => Scale { mean: 0.0, deviation: 1.0 },
            })
            .collect();
        let value = |row: &u32| table.label.value(*row as usize).unwrap_or_default();
        let (label_scale, labels, test_variance) = match found.goal {
            Goal::Classes(_) => (Scale { mean: 0.0, deviation: 1.0 }, classes, 0.0),
            Goal::Value => {
                let scale = Scale::of(train.iter().map(value));
                let scaled = |row: u32| (value(&row) - scale.mean) / scale.deviation;
                let labels = (0..table.rows as u32).map(|row| (scaled(row) as f32).to_bits()).collect();
                let tested = || test.iter().map(|row| scaled(*row));
                let mean = tested().sum::<f64>() / test.len().max(1) as f64;
                let variance = tested().map(|value| (value - mean).powi(2)).sum::<f64>() / test.len().max(1) as f64;
                (scale, labels, variance)
            }
        };
        let notes = unseen(&found, &train, &test, &labels);
        Self { train, test, scales, labels, label_scale, test_variance, notes, found }
    }

    /// Whether its file is as it was.
    pub(in crate::data) fn is_current(&self) -> bool {
        self.found.table.is_current()
    }

    /// The checksum of its file.
    pub(in crate::data) fn checksum(&self) -> u32 {
        self.found.table.checksum
    }

    /// Notes about the division.
    pub(in crate::data) fn notes(&self) -> &[String] {
        &self.notes
    }

    /// Mean and deviation of the label over the training rows, and the test labels' mean square about their mean in such
    /// deviations; `None` of classes.
    pub(in crate::data) fn value_scale(&self) -> Option<[f64; 3]> {
        let Scale { mean, deviation } = self.label_scale;
        matches!(self.found.goal, Goal::Value).then_some([mean, deviation, self.test_variance])
    }

    /// The name of a class.
    pub(in crate::data) fn class_name(&self, class: usize) -> Option<String> {
        match &self.found.goal {
            Goal::Classes(classes) => classes.get(class).map(|class| class.name.clone()),
            Goal::Value => None,
        }
    }

    fn part(&self, split: Split) -> &[u32] {
        match split {
            Split::Train => &self.train,
            Split::Test => &self.test,
        }
    }

    /// Writes the features and the label of a sample.
    pub(in crate::data) fn sample(&self, split: Split, index: usize, features: &mut [f32], label: &mut u32) {
        let row = self.part(split)[index] as usize;
        let mut rest = features;
        for ((cell, column), scale) in self.found.table.row(row).iter().zip(&self.found.table.columns).zip(&self.scales)
        {
            let (own, others) = std::mem::take(&mut rest).split_at_mut(column.features());
            rest = others;
            match &column.kind {
                ColumnKind::Number { .. } if cell.is_nan() => own[0] = 0.0,
                ColumnKind::Number { .. } => own[0] = ((f64::from(*cell) - scale.mean) / scale.deviation) as f32,
                ColumnKind::Category(categories) => {
                    own.fill(0.0);
                    own[categories.slot(*cell as usize)] = 1.0;
                }
            }
        }
        *label = self.labels[row];
    }

    /// A test row as it stands in the file.
    pub(in crate::data) fn test_row(&self, index: usize) -> Option<TableRow> {
        let table = &self.found.table;
        let row = *self.test.get(index)? as usize;
        let text = |(cell, column): (&f32, &Column)| match &column.kind {
            ColumnKind::Number { .. } if cell.is_nan() => String::new(),
            ColumnKind::Number { first, .. } => shown(f64::from(*cell) + first.unwrap_or_default(), f64::from(*cell)),
            ColumnKind::Category(categories) => {
                let name = categories.name(*cell as u32);
                let is_shared = categories.shared() > 0 && categories.slot(*cell as usize) + 1 == categories.slots();
                if is_shared { format!("{name} {OTHERS}") } else { name }
            }
        };
        let texts = table.row(row).iter().zip(&table.columns).map(|pair| (pair.1.name.clone(), text(pair)));
        let value = table.label.value(row).filter(|_| matches!(self.found.goal, Goal::Value));
        let label = match (&self.found.goal, value) {
            (Goal::Classes(_), _) => self.class_name(self.labels[row] as usize).unwrap_or_default(),
            (Goal::Value, value) => value.map(|value| value.to_string()).unwrap_or_default(),
        };
        Some(TableRow { columns: texts.collect(), label: (table.label_name().to_owned(), label), value })
    }

    /// Rows of a part.
    pub(in crate::data) fn count(&self, split: Split) -> usize {
        self.part(split).len()
    }
}

/// A number that was kept as its difference from another, with as many digits as were kept.
fn shown(number: f64, kept: f64) -> String {
    // Seven figures of the kept number.
    let places = 7 - kept.abs().max(f64::MIN_POSITIVE).log10().ceil().clamp(-300.0, 300.0) as i32;
    let places = places.clamp(0, 6) as usize;
    let text = format!("{number:.places$}");
    if text.contains('.') { text.trim_end_matches('0').trim_end_matches('.').to_owned() } else { text }
}

/// Categories and classes that no training row has.
fn unseen(found: &Found, train: &[u32], test: &[u32], labels: &[u32]) -> Vec<String> {
    let mut notes = Vec::new();
    for (at, column) in found.table.columns.iter().enumerate() {
        let ColumnKind::Category(categories) = &column.kind else { continue };
        let mut is_known = vec![false; categories.len()];
        let cell = |row: &u32| found.table.row(*row as usize)[at] as usize;
        train.iter().for_each(|row| is_known[cell(row)] = true);
        let mut new: Vec<usize> = test.iter().map(cell).filter(|category| !is_known[*category]).collect();
        new.sort_unstable();
        new.dedup();
        if let Some(first) = new.first() {
            notes.push(format!(
                "column `{}`: {} of {} categories are in test rows alone (such as `{}`), and nothing is learned of them",
                column.name,
                new.len(),
                categories.len(),
                categories.name(*first as u32)
            ));
        }
    }
    if let Goal::Classes(classes) = &found.goal {
        let mut is_known = vec![false; classes.len()];
        train.iter().for_each(|row| is_known[labels[*row as usize] as usize] = true);
        let new: Vec<&str> =
            classes.iter().zip(&is_known).filter(|(_, known)| !**known).map(|(c, _)| &*c.name).collect();
        if let Some(first) = new.first() {
            notes.push(format!(
                "label `{}`: {} of {} classes are in test rows alone (such as `{first}`), and are never answered; add rows, or \
                 lower data.test_fraction",
                found.table.label_name(),
                new.len(),
                classes.len()
            ));
        }
    }
    notes
}
