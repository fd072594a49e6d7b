//! The session: the state that a run keeps between steps, and the step itself.

use crate::{
    autograd::{Listener, RetainedTensors, Tape},
    backend::{Backend, DType, Executor, Readback, Tensor},
    bytes::Bytes,
    data::{Dataset, DatasetInfo, Split},
    error::Result,
    experiment::{Experiment, Placement, UpdateTime},
    memory::{Category, Part, Phase, probe::uncounted},
    models::Model,
    nn::{Layer, ParamRole, Replaced},
    optim::{self, Pruning},
    step::{
        MicroBatch, PendingStep, StepOutput, bookkeeping,
        channels::Whole,
        device_dataset::DeviceDataset,
        loss::{Loss, See, Stats, means},
        loss_scale::LossScale,
        on_device::OnDevice,
        slots::named,
        teacher::Teacher,
    },
};

/// Everything a run keeps between steps.
pub struct Session<B: Backend> {
    pub(super) executor: Executor<B>,
    pub(super) experiment: Experiment,
    pub(super) info: DatasetInfo,
    /// The training set, when it lies on the device.
    pub(super) device_dataset: Option<DeviceDataset<B>>,
    pub(super) model: Model<B>,
    pub(super) loss_scale: LossScale,
    /// The masks of the weights that become zero, if the run prunes.
    pub(super) pruning: Option<Pruning<B>>,
    /// The size of the model that channels were taken out of.
    pub(super) whole: Option<Whole>,
    /// The model that teaches in addition to the labels.
    pub(super) teacher: Option<Teacher<B>>,
    pub(super) updates: u64,
    /// Whether the next micro-batch is copied to the device while the present one is worked on.
    pub(super) looks_ahead: bool,
    /// The next micro-batch.
    pub(super) ahead: Option<OnDevice<B>>,
    pub(super) _workspace: Option<Tensor<B>>,
}

impl<B: Backend> Session<B> {
    /// Builds the model. On the CPU the ledger counts the run's bookkeeping from here on, unless it does already.
    ///
    /// # Errors
    /// [`crate::Error::Budget`] when the parameters alone would cross the budget; the errors of [`Model::build`].
    pub fn new(executor: Executor<B>, experiment: &Experiment, info: &DatasetInfo) -> Result<Self> {
        Self::replaced(executor, experiment, info, None)
    }

