//! The executor: a backend and a ledger, and the one place where tensors are allocated and kernels launched.

use std::{
    cell::{Cell, OnceCell, RefCell},
    fmt,
    rc::Rc,
};

use crate::{
    backend::{Backend, DType, Execution, HostSlice, Kernel, Readback, Shape, Tensor},
    bytes::Bytes,
    error::{BudgetError, DeviceFull, DeviceLost, Error, MemoryRefused, Result},
    memory::{Category, Ledger, probe::Measure, timeline::LayerId},
};

/// A device in use. Clones are handles of the same device.
pub struct Executor<B: Backend>(Rc<Inner<B>>);

/// A launch that ran.
pub struct Launched<'a, B: Backend> {
    /// What it ran on. Its ledger says what is alive now.
    pub executor: &'a Executor<B>,
    /// The kernel.
    pub kernel: &'a Kernel,
    /// The tensors that it read.
    pub inputs: &'a [&'a Tensor<B>],
    /// The tensors that it wrote.
    pub outputs: &'a [&'a Tensor<B>],
}

/// Called for every launch after it ran.
type Watcher<B> = dyn Fn(&Launched<'_, B>) -> Result<()>;

struct Inner<B: Backend> {
    backend: B,
    ledger: Ledger,
    sampler: RefCell<Option<Sampler>>,
    execution: Cell<Execution>,
    watcher: OnceCell<Box<Watcher<B>>>,
}

/// Reads the measured memory at every op of a pass, to be drawn over the predicted timeline.
struct Sampler {
    meter: Rc<dyn Measure>,
    samples: Vec<Sample>,
}

/// The measurement of an op.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Sample {
    /// The most bytes alive during it.
    pub high: Bytes,
    /// How it ran, where ops of its kind run in one of several ways.
    pub way: &'static str,
}

/// While it lives, allocations are booked on a layer. Its drop restores the layer before.
#[derive(Debug)]
pub struct LayerGuard {
    ledger: Ledger,
    before: LayerId,
}

impl Drop for LayerGuard {
    fn drop(&mut self) {
        self.ledger.set_layer(self.before);
    }
}

impl<B: Backend> Clone for Executor<B> {
    fn clone(&self) -> Self {
        Self(Rc::clone(&self.0))
    }
}

impl<B: Backend> fmt::Debug for Executor<B> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Executor").field("live", &self.ledger().live()).finish_non_exhaustive()
    }
}

impl<B: Backend> Executor<B> {
    /// An executor of a backend and an account.
    pub fn new(backend: B, ledger: Ledger) -> Self {
        Self(Rc::new(Inner {
            backend,
            ledger,
            sampler: RefCell::new(None),
            execution: Cell::new(Execution::InPlace),
            watcher: OnceCell::new(),
        }))
    }

    /// Whether every op writes to memory of its own, and layers keep the same tensors as those of an eager framework.
    pub fn is_eager(&self) -> bool {
        self.0.execution.get() == Execution::Eager
    }

    /// Whether layers do the elementwise work of the layers after them in their own pass over memory.
    pub fn is_fused(&self) -> bool {
        self.0.execution.get() == Execution::Fused
    }

    /// Whether a kernel also does what the ops around it would do: a product adds a bias, applies GELU or sums a bias's gradient,
    /// and a norm's gradient adds the gradient that it joins. So it is in fused execution on a GPU, where a launch takes long.
    pub fn joins_ops(&self) -> bool {
        self.is_fused() && self.backend().target().is_gpu()
    }

    /// Chooses how ops run that follow.
    pub fn set_execution(&self, execution: Execution) {
        self.0.execution.set(execution);
    }

    /// Whether an op may write its result over `x`.
    pub fn may_overwrite(&self, x: &Tensor<B>) -> bool {
        x.is_unique() && !self.is_eager()
    }

    /// The account.
    pub fn ledger(&self) -> &Ledger {
        &self.0.ledger
    }

    /// The backend.
    pub fn backend(&self) -> &B {
        &self.0.backend
    }

    /// Books later allocations on `layer` until the guard goes.
    #[must_use]
    pub fn enter(&self, layer: LayerId) -> LayerGuard {
        LayerGuard { ledger: self.ledger().clone(), before: self.ledger().set_layer(layer) }
    }

    /// A tensor with room for its elements, not yet written.
    ///
    /// # Errors
    /// [`Error::Budget`] when it would cross the budget, [`Error::TooLarge`] for more elements than any device holds,
    /// [`Error::MemoryRefused`] when the system gives the CPU no memory inside the budget, [`Error::DeviceFull`] when the
    /// card has none, and the failures of a GPU's driver.
    pub fn allocate(
        &self,
        shape: impl Into<Shape>,
        dtype: DType,
        category: Category,
        label: &'static str,
    ) -> Result<Tensor<B>> {
        let shape = shape.into();
        let too_large = || Error::TooLarge { layer: self.ledger().layer_path(), label, shape };
        let elements = shape.checked_elements().ok_or_else(too_large)?;
        let ticket = self.ledger().take((elements * dtype.size()) as u64, category, label)?;
        let allocated = self.backend().allocate(elements, dtype, ticket.place());
        let storage = allocated.map_err(|error| self.placed(error, label))?;
        self.backend().name(&|| format!("the {label} of {}", self.ledger().layer_path()));
        Ok(Tensor::new(shape, dtype, storage, ticket))
    }

