//! The loss: the classes layer and the cross entropy, with a teacher's loss, or the squared error of values; over all rows at
//! once or over some at a time.
//!
//! In chunks, the logits of the whole batch never exist: the logits of a chunk become their gradient, which is added to the
//! gradients of the classes layer and of its input, and are freed. The sums are the same, in another order.

use std::ops::Range;

use crate::{
    autograd::{Tape, Value},
    backend::{Backend, DType, Executor, Tensor},
    data::DatasetInfo,
    error::Result,
    experiment::LabelKind,
    memory::Category,
    models::Model,
    nn::{Layer, Linear},
    step::teacher::{Lesson, Taught},
};

/// Takes logits as bytes of their type, in parts that may end inside a row. Not called in a dry run.
pub type See<'a> = dyn FnMut(DType, &[u8]) -> Result<()> + 'a;

/// Sums over batches that are not yet means.
pub(super) struct Stats<B: Backend> {
    sums: Tensor<B>,
    label: LabelKind,
    classes: usize,
}

impl<B: Backend> Stats<B> {
    /// The loss of the labels of such a dataset.
    pub(super) fn new(executor: &Executor<B>, info: &DatasetInfo) -> Result<Self> {
        let DatasetInfo { label, classes, .. } = *info;
        let _layer = executor.enter(executor.ledger().layer_id("loss"));
        let name = match label {
            LabelKind::Class => "loss and right answers",
            LabelKind::Value => "squared and absolute errors",
        };
        let sums = executor.filled(0.0, [2], DType::F64, Category::Scratch, name)?;
        Ok(Self { sums, label, classes })
    }

    /// Adds the losses and right answers, or absolute errors, of some rows.
    pub(super) fn add(
        &self,
        executor: &Executor<B>,
        logits: &Tensor<B>,
        labels: &Tensor<B>,
        taught: Option<&Taught<B>>,
    ) -> Result<()> {
        let _layer = executor.enter(executor.ledger().layer_id("loss"));
        match (self.label, taught) {
            (LabelKind::Class, Some(taught)) => {
                executor.distil((logits, &taught.logits), self.classes, labels, taught.lesson, &self.sums)
            }
            (LabelKind::Class, None) => executor.cross_entropy(logits, self.classes, labels, &self.sums),
            (LabelKind::Value, _) => executor.squared_error(logits, labels, &self.sums),
        }
    }

    /// The gradient of `scale` times the summed loss by the logits.
    pub(super) fn gradient(
        &self,
        executor: &Executor<B>,
        logits: Tensor<B>,
        labels: &Tensor<B>,
        taught: Option<&Taught<B>>,
        scale: f64,
    ) -> Result<Tensor<B>> {
        let _layer = executor.enter(executor.ledger().layer_id("loss"));
        match (self.label, taught) {
            (LabelKind::Class, Some(taught)) => {
                executor.distil_grad((logits, &taught.logits), self.classes, labels, taught.lesson, scale)
            }
            (LabelKind::Class, None) => executor.cross_entropy_grad(logits, self.classes, labels, scale),
            (LabelKind::Value, _) => executor.squared_error_grad(logits, labels, scale),
        }
    }

    /// The sums, which [`means`] takes.
    pub(super) fn sums(&self) -> &Tensor<B> {
        &self.sums
    }
}

/// Mean loss and accuracy, of values mean squared and absolute error, over `labels` that count; zeros in a dry run.
pub(super) fn means(sums: Option<Vec<f64>>, labels: usize) -> (f64, f64) {
    let n = labels.max(1) as f64;
    sums.map_or((0.0, 0.0), |sums| (sums[0] / n, sums[1] / n))
}

/// A loss over `chunk` rows of logits at a time; 0: all at once.
pub(super) struct Loss<'a, B: Backend> {
    pub(super) executor: &'a Executor<B>,
    pub(super) model: &'a Model<B>,
    pub(super) chunk: usize,
}

