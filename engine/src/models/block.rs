//! Blocks: chains of layers, with skips that pass by other blocks.
//!
//! A stack of values goes from block to block. The last value is the one that the next layer works on; those below are skips
//! that wait for the block that takes them. So a segment of any blocks is a function from a stack to a stack, and
//! checkpointing is exact for any skips that cross its edges.

use super::Layers;
use crate::{
    autograd::{Tape, Value},
    backend::Backend,
    error::Result,
    nn::{Concat, Layer, Visit, chain_before, visited_chain},
};

/// Layers that checkpointing keeps or computes again as one.
pub(super) struct Block<B: Backend> {
    layers: Layers<B>,
    skip: Skip,
}

/// The use that a block makes of the stack of skips.
enum Skip {
    None,
    /// The block's output is also left as a skip.
    Gives,
    /// The topmost skip is joined to its value after as many layers as `after`.
    Takes {
        after: usize,
        concat: Concat,
    },
}

impl<B: Backend> Block<B> {
    pub(super) fn new(layers: Layers<B>) -> Self {
        Self { layers, skip: Skip::None }
    }

    /// A block whose output another takes as well as the next.
    pub(super) fn giving(layers: Layers<B>) -> Self {
        Self { layers, skip: Skip::Gives }
    }

    /// A block that joins the topmost skip to the output of `before`, and goes on with `after`.
    pub(super) fn taking(mut before: Layers<B>, concat: Concat, after: Layers<B>) -> Self {
        let skip = Skip::Takes { after: before.len(), concat };
        before.extend(after);
        Self { layers: before, skip }
    }

    pub(super) fn layers(&self) -> &Layers<B> {
        &self.layers
    }

    fn forward<'m>(
        &'m self,
        tape: &mut Tape<'m, B>,
        mut values: Vec<Value<B>>,
        mut visit: Option<&mut Visit<'_, B>>,
        after: Option<&'m dyn Layer<B>>,
    ) -> Result<Vec<Value<B>>> {
        let x = pop(&mut values);
        let x = match &self.skip {
            Skip::None if visit.is_none() => chain_before(&self.layers, tape, x, after)?,
            Skip::None | Skip::Gives => visited_chain(&self.layers, tape, x, visit)?,
            Skip::Takes { after, concat } => {
                let x = visited_chain(&self.layers[..*after], tape, x, visit.as_deref_mut())?;
                let x = concat.forward(tape, pop(&mut values), x)?;
                visited_chain(&self.layers[*after..], tape, x, visit)?
            }
        };
        if matches!(self.skip, Skip::Gives) {
            values.push(x.clone());
        }
        values.push(x);
        Ok(values)
    }
}

/// Runs one block after another on a stack of values; `after` is the layer that follows them.
pub(super) fn run_blocks<'m, B: Backend>(
    blocks: &'m [Block<B>],
    tape: &mut Tape<'m, B>,
    values: Vec<Value<B>>,
    mut visit: Option<&mut Visit<'_, B>>,
    after: Option<&'m dyn Layer<B>>,
) -> Result<Vec<Value<B>>> {
    blocks.iter().enumerate().try_fold(values, |values, (i, block)| {
        let next = blocks.get(i + 1).map_or(after, |next| next.layers.first().map(AsRef::as_ref));
        block.forward(tape, values, visit.as_deref_mut(), next)
    })
}

/// How many skips a chain of blocks takes that none of them gave.
pub(super) fn skips_taken<B: Backend>(blocks: &[Block<B>]) -> usize {
    let (mut own, mut taken) = (0_usize, 0);
    for block in blocks {
        match block.skip {
            Skip::None => {}
            Skip::Gives => own += 1,
            Skip::Takes { .. } if own > 0 => own -= 1,
            Skip::Takes { .. } => taken += 1,
        }
    }
    taken
}

/// The value that is left when every skip has been taken.
pub(super) fn last<B: Backend>(mut values: Vec<Value<B>>) -> Value<B> {
    pop(&mut values)
}

fn pop<B: Backend>(values: &mut Vec<Value<B>>) -> Value<B> {
    values.pop().expect("a family's blocks take as many skips as they give")
}
