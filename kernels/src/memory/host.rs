//! The memory that the system can still give this process, by the machine's free memory, its control group and its own
//! limits.
//!
//! Owns the readings ([`FreeMemory`]). Always holds: an amount is not more than any limit leaves that can be read. Refuses
//! nothing itself: the ledger of a run on the CPU refuses, by [`Line`]. A limit that cannot be read does not count.

pub use crate::error::LimitedBy;
use crate::{
    bytes::Bytes,
    memory::{allocator::heap, ballast},
};

/// The bytes that a run may have alive, and the limit that sets them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Line {
    /// Bytes alive.
    pub bytes: Bytes,
    /// The limit that draws the line there.
    pub limited_by: LimitedBy,
}

impl Line {
    /// The limit of a run that begins now: `budget`, or what the system can give in addition to `taken` bytes if that is less.
    pub fn now(budget: Bytes, taken: Bytes) -> Self {
        let system = FreeMemory::now().map(|free| free.line(taken)).filter(|line| line.bytes < budget);
        system.unwrap_or(Self { bytes: budget, limited_by: LimitedBy::Budget })
    }

    /// The load of a run and this line, as they read next to each other. A budget is named by its size, any other limit by
    /// its source.
    pub fn beside(&self, load: Bytes) -> [String; 2] {
        let [load, line] = load.beside(self.bytes);
        match self.limited_by {
            LimitedBy::Budget => [load, line],
            limited_by => [load, limited_by.of(line)],
        }
    }
}

/// Bytes that a process that trains maps before a run in addition to one that plans: the ballast, and the stacks and heaps
/// of the trainer's thread and of those that keep the run and make its batches. They took 8 to 12 MiB more than the ballast
/// (`cnn-shapes` and `mlp-digits`, 1 and 2 threads), as some begin while the line is drawn.
const MAPPED_TO_TRAIN: Bytes = Bytes(ballast::BYTES as u64 + (14 << 20));

/// Bytes that the program maps until it can answer in words, without the threads that compute: the ballast, the trainer's
/// thread, and the heap. With the part of two threads it is 28 MiB; without a check `plan` aborted if there was less than
/// 14 MiB, and `train`, with the ballast, if there was less than 22 MiB (`app/tests/command_line/limits.rs`).
const STARTS_WITH: Bytes = Bytes::mib(20);
/// Bytes that each of those threads maps: a stack of 2 MiB, and as much of the heap for its first products.
const THREAD_STARTS_WITH: Bytes = Bytes::mib(4);

/// The memory that the system can still give this process, by the tightest of its limits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FreeMemory {
    /// Bytes by which the process may grow.
    pub bytes: Bytes,
    /// The tightest limit.
    pub limited_by: LimitedBy,
}

impl FreeMemory {
    /// The memory that is free now; `None` if the system does not report it.
    pub fn now() -> Option<Self> {
        least(limits().into_iter())
    }

    /// The memory that a limit of this process leaves before it has threads, if that is less than the program starts with.
    /// The second value is the least that it starts with.
    pub fn too_little_to_start(threads: usize) -> Option<(Self, Bytes)> {
        Self::of_process_below(Bytes(STARTS_WITH.0 + threads as u64 * THREAD_STARTS_WITH.0))
    }

    /// The memory that a limit of this process leaves, if that is less than so many more threads map: their bytes come second.
    pub fn too_little_for(threads: usize) -> Option<(Self, Bytes)> {
        Self::of_process_below(Bytes(threads as u64 * THREAD_STARTS_WITH.0))
    }

    fn of_process_below(needed: Bytes) -> Option<(Self, Bytes)> {
        let own = limits().into_iter().filter(|(_, limited_by)| limited_by.is_of_process());
        least(own).filter(|free| free.bytes < needed).map(|free| (free, needed))
    }

    /// The memory that a process which trains will find free where this one only plans: its limits count the bytes that it
    /// sets aside and the threads that it starts before a run begins, `more` of them than the two of a small machine.
    pub fn to_train(more: usize) -> Option<Self> {
        least(limits().into_iter().map(|(bytes, limited_by)| {
            let mapped = Bytes(MAPPED_TO_TRAIN.0 + more as u64 * THREAD_STARTS_WITH.0);
            let taken = if limited_by.is_of_process() { mapped } else { Bytes::ZERO };
            (bytes.saturating_sub(taken), limited_by)
        }))
    }

    /// The line of a run when `taken` bytes go to something else before.
    pub fn line(&self, taken: Bytes) -> Line {
        let free = self.bytes.saturating_sub(taken);
        Line { bytes: Bytes(heap::alive_in(free.0)), limited_by: self.limited_by }
    }

