//! "Did you mean": the known name that is nearest to one that is unknown.

/// The name in `known` that `typed` was probably meant to be.
pub(crate) fn nearest<'a>(typed: &str, known: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    known
        .into_iter()
        .map(|name| (strsim::normalized_damerau_levenshtein(&typed.to_lowercase(), name), name))
        .filter(|(likeness, _)| *likeness >= 0.5)
        .max_by(|a, b| a.0.total_cmp(&b.0))
        .map(|(_, name)| name)
}
