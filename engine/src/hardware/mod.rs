//! The hardware of this machine, and the figures that it reports.
//!
//! Owns the discovery of the CPU and of NVIDIA GPUs, the [`Watcher`] that looks once a second, and the meaning of a device's
//! name here ([`Machine`]). Always holds: a figure that cannot be had says why, in words ([`Figure`]). Refuses nothing:
//! without a driver there are simply no GPUs.

mod cpu;
pub(crate) mod gpu;
mod host_pid;
pub(crate) mod kept;
mod kernel_set;
mod known_gpu;
mod machine;
mod seen_runs;
mod touched;
#[cfg(feature = "cuda")]
pub(crate) mod usage;
mod watcher;

use serde::Serialize;

pub use known_gpu::{Ran, kernels_allowed};
pub use machine::Machine;
pub(crate) use seen_runs::RunKind;
pub(crate) use touched::{Begun, Touched};
pub use watcher::Watcher;

use crate::{bytes::Bytes, device::Description};

/// A figure, or why it cannot be had.
pub type Figure<T> = Result<T, String>;

/// Everything that is there.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Devices {
    /// The processor that trains.
    pub cpu: Cpu,
    /// NVIDIA GPUs, or why there are none to see.
    #[serde(serialize_with = "figure")]
    pub gpus: Figure<Vec<Gpu>>,
}

/// The processor.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Cpu {
    /// The maker's name for it.
    #[serde(serialize_with = "figure")]
    pub name: Figure<String>,
    /// Threads it runs at once for this process.
    pub cores: usize,
    /// Memory this process may have: the machine's, or the container's if that is less.
    #[serde(rename = "total_bytes", serialize_with = "bytes")]
    pub total: Figure<Bytes>,
    /// Memory that is free for this process.
    #[serde(rename = "available_bytes", serialize_with = "bytes")]
    pub available: Figure<Bytes>,
}

/// One GPU at one moment.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Gpu {
    /// CUDA's number for it, which a device's name such as `cuda:0` has, or why nothing trains on it.
    #[serde(serialize_with = "figure")]
    pub index: Figure<u32>,
    /// The maker's name for it.
    #[serde(serialize_with = "figure")]
    pub name: Figure<String>,
    /// The version of its driver.
    #[serde(serialize_with = "figure")]
    pub driver: Figure<String>,
    /// The GPU's memory.
    #[serde(rename = "total_bytes", serialize_with = "bytes")]
    pub total: Figure<Bytes>,
    /// Memory in use by all processes and the driver.
    #[serde(rename = "used_bytes", serialize_with = "bytes")]
    pub used: Figure<Bytes>,
    /// Memory in use by this process.
    #[serde(rename = "process_bytes", serialize_with = "bytes")]
    pub process: Figure<Bytes>,
    /// Share of the last moments in which a kernel ran, percent.
    #[serde(rename = "utilisation_percent", serialize_with = "figure")]
    pub utilisation: Figure<u32>,
    /// The temperature in degrees Celsius.
    #[serde(rename = "temperature_celsius", serialize_with = "figure")]
    pub temperature: Figure<u32>,
    /// The power in watts.
    #[serde(rename = "power_watts", serialize_with = "figure")]
    pub power: Figure<f64>,
    /// Whether the tensors of a run lie in memory that the driver maps into a range of addresses; if not, they lie in blocks of
    /// the driver's pool.
    #[serde(serialize_with = "figure")]
    pub maps_memory: Figure<bool>,
}

impl Gpu {
    /// The name to choose it by, such as `cuda:0`.
    ///
    /// # Errors
    /// The reason why it cannot be chosen.
    pub fn device(&self) -> Figure<String> {
        self.index.as_ref().map(|index| format!("cuda:{index}")).map_err(Clone::clone)
    }

    /// Its name on screen: `GPU 0: ` and its maker's name, or without a number if it cannot be chosen.
    pub fn title(&self) -> String {
        let name = self.name.as_deref().unwrap_or("unnamed");
        self.index.as_ref().map_or_else(|_| format!("GPU: {name}"), |index| format!("GPU {index}: {name}"))
    }
}

