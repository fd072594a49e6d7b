//! "Did you mean": the known name that is nearest to one that is unknown.

/// The most names that are listed if several are near.
const SEVERAL: usize = 3;

/// The most letters of a name that is compared with others. The work grows with the product of the two lengths.
const LONGEST: usize = 256;

/// Formats of numbers as other programs call them, each with its name here. By its letters alone `fp16` is nearest to `bf16`,
/// another format.
const FORMATS: [(&str, &[&str]); 4] = [
    ("f16-mixed", &["f16", "fp16", "float16", "half", "fp16-mixed"]),
    ("bf16", &["bfloat16", "bfp16"]),
    ("f32", &["fp32", "float32", "float", "single"]),
    ("f64", &["fp64", "float64", "double"]),
];

/// The word in `known` that `typed` was probably meant to be: the same format of numbers by its name here, or else the
/// [`nearest`].
pub fn meant<'a>(typed: &str, known: &[&'a str]) -> Option<&'a str> {
    let lower = typed.to_lowercase();
    let format = FORMATS.iter().find(|(_, others)| others.contains(&lower.as_str())).map(|(name, _)| name);
    let same = known.iter().copied().find(|word| Some(word) == format);
    same.or_else(|| nearest(typed, known.iter().copied()))
}

/// The name in `known` that `typed` was probably meant to be.
pub fn nearest<'a>(typed: &str, known: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    near(typed, known).into_iter().next()
}

/// The few names in `known` that `typed` was probably meant to be, in words: `a, b or c`.
pub fn some_near<'a>(typed: &str, known: impl IntoIterator<Item = &'a str>) -> Option<String> {
    let near = near(typed, known);
    let (last, others) = near.get(..near.len().min(SEVERAL))?.split_last()?;
    Some(if others.is_empty() { (*last).to_owned() } else { format!("{} or {last}", others.join(", ")) })
}

/// The names that are like `typed`, the nearest first.
fn near<'a>(typed: &str, known: impl IntoIterator<Item = &'a str>) -> Vec<&'a str> {
    if is_too_long(typed) {
        return Vec::new();
    }
    let typed = typed.to_lowercase();
    let likeness = |name: &str| match has_initials(name, &typed) {
        true => 1.0,
        false => strsim::normalized_damerau_levenshtein(&typed, name),
    };
    let compared = known.into_iter().filter(|name| !is_too_long(name));
    let mut near: Vec<(f64, &str)> = compared.map(|name| (likeness(name), name)).collect();
    near.retain(|(likeness, _)| *likeness >= 0.5);
    near.sort_by(|a, b| b.0.total_cmp(&a.0));
    near.into_iter().map(|(_, name)| name).collect()
}

/// Whether a name has too many letters to be compared.
fn is_too_long(name: &str) -> bool {
    name.chars().nth(LONGEST).is_some()
}

/// Whether `typed` is the initials of a name of several words: `lr` of `learning_rate`.
fn has_initials(name: &str, typed: &str) -> bool {
    let words = name.rsplit('.').next().unwrap_or(name).split('_');
    typed.len() > 1 && words.filter_map(|word| word.chars().next()).eq(typed.chars())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_format_of_numbers_is_known_by_the_names_of_other_programs() {
        let known = ["f32", "bf16-mixed", "f16-mixed", "bf16", "f64"];
        for (typed, name) in [
            ("fp16", "f16-mixed"),
            ("float16", "f16-mixed"),
            ("Half", "f16-mixed"),
            ("f16", "f16-mixed"),
            ("fp32", "f32"),
            ("float32", "f32"),
            ("bfloat16", "bf16"),
            ("double", "f64"),
            ("fp64", "f64"),
            ("f31", "f32"),
            ("bf16mixed", "bf16-mixed"),
        ] {
            assert_eq!(meant(typed, &known), Some(name), "{typed}");
        }
        assert_eq!(meant("half", &["halves"]), Some("halves"), "no format is meant");
    }

    #[test]
    fn what_is_like_a_word_is_found_and_so_is_what_it_abbreviates() {
        let known = ["momentum", "learning_rate", "weight_decay"];
        assert_eq!(nearest("LR", known), Some("learning_rate"));
        assert_eq!(nearest("momentm", known), Some("momentum"));
        assert_eq!((nearest("m", known), nearest("", known)), (None, None));
        assert_eq!(some_near("abcd", ["abce", "abcd", "xyz", "abxy", "abcf"]).as_deref(), Some("abcd, abce or abcf"));
        assert_eq!(some_near("abcd", ["abce"]).as_deref(), Some("abce"));
        assert_eq!(some_near("abcd", ["xyz"]), None);
    }

    #[test]
    fn names_past_a_length_are_near_to_none() {
        let [longest, longer] = [LONGEST, LONGEST + 1].map(|letters| "é".repeat(letters));
        assert_eq!(nearest(&longest, [longer.as_str(), &longest]), Some(longest.as_str()));
        assert_eq!(nearest(&longer, [longer.as_str(), &longest]), None);
    }
}