    /// A tensor with a copy of numbers of the host.
    ///
    /// # Errors
    /// The errors of [`Executor::allocate`], and [`Error::Kernel`] when `source` has another type than `dtype` takes, or
    /// another number of elements than `shape`. A GPU adds the failures of its driver, [`Error::Device`] and
    /// [`Error::DeviceLost`].
    pub fn upload(
        &self,
        source: HostSlice<'_>,
        shape: impl Into<Shape>,
        dtype: DType,
        label: &'static str,
    ) -> Result<Tensor<B>> {
        self.ledger().set_op("upload");
        let tensor = self.allocate(shape, dtype, Category::Batch, label)?;
        self.backend().write(&tensor, source).map_err(|error| self.placed(error, label))?;
        self.ran("upload");
        Ok(tensor)
    }

    /// A tensor with a copy of elements of the host, as their type has them in bytes; without bytes in a dry run.
    ///
    /// # Errors
    /// Those of [`Executor::allocate`], the failures of the device, and [`Error::Misused`] if there are too few bytes.
    pub fn upload_bytes(
        &self,
        source: &[u8],
        shape: impl Into<Shape>,
        dtype: DType,
        label: &'static str,
    ) -> Result<Tensor<B>> {
        self.ledger().set_op("upload");
        let tensor = self.allocate(shape, dtype, Category::Batch, label)?;
        let mut left = source;
        let mut fill = |to: &mut [u8]| -> Result<()> {
            let too_few = || Error::Misused(format!("{} bytes for {label} of {}", source.len(), tensor.bytes()));
            let (now, rest) = left.split_at_checked(to.len()).ok_or_else(too_few)?;
            to.copy_from_slice(now);
            left = rest;
            Ok(())
        };
        self.backend().write_bytes(&tensor, &mut fill).map_err(|error| self.placed(error, label))?;
        self.ran("upload");
        Ok(tensor)
    }

    /// A tensor for numbers of the host that come part by part, by [`Backend::write`] to views of its rows.
    ///
    /// # Errors
    /// The errors of [`Executor::allocate`].
    pub fn reserve(&self, shape: impl Into<Shape>, dtype: DType, label: &'static str) -> Result<Tensor<B>> {
        self.ledger().set_op("upload");
        let tensor = self.allocate(shape, dtype, Category::Batch, label)?;
        self.ran("upload");
        Ok(tensor)
    }

    /// Runs a kernel, books its scratch while it runs, shows it to the watcher, and closes a point of the timeline.
    ///
    /// # Errors
    /// [`Error::Budget`] when the scratch would cross the budget, [`Error::Kernel`] for operands that no kernel supports,
    /// [`Error::MemoryRefused`] when the system gives the CPU no memory for scratch, [`Error::DeviceFull`] when the card has
    /// none, [`Error::Device`] or [`Error::DeviceLost`] when the driver or a library fails, and the errors of the watcher.
    pub fn launch(&self, kernel: impl Into<Kernel>, inputs: &[&Tensor<B>], outputs: &[&Tensor<B>]) -> Result<()> {
        let (kernel, ledger) = (kernel.into(), self.ledger());
        ledger.set_op(kernel.name());
        let dtype = inputs.first().or(outputs.first()).map_or(DType::F32, |t| t.dtype());
        let scratch = match kernel.scratch_bytes(dtype, self.backend().target()) {
            0 => None,
            bytes => Some(ledger.take(bytes, Category::Scratch, "scratch")?),
        };
        self.backend()
            .launch(&kernel, inputs, outputs, scratch.as_ref())
            .map_err(|error| self.placed(error, "scratch"))?;
        // Dropped before the point is closed, so it counts in this op's high-water mark and not in the next one's.
        drop(scratch);
        self.show(&kernel, inputs, outputs)?;
        self.ran_by(kernel.name(), self.backend().way());
        Ok(())
    }

