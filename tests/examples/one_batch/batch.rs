//! One batch through a model that begins with weights from files: logits, loss, gradients, and steps.

use std::{collections::HashMap, path::Path};

use candle_core::{DType, Device, Tensor, safetensors};
use plimsoll_engine::{
    Error, Experiment,
    autograd::Tape,
    backend::{Cpu, DType as Type, Executor, HostSlice, Tensor as Ours},
    data::{DatasetInfo, Input},
    device::cpu_threads,
    error::Result,
    experiment::{LabelKind, preset},
    interop,
    memory::{Category, Ledger},
    step::{MicroBatch, Session},
};

/// A batch on the host, whose labels are independent of its inputs.
#[derive(Clone)]
pub(crate) struct Batch {
    pub(crate) inputs: Inputs,
    pub(crate) labels: Vec<u32>,
    pub(crate) samples: usize,
}

#[derive(Clone)]
pub(crate) enum Inputs {
    /// `[samples, length]`.
    Tokens(Vec<u32>),
    /// `[samples, height, width, channels]`.
    Images(Vec<f32>),
}

impl MicroBatch for &Batch {
    fn samples(&self) -> usize {
        self.samples
    }

    fn inputs(&self) -> HostSlice<'_> {
        match &self.inputs {
            Inputs::Tokens(tokens) => HostSlice::U32(tokens),
            Inputs::Images(images) => HostSlice::F32(images),
        }
    }

    fn labels(&self) -> &[u32] {
        &self.labels
    }
}

fn misused(error: impl std::fmt::Display) -> Error {
    Error::Misused(error.to_string())
}

/// A gradient by the name of its parameter here, with its extents.
pub(crate) type Gradients = HashMap<String, Tensor>;

/// A model, and what it is fed with.
pub(crate) struct Fed {
    pub(crate) experiment: Experiment,
    pub(crate) info: DatasetInfo,
    pub(crate) session: Session<Cpu>,
    pub(crate) notes: Vec<String>,
}

impl Fed {
    /// The experiment of a folder with `config.json` and weights, for samples of this kind.
    ///
    /// # Errors
    /// Those of reading, fitting and loading the weights.
    pub(crate) fn from_folder(folder: &Path, input: Input, classes: usize, samples: usize) -> Result<Self> {
        let mut experiment = preset::read(folder)?;
        experiment.batch.micro = samples;
        if let Input::Tokens { length, .. } = input {
            experiment.data.length = length;
        }
        Self::new(experiment, input, classes)
    }

    /// The model of an experiment, with the weights that it chooses.
    ///
    /// # Errors
    /// Those of reading, fitting and loading the weights.
    pub(crate) fn new(experiment: Experiment, input: Input, classes: usize) -> Result<Self> {
        let labels = if let Input::Tokens { length, .. } = input { length } else { 1 };
        let info = DatasetInfo {
            input,
            labels_per_sample: labels,
            scored_labels: labels,
            label: LabelKind::Class,
            classes,
            train: 1000,
            test: 100,
        };
        let executor = Executor::new(Cpu::new(cpu_threads()), Ledger::new(None, false));
        let mut session = Session::new(executor, &experiment, &info)?;
        let mut notes = Vec::new();
        if let Some(mut weights) = interop::chosen(&experiment, &info)? {
            notes.extend_from_slice(weights.notes());
            session.load(&mut weights)?;
        }
        Ok(Self { experiment, info, session, notes })
    }

    fn upload(&self, batch: &Batch) -> Result<Ours<Cpu>> {
        let (input, precision) = (self.info.input, self.experiment.precision);
        let (shape, dtype) = (input.shape(batch.samples), input.dtype(precision));
        self.session.executor().upload((&batch).inputs(), shape, dtype, "inputs")
    }

    /// The logits of an evaluation, `[samples * labels, classes]`.
    ///
    /// # Errors
    /// Those of a forward pass.
    pub(crate) fn logits(&self, batch: &Batch) -> Result<Vec<f64>> {
        let executor = self.session.executor();
        let logits = self.session.model().forward(&mut Tape::no_grad(executor), self.upload(batch)?)?;
        Ok(executor.read(&logits.tensor)?.unwrap_or_default())
    }

