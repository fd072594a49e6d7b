//! NVIDIA GPUs: those that CUDA shows, in its order, each with the figures of the driver's management library (NVML), and
//! those that the library alone sees.
//!
//! Owns the library's handle, loaded at run time. Holds: the two know a card by its unique name (UUID) and never by its
//! number, because each counts in its own order. Refuses nothing: a figure that the driver does not report becomes a reason
//! in words.

#[cfg(feature = "cuda")]
use std::sync::OnceLock;

use nvml_wrapper::{
    Device, Nvml, enum_wrappers::device::TemperatureSensor, enums::device::UsedGpuMemory, error::NvmlError,
    struct_wrappers::device::ProcessInfo,
};

use crate::{
    bytes::Bytes,
    device::Description,
    hardware::{Figure, Gpu, host_pid, in_container, in_wsl},
};

/// The driver's library, open.
pub(super) struct Driver {
    nvml: Nvml,
    /// The driver's version.
    version: Figure<String>,
}

/// Looks once at every GPU: first those that can be trained on, by CUDA's numbers, then those that cannot.
pub(super) fn look(driver: &Figure<Driver>, cuda: &Figure<Vec<Description>>) -> Figure<Vec<Gpu>> {
    let shown = cuda.as_deref().unwrap_or_default();
    let mut gpus: Vec<Gpu> = (0..).zip(shown).map(|(index, shown)| trainable(driver, index, shown)).collect();
    let others = match driver {
        Ok(driver) => driver.others(shown, cuda.as_ref().err()),
        Err(why) => Err(why.clone()),
    };
    match others {
        Err(why) if gpus.is_empty() => return Err(why),
        others => gpus.extend(others.into_iter().flatten()),
    }
    if gpus.is_empty() {
        return Err("the NVIDIA driver is there, but it shows no GPU to this process".to_owned());
    }
    Ok(gpus)
}

fn trainable(driver: &Figure<Driver>, index: u32, shown: &Description) -> Gpu {
    let device = driver.as_ref().map_err(Clone::clone).and_then(|driver| driver.device(&shown.uuid));
    let version = driver.as_ref().map_err(Clone::clone).and_then(|driver| driver.version.clone());
    let gpu = gpu(Ok(index), device, version);
    Gpu {
        name: gpu.name.or_else(|_| Ok(shown.name.clone())),
        total: gpu.total.or(Ok(Bytes(shown.total_bytes))),
        maps_memory: Ok(shown.maps_memory),
        ..gpu
    }
}

fn gpu(index: Figure<u32>, device: Figure<Device<'_>>, driver: Figure<String>) -> Gpu {
    let device = device.as_ref().map_err(Clone::clone);
    let memory = device.clone().and_then(|d| d.memory_info().map_err(|e| reason(&e, "memory")));
    Gpu {
        maps_memory: index.clone().and(Err("CUDA does not say".to_owned())),
        index,
        name: device.clone().and_then(|d| d.name().map_err(|e| reason(&e, "the name"))),
        process: device.clone().and_then(|d| process_bytes(d, &driver)),
        driver,
        total: memory.clone().map(|memory| Bytes(memory.total)),
        used: memory.map(|memory| Bytes(memory.used)),
        utilisation: device
            .clone()
            .and_then(|d| d.utilization_rates().map(|u| u.gpu).map_err(|e| reason(&e, "utilisation"))),
        temperature: device
            .clone()
            .and_then(|d| d.temperature(TemperatureSensor::Gpu).map_err(|e| reason(&e, "temperature"))),
        power: device.and_then(|d| d.power_usage().map(|mw| f64::from(mw) / 1e3).map_err(|e| reason(&e, "power"))),
    }
}

impl Driver {
    /// Opens the library, or says why it cannot.
    pub(super) fn open() -> Figure<Self> {
        // The versioned name comes with every driver; the plain one only with development packages.
        let versioned = || Nvml::builder().lib_path("libnvidia-ml.so.1".as_ref()).init();
        let opened = if cfg!(target_os = "linux") { versioned().or_else(|_| Nvml::init()) } else { Nvml::init() };
        let nvml = opened.map_err(|error| absence(&error))?;
        let version = nvml.sys_driver_version().map_err(|error| reason(&error, "its version"));
        Ok(Self { nvml, version })
    }

    /// The GPU that CUDA knows by this name, or the part of one (MIG): CUDA does not say which of the two it is.
    fn device(&self, uuid: &str) -> Figure<Device<'_>> {
        let whole = self.nvml.device_by_uuid(format!("GPU-{uuid}"));
        whole.or_else(|error| self.nvml.device_by_uuid(format!("MIG-{uuid}")).map_err(|_| reason(&error, "this GPU")))
    }

    /// The GPUs that CUDA does not show: `why` it shows none at all, if it does not.
    fn others(&self, shown: &[Description], why: Option<&String>) -> Figure<Vec<Gpu>> {
        let count = self.nvml.device_count().map_err(|error| absence(&error))?;
        let is_shown = |device: &Device<'_>| {
            device.uuid().is_ok_and(|name| shown.iter().any(|gpu| name.strip_prefix("GPU-") == Some(gpu.uuid.as_str())))
        };
        let hidden = "CUDA does not show it to this process: CUDA_VISIBLE_DEVICES may leave it out, or it is there in parts \
                      (MIG)";
        let why = why.map_or(hidden, |why| why.as_str());
        let other = |index| {
            let device = self.nvml.device_by_index(index);
            let is_other = !device.as_ref().is_ok_and(is_shown);
            let device = device.map_err(|error| reason(&error, "this GPU"));
            is_other.then(|| gpu(Err(why.to_owned()), device, self.version.clone()))
        };
        Ok((0..count).filter_map(other).collect())
    }
}

