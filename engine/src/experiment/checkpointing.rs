//! Which activations are kept for the backward pass: the choice and its text form.

use std::{fmt, str::FromStr};

/// Which activations are kept for the backward pass (Chen et al. 2016, "Training deep nets with sublinear memory cost"). The
/// others are computed again on the way back.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Checkpointing {
    /// Keep all activations.
    None,
    /// Keep only the input of every block.
    Blocks,
    /// Keep only the input of every k-th block (k at least 1; 1 is [`Checkpointing::Blocks`]).
    Every(usize),
    /// Keep only the inputs of about the square root of the number of blocks: the least memory for one more forward pass.
    Sqrt,
    /// Keep at most this share, in percent, of the activations that would be kept without checkpointing: the blocks that are
    /// cheapest to compute again for the bytes they free are not kept. The sense of PyTorch's `activation_memory_budget`.
    Percent(u8),
    /// Keep all activations but those inside these blocks.
    Pick(BlockSet),
}

/// A set of blocks, numbered from 1 as their layers' paths are.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct BlockSet(u128);

impl BlockSet {
    /// The largest number a block in the set may have.
    pub const MOST: usize = u128::BITS as usize;

    /// Whether block `number` (from 1) is in the set.
    pub fn contains(self, number: usize) -> bool {
        (1..=Self::MOST).contains(&number) && self.0 >> (number - 1) & 1 == 1
    }

    /// Puts block `number` in or takes it out; numbers above [`BlockSet::MOST`] are left out.
    pub fn set(&mut self, number: usize, is_in: bool) {
        if (1..=Self::MOST).contains(&number) {
            let bit = 1 << (number - 1);
            self.0 = if is_in { self.0 | bit } else { self.0 & !bit };
        }
    }

    /// The numbers in the set, rising.
    pub fn iter(self) -> impl Iterator<Item = usize> {
        (1..=Self::MOST).filter(move |number| self.contains(*number))
    }
}

impl FromIterator<usize> for BlockSet {
    fn from_iter<I: IntoIterator<Item = usize>>(numbers: I) -> Self {
        let mut set = Self::default();
        numbers.into_iter().for_each(|number| set.set(number, true));
        set
    }
}

impl fmt::Display for Checkpointing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::None => f.pad("none"),
            Self::Blocks => f.pad("blocks"),
            Self::Every(k) => f.pad(&format!("every:{k}")),
            Self::Sqrt => f.pad("sqrt"),
            Self::Percent(percent) => f.pad(&format!("percent:{percent}")),
            Self::Pick(set) => {
                let numbers: Vec<String> = set.iter().map(|n| n.to_string()).collect();
                f.pad(&format!("pick:{}", numbers.join(",")))
            }
        }
    }
}

impl FromStr for Checkpointing {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let parsed = match text.split_once(':') {
            None if text == "none" => Some(Self::None),
            None if text == "blocks" => Some(Self::Blocks),
            None if text == "sqrt" => Some(Self::Sqrt),
            Some(("every", k)) => k.parse().ok().filter(|k| *k >= 1).map(Self::Every),
            Some(("percent", percent)) => percent.parse().ok().filter(|p| *p <= 100).map(Self::Percent),
            Some(("pick", numbers)) => numbers
                .split(',')
                .map(|n| n.trim().parse().ok().filter(|n| (1..=BlockSet::MOST).contains(n)))
                .collect::<Option<BlockSet>>()
                .map(Self::Pick),
            _ => None,
        };
        parsed.ok_or_else(|| {
            format!(
                "`{text}` is not a kind of checkpointing: write none, blocks, every:K with K at least 1, sqrt, percent:P with \
                 P from 0 to 100, or pick: and the numbers of blocks from 1 to {}, such as pick:1,3",
                BlockSet::MOST
            )
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_form_reads_back() {
        let set = [1, 3, 128].into_iter().collect();
        for choice in [
            Checkpointing::None,
            Checkpointing::Blocks,
            Checkpointing::Every(3),
            Checkpointing::Sqrt,
            Checkpointing::Percent(0),
            Checkpointing::Percent(100),
            Checkpointing::Pick(set),
        ] {
            assert_eq!(choice.to_string().parse(), Ok(choice));
        }
    }

    #[test]
    fn what_is_no_choice_is_refused_with_the_forms_there_are() {
        for text in
            ["", "every", "every:0", "every:x", "percent:101", "percent:-1", "pick:", "pick:0", "pick:129", "all"]
        {
            let message = text.parse::<Checkpointing>().expect_err(text);
            assert!(message.contains("pick:1,3") && message.contains(text), "{message}");
        }
    }
}