    /// Calls `watcher` after every launch from here on. An executor has one watcher for good: a second one is dropped.
    pub fn watch(&self, watcher: impl Fn(&Launched<'_, B>) -> Result<()> + 'static) {
        drop(self.0.watcher.set(Box::new(watcher)));
    }

    fn show(&self, kernel: &Kernel, inputs: &[&Tensor<B>], outputs: &[&Tensor<B>]) -> Result<()> {
        let Some(watcher) = self.0.watcher.get() else { return Ok(()) };
        watcher(&Launched { executor: self, kernel, inputs, outputs })
    }

    /// The elements of a tensor as f64, or `None` in a dry run.
    ///
    /// # Errors
    /// [`Error::Device`] or [`Error::DeviceLost`] when the device fails, also in a kernel that was launched before.
    pub fn read(&self, tensor: &Tensor<B>) -> Result<Option<Vec<f64>>> {
        self.backend().read(tensor)
    }

    /// Hands the elements of a tensor to `take` as bytes, and closes a point of the timeline.
    ///
    /// # Errors
    /// The errors of [`Executor::read`], and of `take`.
    pub fn save(&self, tensor: &Tensor<B>, take: &mut dyn FnMut(&[u8]) -> Result<()>) -> Result<()> {
        self.ledger().set_op("save");
        self.backend().read_bytes(tensor, take).map_err(|error| self.placed(error, "elements"))?;
        self.ran("save");
        Ok(())
    }

    /// Lets `fill` write the elements of a tensor as bytes, and closes a point of the timeline.
    ///
    /// # Errors
    /// The failures of the device, and the errors of `fill`.
    pub fn load(&self, tensor: &Tensor<B>, fill: &mut dyn FnMut(&mut [u8]) -> Result<()>) -> Result<()> {
        self.ledger().set_op("load");
        self.backend().write_bytes(tensor, fill).map_err(|error| self.placed(error, "elements"))?;
        self.ran("load");
        Ok(())
    }

    /// [`Executor::load`] from a tensor of candle's that lies where `tensor` does; false if it does not.
    ///
    /// # Errors
    /// The failures of the device.
    pub fn load_on_device(&self, tensor: &Tensor<B>, from: &candle_core::Tensor) -> Result<bool> {
        self.ledger().set_op("load");
        let is_done = self.backend().copy_of(tensor, from).map_err(|error| self.placed(error, "elements"))?;
        if is_done {
            self.ran("load");
        }
        Ok(is_done)
    }

    /// A step begins: its kernels may be launched together.
    pub fn step_begins(&self) {
        self.backend().step_begins();
    }

    /// A step or an evaluation is over, or the taking out of channels: the allocator may give back empty memory.
    ///
    /// # Errors
    /// [`Error::Device`] or [`Error::DeviceLost`] when the driver fails to give memory back, [`Error::Misused`] when the CPU
    /// finds a block in it, and either in a guarded run when a block was written past.
    pub fn step_ended(&self) -> Result<()> {
        self.ledger().step_ended().try_for_each(|pages| self.backend().give_back(pages))?;
        self.backend().step_ended()
    }

    /// Starts to bring the elements of a tensor to the host.
    ///
    /// # Errors
    /// The errors of [`Executor::read`]. A failure of a kernel that still runs is an error of [`Readback::wait`].
    pub fn fetch(&self, tensor: &Tensor<B>) -> Result<Readback> {
        self.backend().fetch(tensor)
    }

    /// Starts to read `meter`, which was made inside [`uncounted`](crate::memory::probe::uncounted), at every op, of which
    /// about `ops` are expected.
    pub fn sample(&self, meter: Rc<dyn Measure>, ops: usize) {
        meter.reset_live_peak();
        // Room made before the pass, outside the measurement, so that sampling does not measure itself.
        let samples = crate::memory::probe::uncounted(|| Vec::with_capacity(ops));
        *self.0.sampler.borrow_mut() = Some(Sampler { meter, samples });
    }

    /// Stops reading and hands out the measurements of each op, in order. The vector belongs to no meter: free it inside
    /// [`uncounted`](crate::memory::probe::uncounted).
    pub fn take_samples(&self) -> Vec<Sample> {
        let Some(Sampler { meter, samples }) = self.0.sampler.borrow_mut().take() else { return Vec::new() };
        crate::memory::probe::uncounted(|| drop(meter));
        samples
    }

    /// A backend's error, with the place in the run where it occurred.
    fn placed(&self, error: Error, label: &'static str) -> Error {
        let (layer, op) = (self.ledger().layer_path(), self.ledger().op());
        match error {
            Error::Kernel { op, message, .. } => Error::Kernel { op, message, layer },
            Error::Budget(error) => {
                Error::Budget(BudgetError { layer, op, label, during: self.ledger().phase().during(), ..error })
            }
            Error::DeviceFull(error) => {
                let label = if error.label.is_empty() { label } else { error.label };
                Error::DeviceFull(DeviceFull { layer, op, label, ..error })
            }
            Error::MemoryRefused(error) => Error::MemoryRefused(MemoryRefused { layer, op, label, ..error }),
            Error::DeviceLost(error) => Error::DeviceLost(DeviceLost { place: format!("{layer}, {op}"), ..error }),
            other => other,
        }
    }

    /// An op that launched no kernel ran.
    fn ran(&self, op: &'static str) {
        self.ran_by(op, "");
    }

    fn ran_by(&self, op: &'static str, way: &'static str) {
        self.ledger().ran(op);
        if let Some(sampler) = &mut *self.0.sampler.borrow_mut() {
            let high = sampler.meter.live_peak();
            sampler.meter.reset_live_peak();
            crate::memory::probe::uncounted(|| sampler.samples.push(Sample { high, way }));
        }
    }
}