    /// Makes the same session without drawing the weights for which `is_replaced` holds, by their names in a file: a caller
    /// that loads them saves that time.
    ///
    /// # Errors
    /// The errors of [`Session::new`].
    pub fn replaced(
        executor: Executor<B>,
        experiment: &Experiment,
        info: &DatasetInfo,
        is_replaced: Option<&dyn Fn(&str) -> bool>,
    ) -> Result<Self> {
        let ledger = executor.ledger();
        ledger.set_phase(Phase::Start);
        ledger.enter(Part::Start);
        let is_gpu = executor.backend().target().is_gpu();
        // Bookkeeping is memory of the host and not of a GPU.
        if !is_gpu && !ledger.keeps_books() {
            ledger.keep_books(bookkeeping(experiment, None, info)?);
        }
        let workspace = if is_gpu { workspace(&executor, experiment.gpu.workspace)? } else { None };
        // The memory of a look-up belongs to this program and not to the run.
        let replaced = is_replaced.map(|is_replaced| {
            let ledger = executor.ledger();
            move |layer, role: ParamRole| uncounted(|| is_replaced(&named(ledger, layer, role.name())))
        });
        let replaced = replaced.as_ref().map(|replaced| replaced as &Replaced<'_>);
        executor.set_execution(experiment.execution);
        let model = Model::replaced(&executor, experiment, info, replaced)?;
        let device_dataset = match experiment.data.placement {
            Placement::Device => Some(DeviceDataset::new(&executor, &experiment.data, info)?),
            Placement::Host | Placement::Streamed => None,
        };
        let pruning = Pruning::new(&executor, experiment.prune, experiment.steps(info).1, &model.prunable())?;
        let (experiment, loss_scale) = (experiment.clone(), LossScale::new(experiment.precision));
        Ok(Self {
            executor,
            experiment,
            info: *info,
            looks_ahead: is_gpu && device_dataset.is_none(),
            device_dataset,
            model,
            loss_scale,
            pruning,
            whole: None,
            teacher: None,
            updates: 0,
            ahead: None,
            _workspace: workspace,
        })
    }

    /// Copies the training set to the device, if it is to lie there.
    ///
    /// # Errors
    /// Fails for files that cannot be read, and when the device fails.
    pub fn upload_dataset(&mut self, dataset: &Dataset) -> Result<()> {
        self.device_dataset.as_mut().map_or(Ok(()), |device_dataset| device_dataset.upload(&self.executor, dataset))
    }

    /// The device.
    pub fn executor(&self) -> &Executor<B> {
        &self.executor
    }

    /// The model.
    pub fn model(&self) -> &Model<B> {
        &self.model
    }

    /// One optimizer step at learning rate `rate`: forward and backward for each micro-batch, and the update.
    ///
    /// On a GPU, `next` is called one micro-batch ahead: the batch it gives is copied to the device while the device works on
    /// the one before, across steps too.
    ///
    /// # Errors
    /// [`crate::Error::Budget`] when an allocation would cross the budget, the failures of the device, and the errors of
    /// `next`.
    pub fn step<M: MicroBatch>(&mut self, rate: f64, next: impl FnMut() -> Result<M>) -> Result<StepOutput> {
        self.begin_step(rate, next)?.wait()
    }

    /// [`Session::step`] without waiting for its output: on a GPU the kernels are queued and the host goes on.
    ///
    /// # Errors
    /// Fails if [`Session::step`] does. A failure that the device reports later is an error of [`PendingStep::wait`].
    pub fn begin_step<M: MicroBatch>(&mut self, rate: f64, mut next: impl FnMut() -> Result<M>) -> Result<PendingStep> {
        self.executor.step_begins();
        self.executor.ledger().set_phase(Phase::Batch);
        self.executor.ledger().enter(Part::Step { is_fed: self.ahead.is_some(), has_state: self.updates > 0 });
        let stats = Stats::new(&self.executor, &self.info)?;
        let update = self.experiment.optimizer.update;
        let squares = self.squares(update)?;
        let pending = match update {
            UpdateTime::AfterBackward => self.step_then_update(rate, &mut next, stats, squares),
            UpdateTime::InBackward => self.step_updating(rate, &mut next, stats, squares),
        }?;
        self.executor.step_ended()?;
        Ok(pending)
    }

    /// The micro-batches of a step, by number. A dry run leaves out those that would repeat the one before to the byte, but
    /// never the last.
    fn micro_batches(&self) -> impl Iterator<Item = usize> + use<B> {
        let (ledger, mut left) = (self.executor.ledger().clone(), 0..self.experiment.batch.accumulation);
        std::iter::from_fn(move || {
            let skipped = ledger.begin_micro_batch(left.start, left.len());
            left.nth(skipped)
        })
    }

    /// Computes all gradients first, then clips them and updates all parameters.
    fn step_then_update<M: MicroBatch>(
        &mut self,
        rate: f64,
        next: &mut dyn FnMut() -> Result<M>,
        stats: Stats<B>,
        squares: Tensor<B>,
    ) -> Result<PendingStep> {
        let loss_scale = self.loss_scale.scale();
        let (mut labels, mut retained) = (0, None);
        for index in self.micro_batches() {
            // Retained tensors are freed when the next forward pass begins.
            drop(retained.take());
            let batch = self.feed(index == 0, next)?;
            labels += batch.scored;
            retained = self.accumulate(batch, &stats, loss_scale, &mut |_| Ok(()))?;
        }
        self.executor.ledger().set_phase(Phase::Optimizer);
        self.executor.ledger().enter(Part::Update { has_state: self.updates > 0 });
        self.add_squares(&squares)?;
        let (mut skipped, mut known) = (false, None);
        if self.loss_scale.is_dynamic() {
            // It decides whether there is an update, and the next step's scale.
            let sum = self.executor.fetch(&squares)?.wait()?;
            skipped = self.loss_scale.skips(sum.as_ref().is_none_or(|sum| sum[0].is_finite()));
            known = Some(sum);
        }
        if skipped {
            self.model.params().into_iter().for_each(|param| drop(param.take_gradient()));
        } else {
            self.update(rate, &squares, loss_scale / self.per_label(labels))?;
        }
        drop(retained);
        // Behind the update, so that a device may launch both in one.
        let squares = known.map_or_else(|| self.executor.fetch(&squares), |sum| Ok(Readback::Ready(sum)))?;
        let (sums, grad_scale) = (self.executor.fetch(stats.sums())?, loss_scale / self.per_label(labels));
        Ok(PendingStep { sums, squares, labels, loss_scale, grad_scale, skipped })
    }

    /// Each layer's update as soon as its gradients are complete. The norm is known only afterwards, and clips nothing.
    fn step_updating<M: MicroBatch>(
        &mut self,
        rate: f64,
        next: &mut dyn FnMut() -> Result<M>,
        stats: Stats<B>,
        squares: Tensor<B>,
    ) -> Result<PendingStep> {
        self.updates += 1;
        let update = optim::Update { rate, grad_scale: 1.0, step: self.updates };
        let batch = self.feed(true, next)?;
        let labels = batch.scored;
        // The labels that count are known before the first gradient.
        let scale = self.per_label(labels);
        let mut params = self.model.params();
        params.sort_by_key(|param| param.layer());
        let mut listener = |layer| self.update_layer(&params, layer, &squares, update);
        let retained = self.accumulate(batch, &stats, scale, &mut listener)?;
        drop((retained, params));
        self.prune()?;
        let (sums, squares) = (self.executor.fetch(stats.sums())?, self.executor.fetch(&squares)?);
        Ok(PendingStep { sums, squares, labels, loss_scale: 1.0, grad_scale: 1.0, skipped: false })
    }

    /// The factor by which gradients are too small if only `labels` of a step count: they are made for as many labels as may
    /// count. Exactly one if all of those count.
    fn per_label(&self, labels: usize) -> f64 {
        (self.experiment.batch.effective() * self.info.scored_labels) as f64 / labels.max(1) as f64
    }

    /// Forward and backward of one micro-batch; gradients add up in the parameters' buffers. Returns the tensors
    /// of a retained graph.
    fn accumulate(
        &self,
        batch: OnDevice<B>,
        stats: &Stats<B>,
        loss_scale: f64,
        listener: &mut Listener<'_>,
    ) -> Result<Option<RetainedTensors<B>>> {
        let retained = self.experiment.retain_graph.then(RetainedTensors::default);
        let (executor, ledger) = (&self.executor, self.executor.ledger());
        let OnDevice { inputs, labels, answers, .. } = batch;
        ledger.set_phase(Phase::Forward);
        // The loss is the mean over the effective batch, so that accumulation changes memory and not the gradient. How many
        // labels count is known once all micro-batches are seen: the update makes up for it.
        let scale = loss_scale / (self.experiment.batch.effective() * self.info.scored_labels) as f64;
        let chunked = self.experiment.loss_chunk > 0;
        let lesson = self.lesson(&inputs, answers)?;
        let mut tape = Tape::recording(executor).with_recompute(self.experiment.recompute).retaining(retained.clone());
        let (output, gradient) = if chunked {
            let features = self.model.features(&mut tape, inputs)?; // [batch * labels, features]
            let output = features.id();
            ledger.set_phase(Phase::Backward);
            let gradient = self.loss().in_chunks(features, &labels, lesson.as_ref(), stats, scale)?;
            listener(self.model.classes().layer())?;
            (output, gradient)
        } else {
            let logits = self.model.forward(&mut tape, inputs)?; // [batch * labels, classes]
            let output = logits.id();
            let taught = lesson.as_ref().map(|lesson| lesson.whole(executor)).transpose()?;
            stats.add(executor, &logits.tensor, &labels, taught.as_ref())?;
            ledger.set_phase(Phase::Backward);
            (output, stats.gradient(executor, logits.tensor, &labels, taught.as_ref(), scale)?)
        };
        drop(lesson);
        match &retained {
            Some(retained) => retained.keep(labels),
            None => drop(labels),
        }
        let _layer = executor.enter(ledger.layer_id("loss"));
        if let Some(output) = output {
            tape.backward(output, gradient, None, listener)?;
        }
        Ok(retained)
    }

    pub(super) fn loss(&self) -> Loss<'_, B> {
        Loss { executor: &self.executor, model: &self.model, chunk: self.experiment.loss_chunk }
    }

