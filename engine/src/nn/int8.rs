//! A layer of products that computes with integers: the range of its inputs, and its codes while it has some.
//!
//! Always holds: a layer is as it was trained unless the session says otherwise. A layer that learns with rounded numbers keeps
//! the range of its inputs as a buffer; any other layer has one only while the trained model becomes integers.

use std::cell::RefCell;

use crate::{
    autograd::{Backward, Pass, Saved, ValueId},
    backend::{
        Backend, DType, Executor, Tensor, Window,
        ops::{Code, Follow, Int8Weight, WeightCodes},
    },
    error::{Error, Result},
    experiment::QuantiseKind,
    memory::{Category, timeline::LayerId},
};

/// The name of the range of a layer's inputs.
pub(crate) const RANGE: &str = "input range";
/// How far a range moves towards the narrower one of a training pass: the share of PyTorch's exponential average (Jacob et al.
/// 2018). An average of the passes' ranges is not enough, because half of them are wider: it cut the largest inputs off, and a
/// model that answers with values lost them (`mlp-table-value`: R² of 0.69 in place of 0.94).
const SHARE: f64 = 0.01;

/// The state that a dense layer or a convolution of integers has in addition to its weight.
pub struct IntegerLayer<B: Backend> {
    layer: LayerId,
    /// The range of its inputs, where it learns with rounded numbers.
    learned: Option<Tensor<B>>, // [2]
    state: RefCell<State<B>>,
}

/// How the layer computes.
enum State<B: Backend> {
    /// It computes as in training.
    Trained,
    /// It computes as in training, and shows its inputs to a range.
    Observing(Tensor<B>),
    /// It computes by codes.
    Coded { range: Tensor<B>, weight: Int8Weight<B> },
    /// It computes by codes of its weight only.
    WeightCoded(WeightCodes<B>),
}

impl<B: Backend> IntegerLayer<B> {
    /// The integer part of the layer `layer`, whose sums have `taps` terms. `None` if the layer is not to compute with
    /// integers, or if the sums would not fit one.
    ///
    /// # Errors
    /// Fails when its range would cross the budget ([`Error::Budget`](crate::error::Error::Budget)) or when the device fails.
    pub(super) fn new(
        executor: &Executor<B>,
        layer: LayerId,
        kind: QuantiseKind,
        taps: usize,
    ) -> Result<Option<Box<Self>>> {
        if kind.is_none() || taps > crate::backend::ops::Int8::MOST_TAPS {
            return Ok(None);
        }
        let own = |learned| Self { layer, learned, state: RefCell::new(State::Trained) };
        let learned = match kind {
            QuantiseKind::None | QuantiseKind::After => None,
            QuantiseKind::Aware => Some(own(None).range(executor)?),
        };
        Ok(Some(Box::new(own(learned))))
    }

    /// A range that has seen nothing.
    fn range(&self, executor: &Executor<B>) -> Result<Tensor<B>> {
        let _layer = executor.enter(self.layer);
        executor.filled(0.0, [2], DType::F32, Category::Buffers, RANGE)
    }

    /// The range that it keeps, with its name.
    pub(super) fn buffer(&self) -> Option<(&'static str, &Tensor<B>)> {
        self.learned.as_ref().map(|range| (RANGE, range))
    }

    /// The range by which it learns with rounded numbers.
    pub(super) fn learned(&self) -> Option<&Tensor<B>> {
        self.learned.as_ref()
    }

    /// From here on it shows its inputs to a range, unless it learned one.
    ///
    /// # Errors
    /// Fails when the range would cross the budget ([`Error::Budget`](crate::error::Error::Budget)) or when the device fails.
    pub fn observe(&self, executor: &Executor<B>) -> Result<()> {
        if self.learned.is_none() {
            let range = self.range(executor)?;
            self.state.replace(State::Observing(range));
        }
        Ok(())
    }

    /// From here on it computes by codes of `weight` and of its inputs.
    ///
    /// # Errors
    /// Fails when the codes would cross the budget ([`Error::Budget`](crate::error::Error::Budget)) or when the device fails.
    pub fn code(&self, executor: &Executor<B>, weight: &Tensor<B>) -> Result<()> {
        let range = match (&*self.state.borrow(), &self.learned) {
            (State::Observing(range) | State::Coded { range, .. }, _)
            | (State::Trained | State::WeightCoded(_), Some(range)) => range.clone(),
            (State::Trained | State::WeightCoded(_), None) => self.range(executor)?,
        };
        let _layer = executor.enter(self.layer);
        let weight = executor.int8_weight(weight)?;
        self.state.replace(State::Coded { range, weight });
        Ok(())
    }