/// The maker's name for the processor.
///
/// # Errors
/// Says so if the system does not name it.
pub fn processor() -> Figure<String> {
    cpu::look().name
}

/// Looks once at everything that is there. May take a good part of a second where a driver has to be woken.
pub fn list() -> Devices {
    Devices { cpu: cpu::look(), gpus: gpu::look(&gpu::Driver::open(), &describe()) }
}

/// The GPUs that CUDA shows, or why there are none. Opens none of them.
#[cfg(feature = "cuda")]
fn describe() -> Figure<Vec<Description>> {
    crate::backend::cuda::describe()
}

/// Reports no GPUs: this program is built without the engine for them.
#[cfg(not(feature = "cuda"))]
fn describe() -> Figure<Vec<Description>> {
    Err("this program was built without the CUDA engine".to_owned())
}

/// The version of cuDNN that convolutions run by on a GPU. Opens the library.
///
/// # Errors
/// The reason why convolutions run on the engine's own kernels.
#[cfg(feature = "cuda")]
pub fn cudnn() -> Figure<String> {
    crate::backend::cuda::library::dnn()
}

/// The version of cuDNN, in a program that was built without the engine for GPUs.
///
/// # Errors
/// Always fails: this build has no GPU engine.
#[cfg(not(feature = "cuda"))]
pub fn cudnn() -> Figure<String> {
    Err("this program was built without the CUDA engine".to_owned())
}

/// The figure, or `{"unavailable": why}`: for `serialize_with`.
///
/// # Errors
/// The error of the serializer.
pub fn figure<T: Serialize, S: serde::Serializer>(figure: &Figure<T>, serializer: S) -> Result<S::Ok, S::Error> {
    match figure {
        Ok(value) => value.serialize(serializer),
        Err(why) => serializer.collect_map([("unavailable", why)]),
    }
}

fn bytes<S: serde::Serializer>(amount: &Figure<Bytes>, serializer: S) -> Result<S::Ok, S::Error> {
    figure(&amount.as_ref().map(|bytes| bytes.0).map_err(Clone::clone), serializer)
}

/// Whether this process lives in a container, as far as it can tell.
fn in_container() -> bool {
    ["/.dockerenv", "/run/.containerenv"].iter().any(|mark| std::path::Path::new(mark).exists())
        || std::env::var_os("container").is_some()
        || host_pid::in_namespace()
}

/// Whether the driver here moves memory of a full card to the host instead of refusing it (NVIDIA's "sysmem fallback").
#[cfg(feature = "cuda")]
pub(crate) fn spills_to_host() -> bool {
    cfg!(windows) || in_wsl()
}

/// Whether this is Linux inside Windows.
fn in_wsl() -> bool {
    std::fs::read_to_string("/proc/sys/kernel/osrelease")
        .is_ok_and(|release| release.to_ascii_lowercase().contains("microsoft"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_processor_is_always_there_and_the_absence_of_gpus_has_a_reason() {
        let devices = list();
        assert!(devices.cpu.cores >= 1);
        if cfg!(target_os = "linux") {
            let (total, available) = (devices.cpu.total.expect("Linux tells"), devices.cpu.available.expect("too"));
            assert!(available <= total && total > Bytes::mib(64));
        }
        if let Err(why) = devices.gpus {
            assert!(why.split(' ').count() >= 4, "{why}");
        }
    }

    #[test]
    fn a_missing_figure_is_written_with_its_reason() {
        let gpu = Gpu {
            index: Err("CUDA does not show it".to_owned()),
            name: Ok("Card".to_owned()),
            driver: Ok("580.65".to_owned()),
            total: Ok(Bytes::gib(8)),
            used: Err("the driver is asleep".to_owned()),
            process: Ok(Bytes(0)),
            utilisation: Ok(3),
            temperature: Ok(40),
            power: Ok(51.5),
            maps_memory: Ok(true),
        };
        let text = toml::to_string(&gpu).expect("written");
        assert!(text.contains("total_bytes = 8589934592"), "{text}");
        assert!(text.contains("[index]\nunavailable = \"CUDA does not show it\""), "{text}");
        assert!(text.contains("[used_bytes]\nunavailable = \"the driver is asleep\""), "{text}");
    }
}
