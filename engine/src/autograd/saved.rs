//! Values saved for gradient rules: each as the tensor itself, or as a recipe to recompute it.
//!
//! The output of a normalisation follows from its input, which its own rule saves anyway, and the output of a rectifier
//! follows from that. A rule that needs such an output in the backward pass saves a recipe, so the buffer is free as soon
//! as the forward pass is done with it (Rota Bulò, Porzi & Kontschieder 2018, "In-place activated batch norm"; here the
//! input is saved instead of the output, so nothing has to be inverted). Always holds: the same kernels run on the same
//! numbers, so the recomputed tensor equals the first one to the last bit.

use std::{
    cell::{Cell, RefCell},
    rc::Rc,
};

use super::Tape;
use crate::{
    backend::{Backend, Executor, Tensor},
    error::Result,
    experiment::Recompute,
    memory::{Phase, timeline::LayerId},
};

/// Kernels that one recipe may run. A chain of residual blocks extends its recipe block by block; where the recipe would
/// grow past this, the tensor is saved instead, and the next recipe starts from it.
const MOST_STEPS: usize = 9;

impl<B: Backend> Tape<'_, B> {
    /// Whether rules recompute outputs that a few fast kernels compute from tensors that are saved anyway.
    pub(crate) fn recomputes(&self) -> bool {
        self.recompute != Recompute::None
    }
}

/// How the backward pass gets a value's tensor.
pub enum Source<B: Backend> {
    /// A rule that needs the tensor has to save it.
    Itself,
    /// The rule of the layer that computed the tensor saves it anyway.
    Maker,
    /// A recipe recomputes it.
    Recipe(Rc<Recipe<B>>),
}

/// How to recompute a tensor.
pub struct Recipe<B: Backend> {
    layer: LayerId,
    make: Make<B>,
    /// Adds the tensor to another without materialising it, where a kernel can.
    add: Option<Add<B>>,
    steps: usize,
    /// Rules that still need the tensor. Each runs once and drops its claim.
    users: Cell<usize>,
    /// The recomputed tensor, kept from the last use but one for the last.
    made: RefCell<Option<Tensor<B>>>,
}

type Make<B> = Box<dyn Fn(&Executor<B>) -> Result<Tensor<B>>>;
type Add<B> = Box<dyn Fn(&Executor<B>, Tensor<B>) -> Result<Tensor<B>>>;

/// A value saved for a gradient rule.
pub enum Saved<B: Backend> {
    /// The tensor.
    Kept(Tensor<B>),
    /// A claim on the recipe that recomputes it.
    Recipe(Claim<B>),
}

/// The tensors of a retained graph: those that its rules have used, until the last handle is dropped.
pub struct RetainedTensors<B: Backend>(Rc<RefCell<Vec<Tensor<B>>>>);

impl<B: Backend> Default for RetainedTensors<B> {
    fn default() -> Self {
        Self(Rc::default())
    }
}

impl<B: Backend> Clone for RetainedTensors<B> {
    fn clone(&self) -> Self {
        Self(Rc::clone(&self.0))
    }
}

impl<B: Backend> RetainedTensors<B> {
    /// Retains one more tensor.
    pub fn keep(&self, tensor: Tensor<B>) {
        self.0.borrow_mut().push(tensor);
    }
}

/// One rule's claim on a recipe.
pub struct Claim<B: Backend>(Rc<Recipe<B>>);

impl<B: Backend> Drop for Claim<B> {
    fn drop(&mut self) {
        self.0.users.set(self.0.users.get() - 1);
    }
}

impl<B: Backend> Clone for Source<B> {
    fn clone(&self) -> Self {
        match self {
            Self::Itself => Self::Itself,
            Self::Maker => Self::Maker,
            Self::Recipe(recipe) => Self::Recipe(Rc::clone(recipe)),
        }
    }
}

impl<B: Backend> Recipe<B> {
    fn tensor(&self, executor: &Executor<B>) -> Result<Tensor<B>> {
        if let Some(made) = &*self.made.borrow() {
            return Ok(made.clone());
        }
        let _layer = executor.enter(self.layer);
        (self.make)(executor)
    }

    /// The sum of the tensor and `sum`, in the buffer of `sum` if it has no other owner.
    fn add_to(&self, executor: &Executor<B>, sum: Tensor<B>) -> Result<Tensor<B>> {
        match &self.add {
            Some(add) if self.made.borrow().is_none() => {
                let _layer = executor.enter(self.layer);
                add(executor, sum)
            }
            _ => executor.add(sum, &self.tensor(executor)?),
        }
    }
}

impl<B: Backend> Source<B> {
    /// A recipe of `steps` kernels; [`Source::Itself`] if that is more than [`MOST_STEPS`].
    pub(crate) fn recipe(
        layer: LayerId,
        steps: usize,
        make: impl Fn(&Executor<B>) -> Result<Tensor<B>> + 'static,
    ) -> Self {
        if steps > MOST_STEPS {
            return Self::Itself;
        }
        let (users, made) = (Cell::default(), RefCell::default());
        Self::Recipe(Rc::new(Recipe { layer, make: Box::new(make), add: None, steps, users, made }))
    }

