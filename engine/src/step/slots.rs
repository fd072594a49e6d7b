//! The state that decides how training goes on: the tensors of a session, each with its name, and its counters.
//!
//! Always holds: the order and the names depend on the experiment alone, so that another session finds the tensors that one
//! session writes. For parameters in mixed precision the master weight counts, from which the narrower one follows.

use std::rc::Rc;

use crate::{
    backend::{Backend, DType, Executor, Shape, Tensor},
    error::Result,
    experiment::Optimizer,
    layer_path,
    memory::{Ledger, timeline::LayerId},
    models::Model,
    nn::{ChannelMap, Param, TensorChannels},
    optim::{self, Pruning},
};

/// The prefix of the names of tensors of the optimizer's state.
pub(crate) const STATE: &str = "optimizer.";

/// The numbers of a session that are stored with its tensors.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Counters {
    /// Updates done: fewer than steps where f16 skipped some.
    pub updates: u64,
    /// The loss scale, and the good steps since it changed.
    pub loss_scale: (f64, u64),
    /// The training passes of each layer that draws random numbers, in forward order.
    pub passes: Vec<u64>,
    /// Whether channels were taken out of the model.
    pub is_thinned: bool,
}

impl Counters {
    /// Whether the optimizer has made its state.
    pub(super) fn has_state(&self) -> bool {
        self.updates > 0
    }
}

/// A tensor that decides how training goes on.
pub(super) struct Slot<'a, B: Backend> {
    pub(super) layer: LayerId,
    what: &'static str,
    pub(super) shape: Shape,
    pub(super) dtype: DType,
    place: Place<'a, B>,
}

/// Where a slot's tensor is.
enum Place<'a, B: Backend> {
    Weight(&'a Param<B>),
    State(&'a Param<B>, usize),
    Buffer(&'a Tensor<B>),
    Mask(&'a Param<B>, &'a Tensor<B>),
}

/// The tensors of a model, with the tensors of the optimizer's state once they are made, and the masks of its pruning. The
/// widest types come first: in a file every tensor then begins where its type may.
pub(super) fn slots<'a, B: Backend>(
    model: &'a Model<B>,
    choice: &'a Optimizer,
    pruning: Option<&'a Pruning<B>>,
    has_state: bool,
) -> impl Iterator<Item = Slot<'a, B>> {
    const SIZES: [usize; 4] = [8, 4, 2, 1];
    let (params, leaves): (Rc<[_]>, Rc<[_]>) = (model.params().into(), model.leaves().into());
    let all = move || {
        let (params, leaves) = (Rc::clone(&params), Rc::clone(&leaves));
        let weights = (0..params.len()).flat_map(move |at| of_param(params[at], choice, has_state));
        let buffers = (0..leaves.len()).flat_map(move |at| {
            let (layer, layer_id) = (leaves[at], leaves[at].layer());
            layer.buffers().into_iter().map(move |(what, buffer)| Slot {
                layer: layer_id,
                what,
                shape: buffer.shape(),
                dtype: buffer.dtype(),
                place: Place::Buffer(buffer),
            })
        });
        let masks = pruning.into_iter().flat_map(|pruning| model.prunable().into_iter().zip(pruning.masks()));
        let masks = masks.map(|(param, mask)| Slot {
            layer: param.layer(),
            what: "mask",
            shape: mask.shape(),
            dtype: mask.dtype(),
            place: Place::Mask(param, mask),
        });
        weights.chain(buffers).chain(masks)
    };
    let mut occurs = [false; SIZES[0] + 1];
    all().for_each(|slot| occurs[slot.dtype.size()] = true);
    let sizes = SIZES.into_iter().filter(move |size| occurs[*size]);
    sizes.flat_map(move |size| all().filter(move |slot| slot.dtype.size() == size))
}

fn of_param<'a, B: Backend>(
    param: &'a Param<B>,
    choice: &Optimizer,
    has_state: bool,
) -> impl Iterator<Item = Slot<'a, B>> + use<'a, B> {
    let layer = param.layer();
    let weight = Slot {
        layer,
        what: param.name(),
        shape: param.weight().shape(),
        dtype: param.master().dtype(),
        place: Place::Weight(param),
    };
    let layout = (has_state && param.is_trained()).then(|| optim::state_layout(choice, param));
    let state = (0..layout.as_ref().map_or(0, |layout| layout.len())).filter_map(move |index| {
        let spec = layout.as_ref()?.get(index)?;
        Some(Slot { layer, what: spec.name, shape: spec.shape, dtype: spec.dtype, place: Place::State(param, index) })
    });
    std::iter::once(weight).chain(state)
}

