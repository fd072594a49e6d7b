//! The requests of a run to a pool and when it gives them back, pass by pass, as one dry run has seen them.
//!
//! Owns the lives of blocks. Always holds: a pass that comes again is kept as it was the first time. Of a part that comes
//! again inside its pass the last time counts, so that a block which outlives it does so in the part after the last one.
//! Refuses nothing.

use crate::memory::Part;

/// The requests of a run.
#[derive(Debug, Clone, Default)]
pub struct Requests {
    passes: Vec<Pass>,
    /// Whether the last of the passes is under way, and the run in a part of it that is kept.
    is_open: bool,
    /// Whether the part under way came before others of its pass already.
    is_muted: bool,
    era: Era,
    /// For each place, by its number, the pass and the index of a block that is kept.
    alive: Vec<Option<(usize, usize)>>,
}

/// The size of a model: a model that loses channels asks for other blocks from then on.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) enum Era {
    /// The model as it was built.
    #[default]
    Whole,
    /// From the taking out of channels on.
    Thinned,
}

impl Era {
    /// The era once `part` begins.
    pub(super) fn with(self, part: Part) -> Self {
        if part == Part::Prune { Self::Thinned } else { self }
    }
}

/// The requests of one pass, in order.
#[derive(Debug, Clone)]
pub(super) struct Pass {
    pub(super) era: Era,
    pub(super) part: Part,
    pub(super) parts: Vec<Stretch>,
    pub(super) blocks: Vec<Block>,
    /// Births and deaths so far.
    clock: u32,
}

/// A part in its pass.
#[derive(Debug, Clone, Copy)]
pub(super) struct Stretch {
    pub(super) part: Part,
    /// Index of its first block.
    pub(super) first: usize,
    /// When it began.
    pub(super) began: u32,
}

/// The life of a block.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Block {
    /// The block's bytes, rounded.
    pub(super) bytes: u64,
    /// When in its pass it came.
    pub(super) born: u32,
    /// When in its pass it went.
    pub(super) end: End,
}

/// The end of a block.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum End {
    /// Freed in its own pass, at that moment.
    Died(u32),
    /// Freed in a later pass.
    Carried {
        /// Whether in the one that takes out channels: what is freed then is the whole model's.
        by_prune: bool,
    },
    /// Freed only when the run ends.
    Stays,
}

impl Requests {
    /// A part begins.
    pub fn enter(&mut self, part: Part) {
        if part.begins_pass() {
            self.era = self.era.with(part);
            self.is_open = self.passes.iter().all(|pass| (pass.era, pass.part) != (self.era, part));
            self.is_muted = false;
            if self.is_open {
                self.passes.push(Pass { era: self.era, part, parts: Vec::new(), blocks: Vec::new(), clock: 0 });
            }
        }
        let Some(pass) = self.passes.last_mut().filter(|_| self.is_open) else { return };
        match pass.parts.iter().position(|known| known.part == part) {
            None => {
                pass.parts.push(Stretch { part, first: pass.blocks.len(), began: pass.clock });
                self.is_muted = false;
            }
            // The last time counts.
            Some(at) if at + 1 == pass.parts.len() => {
                let Stretch { first, began, .. } = pass.parts[at];
                pass.blocks.truncate(first);
                pass.clock = began;
                let index = self.passes.len() - 1;
                for of in &mut self.alive {
                    *of = of.filter(|(pass, block)| *pass != index || *block < first);
                }
                self.is_muted = false;
            }
            Some(_) => self.is_muted = true,
        }
    }

    /// A block of `bytes`, rounded, came to the place of this number.
    pub fn born(&mut self, number: u32, bytes: u64) {
        let number = number as usize;
        if number >= self.alive.len() {
            self.alive.resize(number + 1, None);
        }
        let index = self.passes.len().saturating_sub(1);
        let is_kept = self.is_open && !self.is_muted;
        self.alive[number] = self.passes.last_mut().filter(|_| is_kept).map(|pass| {
            pass.clock += 1;
            pass.blocks.push(Block { bytes, born: pass.clock, end: End::Stays });
            (index, pass.blocks.len() - 1)
        });
    }

    /// The block at the place of this number went.
    pub fn died(&mut self, number: u32) {
        let Some((index, block)) = self.alive.get_mut(number as usize).and_then(Option::take) else { return };
        let is_own = self.is_open && index + 1 == self.passes.len();
        let by_prune = self.is_open && self.passes.last().is_some_and(|pass| pass.part == Part::Prune);
        let pass = &mut self.passes[index];
        pass.clock += u32::from(is_own);
        pass.blocks[block].end = if is_own { End::Died(pass.clock) } else { End::Carried { by_prune } };
    }

    /// All passes, in the order of the run.
    pub(super) fn passes(&self) -> &[Pass] {
        &self.passes
    }

    /// Blocks of all passes.
    pub fn count(&self) -> usize {
        self.passes.iter().map(|pass| pass.blocks.len()).sum()
    }
}

impl Pass {
    /// The blocks of its part of this index.
    pub(super) fn range(&self, index: usize) -> std::ops::Range<usize> {
        self.parts[index].first..self.parts.get(index + 1).map_or(self.blocks.len(), |next| next.first)
    }

    /// Whether a block of the part of this index is alive when the next part begins.
    pub(super) fn outlives(&self, index: usize, block: &Block) -> bool {
        match block.end {
            End::Died(at) => self.parts.get(index + 1).is_some_and(|next| at > next.began),
            End::Carried { .. } | End::Stays => true,
        }
    }
}
