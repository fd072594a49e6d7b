//! The curves of a run as tables: CSV, and JSON lines.
//!
//! Owns [`Curves`], which every other format of series is written from. Always holds: a row is one step, in rising order; a
//! value that a step does not have is empty in CSV and absent in JSON; one that is not finite is `nan`, `inf` or `-inf` in
//! CSV and null in JSON, which has no word for it.

use std::fmt::Write;

use serde_json::{Map, Value};

/// The names of a run's curves, as columns and as tags.
pub mod names {
    /// The prefix of the names of curves over tests.
    pub const TEST: &str = "test/";

    /// A curve is one row: its constant, its name, and the sentence about it.
    macro_rules! names {
        ($($name:ident = $word:literal, $about:literal;)+) => {
            $(
                #[doc = $about]
                pub const $name: &str = $word;
            )+

            /// A sentence about a curve of one of these names; empty for another.
            pub fn about(name: &str) -> &'static str {
                const ALL: &[(&str, &str)] = &[$(($name, $about)),+];
                ALL.iter().find(|(known, _)| *known == name).map_or("", |(_, about)| about)
            }
        };
    }

    names! {
        TRAIN_LOSS = "train/loss", "Mean loss over the effective batch.";
        TRAIN_ACCURACY = "train/accuracy",
            "Share of the effective batch that was right; of values, of their variance that is explained.";
        GRADIENT_NORM = "train/gradient_norm", "Norm of the whole gradient before clipping.";
        LEARNING_RATE = "train/learning_rate", "Learning rate of the step.";
        LOSS_SCALE = "train/loss_scale", "Scale of the loss; 1 without loss scaling.";
        THROUGHPUT = "train/throughput", "Samples or tokens a second.";
        STEP_SECS = "train/step_secs", "Seconds of the step.";
        LIVE = "memory/live_bytes", "Measured: the most bytes alive during the step.";
        RESERVED = "memory/reserved_bytes", "Measured: the most bytes that the allocator held during the step.";
        PROCESS = "memory/process_bytes", "Measured: bytes of the process.";
        TEST_LOSS = "test/loss", "Mean loss over the test data.";
        TEST_ACCURACY = "test/accuracy",
            "Share of the test data that was right; of values, of their variance that is explained.";
    }
}

/// Values over steps.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Curve {
    /// The curve's name, such as `train/loss`, which is a column and a tag.
    pub name: String,
    /// A sentence about it.
    pub about: String,
    /// The curve's values, one for each point of its group.
    pub values: Vec<f64>,
}

/// Curves with points at the same steps.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Group {
    /// The steps of the points, rising.
    pub steps: Vec<u64>,
    /// Seconds since the run began, one a step.
    pub secs: Vec<f64>,
    /// The curves.
    pub curves: Vec<Curve>,
}

/// The curves of one run: one point a step, and one point a test.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Curves {
    /// The groups.
    pub groups: Vec<Group>,
    /// When the run began, in seconds since 1970; `None` if that was not noted.
    pub began_secs: Option<f64>,
}

/// One step, with the place of its point in each group.
struct Row {
    step: u64,
    secs: f64,
    places: Vec<Option<usize>>,
}

impl Curve {
    /// A curve of one of the [`names`].
    pub fn named(name: &str, values: Vec<f64>) -> Self {
        Self { name: name.to_owned(), about: names::about(name).to_owned(), values }
    }
}

impl Curves {
    /// Whether there is no point.
    pub fn is_empty(&self) -> bool {
        self.groups.iter().all(|group| group.steps.is_empty())
    }

    /// Every curve with its group.
    pub fn iter(&self) -> impl Iterator<Item = (&Group, &Curve)> {
        self.groups.iter().flat_map(|group| group.curves.iter().map(move |curve| (group, curve)))
    }

    /// A heading, then a line a step: the step, its second, and each curve.
    ///
    /// # Examples
    ///
    /// ```
    /// use plimsoll_engine::report::curves::{Curve, Curves, Group};
    ///
    /// let loss = Curve { name: "train/loss".to_owned(), values: vec![2.5, 2.0], ..Curve::default() };
    /// let group = Group { steps: vec![1, 2], secs: vec![0.1, 0.2], curves: vec![loss] };
    /// let curves = Curves { groups: vec![group], began_secs: None };
    /// assert_eq!(curves.csv(), "step,secs,train/loss\n1,0.1,2.5\n2,0.2,2\n");
    /// ```
    pub fn csv(&self) -> String {
        let names = ["step", "secs"].into_iter().chain(self.iter().map(|(_, curve)| &*curve.name));
        let mut text = names.map(quoted).collect::<Vec<_>>().join(",");
        text.push('\n');
        for row in self.rows() {
            // Writing to text does not fail.
            let _ = write!(text, "{},{}", row.step, number(row.secs));
            for (group, place) in self.groups.iter().zip(&row.places) {
                for curve in &group.curves {
                    let value = place.and_then(|place| curve.values.get(place));
                    let _ = write!(text, ",{}", value.map(|value| number(*value)).unwrap_or_default());
                }
            }
            text.push('\n');
        }
        text
    }

