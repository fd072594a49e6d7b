//! What gradient rules keep of the values they need: the tensor itself, or how to make it again from what others keep.
//!
//! The output of a normalisation follows from its input, which its own rule keeps anyway, and a rectifier's from that. So
//! whoever needs such an output on the way back keeps a recipe, and the buffer is free as soon as the forward pass is done
//! with it (Rota Bulò, Porzi & Kontschieder 2018, "In-place activated batch norm", with the input kept in place of the
//! output, so that nothing has to be inverted). The same kernels run on the same numbers: the tensor made again is the
//! first one to the last bit.

use std::{
    cell::{Cell, RefCell},
    rc::Rc,
};

use crate::{
    backend::{Backend, Executor, Tensor},
    error::Result,
    memory::{Phase, timeline::LayerId},
};

/// Kernels that one recipe may take. A chain of residual blocks adds to its recipe block by block; where it would grow past
/// this, the tensor is kept, and the next recipe begins from it.
const MOST_STEPS: usize = 9;

/// How a value's tensor can be had in the backward pass.
pub enum Source<B: Backend> {
    /// From itself alone.
    Itself,
    /// Its maker's rule keeps the tensor.
    Maker,
    /// By a recipe.
    Recipe(Rc<Recipe<B>>),
}

/// How to make a tensor again.
pub struct Recipe<B: Backend> {
    layer: LayerId,
    make: Make<B>,
    /// Adds the tensor to another without making it, where a kernel does that.
    add: Option<Add<B>>,
    steps: usize,
    /// Rules that still need the tensor.
    users: Cell<usize>,
    /// The tensor, from the last use but one to the last.
    made: RefCell<Option<Tensor<B>>>,
}

type Make<B> = Box<dyn Fn(&Executor<B>) -> Result<Tensor<B>>>;
type Add<B> = Box<dyn Fn(&Executor<B>, Tensor<B>) -> Result<Tensor<B>>>;

/// What a rule keeps of a value.
pub enum Saved<B: Backend> {
    /// The tensor.
    Kept(Tensor<B>),
    /// The way to it.
    Again(User<B>),
}

/// What a tape that is held keeps: every tensor that its rules have used, until the last handle goes.
pub struct Held<B: Backend>(Rc<RefCell<Vec<Tensor<B>>>>);

impl<B: Backend> Default for Held<B> {
    fn default() -> Self {
        Self(Rc::default())
    }
}

impl<B: Backend> Clone for Held<B> {
    fn clone(&self) -> Self {
        Self(Rc::clone(&self.0))
    }
}

impl<B: Backend> Held<B> {
    /// Keeps one more tensor.
    pub fn keep(&self, tensor: Tensor<B>) {
        self.0.borrow_mut().push(tensor);
    }
}

/// One rule's claim on a recipe.
pub struct User<B: Backend>(Rc<Recipe<B>>);

impl<B: Backend> Drop for User<B> {
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

    /// The tensor and `sum`, in `sum` where nobody else holds it.
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
    /// By a recipe of `steps` kernels, if that is not too many.
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

    /// The same, with a way to add the tensor to another. For a recipe that nobody uses yet.
    pub(crate) fn with_add(self, add: impl Fn(&Executor<B>, Tensor<B>) -> Result<Tensor<B>> + 'static) -> Self {
        match self {
            Self::Recipe(recipe) => match Rc::try_unwrap(recipe) {
                Ok(recipe) => Self::Recipe(Rc::new(Recipe { add: Some(Box::new(add)), ..recipe })),
                Err(used) => Self::Recipe(used),
            },
            other => other,
        }
    }

    /// Of what one more kernel makes of the value. From the value itself there is no way: it is not kept.
    pub(crate) fn then(
        &self,
        layer: LayerId,
        step: impl Fn(&Executor<B>, Tensor<B>) -> Result<Tensor<B>> + 'static,
    ) -> Self {
        let Self::Recipe(recipe) = self else { return Self::Itself };
        let recipe = Rc::clone(recipe);
        Self::recipe(layer, recipe.steps + 1, move |executor| step(executor, recipe.tensor(executor)?))
    }

    /// Of the sum of a value by a recipe and of `other`, by a recipe or kept by its maker. The sum grows in one buffer.
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

impl<B: Backend> Saved<B> {
    /// Of a value with this source.
    pub(crate) fn new(tensor: &Tensor<B>, source: &Source<B>) -> Self {
        match source {
            Source::Itself | Source::Maker => Self::Kept(tensor.clone()),
            Source::Recipe(recipe) => {
                recipe.users.set(recipe.users.get() + 1);
                Self::Again(User(Rc::clone(recipe)))
            }
        }
    }

    /// Whether the tensor is there already.
    pub fn is_kept(&self) -> bool {
        matches!(self, Self::Kept(_))
    }

    /// The tensor that was kept, if one was.
    pub fn into_kept(self) -> Option<Tensor<B>> {
        match self {
            Self::Kept(tensor) => Some(tensor),
            Self::Again(_) => None,
        }
    }

    /// The tensor. One that is made again stays for the last of its users, which runs next.
    pub fn tensor(&self, executor: &Executor<B>) -> Result<Tensor<B>> {
        let recipe = match self {
            Self::Kept(tensor) => return Ok(tensor.clone()),
            Self::Again(User(recipe)) => recipe,
        };
        let phase = executor.ledger().set_phase(Phase::Recompute);
        let tensor = recipe.tensor(executor);
        executor.ledger().set_phase(phase);
        let tensor = tensor?;
        *recipe.made.borrow_mut() = (recipe.users.get() == 2).then(|| tensor.clone());
        Ok(tensor)
    }
}
