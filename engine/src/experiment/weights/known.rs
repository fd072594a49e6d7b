//! Facts that a checkpoint keeps of its model's data, so that it can be asked and exported when the data are gone.
//!
//! Owns [`Known`]. Always holds: written facts read back to the last bit. Extents past the limits of any data are refused.

use std::collections::HashMap;

use serde::{Deserialize, Serialize};

use super::own::{CLASS_NAMES, class_names, fact, to_lines};
use crate::experiment::{
    DatasetInfo, Input, LabelKind,
    limits::{MAX_LENGTH, MAX_VOCABULARY},
};

/// The text with the form of a sample.
pub(crate) const SAMPLES: &str = "samples_are";
/// The text with the factor and the summand of each channel's pixels.
pub(crate) const SCALING: &str = "pixel_scaling";
/// The text that says that samples are conversations.
const CONVERSATIONS: &str = "conversations";
/// Longer than any side, and more than any channels.
const MOST: usize = 1 << 16;
/// More samples than any data have.
const MOST_SAMPLES: usize = 1 << 40;

/// The facts of data that are known without them.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Known {
    /// The facts of them that a model must know.
    pub(crate) info: DatasetInfo,
    /// For images, the factor of each channel, then the summand of each; empty for other data.
    pub(crate) scaling: Vec<f32>,
    /// The names of the classes, if they are more than numbers.
    pub(crate) class_names: Option<Vec<String>>,
    /// Whether samples are conversations.
    pub(crate) is_of_conversations: bool,
}

/// [`DatasetInfo`] as it is written.
#[derive(Serialize, Deserialize)]
struct Written {
    /// `[height, width, channels]`, or `[length, vocabulary]`.
    sample: Vec<usize>,
    classes: usize,
    is_value: bool,
    labels: usize,
    scored: usize,
    train: usize,
    test: usize,
}

impl Known {
    /// The texts in which it is written.
    pub(crate) fn to_facts(&self) -> Vec<(&'static str, String)> {
        let DatasetInfo { input, labels_per_sample, scored_labels, label, classes, train, test } = self.info;
        let sample = match input {
            Input::Image { height, width, channels } => vec![height, width, channels],
            Input::Tokens { length, vocabulary } => vec![length, vocabulary],
        };
        let is_value = label == LabelKind::Value;
        let (labels, scored) = (labels_per_sample, scored_labels);
        let written = Written { sample, classes, is_value, labels, scored, train, test };
        let numbers: Vec<String> = self.scaling.iter().map(f32::to_string).collect();
        let of_images = (!numbers.is_empty()).then(|| (SCALING, numbers.join(" ")));
        let of_classes = self.class_names.as_deref().map(|names| (CLASS_NAMES, to_lines(names)));
        let of_texts = self.is_of_conversations.then(|| (CONVERSATIONS, true.to_string()));
        let of_samples = serde_json::to_string(&written).ok().map(|text| (SAMPLES, text));
        of_samples.into_iter().chain(of_images).chain(of_classes).chain(of_texts).collect()
    }

    /// Reads the texts of a checkpoint; `None` if they are missing, as in checkpoints of earlier versions, or make no sense.
    pub(crate) fn of_facts(facts: &HashMap<String, String>) -> Option<Self> {
        let Written { sample, classes, is_value, labels, scored, train, test } =
            serde_json::from_str(fact(facts, SAMPLES)?).ok()?;
        let input = match sample[..] {
            [height, width, channels] => Input::Image { height, width, channels },
            [length, vocabulary] => Input::Tokens { length, vocabulary },
            _ => return None,
        };
        let (most_labels, is_possible) = match input {
            Input::Image { height, width, channels } => {
                let is_possible = [height, width, channels].iter().all(|extent| (1..=MOST).contains(extent));
                (height.saturating_mul(width), is_possible)
            }
            Input::Tokens { length, vocabulary } => {
                (length, (1..=MAX_LENGTH).contains(&length) && (2..=MAX_VOCABULARY).contains(&vocabulary))
            }
        };
        let is_possible = is_possible
            && (1..=MAX_VOCABULARY).contains(&classes)
            && (1..=most_labels).contains(&labels)
            && scored <= labels
            && train.max(test) <= MOST_SAMPLES;
        let label = if is_value { LabelKind::Value } else { LabelKind::Class };
        let info = DatasetInfo { input, labels_per_sample: labels, scored_labels: scored, label, classes, train, test };
        let class_names = class_names(facts).filter(|names| names.len() == classes);
        let scaling = fact(facts, SCALING).map(numbers).unwrap_or_default();
        is_possible.then(|| Self { info, scaling, class_names, is_of_conversations: facts.contains_key(CONVERSATIONS) })
    }