    /// One object a line: `step`, `secs`, and each curve that the step has.
    pub fn json_lines(&self) -> String {
        let mut text = String::new();
        for row in self.rows() {
            let mut object = Map::new();
            object.insert("step".to_owned(), row.step.into());
            object.insert("secs".to_owned(), row.secs.into());
            for (group, place) in self.groups.iter().zip(&row.places) {
                let value = |curve: &Curve| Some((curve.name.clone(), (*curve.values.get((*place)?)?).into()));
                object.extend(group.curves.iter().filter_map(value));
            }
            text.push_str(&Value::from(object).to_string());
            text.push('\n');
        }
        text
    }

    /// The steps of all groups, each once, in rising order.
    fn rows(&self) -> impl Iterator<Item = Row> + '_ {
        let mut heads = vec![0; self.groups.len()];
        std::iter::from_fn(move || {
            let next = |(group, head): (&Group, &usize)| group.steps.get(*head).copied();
            let step = self.groups.iter().zip(&heads).filter_map(next).min()?;
            let mut secs = f64::NAN;
            let mut places = Vec::with_capacity(heads.len());
            for (group, head) in self.groups.iter().zip(&mut heads) {
                let place = (group.steps.get(*head) == Some(&step)).then_some(*head);
                if let Some(place) = place {
                    // The latest: a test after a step ends later than the step.
                    secs = group.secs.get(place).copied().unwrap_or(f64::NAN).max(secs);
                    *head += 1;
                }
                places.push(place);
            }
            Some(Row { step, secs, places })
        })
    }
}

/// The shortest text that reads back as the same number.
fn number(value: f64) -> String {
    match value {
        v if v.is_nan() => "nan".to_owned(),
        f64::INFINITY => "inf".to_owned(),
        f64::NEG_INFINITY => "-inf".to_owned(),
        v => v.to_string(),
    }
}

/// A field of CSV (RFC 4180): in quotes where it needs them.
pub fn quoted(field: &str) -> String {
    if field.contains([',', '"', '\n', '\r']) {
        format!("\"{}\"", field.replace('"', "\"\""))
    } else {
        field.to_owned()
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn curve(name: &str, values: Vec<f64>) -> Curve {
        Curve { name: name.to_owned(), about: String::new(), values }
    }

    fn curves() -> Curves {
        let train = Group {
            steps: vec![1, 2, 3],
            secs: vec![0.5, 1.0, 1.5],
            curves: vec![curve("train/loss", vec![2.0, f64::NAN, 1e-7]), curve("a,b", vec![1.0, 2.0, f64::INFINITY])],
        };
        let test = Group { steps: vec![2], secs: vec![1.25], curves: vec![curve("test/loss", vec![3.0])] };
        Curves { groups: vec![train, test], began_secs: None }
    }

    #[test]
    fn a_step_is_a_row_and_what_it_lacks_is_empty() {
        let expected = "step,secs,train/loss,\"a,b\",test/loss\n1,0.5,2,1,\n2,1.25,nan,2,3\n3,1.5,0.0000001,inf,\n";
        assert_eq!(curves().csv(), expected);
    }

    #[test]
    fn json_lines_have_what_a_step_has() {
        let lines: Vec<Value> =
            curves().json_lines().lines().map(|line| serde_json::from_str(line).expect("an object")).collect();
        assert_eq!(lines.len(), 3);
        assert_eq!((&lines[0]["train/loss"], lines[0].get("test/loss")), (&2.0.into(), None));
        assert_eq!((&lines[1]["train/loss"], &lines[1]["test/loss"]), (&Value::Null, &3.0.into()));
        assert_eq!(lines[2]["step"], 3);
    }

    proptest! {
        #[test]
        fn csv_reads_back_to_the_last_bit(values in prop::collection::vec(prop::num::f64::ANY, 1..50)) {
            let steps: Vec<u64> = (1..=values.len() as u64).collect();
            let secs = vec![0.0; values.len()];
            let group = Group { steps, secs, curves: vec![curve("x", values.clone())] };
            let text = Curves { groups: vec![group], began_secs: None }.csv();
            let read: Vec<f64> = text.lines().skip(1).map(|line| line.rsplit(',').next().expect("a field").parse().expect("a number")).collect();
            prop_assert!(read.iter().zip(&values).all(|(a, b)| a.to_bits() == b.to_bits() || (a.is_nan() && b.is_nan())));
        }
    }
}