impl<B: Backend> Loss<'_, B> {
    /// Adds the losses of a batch, without a gradient, and shows its logits where they are asked for.
    pub(super) fn measure(
        &self,
        inputs: Tensor<B>,
        labels: &Tensor<B>,
        stats: &Stats<B>,
        see: &mut Option<&mut See<'_>>,
    ) -> Result<()> {
        let tape = &mut Tape::no_grad(self.executor);
        if self.chunk == 0 {
            let logits = self.model.forward(tape, inputs)?;
            stats.add(self.executor, &logits.tensor, labels, None)?;
            return self.show(&logits.tensor, stats, see);
        }
        let features = rows(self.model.features(tape, inputs)?.tensor);
        for range in self.chunks(&features) {
            let logits = self.logits(&features.rows_view(range.clone()))?;
            stats.add(self.executor, &logits, &labels.rows_view(range), None)?;
            self.show(&logits, stats, see)?;
        }
        Ok(())
    }

    /// Hands over logits, part by part.
    fn show(&self, logits: &Tensor<B>, stats: &Stats<B>, see: &mut Option<&mut See<'_>>) -> Result<()> {
        let Some(see) = see else { return Ok(()) };
        let _layer = self.executor.enter(self.executor.ledger().layer_id("loss"));
        shown(self.executor, logits, stats.classes, see)
    }

    /// Adds the losses of a batch's features and returns the gradient by them, `scale` times the gradient of the summed loss.
    pub(super) fn in_chunks(
        &self,
        features: Value<B>,
        labels: &Tensor<B>,
        lesson: Option<&Lesson<'_, B>>,
        stats: &Stats<B>,
        scale: f64,
    ) -> Result<Tensor<B>> {
        let (executor, classes) = (self.executor, self.model.classes());
        let shape = features.tensor.shape();
        let features = rows(features.tensor); // [rows, features]
        // Rows that have been read make room for their gradients, if nothing else reads them.
        let gradient = if executor.may_overwrite(&features) {
            features.clone()
        } else {
            let _layer = executor.enter(classes.layer());
            executor.allocate(features.shape(), features.dtype(), Category::Activations, "gradient of output")?
        };
        for range in self.chunks(&features) {
            let x = features.rows_view(range.clone());
            let logits = self.logits(&x)?; // [chunk, classes and columns behind]
            let labels = labels.rows_view(range.clone());
            let taught = lesson.map(|lesson| lesson.of(executor, range.clone())).transpose()?;
            stats.add(executor, &logits, &labels, taught.as_ref())?;
            let dy = stats.gradient(executor, logits, &labels, taught.as_ref(), scale)?;
            drop(taught);
            let _layer = executor.enter(classes.layer());
            classes.accumulate(executor, &x, &dy)?;
            classes.input_gradient_into(executor, &dy, &gradient.rows_view(range))?;
        }
        Ok(gradient.reshape(shape))
    }

    fn logits(&self, x: &Tensor<B>) -> Result<Tensor<B>> {
        let classes: &Linear<B> = self.model.classes();
        let _layer = self.executor.enter(classes.layer());
        classes.output(self.executor, x)
    }

    fn chunks(&self, features: &Tensor<B>) -> impl Iterator<Item = Range<usize>> + use<B> {
        let (count, chunk) = (features.shape().rows(), self.chunk);
        (0..count).step_by(chunk).map(move |start| start..(start + chunk).min(count))
    }
}

/// Hands over logits, part by part, without the columns behind the `classes`.
pub(super) fn shown<B: Backend>(
    executor: &Executor<B>,
    logits: &Tensor<B>,
    classes: usize,
    see: &mut See<'_>,
) -> Result<()> {
    let dtype = logits.dtype();
    let [row, own] = [logits.shape().last(), classes].map(|columns| columns * dtype.size());
    if row == own {
        return executor.save(logits, &mut |bytes| see(dtype, bytes));
    }
    // Where in its row a part begins.
    let mut at = 0;
    executor.save(logits, &mut |mut bytes| {
        while !bytes.is_empty() {
            let (part, rest) = bytes.split_at(bytes.len().min(row - at));
            let of_classes = part.len().min(own.saturating_sub(at));
            if of_classes > 0 {
                see(dtype, &part[..of_classes])?;
            }
            (at, bytes) = ((at + part.len()) % row, rest);
        }
        Ok(())
    })
}

/// Joins all extents but the innermost into one.
pub(super) fn rows<B: Backend>(x: Tensor<B>) -> Tensor<B> {
    x.reshape([x.shape().rows(), x.shape().last()])
}