    /// Whether `other` is so near that no plan has to be made again for it: free memory is never the same twice.
    pub fn is_near(&self, other: &Self) -> bool {
        self.limited_by == other.limited_by && self.bytes.0.abs_diff(other.bytes.0) <= self.bytes.0 / 32
    }
}

/// The tightest of some limits.
fn least(limits: impl Iterator<Item = (Bytes, LimitedBy)>) -> Option<FreeMemory> {
    let least = limits.min_by_key(|(bytes, _)| *bytes);
    least.map(|(bytes, limited_by)| FreeMemory { bytes, limited_by })
}

/// The bytes that each limit leaves now.
fn limits() -> Vec<(Bytes, LimitedBy)> {
    #[cfg(target_os = "linux")]
    let found = linux::limits();
    #[cfg(not(target_os = "linux"))]
    let found = sysinfo::System::new().map_or_else(
        |_| Vec::new(),
        |mut system| {
            system.refresh_memory();
            let free = Bytes(system.available_memory());
            if free == Bytes::ZERO { Vec::new() } else { vec![(free, LimitedBy::Machine)] }
        },
    );
    found
}

/// Whether the process has a limit of its own, such as `ulimit -v` sets.
#[cfg(target_os = "linux")]
pub(super) fn has_own_limit() -> bool {
    linux::has_own_limit()
}

/// The free memory of the machine, its control group included; `None` if the system does not say.
pub fn available() -> Option<Bytes> {
    limits().into_iter().filter(|(_, limited_by)| !limited_by.is_of_process()).map(|(bytes, _)| bytes).min()
}

/// The most that a file of this process may have (`ulimit -f`); `None` without a limit, or if the system does not report it.
pub fn most_of_a_file() -> Option<Bytes> {
    #[cfg(target_os = "linux")]
    return linux::most_of_a_file();
    #[cfg(not(target_os = "linux"))]
    None
}

/// Bytes of a page of the system's memory.
#[cfg(unix)]
pub fn page_size() -> usize {
    rustix::param::page_size().max(1)
}

#[cfg(target_os = "linux")]
mod linux {
    use std::{fs, path::Path};

    use rustix::process::{Resource, getrlimit};

    use super::{LimitedBy, page_size};
    use crate::bytes::Bytes;

    pub(super) fn limits() -> Vec<(Bytes, LimitedBy)> {
        let machine = read("/proc/meminfo").and_then(|text| kib_field(&text, "MemAvailable:"));
        let groups =
            read("/proc/self/cgroup").map(|text| groups(&text, Path::new("/sys/fs/cgroup"))).unwrap_or_default();
        let machine = machine.map(|bytes| (bytes, LimitedBy::Machine));
        machine
            .into_iter()
            .chain(groups.into_iter().map(|bytes| (bytes, LimitedBy::ControlGroup)))
            .chain(own())
            .collect()
    }

    fn read(path: impl AsRef<Path>) -> Option<String> {
        fs::read_to_string(path).ok()
    }

    fn number(path: impl AsRef<Path>) -> Option<u64> {
        read(path)?.trim().parse().ok()
    }

    pub(super) fn kib_field(text: &str, name: &str) -> Option<Bytes> {
        let line = text.lines().find_map(|line| line.strip_prefix(name))?;
        Some(Bytes::kib(line.trim().trim_end_matches(" kB").parse().ok()?))
    }

    /// The bytes that the control groups of `/proc/self/cgroup` leave, including the groups around them, for version 2 and
    /// version 1.
    pub(super) fn groups(own: &str, root: &Path) -> Vec<Bytes> {
        let mut found = Vec::new();
        for line in own.lines() {
            let mut fields = line.splitn(3, ':').skip(1);
            let (Some(controllers), Some(path)) = (fields.next(), fields.next()) else { continue };
            let (root, files) = match controllers {
                "" => (root.to_owned(), ["memory.max", "memory.current", "inactive_file "]),
                _ if controllers.split(',').any(|name| name == "memory") => {
                    (root.join("memory"), ["memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file "])
                }
                _ => continue,
            };
            // In a container the path may name a folder of the host: its own group is then the root.
            let own = root.join(path.trim_start_matches('/'));
            let all = own.ancestors().take_while(|folder| folder.starts_with(&root)).filter_map(|f| left(f, files));
            found.extend(all.min());
        }
        found
    }