    /// Mean loss and accuracy over all batches that `next` gives; of values the mean squared and the mean absolute error.
    ///
    /// # Errors
    /// Fails if [`Session::step`] does.
    pub fn evaluate<M: MicroBatch>(&self, next: impl FnMut() -> Result<Option<M>>) -> Result<(f64, f64)> {
        self.answer(next, None)
    }

    /// Runs the same forward pass; `see` gets the logits, `[labels, classes]` in the order of the labels.
    ///
    /// # Errors
    /// Fails if [`Session::step`] does; the errors of `see`.
    pub fn answer<M: MicroBatch>(
        &self,
        mut next: impl FnMut() -> Result<Option<M>>,
        see: Option<&mut See<'_>>,
    ) -> Result<(f64, f64)> {
        let ledger = self.executor.ledger();
        ledger.set_phase(Phase::Evaluate);
        ledger.enter(Part::Evaluation);
        let means = self.measured(&mut next, see, |samples| Part::Batch { samples })?;
        self.executor.step_ended()?;
        Ok(means)
    }

    /// Means over all batches; `part` says for the number of samples of each which part of the run it is.
    pub(super) fn measured<M: MicroBatch>(
        &self,
        next: &mut dyn FnMut() -> Result<Option<M>>,
        mut see: Option<&mut See<'_>>,
        part: fn(usize) -> Part,
    ) -> Result<(f64, f64)> {
        let (executor, ledger) = (&self.executor, self.executor.ledger());
        let stats = Stats::new(executor, &self.info)?;
        let mut count = 0;
        while let Some(batch) = next()? {
            ledger.enter(part(batch.samples()));
            let OnDevice { inputs, labels, scored, .. } =
                self.upload(batch, Split::Test, [self.info.input.label(), "labels"])?;
            count += scored;
            self.loss().measure(inputs, &labels, &stats, &mut see)?;
        }
        Ok(means(executor.read(stats.sums())?, count))
    }
}

/// The one buffer that libraries on a GPU work in; none if `bytes` is zero.
pub(crate) fn workspace<B: Backend>(executor: &Executor<B>, bytes: Bytes) -> Result<Option<Tensor<B>>> {
    if bytes == Bytes::ZERO {
        return Ok(None);
    }
    executor.ledger().set_op("workspace");
    let tensor = executor.allocate([bytes.0 as usize], DType::U8, Category::Scratch, "workspace")?;
    executor.backend().lend_workspace(&tensor)?;
    Ok(Some(tensor))
}
