//! What a choice of heads, patches and levels rules out, by itself and with the data.

use super::{List, MAX_DEPTH, MAX_ELEMENTS, MAX_WIDTH};
use crate::experiment::{AttentionKind, Model, ModelKind};

/// The most heads.
const MAX_HEADS: usize = 1024;

/// The divisors of `n` up to `most`, as a list in words; all but the first and the last few are left out.
fn divisors(n: usize, most: usize) -> String {
    let all: Vec<String> = (1..=n.min(most)).filter(|d| n.is_multiple_of(*d)).map(|d| d.to_string()).collect();
    match all.len() {
        ..=8 => all.join(", "),
        count => format!("{}, ..., {}", all[..5].join(", "), all[count - 2..].join(", ")),
    }
}

/// The greatest common divisor (Euclid).
fn common(a: usize, b: usize) -> usize {
    if b == 0 { a } else { common(b, a % b) }
}

impl List {
    /// Width, depth and what the blocks of a transformer, a mixer or a U-Net are made of.
    pub(super) fn blocks_of(&mut self, model: &Model) {
        self.within("model.width", model.width, 1, MAX_WIDTH, "a width");
        self.within("model.depth", model.depth, 1, MAX_DEPTH, "a depth");
        if model.kind.has_attention() {
            self.heads(model);
        }
        if model.kind == ModelKind::Mixer && model.width == 1 {
            self.add("model.width", "1 leaves no unit for the layer over tokens", "write 2 or more");
        }
        if model.kind.has_feed_forward() {
            self.within("model.hidden", model.hidden, 1, MAX_WIDTH, "a width");
            if !(0.0..1.0).contains(&model.dropout) {
                let mend = "write a number from 0 up to, but not including, 1, such as 0.1";
                self.add("model.dropout", format!("{} is not a share to drop", model.dropout), mend);
            }
        }
        if model.kind.has_patches() {
            self.within("model.patch", model.patch, 1, MAX_WIDTH, "a patch");
        }
        if model.kind == ModelKind::Llama {
            self.positive("model.rotary_base", model.rotary_base, 1e12, "a base", "10000");
        }
    }

    fn heads(&mut self, model: &Model) {
        let Model { width, heads, kv_heads, .. } = *model;
        self.within("model.heads", heads, 1, MAX_HEADS, "a number of heads");
        if heads == 0 || width == 0 {
            return;
        }
        if !width.is_multiple_of(heads) {
            self.add(
                "model.heads",
                format!("{heads} heads do not divide a width of {width}"),
                format!("write one of {}, or another model.width", divisors(width, MAX_HEADS)),
            );
        } else if model.kind == ModelKind::Llama && !(width / heads).is_multiple_of(2) {
            self.add(
                "model.heads",
                format!("{heads} heads of a width of {width} have {} numbers each, and rotary positions turn pairs", {
                    width / heads
                }),
                "write a number that leaves each head an even one",
            );
        }
        if model.kind != ModelKind::Llama {
            return;
        }
        self.within("model.kv_heads", kv_heads, 1, MAX_HEADS, "a number of heads");
        if kv_heads > 0 && kv_heads <= MAX_HEADS && !heads.is_multiple_of(kv_heads) {
            self.add(
                "model.kv_heads",
                format!("{kv_heads} heads of keys cannot be shared by {heads} heads"),
                format!("write one of {}", divisors(heads, heads)),
            );
        }
    }

    /// Patches that do not fit the image: nothing is cut off and nothing is filled up.
    pub(super) fn patches(&mut self, model: &Model, height: usize, width: usize) {
        let both = common(height, width);
        if !both.is_multiple_of(model.patch) {
            self.add(
                "model.patch",
                format!("patches of {} do not fill images of {height} x {width}", model.patch),
                format!("write one of {}", divisors(both, both)),
            );
        }
    }

    /// Levels of a U-Net that the image, or the largest width, does not allow.
    pub(super) fn levels(&mut self, model: &Model, height: usize, width: usize) {
        let fits = |depth: usize| {
            let divides = |side: usize| side >> depth > 0 && side.is_multiple_of(1 << depth);
            divides(height) && divides(width) && model.width <= MAX_WIDTH >> depth
        };
        if model.depth < 16 && fits(model.depth) {
            return;
        }
        let most = (1..16).take_while(|depth| fits(*depth)).last();
        let mend = match most {
            Some(most) => format!("write {most} or less"),
            None => "choose images with sides that can be halved, or lower model.width".to_owned(),
        };
        self.add(
            "model.depth",
            format!(
                "each level halves the image and doubles the width, and {height} x {width} cannot be halved {} times or \
                 more than {MAX_WIDTH} filters would come of {}",
                model.depth, model.width
            ),
            mend,
        );
    }
}

/// Elements of the largest activation of one sample with `rows` rows, and of the largest weight.
pub(super) fn largest(model: &Model, rows: usize, classes: usize) -> (usize, usize) {
    let Model { width, hidden, heads, .. } = *model;
    let columns = (3 * width).max(2 * hidden).max(classes);
    let probabilities = match model.attention {
        AttentionKind::Plain if model.kind.has_attention() => heads.saturating_mul(rows).saturating_mul(rows),
        _ => 0,
    };
    (rows.saturating_mul(columns).max(probabilities), width.saturating_mul(columns.max(rows)))
}

/// Whether tensors of `activation` elements a sample, or of `weight` elements, can be.
pub(super) fn can_be(activation: usize, micro: usize, weight: usize) -> bool {
    activation.saturating_mul(micro) <= MAX_ELEMENTS && weight <= MAX_ELEMENTS
}
