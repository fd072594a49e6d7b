//! What is known of texts before a run, in lines and as JSON: one place, so that window and command line say the same.

use plimsoll_engine::data::TextFacts;
use serde::Serialize;

use crate::format;

/// The facts, a line each.
pub(crate) fn lines(facts: &TextFacts) -> Vec<String> {
    let TextFacts { samples, looked_at, mean_tokens, is_packed, truncated, unscored, .. } = facts;
    let count = |n: usize| format::count(n as u64);
    let tokens = match &facts.tokenizer {
        Some(path) => format!("tokens of {}, {} of them", path.display(), count(facts.vocabulary)),
        None => "no tokenizer: bytes are the tokens, and one ends a text".to_owned(),
    };
    let is_exact = looked_at == samples;
    let (about, of) =
        if is_exact { ("", String::new()) } else { ("about ", format!(" ({} looked at)", count(*looked_at))) };
    let mut lines = vec![
        tokens,
        format!("{} samples of {about}{mean_tokens:.1} tokens on average{of}", count(*samples)),
        format!("the longest has {} tokens: {}", count(facts.longest_tokens), facts.longest),
    ];
    lines.push(match is_packed {
        true => "samples are joined and cut: no position is padding".to_owned(),
        false => format!("{about}{} of positions are padding", format::share(facts.padding_share)),
    });
    lines.push(format!("{about}{} of positions are scored", format::share(facts.scored_share)));
    if *truncated > 0 {
        lines.push(format!(
            "{} of {} samples are longer than a sequence, and cut",
            count(*truncated),
            count(*looked_at)
        ));
    }
    if *unscored > 0 {
        lines.push(format!(
            "{} of {} samples have nothing scored in their sequence",
            count(*unscored),
            count(*looked_at)
        ));
    }
    lines.extend(facts.left_out());
    lines
}

/// The facts for programs.
#[derive(Serialize)]
pub(crate) struct Json<'a> {
    tokenizer: Option<String>,
    tokenizer_vocabulary: usize,
    files: usize,
    bytes: u64,
    samples: usize,
    looked_at: usize,
    mean_tokens: f64,
    packing: bool,
    padding_share: f64,
    scored_share: f64,
    truncated: usize,
    unscored: usize,
    longest_tokens: usize,
    longest: &'a str,
    left_out: usize,
    first_left_out: Option<&'a str>,
}

impl<'a> Json<'a> {
    pub(crate) fn of(facts: &'a TextFacts) -> Self {
        Self {
            tokenizer: facts.tokenizer.as_ref().map(|path| path.display().to_string()),
            tokenizer_vocabulary: facts.vocabulary,
            files: facts.files,
            bytes: facts.bytes.0,
            samples: facts.samples,
            looked_at: facts.looked_at,
            mean_tokens: facts.mean_tokens,
            packing: facts.is_packed,
            padding_share: facts.padding_share,
            scored_share: facts.scored_share,
            truncated: facts.truncated,
            unscored: facts.unscored,
            longest_tokens: facts.longest_tokens,
            longest: &facts.longest,
            left_out: facts.left_out_count,
            first_left_out: facts.first_left_out.as_deref(),
        }
    }
}
