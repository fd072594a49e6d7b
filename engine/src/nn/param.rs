//! Parameters: the weight that the forward pass reads, with its gradient, its master weight and its optimizer state.

mod init;

use std::cell::{Ref, RefCell};

use smallvec::SmallVec;

pub use self::init::{Init, Replaced};
use crate::{
    backend::{
        Backend, DType, Executor, Tensor,
        ops::{GradInto, StateLayout, StateSpec},
    },
    error::Result,
    experiment::Precision,
    memory::{Category, timeline::LayerId},
    nn::{ParamRole, ParamUse},
};

/// One parameter.
pub struct Param<B: Backend> {
    role: ParamRole,
    used_as: ParamUse,
    /// The seed of the random numbers that an optimizer draws for this parameter.
    key: u64,
    layer: LayerId,
    precision: Precision,
    is_trained: bool,
    /// How many numbers of the model it stands for.
    numbers: usize,
    weight: Tensor<B>,
    /// The weight with rows of zeros behind it, if its memory has some.
    padded: Option<Box<Tensor<B>>>,
    master: Option<Tensor<B>>,
    /// With as many rows behind it as the weight has.
    gradient: RefCell<Option<Tensor<B>>>,
    state: RefCell<Vec<Tensor<B>>>,
}

impl<B: Backend> Param<B> {
    /// The parameter's role in its layer.
    pub fn role(&self) -> ParamRole {
        self.role
    }

