//! A GPU that runs take place on: what it holds beside tensors, and what the driver says of it.

use std::rc::Rc;

use crate::{
    backend::{
        Cuda,
        cuda::{Device, Options},
    },
    bytes::Bytes,
    device::{
        Target, gpu,
        present::{self, Measured},
    },
    error::{Error, Result},
    experiment::{Experiment, PoolPolicy},
    plan::Peak,
};

/// A GPU, open and warmed up.
pub(crate) struct Gpu {
    device: Rc<Device>,
    /// Bytes of the card in use before this process opened it, where the driver does not tell them by process.
    used_before: Bytes,
}

impl Gpu {
    /// Opens a GPU, starts the libraries on it, and makes known what they hold.
    ///
    /// # Errors
    /// What is missing.
    pub(crate) fn open(index: usize) -> Result<Self> {
        let used_before = present::uuid(index).and_then(|uuid| gpu::used(&uuid)).unwrap_or_default();
        let device = Device::open(index)?;
        let pool = device.warm_up()?;
        let gpu = Self { device, used_before };
        present::learn(index, Measured { context: gpu.process()(), is_of_run: false, pool: Some(pool) });
        Ok(gpu)
    }

    /// The driver's number for it.
    pub(super) fn index(&self) -> usize {
        self.device.index()
    }

    /// A backend for one run: its pool ends where `budget` does, less what the process holds beside it.
    ///
    /// # Errors
    /// The driver's, and a card that has no room for the whole budget where that is to be taken at the start.
    pub(crate) fn backend(&self, experiment: &Experiment, budget: Bytes) -> Result<Cuda> {
        let Target::Gpu(profile) = Target::of(&experiment.device)? else {
            return Err(Error::Device(format!("{} is no GPU", experiment.device)));
        };
        let context = profile.context;
        let limit = budget.saturating_sub(context);
        if limit == Bytes::ZERO {
            return Err(Error::Device(format!(
                "the driver and its libraries alone hold {context}, which leaves nothing of a budget of {budget}"
            )));
        }
        let gpu = &experiment.gpu;
        let options =
            Options { gives_back: gpu.pool == PoolPolicy::GiveBack, tf32: gpu.tf32, deterministic: gpu.deterministic };
        let backend = Cuda::new(&self.device, profile, Some(limit), options)?;
        if gpu.pool == PoolPolicy::Reserve {
            backend.pool().reserve_all()?;
        }
        Ok(backend)
    }

    /// Reads what this process holds of the card: from the driver where it tells it, else what the card's use has grown by
    /// since it was opened.
    pub(super) fn process(&self) -> Box<dyn Fn() -> Bytes> {
        let (uuid, before) = (present::uuid(self.index()), self.used_before);
        Box::new(move || {
            let Ok(uuid) = &uuid else { return Bytes::ZERO };
            match gpu::process(uuid) {
                Ok(bytes) if bytes > Bytes::ZERO => bytes,
                _ => gpu::used(uuid).unwrap_or_default().saturating_sub(before),
            }
        })
    }

    /// Remembers what the process held beside its pool at the most: kernels are loaded when they are first used.
    pub(super) fn learn(&self, measured: Peak) {
        let context = measured.process.saturating_sub(measured.reserved);
        present::learn(self.index(), Measured { context, is_of_run: context > Bytes::ZERO, pool: None });
    }
}
