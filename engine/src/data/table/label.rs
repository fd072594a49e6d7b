//! The label's column, and the goal of learning it: a class, or a value.

use super::column::Categories;
use crate::experiment::TableTask;

/// The most different whole numbers that are taken for classes if nothing else is chosen.
const FEW: usize = 20;
/// How many rows each of them must have on average.
const ROWS_EACH: usize = 5;
/// The most classes.
const MOST_CLASSES: usize = 1000;

/// The labels of all rows.
#[derive(Debug)]
pub(super) enum Label {
    Numbers { values: Vec<f64>, ends: Ends },
    Texts { numbers: Vec<u32>, categories: Categories },
}

/// The least and the greatest of some numbers, each with its line.
#[derive(Debug, Clone, Copy)]
pub(super) struct Ends {
    least: (f64, u64),
    most: (f64, u64),
}

impl Default for Ends {
    fn default() -> Self {
        Self { least: (f64::MAX, 0), most: (f64::MIN, 0) }
    }
}

impl Ends {
    /// Takes the number of a line.
    pub(super) fn take(&mut self, number: f64, line: u64) {
        if number < self.least.0 {
            self.least = (number, line);
        }
        if number > self.most.0 {
            self.most = (number, line);
        }
    }
}

/// The goal of learning.
#[derive(Debug)]
pub(super) enum Goal {
    /// The class of a row: the name of each class, and its category if the labels are texts.
    Classes(Vec<Class>),
    /// The label is a number.
    Value,
}

impl Goal {
    /// Host bytes of the names of its classes.
    pub(super) fn bytes(&self) -> usize {
        match self {
            Self::Classes(classes) => {
                let names: usize = classes.iter().map(|class| class.name.capacity()).sum();
                names + classes.capacity() * size_of::<Class>()
            }
            Self::Value => 0,
        }
    }
}

/// The label is a class.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Class {
    pub(super) name: String,
    is: Is,
}

#[derive(Debug, Clone, Copy, PartialEq)]
enum Is {
    Number(f64),
    Category(u32),
}

impl Label {
    /// The goal for a column as the label, or why it cannot be one.
    pub(super) fn goal(&self, task: TableTask) -> Result<Goal, String> {
        match (self, task) {
            (Self::Texts { .. }, TableTask::Regression) => {
                Err("holds texts, and a regression needs numbers; choose another data.label, or write data.task = \
                 \"classification\""
                    .to_owned())
            }
            (Self::Texts { categories, .. }, _) => {
                let names = categories.names();
                let classes = names.into_iter().enumerate().map(|(i, name)| Class { name, is: Is::Category(i as u32) });
                let mut classes: Vec<Class> = classes.collect();
                classes.sort_by(|a, b| a.name.cmp(&b.name));
                classes_of(classes, "write data.task = \"classification\" with another data.label")
            }
            (Self::Numbers { values, ends }, TableTask::Regression) => value_of(values, ends),
            (Self::Numbers { values, ends }, task) => {
                let distinct = distinct(values);
                let is_few = |distinct: &[f64]| {
                    let is_whole = distinct.iter().all(|value| value.fract() == 0.0);
                    is_whole && (2..=FEW).contains(&distinct.len()) && distinct.len() * ROWS_EACH <= values.len()
                };
                match distinct {
                    Some(distinct) if task == TableTask::Classification || is_few(&distinct) => {
                        let class = |value: f64| Class { name: value.to_string(), is: Is::Number(value) };
                        classes_of(distinct.into_iter().map(class).collect(), "write data.task = \"regression\"")
                    }
                    None if task == TableTask::Classification => Err(format!(
                        "has more than {MOST_CLASSES} different numbers, too many for classes; write data.task = \
                         \"regression\", or choose another data.label"
                    )),
                    _ => value_of(values, ends),
                }
            }
        }
    }

    /// The value of a row; `None` for texts.
    pub(super) fn value(&self, row: usize) -> Option<f64> {
        match self {
            Self::Numbers { values, .. } => values.get(row).copied(),
            Self::Texts { .. } => None,
        }
    }

    /// The class of every row.
    pub(super) fn classes(&self, classes: &[Class]) -> Vec<u32> {
        match self {
            Self::Numbers { values, .. } => {
                let place = |value: &f64| {
                    classes.partition_point(|class| matches!(class.is, Is::Number(own) if own < *value)) as u32
                };
                values.iter().map(place).collect()
            }
            Self::Texts { numbers, categories } => {
                let mut class_of = vec![0; categories.len()];
                for (class, Class { is, .. }) in classes.iter().enumerate() {
                    if let Is::Category(number) = is {
                        class_of[*number as usize] = class as u32;
                    }
                }
                numbers.iter().map(|number| class_of[*number as usize]).collect()
            }
        }
    }
}

/// Values that can be distinguished once they are scaled: from their mean they are off by something, and by a number whose
/// square is one.
fn value_of(values: &[f64], ends: &Ends) -> Result<Goal, String> {
    let Ends { least: (least, of_least), most: (most, of_most) } = *ends;
    // Another check reports fewer than two rows.
    if values.len() < 2 {
        return Ok(Goal::Value);
    }
    if least >= most {
        return Err(format!(
            "has the same value in every row ({least}), so there is nothing to learn; choose another data.label"
        ));
    }
    let square = (most - least) * (most - least);
    if !square.is_normal() {
        let how = if square.is_finite() { "near to" } else { "far from" };
        return Err(format!(
            "has values from {least:e} (line {of_least}) to {most:e} (line {of_most}), too {how} each other to be told apart; \
             fix them, write the column in another unit, or choose another data.label"
        ));
    }
    Ok(Goal::Value)
}

fn classes_of(classes: Vec<Class>, mend: &str) -> Result<Goal, String> {
    match classes.len() {
        0 | 1 => Err(format!(
            "has the same value in every row ({}), so there is nothing to learn; choose another data.label",
            classes.first().map_or("", |class| &class.name)
        )),
        count if count > MOST_CLASSES => {
            Err(format!("has {count} different values, and at most {MOST_CLASSES} are classes; {mend}"))
        }
        _ => Ok(Goal::Classes(classes)),
    }
}

/// The different numbers, in order; `None` if there are more than classes may be.
fn distinct(values: &[f64]) -> Option<Vec<f64>> {
    let mut found: Vec<f64> = Vec::new();
    for value in values {
        // A negative zero is a zero.
        let value = value + 0.0;
        let at = found.partition_point(|known| *known < value);
        if found.get(at) != Some(&value) {
            if found.len() == MOST_CLASSES {
                return None;
            }
            found.insert(at, value);
        }
    }
    Some(found)
}
