//! The provenance of a measured figure: where and when it was measured.

use plimsoll_engine::{device::target, hardware};
use serde::Serialize;

/// Where and when figures were measured.
#[derive(Debug, Clone, Serialize)]
pub(super) struct Provenance {
    /// The name that was asked for, such as `cuda:0`.
    on: String,
    /// The maker's name for it.
    device: Option<String>,
    /// The version of a GPU's driver.
    driver: Option<String>,
    /// Threads of a processor.
    threads: Option<usize>,
    /// Year, month and day, in UTC.
    date: String,
    /// This program's version.
    version: &'static str,
}

impl Provenance {
    /// Now, on the device of this name.
    pub(super) fn now(on: &str) -> Self {
        let devices = hardware::list();
        let index = target::cuda_index(on);
        let gpu = devices.gpus.as_ref().ok().and_then(|gpus| gpus.iter().find(|gpu| gpu.device().as_deref() == Ok(on)));
        let (device, threads) = match index {
            Some(_) => (gpu.and_then(|gpu| gpu.name.clone().ok()), None),
            None => (devices.cpu.name.clone().ok(), Some(devices.cpu.cores)),
        };
        Self {
            on: on.to_owned(),
            device,
            driver: gpu.and_then(|gpu| gpu.driver.clone().ok()),
            threads,
            date: jiff::Timestamp::now().to_string().chars().take(10).collect(),
            version: env!("CARGO_PKG_VERSION"),
        }
    }

    /// The same for people: the name and the value of each.
    pub(super) fn rows(&self) -> Vec<(String, String)> {
        let threads = self.threads.map(|threads| threads.to_string());
        let rows = [
            ("device", Some(self.on.clone())),
            ("name", self.device.clone()),
            ("driver", self.driver.clone()),
            ("threads", threads),
            ("date", Some(self.date.clone())),
            ("program", Some(format!("plimsoll {}", self.version))),
        ];
        rows.into_iter().filter_map(|(name, value)| Some((name.to_owned(), value?))).collect()
    }
}