    /// From here on it computes by codes of `weight` alone, decoded a part at a time.
    ///
    /// # Errors
    /// Fails when the codes would cross the budget ([`Error::Budget`](crate::error::Error::Budget)) or when the device fails.
    pub fn code_weight(&self, executor: &Executor<B>, code: Code, weight: &Tensor<B>) -> Result<()> {
        let _layer = executor.enter(self.layer);
        let codes = executor.weight_codes(code, weight)?;
        self.state.replace(State::WeightCoded(codes));
        Ok(())
    }

    /// The layer that it is part of.
    pub fn layer(&self) -> LayerId {
        self.layer
    }

    /// The range by which its inputs have codes, if they do.
    pub fn range_of_codes(&self) -> Option<Tensor<B>> {
        match &*self.state.borrow() {
            State::Coded { range, .. } => Some(range.clone()),
            State::Trained | State::Observing(_) | State::WeightCoded(_) => None,
        }
    }

    /// Lets codes and ranges go that it did not learn.
    pub fn forget(&self) {
        self.state.replace(State::Trained);
    }

    /// Shows the input of a training pass to the range that it learns.
    pub(super) fn learn(&self, executor: &Executor<B>, x: &Tensor<B>, pass: Pass) -> Result<()> {
        match (&self.learned, pass) {
            (Some(range), Pass::Training) => executor.observe(x, range, Follow::Narrowing(SHARE)),
            // The same numbers again, or those of a test.
            (Some(_), Pass::Recompute | Pass::Evaluation) | (None, _) => Ok(()),
        }
    }

    /// The output for `x` if it computes by codes: of a dense layer, or of a convolution's `window`.
    pub(super) fn output(
        &self,
        executor: &Executor<B>,
        x: &Tensor<B>,
        bias: Option<&Tensor<B>>,
        window: Option<Window>,
    ) -> Result<Option<Tensor<B>>> {
        match (&*self.state.borrow(), window) {
            (State::Trained, _) => Ok(None),
            (State::Observing(range), _) => executor.observe(x, range, Follow::Widest).map(|()| None),
            (State::Coded { range, weight }, None) => executor.int8_linear(x, range, weight, bias).map(Some),
            (State::Coded { range, weight }, Some(window)) => {
                executor.int8_conv2d(x, range, weight, bias, window).map(Some)
            }
            (State::WeightCoded(weight), None) => {
                let y = executor.coded_linear(x, &weight.weight())?; // [rows, out]
                bias.map_or(Ok(()), |bias| executor.add_bias(&y, bias))?;
                Ok(Some(y))
            }
            (State::WeightCoded(_), Some(_)) => Err(Error::Kernel {
                op: "matmul of codes",
                layer: executor.ledger().layer_path(),
                message: "a convolution has no kernel for codes of its weight alone".to_owned(),
            }),
        }
    }
}

/// The gradients of a layer that multiplies numbers rounded as codes would be: those of its operands, by the
/// straight-through estimator. `by_weight` gets the rounded input; `learns` says whether it is needed.
pub(super) fn rounded_gradients<B: Backend>(
    back: &mut Backward<'_, B>,
    range: &Tensor<B>,
    (saved, id, learns): (Option<Saved<B>>, Option<ValueId>, bool),
    by_weight: impl FnOnce(&Tensor<B>) -> Result<()>,
    by_input: impl FnOnce() -> Result<Tensor<B>>,
) -> Result<()> {
    let Some(saved) = saved else { return Ok(()) };
    let executor = back.executor().clone();
    let x = saved.tensor(&executor)?;
    if learns {
        by_weight(&executor.fake_input(&x, range)?)?;
    }
    if let Some(id) = id {
        let dx = by_input()?;
        executor.fake_input_grad(&x, range, &dx)?;
        back.accumulate_grad(id, dx)?;
    }
    drop(x);
    back.release(saved.into_kept());
    Ok(())
}
