//! Which process records a run, and whether it is still there.
//!
//! The system reuses the number of a process that has ended, so a process is known by its number and the moment it began, on one
//! system. Where that cannot be asked, as from another container, the last sign of life decides.

use std::sync::OnceLock;

use jiff::{SignedDuration, Timestamp};

/// A sign of life is written this often at least.
pub(super) const PULSE: std::time::Duration = std::time::Duration::from_secs(10);
/// A process that cannot be asked for counts as gone after this long without a sign of life.
const SILENCE: SignedDuration = SignedDuration::from_secs(60);

/// A process that records a run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Owner {
    /// One start of one system, and the part of the system that sees the process by this number.
    pub(super) system: String,
    /// The process's number.
    pub(super) pid: u32,
    /// When it began, in the system's own count.
    pub(super) began: u64,
}

impl Owner {
    /// This process.
    pub(super) fn this() -> Self {
        static THIS: OnceLock<Owner> = OnceLock::new();
        let find = || {
            let pid = std::process::id();
            Self { system: system(), pid, began: began(pid).unwrap_or_default() }
        };
        THIS.get_or_init(find).clone()
    }

    /// Whether it is still there at `now`, having given its last sign of life at `pulse`.
    pub(super) fn is_alive(&self, pulse: Timestamp, now: Timestamp) -> bool {
        if self.system == Self::this().system {
            return began(self.pid) == Some(self.began);
        }
        now.duration_since(pulse) < SILENCE
    }
}

/// When a process began; `None` if it is gone, or dead and not yet cleared away.
#[cfg(target_os = "linux")]
fn began(pid: u32) -> Option<u64> {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    // The name stands in parentheses and may have any character: the fields after it begin behind the last one (proc(5)).
    let mut fields = stat.rsplit_once(')')?.1.split_ascii_whitespace();
    let state = fields.next()?;
    // The state is the third field of the line, the start the twenty-second.
    let began = fields.nth(18)?.parse().ok()?;
    (!matches!(state, "Z" | "X" | "x")).then_some(began)
}

#[cfg(not(target_os = "linux"))]
fn began(pid: u32) -> Option<u64> {
    use sysinfo::{Pid, ProcessRefreshKind, ProcessStatus, ProcessesToUpdate, System};

    let mut system = System::new().ok()?;
    let pid = Pid::from_u32(pid);
    system.refresh_processes_specifics(ProcessesToUpdate::Some(&[pid]), true, ProcessRefreshKind::nothing());
    let process = system.process(pid)?;
    (!matches!(process.status(), ProcessStatus::Zombie | ProcessStatus::Dead)).then(|| process.start_time())
}

#[cfg(target_os = "linux")]
fn system() -> String {
    let boot = std::fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap_or_default();
    let space = std::fs::read_link("/proc/self/ns/pid").map(|link| link.display().to_string()).unwrap_or_default();
    format!("{} {space}", boot.trim())
}

#[cfg(not(target_os = "linux"))]
fn system() -> String {
    use sysinfo::System;

    System::host_name().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[cfg(target_os = "linux")]
    #[test]
    fn a_process_is_known_until_it_ends() {
        let now = Timestamp::now();
        let long_ago = now - SignedDuration::from_hours(5);
        let this = Owner::this();
        assert!(this.is_alive(long_ago, now), "this process runs, regardless of what it wrote");
        assert!(
            !Owner { began: this.began.wrapping_sub(7), ..this.clone() }.is_alive(now, now),
            "another of its number"
        );
        let mut child = std::process::Command::new("sleep").arg("60").spawn().expect("a process");
        let owner = Owner { pid: child.id(), began: began(child.id()).expect("runs"), ..this };
        assert!(owner.is_alive(now, now));
        child.kill().expect("killed");
        // Dead before its parent has asked for its end.
        while std::fs::read_to_string(format!("/proc/{}/stat", child.id())).is_ok_and(|stat| !stat.contains(") Z")) {
            std::thread::yield_now();
        }
        assert!(!owner.is_alive(now, now));
        child.wait().expect("cleared");
        assert!(!owner.is_alive(now, now));
    }

    #[test]
    fn where_a_process_cannot_be_asked_for_its_last_sign_of_life_decides() {
        let elsewhere = Owner { system: "another".to_owned(), pid: 1, began: 0 };
        let now = Timestamp::now();
        assert!(elsewhere.is_alive(now - SignedDuration::from_secs(20), now));
        assert!(!elsewhere.is_alive(now - SignedDuration::from_secs(90), now));
    }
}
