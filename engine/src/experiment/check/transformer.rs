//! Settings that a choice of heads, patches and levels rules out, by itself and with the data.

use super::List;
use crate::{
    bytes::counted,
    experiment::{
        Model, ModelKind, ModelSetting,
        limits::{MAX_HEADS, MAX_WIDTH},
    },
};

/// Asks for a divisor of `n` up to `most`: a list in words, of which all but the first and the last few are left out.
fn divisors(n: usize, most: usize) -> String {
    let all: Vec<String> = (1..=n.min(most)).filter(|d| n.is_multiple_of(*d)).map(|d| d.to_string()).collect();
    match all.len() {
        1 => format!("write {}", all[0]),
        ..=8 => format!("write one of {}", all.join(", ")),
        count => format!("write one of {}, ..., {}", all[..5].join(", "), all[count - 2..].join(", ")),
    }
}

/// The greatest common divisor (Euclid).
fn common(a: usize, b: usize) -> usize {
    if b == 0 { a } else { common(b, a % b) }
}

impl List {
    /// Width, depth and the parts of the blocks of a transformer, a mixer or a U-Net.
    pub(super) fn blocks_of(&mut self, model: &Model) {
        if model.kind.has_attention() {
            self.heads(model);
        }
        if model.kind == ModelKind::Mixer && model.width == 1 {
            self.add("model.width", "1 leaves no unit for the layer over tokens", "write 2 or more");
        }
    }

    fn heads(&mut self, model: &Model) {
        let Model { width, heads, kv_heads, .. } = *model;
        if heads == 0 || width == 0 {
            return;
        }
        let is_given = model.kind.uses(ModelSetting::HeadDim) && model.head_dim > 0;
        if !is_given && !width.is_multiple_of(heads) {
            self.add(
                "model.heads",
                format!("{heads} heads do not divide a width of {width}"),
                format!("{}, or another model.width", divisors(width, MAX_HEADS)),
            );
        } else if model.kind == ModelKind::Llama && !model.head_width().is_multiple_of(2) {
            let numbers = model.head_width();
            self.add(
                if is_given { "model.head_dim" } else { "model.heads" },
                format!(
                    "{} of a width of {width}: {numbers} numbers a head, and rotary positions turn pairs",
                    counted(heads as u64, "head")
                ),
                "write a number that leaves each head an even one",
            );
        }
        if model.kind != ModelKind::Llama {
            return;
        }
        if kv_heads > 0 && kv_heads <= MAX_HEADS && !heads.is_multiple_of(kv_heads) {
            self.add(
                "model.kv_heads",
                format!("{kv_heads} heads of keys cannot be shared by {}", counted(heads as u64, "head")),
                divisors(heads, heads),
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
                divisors(both, both),
            );
        }
    }

    /// Levels of a U-Net that the image, or the largest width, does not allow. Whether it allows them.
    pub(super) fn levels(&mut self, model: &Model, height: usize, width: usize) {
        let halves = |depth: usize| [height, width].iter().all(|side| side.is_multiple_of(1 << depth));
        let is_narrow = |depth: usize| model.width <= MAX_WIDTH >> depth;
        let of_images = (1..16).take_while(|depth| halves(*depth)).last();
        let of_width = (1..16).take_while(|depth| is_narrow(*depth)).last();
        let is_deep = |most: Option<usize>| most.is_none_or(|most| model.depth > most);
        if !is_deep(of_images) && !is_deep(of_width) {
            return;
        }
        let why = if !is_deep(of_images) {
            format!(
                "doubles the width, and {} of them on {} filters are more than {MAX_WIDTH}",
                model.depth, model.width
            )
        } else {
            let times = counted(model.depth as u64, "time");
            format!("halves the image, and {height} x {width} cannot be halved {times}")
        };
        let half = MAX_WIDTH / 2;
        let mend = match (of_images, of_width) {
            (Some(images), Some(width)) if width < images => format!("write {width} or less, or lower model.width"),
            (Some(images), Some(_)) => format!("write {images} or less"),
            (Some(images), None) if is_deep(of_images) => {
                format!("write {images} or less, and lower model.width to {} or less", MAX_WIDTH >> images)
            }
            (Some(_), None) => format!("lower model.width to {} or less", MAX_WIDTH >> model.depth),
            (None, Some(_)) => "choose images with sides that can be halved".to_owned(),
            (None, None) => {
                format!("choose images with sides that can be halved, and lower model.width to {half} or less")
            }
        };
        self.add("model.depth", format!("each level {why}"), mend);
    }
}

#[cfg(test)]
mod tests {
    use crate::{
        data,
        experiment::{Data, DataKind, Experiment, Model, ModelKind, check::check, limits::MAX_WIDTH},
    };

