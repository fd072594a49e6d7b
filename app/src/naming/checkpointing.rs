//! Words for checkpointing: in its control, in the names of runs and in offers.
//!
//! Always holds: a choice has the same words in all of them; an offer adds what is done with it.

use plimsoll_engine::experiment::Checkpointing;

/// Checkpointing in which the input of every block is kept.
pub(crate) const EVERY_BLOCK: &str = "every block";
/// Checkpointing in segments of about the square root of the blocks.
pub(crate) const SQUARE_ROOT: &str = "square root of blocks";

/// A choice of checkpointing, without the name of its setting.
pub(crate) fn words(choice: Checkpointing) -> String {
    match choice {
        Checkpointing::None => "no checkpointing".to_owned(),
        Checkpointing::Blocks | Checkpointing::Every(1) => EVERY_BLOCK.to_owned(),
        Checkpointing::Every(k) => format!("every {k} blocks"),
        Checkpointing::Sqrt => SQUARE_ROOT.to_owned(),
        Checkpointing::Percent(percent) => format!("keep {percent}%"),
        Checkpointing::Pick(_) => choice.to_string().replace("pick:", "blocks "),
    }
}

/// The same as something to do: `checkpoint every block`.
pub(crate) fn to_do(choice: Checkpointing) -> String {
    let words = words(choice);
    match choice {
        Checkpointing::None => words,
        Checkpointing::Blocks | Checkpointing::Every(_) | Checkpointing::Pick(_) => format!("checkpoint {words}"),
        Checkpointing::Sqrt => format!("checkpoint the {words}"),
        Checkpointing::Percent(_) => format!("{words} of the activations"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_offer_of_checkpointing_says_what_is_done() {
        let choices = ["none", "blocks", "every:2", "sqrt", "percent:50", "pick:1,3"]
            .map(|word| to_do(word.parse().expect("a choice")));
        let said = [
            "no checkpointing",
            "checkpoint every block",
            "checkpoint every 2 blocks",
            "checkpoint the square root of blocks",
            "keep 50% of the activations",
            "checkpoint blocks 1,3",
        ];
        assert_eq!(choices, said);
    }
}
