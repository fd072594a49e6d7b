//! The processor and its memory, from `/proc` and the control group.

use std::fs;

use crate::{
    bytes::Bytes,
    hardware::{Cpu, Figure},
};

/// Looks once.
pub(super) fn look() -> Cpu {
    let meminfo = read("/proc/meminfo");
    let memory = |name: &str| -> Figure<Bytes> {
        let text = meminfo.as_ref().map_err(Clone::clone)?;
        kib_field(text, name).ok_or_else(|| format!("/proc/meminfo does not tell {name}"))
    };
    let group = group_limit();
    Cpu {
        name: name(),
        cores: std::thread::available_parallelism().map_or(1, usize::from),
        total: memory("MemTotal:").map(|total| group.map_or(total, |(limit, _)| limit.min(total))),
        available: memory("MemAvailable:")
            .map(|free| group.map_or(free, |(limit, used)| limit.saturating_sub(used).min(free))),
    }
}

fn read(path: &str) -> Figure<String> {
    fs::read_to_string(path).map_err(|_| format!("this system has no {path}, where Linux tells it"))
}

fn name() -> Figure<String> {
    let text = read("/proc/cpuinfo")?;
    text.lines()
        .filter_map(|line| line.split_once(':'))
        .find(|(key, _)| matches!(key.trim(), "model name" | "Model" | "Hardware" | "cpu model"))
        .map(|(_, name)| name.trim().to_owned())
        .ok_or_else(|| "/proc/cpuinfo does not name the processor".to_owned())
}

fn kib_field(text: &str, name: &str) -> Option<Bytes> {
    let line = text.lines().find_map(|line| line.strip_prefix(name))?;
    Some(Bytes::kib(line.trim().trim_end_matches(" kB").parse().ok()?))
}

/// Limit and use of the control group this process is in, where it has a limit.
fn group_limit() -> Option<(Bytes, Bytes)> {
    let number = |path: &str| fs::read_to_string(path).ok()?.trim().parse().ok().map(Bytes);
    let folder = "/sys/fs/cgroup";
    number(&format!("{folder}/memory.max")).zip(number(&format!("{folder}/memory.current"))).or_else(|| {
        number(&format!("{folder}/memory/memory.limit_in_bytes"))
            .zip(number(&format!("{folder}/memory/memory.usage_in_bytes")))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_are_found_by_their_whole_name() {
        let text = "MemTotal:       24684092 kB\nMemAvailable:   23122152 kB\n";
        assert_eq!(kib_field(text, "MemAvailable:"), Some(Bytes::kib(23_122_152)));
        assert_eq!(kib_field(text, "MemFree:"), None);
    }
}