/// Processes that compute on a GPU.
fn computing(device: &Device<'_>, version: &Figure<String>) -> Figure<Vec<ProcessInfo>> {
    if version.as_ref().is_ok_and(|version| tells_processes_wrongly(version)) {
        return Err(
            "drivers 535.43 to 535.98 report memory by process in a form of their own; update the driver".to_owned()
        );
    }
    device.running_compute_processes().map_err(|e| match e {
        _ if in_wsl() => WSL.to_owned(),
        e => reason(&e, "processes"),
    })
}

const WSL: &str = "under WSL, Windows manages the memory and the driver does not report it by process";

/// Whether a driver's entries of processes are larger than its header says, so that a list of them is nonsense and may run
/// past its end (XuehaiPan/nvitop, issue 88 and pull request 89; 536 is the same branch on Windows).
fn tells_processes_wrongly(version: &str) -> bool {
    let mut numbers = version.split('.').map(|number| number.parse::<u32>().ok());
    matches!((numbers.next().flatten(), numbers.next().flatten()), (Some(535), Some(43..=98)) | (Some(536), _))
}

fn process_bytes(device: &Device<'_>, version: &Figure<String>) -> Figure<Bytes> {
    let compute = computing(device, version)?;
    let number = host_pid::number().map_err(|why| if in_wsl() { WSL.to_owned() } else { why })?;
    // A process that computes and draws is listed twice with one figure; a process that only draws may not be reported at
    // all.
    let graphics = device.running_graphics_processes().unwrap_or_default();
    let ours =
        |list: &[ProcessInfo]| list.iter().find(|process| process.pid == number).map(|p| p.used_gpu_memory.clone());
    match ours(&compute).or_else(|| ours(&graphics)) {
        Some(UsedGpuMemory::Used(bytes)) => Ok(Bytes(bytes)),
        Some(UsedGpuMemory::Unavailable) if in_wsl() => Err(WSL.to_owned()),
        Some(UsedGpuMemory::Unavailable) => Err("this driver does not report memory by process".to_owned()),
        None => Ok(Bytes::ZERO),
    }
}

/// Bytes of a GPU that this process holds; the GPU by the name it keeps for good.
///
/// # Errors
/// The reason why the driver does not say.
#[cfg(feature = "cuda")]
pub(crate) fn process(uuid: &str) -> Figure<Bytes> {
    ask(uuid, process_bytes)
}

/// Bytes of a GPU that are in use by any process.
///
/// # Errors
/// The reason why the driver does not say.
#[cfg(feature = "cuda")]
pub(crate) fn used(uuid: &str) -> Figure<Bytes> {
    ask(uuid, |device, _| device.memory_info().map(|memory| Bytes(memory.used)).map_err(|e| reason(&e, "memory")))
}

/// The numbers that the driver gives the processes that compute on a GPU.
///
/// # Errors
/// The reason why the driver does not say.
#[cfg(feature = "cuda")]
pub(super) fn numbers(uuid: &str) -> Figure<Vec<u32>> {
    ask(uuid, |device, version| Ok(computing(device, version)?.into_iter().map(|process| process.pid).collect()))
}

#[cfg(feature = "cuda")]
fn ask<T>(uuid: &str, figure: impl FnOnce(&Device<'_>, &Figure<String>) -> Figure<T>) -> Figure<T> {
    static DRIVER: OnceLock<Figure<Driver>> = OnceLock::new();
    let driver = DRIVER.get_or_init(Driver::open).as_ref().map_err(Clone::clone)?;
    figure(&driver.device(uuid)?, &driver.version)
}

/// Why there is no GPU to see.
fn absence(error: &NvmlError) -> String {
    let nodes = std::path::Path::new("/dev/nvidiactl").exists() || std::path::Path::new("/proc/driver/nvidia").exists();
    match error {
        NvmlError::LibloadingError(_) | NvmlError::LibraryNotFound if nodes && in_container() => {
            "the host has an NVIDIA driver, but its library (libnvidia-ml) is not in this container; start the \
             container with GPU access"
                .to_owned()
        }
        NvmlError::LibloadingError(_) | NvmlError::LibraryNotFound if in_wsl() => {
            "no NVIDIA driver (libnvidia-ml was not found); under WSL it comes with the Windows driver".to_owned()
        }
        NvmlError::LibloadingError(_) | NvmlError::LibraryNotFound => {
            let library = if cfg!(windows) { "nvml.dll" } else { "libnvidia-ml" };
            format!("no NVIDIA driver ({library} was not found)")
        }
        NvmlError::DriverNotLoaded => "the NVIDIA driver is installed but not loaded".to_owned(),
        NvmlError::LibRmVersionMismatch => {
            "the NVIDIA driver was updated while the old one runs; restart the machine".to_owned()
        }
        error => format!("the NVIDIA driver does not answer: {error}"),
    }
}

/// Why one figure is not to be had.
fn reason(error: &NvmlError, what: &str) -> String {
    match error {
        NvmlError::NotSupported => format!("this GPU or its driver does not report {what}"),
        NvmlError::NoPermission => format!("this user may not read {what}"),
        NvmlError::GpuLost => "the GPU no longer answers".to_owned(),
        error => format!("{what}: {error}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn drivers_whose_lists_of_processes_are_nonsense_are_known_by_their_versions() {
        let wrong = ["535.43.02", "535.54.03", "535.98", "536.23"];
        let right = ["530.41.03", "535.104.05", "535.183.01", "550.54.14", "580.65", "", "not a version"];
        assert!(wrong.iter().all(|version| tells_processes_wrongly(version)));
        assert!(!right.iter().any(|version| tells_processes_wrongly(version)));
    }
}
