//! The processor and its memory, as the operating system and the control group report them.

use sysinfo::{CGroupLimits, CpuRefreshKind, ProcessRefreshKind, ProcessesToUpdate, System};

use crate::{
    bytes::Bytes,
    hardware::{Cpu, Figure},
};

/// Looks at the processor once.
pub(super) fn look() -> Cpu {
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    let mut system = match System::new() {
        Ok(system) => system,
        Err(error) => {
            let why = format!("this system reports nothing of itself: {error}");
            return Cpu { name: Err(why.clone()), cores, total: Err(why.clone()), available: Err(why) };
        }
    };
    system.refresh_memory();
    system.refresh_cpu_list(CpuRefreshKind::nothing());
    let limits = limits(&mut system);
    let [total, available] = memory(&system, limits.as_ref());
    Cpu { name: name(&system), cores, total, available }
}

/// The maker's name for the processor, if the system reports it.
pub(super) fn look_for_name() -> Option<String> {
    let mut system = System::new().ok()?;
    system.refresh_cpu_list(CpuRefreshKind::nothing());
    name(&system).ok()
}

/// All memory, and the available part of it; the control group's limit if that is less.
fn memory(system: &System, limits: Option<&CGroupLimits>) -> [Figure<Bytes>; 2] {
    if system.total_memory() == 0 {
        return [(); 2].map(|()| Err("this system does not report its memory".to_owned()));
    }
    let [total, available] = limits.map_or([u64::MAX; 2], |limits| [limits.total_memory, limits.free_memory]);
    [Ok(Bytes(system.total_memory().min(total))), Ok(Bytes(system.available_memory().min(available)))]
}

fn name(system: &System) -> Figure<String> {
    let brands = system.cpus().iter().map(|cpu| cpu.brand().trim());
    let name = brands.filter(|brand| !brand.is_empty()).map(str::to_owned).next();
    name.ok_or_else(|| "this system does not name the processor".to_owned())
}

/// The limits of this process's control group, if it limits anything (Linux).
fn limits(system: &mut System) -> Option<CGroupLimits> {
    let own = sysinfo::get_current_pid().ok();
    if let Some(pid) = own {
        let only = ProcessesToUpdate::Some(&[pid]);
        system.refresh_processes_specifics(only, true, ProcessRefreshKind::nothing().without_tasks());
    }
    let of_process = own.and_then(|pid| system.process(pid)?.cgroup_limits());
    of_process.or_else(|| system.cgroup_limits())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_machine_has_memory_and_some_of_it_is_free() {
        let cpu = look();
        let (total, available) = (cpu.total.expect("reported"), cpu.available.expect("reported"));
        assert!(cpu.cores >= 1 && available > Bytes::mib(1) && available <= total, "{available} of {total}");
        // Where the kernel says it plainly, it is the same figure or a control group allows less.
        if let Ok(text) = std::fs::read_to_string("/proc/meminfo") {
            let kib = text.lines().find_map(|line| line.strip_prefix("MemTotal:")?.trim().strip_suffix(" kB"));
            let installed = Bytes::kib(kib.expect("a line").trim().parse().expect("a number"));
            assert!(total <= installed, "{total} of {installed}");
        }
    }
}
