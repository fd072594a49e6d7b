//! The facts of a real card, compared with the assumptions about its kind before it is asked.

use serde::Serialize;

use crate::{
    backend::cuda::{self, library, pool_manners},
    bytes::Bytes,
    device::{Description, Profile, target::cuda_index},
    error::{Error, Problem, Result},
    hardware::{self, Figure, Machine, figure, gpu},
    train::gpu::Gpu,
};

/// Assumed and asked.
#[derive(Debug, Clone, Serialize)]
pub struct CardFacts {
    /// The driver's description of the card.
    pub described: Description,
    /// The profile of its kind, before anything is measured.
    pub assumed: Profile,
    /// The profile of the card, opened.
    pub opened: Profile,
    /// The version of cuDNN.
    #[serde(serialize_with = "figure")]
    pub cudnn: Figure<String>,
    /// The version of NVRTC, major and minor.
    pub compiler: (i32, i32),
    /// Bytes of the card in use before it was opened, by the management library.
    #[serde(serialize_with = "figure")]
    pub used_before_bytes: Figure<u64>,
    /// The used bytes once the card was open and its libraries were started.
    #[serde(serialize_with = "figure")]
    pub used_after_bytes: Figure<u64>,
    /// The bytes that the library then reports for this process; some containers report 0.
    #[serde(serialize_with = "figure")]
    pub told_of_process_bytes: Figure<u64>,
    /// The bytes that are taken for the process's then; `None` if they are only a bound.
    pub held_bytes: Option<u64>,
    /// The most that the driver lets a process allocate then, by its own count.
    #[serde(serialize_with = "figure")]
    pub free_by_cuda_bytes: Figure<u64>,
    /// The behaviour of its pools.
    pub pool: Vec<pool_manners::Answer>,
}

/// Asks the GPU of this name.
///
/// # Errors
/// Fails if there is no such GPU, or if it cannot be opened.
pub fn card_facts(device: &str) -> Result<CardFacts> {
    let mut machine = Machine::detect();
    machine.target(device)?;
    let Some(index) = cuda_index(device).map(|index| index as usize) else {
        let message = format!("{device} is not a GPU of this machine");
        return Err(Problem::new("device", message, "choose one, such as cuda:0").into());
    };
    let described = cuda::describe().map_err(Error::NoDevice)?;
    let missing = || Error::Misused(format!("{device} is not a GPU"));
    let assumed = Machine::nominal().with_gpus(described.clone()).profile(device).ok_or_else(missing)?;
    let described = described.into_iter().nth(index).ok_or_else(missing)?;
    let uuid = &described.uuid;
    let number = |figure: Figure<Bytes>| figure.map(|bytes| bytes.0);
    let used_before_bytes = number(gpu::used(uuid));
    let card = Gpu::open(index, &mut machine)?;
    let opened = machine.profile(device).ok_or_else(missing)?;
    Ok(CardFacts {
        assumed: Profile::clone(&assumed),
        opened: Profile::clone(&opened),
        cudnn: hardware::cudnn(),
        compiler: library::compiler(),
        used_before_bytes,
        used_after_bytes: number(gpu::used(uuid)),
        told_of_process_bytes: number(gpu::process(uuid)),
        held_bytes: card.held_idle().map(|bytes| bytes.0),
        free_by_cuda_bytes: card.device().free_bytes().map_err(|error| error.to_string()),
        pool: pool_manners::ask(card.device()),
        described,
    })
}