    /// The mean loss of a training pass, and every gradient by it.
    ///
    /// # Errors
    /// Those of a pass.
    pub(crate) fn gradients(&self, batch: &Batch) -> Result<(f64, Gradients)> {
        let executor = self.session.executor();
        let mut tape = Tape::recording(executor);
        let logits = self.session.model().forward(&mut tape, self.upload(batch)?)?;
        let classes = logits.tensor.shape().last();
        let labels = executor.upload(HostSlice::U32(&batch.labels), [batch.labels.len()], Type::U32, "labels")?;
        let stats = executor.filled(0.0, [2], Type::F64, Category::Scratch, "loss")?;
        executor.cross_entropy(&logits.tensor, classes, &labels, &stats)?;
        let output = logits.id().ok_or_else(|| misused("nothing is trained"))?;
        let scale = 1.0 / batch.labels.len() as f64;
        let gradient = executor.cross_entropy_grad(logits.tensor, classes, &labels, scale)?;
        tape.backward(output, gradient, None, &mut |_| Ok(()))?;
        let mut gradients = HashMap::new();
        let mut put = |layer, what: &str, tensor: &Ours<Cpu>| {
            let layer = executor.ledger().path_of(layer).replace('/', ".");
            let name = format!("{layer}.{what}").replace(' ', "_");
            let numbers = executor.read(tensor)?.unwrap_or_default();
            let tensor = Tensor::from_vec(numbers, tensor.shape().dims(), &Device::Cpu);
            gradients.insert(name, tensor.and_then(|tensor| tensor.to_dtype(DType::F32)).map_err(misused)?);
            Ok::<_, Error>(())
        };
        for param in self.session.model().params() {
            if let Some(gradient) = param.take_gradient() {
                put(param.layer(), param.name(), &gradient)?;
            }
        }
        // A file in the layout of others has running statistics too.
        for layer in self.session.model().leaves() {
            for (what, buffer) in layer.buffers() {
                put(layer.layer(), what, buffer)?;
            }
        }
        let loss = executor.read(&stats)?.map_or(0.0, |sums| sums[0] * scale);
        Ok((loss, gradients))
    }

    /// The losses of so many steps on one batch.
    ///
    /// # Errors
    /// Those of a step.
    pub(crate) fn steps(&mut self, batch: &Batch, rate: f64, count: usize) -> Result<Vec<f64>> {
        (0..count).map(|_| Ok(self.session.step(rate, || Ok(batch))?.loss)).collect()
    }
}

/// A batch from a file with `inputs` and `labels`, and what a sample is; `classes` is the vocabulary of tokens.
///
/// # Errors
/// Fails for a file that cannot be read, and for tensors that do not belong to a batch.
pub(crate) fn batch_of(path: &Path, classes: usize) -> Result<(Batch, Input)> {
    let tensors = safetensors::load(path, &Device::Cpu).map_err(misused)?;
    let of = |name: &str| tensors.get(name).ok_or_else(|| misused(format!("{} has no {name}", path.display())));
    let whole = |tensor: &Tensor| {
        let flat = tensor.flatten_all().and_then(|flat| flat.to_dtype(DType::U32));
        flat.and_then(|flat| flat.to_vec1::<u32>()).map_err(misused)
    };
    let (inputs, labels) = (of("inputs")?, whole(of("labels")?)?);
    match *inputs.dims() {
        [samples, length] => {
            let batch = Batch { inputs: Inputs::Tokens(whole(inputs)?), labels, samples };
            Ok((batch, Input::Tokens { length, vocabulary: classes }))
        }
        [samples, height, width, channels] => {
            let images = inputs.flatten_all().and_then(|flat| flat.to_vec1::<f32>()).map_err(misused)?;
            let batch = Batch { inputs: Inputs::Images(images), labels, samples };
            Ok((batch, Input::Image { height, width, channels }))
        }
        _ => Err(misused("inputs are [samples, length] or [samples, height, width, channels]")),
    }
}
