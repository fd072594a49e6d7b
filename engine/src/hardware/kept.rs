//! Measurements of this program on this processor, kept for the programs after it.
//!
//! Owns the files that they are kept in. Always holds: they belong to this processor with this number of threads and to this
//! program file, and are not older than [`LASTS`], because programs and machines change. Refuses nothing: without a file, or
//! with one that cannot be read, a program measures for itself.

use std::{
    fs,
    path::PathBuf,
    time::{Duration, SystemTime, UNIX_EPOCH},
};

use serde::{Deserialize, Serialize, de::DeserializeOwned};

use super::cpu;
use crate::{cache, device::cpu_threads};

/// A file that is larger is none of ours.
const MOST_BYTES: u64 = 1 << 20;

/// How long kept measurements count.
const LASTS: Duration = Duration::from_secs(7 * 24 * 3600);

/// Measurements, and their subject.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct Kept<T> {
    of: Subject,
    /// When the first of them was made, in seconds since 1970.
    since: u64,
    pub(crate) measured: T,
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

impl<T: Serialize + DeserializeOwned> Kept<T> {
    /// What is kept under `name` of this program on this machine.
    pub(crate) fn read(name: &str) -> Option<Self> {
        let place = place(name)?;
        fs::metadata(&place).ok().filter(|about| about.len() <= MOST_BYTES)?;
        let kept: Self = serde_json::from_slice(&cache::read(&place)?).ok()?;
        kept.is_of(&Subject::here()?, secs(SystemTime::now())).then_some(kept)
    }

    /// Writes `measured` under `name` for the next program, in place of the kept one, and for no longer than that would have
    /// been kept.
    pub(crate) fn write(name: &str, measured: T, kept: Option<Self>) {
        let now = secs(SystemTime::now());
        let Some(of) = Subject::here() else { return };
        let since = kept.map_or(now, |kept| kept.since);
        if let (Some(place), Ok(text)) = (place(name), serde_json::to_vec_pretty(&Self { of, since, measured })) {
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

fn place(name: &str) -> Option<PathBuf> {
    cache::folder("processor").map(|folder| folder.join(name))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_kept_counts_for_the_program_and_the_processor_that_it_was_measured_with() {
        let of = Subject { processor: "one".to_owned(), threads: 2, program: 7 };
        let kept = Kept { of: of.clone(), since: 1000, measured: 0.5 };
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