    /// The name of its role.
    pub fn name(&self) -> &'static str {
        self.role.name()
    }

    /// How an optimizer that treats the matrices of hidden layers apart uses it.
    pub fn used_as(&self) -> ParamUse {
        self.used_as
    }

    /// The same parameter, marked as the matrix that a hidden layer multiplies by, or not.
    pub(super) fn used(self, used_as: ParamUse) -> Self {
        Self { used_as, ..self }
    }

    /// The seed of the random numbers that an optimizer draws for this parameter, for [`Rng::new`].
    pub fn key(&self) -> u64 {
        self.key
    }

    /// The layer it belongs to.
    pub fn layer(&self) -> LayerId {
        self.layer
    }

    /// Whether it is trained. A frozen parameter has no gradient, no state and no master copy.
    pub fn is_trained(&self) -> bool {
        self.is_trained
    }

    /// How many numbers of the model it stands for: its elements; of codes, those that they stand for, and of scales none.
    pub fn numbers(&self) -> u64 {
        self.numbers as u64
    }

    /// The weight that the forward pass reads.
    pub fn weight(&self) -> &Tensor<B> {
        &self.weight
    }

    /// The weight with the rows of zeros behind it, which a product takes in so that its extents are those that libraries like;
    /// the weight itself if there are none.
    pub fn whole(&self) -> &Tensor<B> {
        self.padded.as_deref().unwrap_or(&self.weight)
    }

    /// What is the parameter's of a tensor that may have rows behind it.
    fn own(&self, whole: &Tensor<B>) -> Tensor<B> {
        if self.padded.is_some() { whole.rows_view(0..self.weight.shape().first()) } else { whole.clone() }
    }

    /// The tensor that the optimizer updates: the f32 copy if there is one, otherwise the weight itself, which may have a
    /// correction among the optimizer's tensors.
    pub fn master(&self) -> &Tensor<B> {
        self.master.as_ref().unwrap_or(&self.weight)
    }

    /// The narrower copy that follows the master, if there is one.
    pub fn copy(&self) -> Option<&Tensor<B>> {
        self.master.as_ref().map(|_| &self.weight)
    }

    /// Lets `write` put this pass's gradient into the parameter's buffer, which is allocated at its first use in a step.
    /// Does nothing for a frozen parameter.
    ///
    /// # Errors
    /// Fails when the buffer would cross the budget ([`Error::Budget`](crate::error::Error::Budget)) or when `write` fails.
    pub fn accumulate(&self, executor: &Executor<B>, write: impl FnOnce(GradInto<'_, B>) -> Result<()>) -> Result<()> {
        if !self.is_trained {
            return Ok(());
        }
        accumulate_all(&[self], executor, |into| match into {
            [GradInto::Fresh(into)] => write(GradInto::Fresh(into)),
            [GradInto::Accumulate(into)] => write(GradInto::Accumulate(into)),
            _ => Ok(()),
        })
    }

    /// [`Param::accumulate`] of a gradient with the rows behind the parameter's, which [`Param::whole`] has and nothing reads.
    ///
    /// # Errors
    /// Those of [`Param::accumulate`].
    pub fn accumulate_whole(
        &self,
        executor: &Executor<B>,
        write: impl FnOnce(GradInto<'_, B>) -> Result<()>,
    ) -> Result<()> {
        if !self.is_trained {
            return Ok(());
        }
        let (whole, is_fresh) = self.buffer(executor)?;
        write(if is_fresh { GradInto::Fresh(&whole) } else { GradInto::Accumulate(&whole) })?;
        *self.gradient.borrow_mut() = Some(whole);
        Ok(())
    }

    /// The type of its gradient.
    pub fn gradient_type(&self) -> DType {
        self.precision.master()
    }

    /// The gradient's buffer, and whether it was just made.
    fn buffer(&self, executor: &Executor<B>) -> Result<(Tensor<B>, bool)> {
        if let Some(sum) = &*self.gradient.borrow() {
            return Ok((sum.clone(), false));
        }
        // A tied weight's first contribution comes from another layer's rule.
        let layer = executor.enter(self.layer);
        let fresh = executor.allocate(
            self.whole().shape(),
            self.gradient_type(),
            Category::Gradients,
            self.role.gradient_name(),
        )?;
        drop(layer);
        Ok((fresh, true))
    }

    /// The gradient of this step so far.
    pub fn gradient(&self) -> Option<Tensor<B>> {
        self.gradient.borrow().as_ref().map(|whole| self.own(whole))
    }

    /// Takes the gradient away: the parameter has none until the next backward pass.
    pub fn take_gradient(&self) -> Option<Tensor<B>> {
        self.gradient.borrow_mut().take().map(|whole| self.own(&whole))
    }

    /// The optimizer's tensors of this parameter, made as zeros at the first call.
    ///
    /// # Errors
    /// Fails when the state would cross the budget ([`Error::Budget`](crate::error::Error::Budget)) or when the device fails.
    pub fn state(&self, executor: &Executor<B>, layout: impl FnOnce() -> StateLayout) -> Result<Ref<'_, [Tensor<B>]>> {
        if self.state.borrow().is_empty() {
            let make = |spec: &StateSpec| executor.filled(0.0, spec.shape, spec.dtype, spec.category(), spec.name);
            let made = layout().iter().map(make).collect::<Result<Vec<_>>>()?;
            *self.state.borrow_mut() = made;
        }
        Ok(self.made_state())
    }

    /// The optimizer's tensors, once they are made.
    pub fn made_state(&self) -> Ref<'_, [Tensor<B>]> {
        Ref::map(self.state.borrow(), Vec::as_slice)
    }
}

/// Lets `write` put this pass's gradients into the buffers of several parameters of one layer: into none when they are
/// frozen.
pub(super) fn accumulate_all<B: Backend, T>(
    params: &[&Param<B>],
    executor: &Executor<B>,
    write: impl FnOnce(&[GradInto<'_, B>]) -> Result<T>,
) -> Result<T> {
    let trained = params.iter().filter(|param| param.is_trained);
    let buffer = |param: &&Param<B>| -> Result<_> {
        let (whole, is_fresh) = param.buffer(executor)?;
        Ok((param.own(&whole), whole, is_fresh))
    };
    // Most layers have two parameters, and a model may have thousands of layers.
    let buffers = trained.clone().map(buffer).collect::<Result<SmallVec<[_; 2]>>>()?;
    let into: SmallVec<[GradInto<'_, B>; 2]> = buffers
        .iter()
        .map(|(own, _, is_fresh)| if *is_fresh { GradInto::Fresh(own) } else { GradInto::Accumulate(own) })
        .collect();
    let written = write(&into)?;
    drop(into);
    for (param, (_, whole, _)) in trained.zip(buffers) {
        *param.gradient.borrow_mut() = Some(whole);
    }
    Ok(written)
}
