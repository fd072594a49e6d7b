//! NVIDIA GPUs through the driver's management library (NVML), loaded at run time.
//!
//! Owns the library's handle. Refuses nothing: what the driver does not tell becomes a reason in words.

#[cfg(feature = "cuda")]
use std::sync::OnceLock;

use nvml_wrapper::{
    Device, Nvml, enum_wrappers::device::TemperatureSensor, enums::device::UsedGpuMemory, error::NvmlError,
    struct_wrappers::device::ProcessInfo,
};

use crate::{
    bytes::Bytes,
    device::{Figure, Gpu, in_container, in_wsl},
};

/// The driver's library, open.
pub(super) struct Driver(Nvml);

impl Driver {
    /// Opens the library, or says why it cannot.
    pub(super) fn open() -> Figure<Self> {
        // The versioned name comes with every driver; the plain one only with development packages.
        let versioned = || Nvml::builder().lib_path("libnvidia-ml.so.1".as_ref()).init();
        let opened = if cfg!(target_os = "linux") { versioned().or_else(|_| Nvml::init()) } else { Nvml::init() };
        opened.map(Self).map_err(|error| absence(&error))
    }

    /// Looks once at every GPU.
    pub(super) fn look(&self) -> Figure<Vec<Gpu>> {
        let count = self.0.device_count().map_err(|error| absence(&error))?;
        if count == 0 {
            return Err("the NVIDIA driver is there, but it shows no GPU to this process".to_owned());
        }
        Ok((0..count).map(|index| self.gpu(index)).collect())
    }

    fn gpu(&self, index: u32) -> Gpu {
        let device = self.0.device_by_index(index);
        let device = device.as_ref().map_err(|error| reason(error, "this GPU"));
        let memory = device.clone().and_then(|d| d.memory_info().map_err(|e| reason(&e, "memory")));
        Gpu {
            index,
            name: device.clone().and_then(|d| d.name().map_err(|e| reason(&e, "the name"))),
            driver: self.0.sys_driver_version().map_err(|error| reason(&error, "its version")),
            total: memory.clone().map(|memory| Bytes(memory.total)),
            used: memory.map(|memory| Bytes(memory.used)),
            process: device.clone().and_then(process_bytes),
            utilisation: device
                .clone()
                .and_then(|d| d.utilization_rates().map(|u| u.gpu).map_err(|e| reason(&e, "utilisation"))),
            temperature: device
                .clone()
                .and_then(|d| d.temperature(TemperatureSensor::Gpu).map_err(|e| reason(&e, "temperature"))),
            power: device.and_then(|d| d.power_usage().map(|mw| f64::from(mw) / 1e3).map_err(|e| reason(&e, "power"))),
        }
    }
}

fn process_bytes(device: &Device<'_>) -> Figure<Bytes> {
    let compute = device.running_compute_processes().map_err(|e| reason(&e, "processes"))?;
    // A process that computes and draws is listed twice with one figure; drawing alone may not be told at all.
    let graphics = device.running_graphics_processes().unwrap_or_default();
    let own = std::process::id();
    let ours = |list: &[ProcessInfo]| list.iter().find(|process| process.pid == own).map(|p| p.used_gpu_memory.clone());
    match ours(&compute).or_else(|| ours(&graphics)) {
        Some(UsedGpuMemory::Used(bytes)) => Ok(Bytes(bytes)),
        Some(UsedGpuMemory::Unavailable) if in_wsl() => {
            Err("under WSL, Windows manages the memory and the driver does not tell it by process".to_owned())
        }
        Some(UsedGpuMemory::Unavailable) => Err("this driver does not tell memory by process".to_owned()),
        None if in_container() && !(compute.is_empty() && graphics.is_empty()) => {
            Err("in a container the driver numbers processes as the host does, so this one cannot be found".to_owned())
        }
        None => Ok(Bytes::ZERO),
    }
}

/// Bytes of a GPU that this process holds; the GPU by the name it keeps for good.
///
/// # Errors
/// Why the driver does not tell.
#[cfg(feature = "cuda")]
pub(crate) fn process(uuid: &str) -> Figure<Bytes> {
    ask(uuid, process_bytes)
}

/// Bytes of a GPU that anyone holds.
///
/// # Errors
/// Why the driver does not tell.
#[cfg(feature = "cuda")]
pub(crate) fn used(uuid: &str) -> Figure<Bytes> {
    ask(uuid, |device| device.memory_info().map(|memory| Bytes(memory.used)).map_err(|e| reason(&e, "memory")))
}

#[cfg(feature = "cuda")]
fn ask(uuid: &str, figure: impl FnOnce(&Device<'_>) -> Figure<Bytes>) -> Figure<Bytes> {
    static DRIVER: OnceLock<Figure<Driver>> = OnceLock::new();
    let driver = DRIVER.get_or_init(Driver::open).as_ref().map_err(Clone::clone)?;
    figure(&driver.0.device_by_uuid(uuid).map_err(|error| reason(&error, "this GPU"))?)
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
            "no NVIDIA driver (libnvidia-ml was not found)".to_owned()
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
        NvmlError::NotSupported => format!("this GPU or its driver does not tell {what}"),
        NvmlError::NoPermission => format!("this user may not read {what}"),
        NvmlError::GpuLost => "the GPU no longer answers".to_owned(),
        error => format!("{what}: {error}"),
    }
}
