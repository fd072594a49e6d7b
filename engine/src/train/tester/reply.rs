//! Inputs that are shown to a model, and its answers.

use std::path::Path;

use super::{Likely, Took, WeightsFrom};
use crate::data::{Picture, TableRow};

/// The input that is shown to a model of images.
#[derive(Debug, Clone)]
pub enum Shown<'a> {
    /// A sample of the test set: a picture or a row.
    Sample(usize),
    /// A JPEG, PNG or WebP.
    File(&'a Path),
    /// Ink from 0 to 255, `[height, width]` of the data.
    Drawing(&'a [u8]),
}

/// The answer of a model to a picture.
#[derive(Debug, Clone, PartialEq)]
pub struct Reply {
    /// Where the weights came from.
    pub weights: WeightsFrom,
    /// The picture as the model saw it; `None` for a row of a table.
    pub picture: Option<Picture>,
    /// The row of the table, if it is one.
    pub row: Option<TableRow>,
    /// The class of a test sample; `None` for other samples and other tasks.
    pub label: Option<u32>,
    /// The value that was answered, in the label's units; `None` for classes.
    pub value: Option<f64>,
    /// The probability of each class; empty for a value; for a mask, the share of the pixels that were answered so.
    pub shares: Vec<f32>,
    /// The class of each pixel, `[height * width]`; empty for a class.
    pub mask: Vec<u32>,
    /// The names of the classes.
    pub class_names: Vec<String>,
    /// A warning if the data are no longer those that the model learned from, or if a part of the model begins with new values.
    pub caution: Option<String>,
    /// Its memory.
    pub took: Took,
}

impl Reply {
    /// The classes with their shares, largest first.
    pub fn ranked(&self) -> Vec<Likely> {
        let all = self.shares.iter().enumerate();
        let mut ranked: Vec<Likely> =
            all.map(|(class, share)| Likely { class: class as u32, probability: *share }).collect();
        ranked.sort_by(|a, b| b.probability.total_cmp(&a.probability));
        ranked
    }
}