    fn experiment(kind: ModelKind) -> Experiment {
        let data = match kind {
            ModelKind::Gpt2 | ModelKind::Llama => Data { kind: DataKind::Sort, length: 8, ..Data::default() },
            ModelKind::Unet => Data { kind: DataKind::Masks, ..Data::default() },
            _ => Data { kind: DataKind::Shapes, ..Data::default() },
        };
        let model = Model { kind, width: 64, heads: 4, kv_heads: 2, hidden: 96, depth: 2, ..Model::default() };
        Experiment { model, data, ..Experiment::default() }
    }

    /// The one problem of an experiment, whether or not its data are known.
    #[track_caller]
    fn said(kind: ModelKind, change: impl FnOnce(&mut Experiment)) -> String {
        let mut experiment = experiment(kind);
        change(&mut experiment);
        let info = data::facts(&experiment.data).expect("generated data");
        let problems = check(&experiment, Some(&info));
        assert_eq!(problems.len(), 1, "{problems:?}");
        problems[0].to_string()
    }

    #[test]
    fn each_family_has_a_choice_without_problems() {
        for kind in [ModelKind::Vit, ModelKind::Mixer, ModelKind::Gpt2, ModelKind::Llama, ModelKind::Unet] {
            let experiment = experiment(kind);
            let info = data::facts(&experiment.data).expect("generated data");
            assert_eq!(check(&experiment, Some(&info)), [], "{kind:?}");
        }
    }

    #[test]
    fn what_does_not_divide_is_answered_with_what_does() {
        for kind in [ModelKind::Vit, ModelKind::Gpt2, ModelKind::Llama] {
            let answer = said(kind, |e| (e.model.heads, e.model.kv_heads) = (5, 5));
            assert!(
                answer.starts_with("model.heads: 5 heads do not divide a width of 64; write one of 1, 2, 4, 8, 16")
            );
            assert!(said(kind, |e| e.model.heads = 0).starts_with("model.heads: 0 is not a number of heads"));
        }
        let answer = said(ModelKind::Llama, |e| e.model.kv_heads = 3);
        assert!(answer.starts_with("model.kv_heads: ") && answer.ends_with("write one of 1, 2, 4"), "{answer}");
        let answer = said(ModelKind::Llama, |e| (e.model.heads, e.model.kv_heads) = (1, 2));
        assert!(answer.ends_with("2 heads of keys cannot be shared by 1 head; write 1"), "{answer}");
        let answer = said(ModelKind::Llama, |e| (e.model.heads, e.model.kv_heads) = (64, 64));
        assert!(answer.starts_with("model.heads: ") && answer.contains("turn pairs"), "{answer}");
        for (kind, patch) in [(ModelKind::Vit, 5), (ModelKind::Mixer, 3), (ModelKind::Vit, 64)] {
            let answer = said(kind, |e| e.model.patch = patch);
            assert!(answer.starts_with(&format!("model.patch: patches of {patch} do not fill images of 32 x 32")));
            assert!(answer.ends_with("write one of 1, 2, 4, 8, 16, 32"), "{answer}");
        }
        assert!(said(ModelKind::Vit, |e| e.model.patch = 0).starts_with("model.patch: "));
    }

    #[test]
    fn levels_stop_where_the_image_cannot_be_halved() {
        let answer = said(ModelKind::Unet, |e| e.model.depth = 6);
        assert!(answer.starts_with("model.depth: ") && answer.ends_with("write 5 or less"), "{answer}");
        assert!(said(ModelKind::Unet, |e| e.model.depth = 900).ends_with("write 5 or less"));
        let answer = said(ModelKind::Unet, |e| (e.model.width, e.model.depth) = (MAX_WIDTH, 9));
        assert!(answer.ends_with("write 5 or less, and lower model.width to 2048 or less"), "{answer}");
        let answer = said(ModelKind::Unet, |e| (e.model.width, e.model.depth) = (MAX_WIDTH, 2));
        assert!(answer.contains("doubles the width") && answer.ends_with("lower model.width to 16384 or less"));
        let answer = said(ModelKind::Unet, |e| e.data.side = 33);
        assert!(answer.contains("choose images with sides that can be halved"), "{answer}");
    }

    #[test]
    fn shares_bases_and_sizes_have_their_limits() {
        for share in [1.0, -0.1, f64::NAN] {
            assert!(said(ModelKind::Gpt2, |e| e.model.dropout = share).starts_with("model.dropout: "));
        }
        assert!(said(ModelKind::Llama, |e| e.model.rotary_base = 0.0).starts_with("model.rotary_base: "));
        assert!(said(ModelKind::Mixer, |e| e.model.hidden = 0).starts_with("model.hidden: "));
    }
}