    /// Whether pictures can be given to the model as its samples were.
    pub(crate) fn scales_pictures(&self) -> bool {
        matches!(self.info.input, Input::Image { channels, .. } if self.scaling.len() == 2 * channels)
    }
}

/// Mean and deviation of each channel from 0 to 1, by which pixels were scaled, by the texts of a checkpoint of coloured
/// images.
pub(crate) fn mean_and_deviation(facts: &HashMap<String, String>) -> Option<[[f64; 3]; 2]> {
    let [factors @ .., a, b, c] = &numbers(fact(facts, SCALING)?)[..] else { return None };
    let (factors, summands) = (<[f32; 3]>::try_from(factors).ok()?, [*a, *b, *c]);
    let deviation = factors.map(|factor| 1.0 / (f64::from(u8::MAX) * f64::from(factor)));
    let mean = std::array::from_fn(|channel| -f64::from(summands[channel]) * deviation[channel]);
    // More digits than the numbers of the scaling have say nothing.
    let rounded = |values: [f64; 3]| values.map(|value| (value * 1e7).round() / 1e7);
    Some([rounded(mean), rounded(deviation)])
}

fn numbers(text: &str) -> Vec<f32> {
    text.split(' ').map_while(|number| number.parse().ok().filter(|number: &f32| number.is_finite())).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_kept_of_data_reads_back_to_the_last_bit_and_nonsense_is_none() {
        let input = Input::Image { height: 8, width: 6, channels: 3 };
        let info = DatasetInfo::one_label(input, 2, 70, 30);
        let class_names = Some(vec!["a\nb".to_owned(), "dog".to_owned()]);
        let scaling = vec![1.0 / 255.0, 1e-3, 0.3, -0.1, 7e-9, 0.0];
        let images = Known { info, scaling, class_names, is_of_conversations: false };
        let tokens = DatasetInfo::label_each_token(16, 300, 5, 2);
        let tokens = Known { info: tokens, scaling: Vec::new(), class_names: None, is_of_conversations: true };
        let texts = |known: &Known| -> HashMap<String, String> {
            known.to_facts().into_iter().map(|(name, text)| (name.to_owned(), text)).collect()
        };
        for known in [&images, &tokens] {
            assert_eq!(Known::of_facts(&texts(known)).as_ref(), Some(known));
        }
        assert!(images.scales_pictures() && !tokens.scales_pictures());
        let mut facts = texts(&images);
        for absurd in ["{}", r#"{"sample": [1]}"#, &facts[SAMPLES].replace("[8,", "[99999999999,")] {
            facts.insert(SAMPLES.to_owned(), absurd.to_owned());
            assert_eq!(Known::of_facts(&facts), None, "{absurd}");
        }
        let [mean, deviation] = mean_and_deviation(&facts).expect("three channels");
        assert!((mean[0] - 0.1).abs() < 1e-6 && (deviation[0] - 1.0).abs() < 1e-6, "{mean:?} {deviation:?}");
        assert_eq!(mean_and_deviation(&texts(&tokens)), None);
    }
}