/// The name in a file of a layer's tensor.
pub(super) fn named(ledger: &Ledger, layer: LayerId, what: &str) -> String {
    let mut name = String::new();
    add_name(&mut name, ledger, layer, &[what]);
    name
}

/// Appends to `name` the name in a file of a layer's tensor: parts with dots between them.
fn add_name(name: &mut String, ledger: &Ledger, layer: LayerId, what: &[&str]) {
    ledger.with_path(layer, |path| {
        // A teacher's file has no teacher in it.
        let path = layer_path::in_teacher(path).unwrap_or(path);
        name.reserve(path.len() + what.iter().map(|part| part.len() + 1).sum::<usize>());
        for (index, part) in path.split('/').enumerate() {
            if index > 0 {
                name.push('.');
            }
            add_part(name, part);
        }
    });
    for part in what {
        name.push('.');
        add_part(name, part);
    }
}

/// Appends to `name` a part as names in a file have it.
fn add_part(name: &mut String, part: &str) {
    // Few parts have such letters, and a model has many parts.
    if part.contains([' ', '\'']) {
        name.extend(part.chars().filter_map(in_file));
    } else {
        name.push_str(part);
    }
}

/// A letter as names in a file have it.
fn in_file(letter: char) -> Option<char> {
    match letter {
        ' ' => Some('_'),
        '\'' => None,
        other => Some(other),
    }
}

impl<B: Backend> Slot<'_, B> {
    /// The tensor's name in a file, such as `block1.conv.weight`, or `optimizer.block1.conv.weight.first_moment`.
    pub(super) fn name(&self, ledger: &Ledger) -> String {
        let mut name = String::new();
        self.add_name(&mut name, ledger);
        name
    }

    /// Appends that name to `text`.
    pub(super) fn add_name(&self, text: &mut String, ledger: &Ledger) {
        match self.place {
            Place::Weight(_) | Place::Buffer(_) => add_name(text, ledger, self.layer, &[self.what]),
            Place::State(param, _) | Place::Mask(param, _) => {
                text.push_str(STATE);
                add_name(text, ledger, self.layer, &[param.name(), self.what]);
            }
        }
    }

    /// The tensor itself. The optimizer's state is made where it is not there yet.
    ///
    /// # Errors
    /// Fails when the state would cross the budget, and when the device fails.
    pub(super) fn tensor(&self, executor: &Executor<B>, choice: &Optimizer) -> Result<Tensor<B>> {
        Ok(match self.place {
            Place::Weight(param) => param.master().clone(),
            Place::Buffer(buffer) | Place::Mask(_, buffer) => buffer.clone(),
            Place::State(param, index) => param.state(executor, || optim::state_layout(choice, param))?[index].clone(),
        })
    }

    /// Which channels its tensor has; `None` if that is not known.
    pub(super) fn channels<'m>(&self, map: &'m ChannelMap) -> Option<&'m TensorChannels> {
        match self.place {
            Place::Weight(param) => map.of(self.layer, param.name()),
            // State of another shape than the weight's has other channels.
            Place::State(param, _) if self.shape == param.weight().shape() => map.of(self.layer, param.name()),
            Place::Buffer(_) => map.of(self.layer, self.what),
            Place::State(..) | Place::Mask(..) => None,
        }
    }

    /// Whether it is of a weight that is held as codes.
    pub(super) fn is_of_codes(&self) -> bool {
        matches!(self.place, Place::Weight(param) if param.role().is_of_codes())
    }

    /// Updates the narrower copy of a master weight that was replaced.
    ///
    /// # Errors
    /// Fails when the device does.
    pub(super) fn was_replaced(&self, executor: &Executor<B>) -> Result<()> {
        match self.place {
            Place::Weight(param) => param.copy().map_or(Ok(()), |copy| executor.cast_into(param.master(), copy)),
            Place::State(..) | Place::Buffer(_) | Place::Mask(..) => Ok(()),
        }
    }
}