    /// The bytes that one group leaves. The system drops file pages that were not used lately when memory is short, so they
    /// count as free.
    fn left(folder: &Path, [limit, used, cached]: [&str; 3]) -> Option<Bytes> {
        let (limit, used) = (number(folder.join(limit))?, number(folder.join(used))?);
        let stat = read(folder.join("memory.stat")).unwrap_or_default();
        let cached = stat.lines().find_map(|line| line.strip_prefix(cached)?.trim().parse().ok()).unwrap_or(0);
        Some(Bytes(limit.saturating_sub(used.saturating_sub(cached))))
    }

    /// The bytes that the limits of the process itself leave.
    fn own() -> Vec<(Bytes, LimitedBy)> {
        let sizes: Vec<u64> = read("/proc/self/statm")
            .map(|text| text.split_whitespace().filter_map(|pages| pages.parse().ok()).collect())
            .unwrap_or_default();
        // Pages of the whole address space come first, those of data and stacks sixth.
        let page_bytes = page_size() as u64;
        let left = |resource, place: usize, limited_by| {
            let used = sizes.get(place)? * page_bytes;
            Some((Bytes(soft_limit(resource)?.saturating_sub(used)), limited_by))
        };
        let all = [left(Resource::As, 0, LimitedBy::Process), left(Resource::Data, 5, LimitedBy::ProcessData)];
        all.into_iter().flatten().collect()
    }

    /// Whether the process has a limit of its own for its address space or its data.
    pub(super) fn has_own_limit() -> bool {
        [Resource::As, Resource::Data].into_iter().any(|resource| soft_limit(resource).is_some())
    }

    pub(super) fn most_of_a_file() -> Option<Bytes> {
        soft_limit(Resource::Fsize).map(Bytes)
    }

    /// The limit that holds for a resource, if there is one.
    fn soft_limit(resource: Resource) -> Option<u64> {
        getrlimit(resource).current
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

        #[test]
        fn the_tightest_group_around_the_process_is_what_counts() {
            let root = tempfile::tempdir().expect("a folder");
            let write = |path: &str, text: &str| {
                let path = root.path().join(path);
                fs::create_dir_all(path.parent().expect("a folder")).expect("a folder");
                fs::write(path, text).expect("a file");
            };
            write("a/memory.max", "1000\n");
            write("a/memory.current", "700\n");
            write("a/memory.stat", "active_file 50\ninactive_file 100\n");
            write("a/b/memory.max", "max\n");
            write("a/b/memory.current", "600\n");
            assert_eq!(groups("0::/a/b\n", root.path()), [Bytes(400)]);
            assert_eq!(groups("0::/elsewhere\n", root.path()), []);
            write("memory/job/memory.limit_in_bytes", "5000");
            write("memory/job/memory.usage_in_bytes", "1000");
            assert_eq!(groups("4:cpu:/x\n3:memory,pids:/job\n", root.path()), [Bytes(4000)]);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::memory::allocator::range;

    #[test]
    fn a_budget_inside_the_machine_is_the_line_and_one_above_is_not() {
        let small = Line::now(Bytes::kib(1), Bytes::ZERO);
        assert_eq!(small, Line { bytes: Bytes::kib(1), limited_by: LimitedBy::Budget });
        if let Some(available) = available() {
            let large = Line::now(Bytes(u64::MAX), Bytes::ZERO);
            assert!(large.limited_by != LimitedBy::Budget && large.bytes < available.max(Bytes(1)), "{large:?}");
        }
    }

    #[test]
    fn free_memory_that_hardly_moved_is_the_same() {
        let free = FreeMemory { bytes: Bytes::gib(4), limited_by: LimitedBy::Machine };
        assert!(free.is_near(&FreeMemory { bytes: Bytes::mib(4000), ..free }));
        assert!(!free.is_near(&FreeMemory { bytes: Bytes::gib(3), ..free }));
        assert!(!free.is_near(&FreeMemory { limited_by: LimitedBy::Process, ..free }));
        let line = free.line(Bytes::gib(1));
        assert!(line.limited_by == LimitedBy::Machine && line.bytes < Bytes::gib(3), "{line:?}");
        assert_eq!(free.line(Bytes::gib(5)).bytes, Bytes::ZERO);
    }

    #[test]
    fn what_is_alive_in_a_process_grows_it_by_no_more() {
        for free in [0, 1 << 20, 5 << 20, 100 << 20, 7 << 30] {
            let alive = heap::alive_in(free);
            assert!(alive == 0 || heap::grows(alive).max(range::grows(alive)) <= free, "{free}: {alive}");
        }
    }
}