    /// Adds to the recipe a kernel that adds its tensor to another. The recipe must not have users yet.
    pub(crate) fn with_add(self, add: impl Fn(&Executor<B>, Tensor<B>) -> Result<Tensor<B>> + 'static) -> Self {
        match self {
            Self::Recipe(recipe) => match Rc::try_unwrap(recipe) {
                Ok(recipe) => Self::Recipe(Rc::new(Recipe { add: Some(Box::new(add)), ..recipe })),
                Err(used) => Self::Recipe(used),
            },
            other => other,
        }
    }

    /// A recompute source for the output of one further kernel. It is [`Source::Itself`] if the value has no recipe, because
    /// the value is not saved then.
    pub(crate) fn then(
        &self,
        layer: LayerId,
        step: impl Fn(&Executor<B>, Tensor<B>) -> Result<Tensor<B>> + 'static,
    ) -> Self {
        let Self::Recipe(recipe) = self else { return Self::Itself };
        let recipe = Rc::clone(recipe);
        Self::recipe(layer, recipe.steps + 1, move |executor| step(executor, recipe.tensor(executor)?))
    }

    /// The source of the sum of a value with a recipe and of `other`, which has a recipe or is saved by its maker. The sum
    /// is formed in one buffer.
    pub(crate) fn plus(&self, layer: LayerId, other: &Self, other_tensor: &Tensor<B>) -> Self {
        let Self::Recipe(recipe) = self else { return Self::Itself };
        let recipe = Rc::clone(recipe);
        match other {
            Self::Itself => Self::Itself,
            Self::Maker => {
                let other = other_tensor.clone();
                Self::recipe(layer, recipe.steps + 1, move |executor| recipe.add_to(executor, other.clone()))
            }
            Self::Recipe(other) => {
                let other = Rc::clone(other);
                Self::recipe(layer, recipe.steps + other.steps + 1, move |executor| {
                    recipe.add_to(executor, other.tensor(executor)?)
                })
            }
        }
    }
}

/// How a recipe gets a tensor that it begins with.
enum Start<B: Backend> {
    Kept(Tensor<B>),
    Recipe(Rc<Recipe<B>>),
}

impl<B: Backend> Start<B> {
    fn tensor(&self, executor: &Executor<B>) -> Result<Tensor<B>> {
        match self {
            Self::Kept(tensor) => Ok(tensor.clone()),
            Self::Recipe(recipe) => recipe.tensor(executor),
        }
    }
}

impl<B: Backend> Source<B> {
    /// How to begin with a tensor of this source, and in how many steps; the tensor is one that a rule saves, or has a recipe.
    fn start(&self, tensor: &Tensor<B>) -> (Start<B>, usize) {
        match self {
            Self::Itself | Self::Maker => (Start::Kept(tensor.clone()), 0),
            Self::Recipe(recipe) => (Start::Recipe(Rc::clone(recipe)), recipe.steps),
        }
    }

    /// The source of the output of one kernel, which computes it from two tensors in place of `steps` other kernels. The
    /// rule of the layer saves the first, and the second has a recipe or is saved by its maker; otherwise it is
    /// [`Source::Itself`].
    pub(crate) fn of_two(
        layer: LayerId,
        steps: usize,
        [(first, first_tensor), (second, second_tensor)]: [(&Self, &Tensor<B>); 2],
        kernel: impl Fn(&Executor<B>, Tensor<B>, Tensor<B>) -> Result<Tensor<B>> + 'static,
    ) -> Self {
        if matches!(second, Self::Itself) {
            return Self::Itself;
        }
        let ((first, before), (second, others)) = (first.start(first_tensor), second.start(second_tensor));
        Self::recipe(layer, before + others + steps, move |executor| {
            kernel(executor, first.tensor(executor)?, second.tensor(executor)?)
        })
    }
}

impl<B: Backend> Saved<B> {
    /// Saves a value with this source.
    pub(crate) fn new(tensor: &Tensor<B>, source: &Source<B>) -> Self {
        match source {
            Source::Itself | Source::Maker => Self::Kept(tensor.clone()),
            Source::Recipe(recipe) => {
                recipe.users.set(recipe.users.get() + 1);
                Self::Recipe(Claim(Rc::clone(recipe)))
            }
        }
    }

    /// Whether the tensor itself was saved.
    pub fn is_kept(&self) -> bool {
        matches!(self, Self::Kept(_))
    }

    /// The tensor, if it was saved itself.
    pub fn into_kept(self) -> Option<Tensor<B>> {
        match self {
            Self::Kept(tensor) => Some(tensor),
            Self::Recipe(_) => None,
        }
    }

    /// The tensor, recomputed where it was not saved.
    ///
    /// Rules run from the last layer to the first, and the users of one recipe follow each other closely. So the last user
    /// but one keeps the recomputed tensor for the last one; earlier ones do not, because the tensor would stay alive
    /// while other rules run.
    ///
    /// # Errors
    /// The error of a kernel that makes it again.
    pub fn tensor(&self, executor: &Executor<B>) -> Result<Tensor<B>> {
        let recipe = match self {
            Self::Kept(tensor) => return Ok(tensor.clone()),
            Self::Recipe(Claim(recipe)) => recipe,
        };
        let phase = executor.ledger().set_phase(Phase::Recompute);
        let tensor = recipe.tensor(executor);
        executor.ledger().set_phase(phase);
        let tensor = tensor?;
        // This rule still has its claim, so two claims are this one and the last.
        let is_last_but_one = recipe.users.get() == 2;
        *recipe.made.borrow_mut() = is_last_but_one.then(|| tensor.clone());
        Ok(tensor)
    }
}
