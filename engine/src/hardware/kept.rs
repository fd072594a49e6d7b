//! The rates of this processor, as programs before this one measured them.
//!
//! Owns the file that they are kept in. Always holds: they belong to this processor with this number of threads and to this
//! program file, and are not older than [`LASTS`], because kernels and machines change. Refuses nothing: without a file, or
//! with one that cannot be read, a program measures for itself.

use std::{
    path::PathBuf,
    time::{Duration, SystemTime, UNIX_EPOCH},
};

use serde::{Deserialize, Serialize};

use super::cpu;
use crate::{backend::Rates, cache, device::cpu_threads};

/// How long kept rates count.
const LASTS: Duration = Duration::from_secs(7 * 24 * 3600);

/// Rates, and their subject.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct KeptRates {
    of: Subject,
    /// Seconds since 1970.
    since: u64,
    /// The fastest of every start since.
    pub(crate) rates: Rates,
}

/// The subject of a measurement.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
struct Subject {
    processor: String,
    threads: usize,
    /// When the program's file was written, in seconds since 1970.
    program: u64,
}

impl Subject {
    /// This program on this machine; `None` if the system does not report it.
    fn here() -> Option<Self> {
        let written = std::env::current_exe().ok()?.metadata().ok()?.modified().ok()?;
        Some(Self { processor: cpu::look_for_name()?, threads: cpu_threads(), program: secs(written) })
    }
}

impl KeptRates {
    /// The kept rates of this program on this machine.
    pub(crate) fn read() -> Option<Self> {
        let kept: Self = serde_json::from_slice(&cache::read(&place()?)?).ok()?;
        let is_sane = kept.rates.is_sane() && kept.is_of(&Subject::here()?, secs(SystemTime::now()));
        is_sane.then_some(kept)
    }

    /// Writes `rates` for the next program, in place of the kept ones, and for no longer than those would have been kept.
    pub(crate) fn write(rates: Rates, kept: Option<Self>) {
        let now = secs(SystemTime::now());
        let Some(of) = Subject::here() else { return };
        let since = kept.map_or(now, |kept| kept.since);
        if let (Some(place), Ok(text)) = (place(), serde_json::to_vec_pretty(&Self { of, since, rates })) {
            cache::write(&place, &text);
        }
    }

    fn is_of(&self, subject: &Subject, now: u64) -> bool {
        self.of == *subject && self.since <= now && now - self.since <= LASTS.as_secs()
    }
}

fn secs(time: SystemTime) -> u64 {
    time.duration_since(UNIX_EPOCH).unwrap_or_default().as_secs()
}

fn place() -> Option<PathBuf> {
    cache::folder("processor").map(|folder| folder.join("rates.json"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rates_count_for_the_program_and_the_processor_that_they_were_measured_with() {
        let of = Subject { processor: "one".to_owned(), threads: 2, program: 7 };
        let kept = KeptRates { of: of.clone(), since: 1000, rates: Rates::NOMINAL };
        assert!(kept.is_of(&of, 1000) && kept.is_of(&of, 1000 + LASTS.as_secs()));
        assert!(!kept.is_of(&of, 1001 + LASTS.as_secs()), "too old");
        assert!(!kept.is_of(&of, 999), "of the future");
        for other in [
            Subject { processor: "other".to_owned(), ..of.clone() },
            Subject { threads: 3, ..of.clone() },
            Subject { program: 8, ..of.clone() },
        ] {
            assert!(!kept.is_of(&other, 1000), "{other:?}");
        }
    }
}
