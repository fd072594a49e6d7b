//! The machine code of the kernels and of the C library, with the tables of its functions of numbers, mapped before a run.
//!
//! The system maps the code of a program where it is first called, and how much of it at a time depends on the state of its
//! cache of files. So a run would add another amount to the process every time. Always holds: mapping changes no result, and
//! what was mapped before stays so. Only Linux has a call for it; if it is refused, code is mapped as it is called.

/// Maps the code of all families, and the C library with its functions of numbers. False if that of the families is
/// not mapped: the system maps its pages when they are called.
#[cfg(target_os = "linux")]
pub(super) fn map() -> bool {
    let is_mapped = kernels().is_some_and(|(start, bytes)| populate(start, bytes));
    for (start, bytes) in libraries() {
        // The libraries are small beside the kernels.
        let _ = populate(start, bytes);
    }
    is_mapped
}

#[cfg(not(target_os = "linux"))]
pub(super) fn map() -> bool {
    false
}

/// Maps pages; false if the system refuses.
#[cfg(target_os = "linux")]
fn populate(start: usize, bytes: usize) -> bool {
    let start = std::ptr::without_provenance_mut(start);
    // SAFETY: the call only reads pages of program and libraries, and fails where there are none.
    unsafe { libc::madvise(start, bytes, libc::MADV_POPULATE_READ) == 0 }
}

/// The whole pages from the first family's code to the last one's: where they begin, and their bytes. The compiler lays the code
/// of a package in one place. `None` if it did not.
#[cfg(target_os = "linux")]
fn kernels() -> Option<(usize, usize)> {
    use super::{
        activation, attention, coded, convolution, depthwise, dropout, elementwise, embedding, fused, gather, int8,
        layout, linear, loss, norm, optimizer, pool, prune, rotary,
    };
    use crate::memory::host::page_size;

    /// More than the code of all kernels.
    const MOST: usize = 16 << 20;
    /// A family's functions lie around its launch: those of the first one before, those of the last one behind.
    const AROUND: usize = 192 << 10;
    let families = [
        activation::launch as *const (),
        attention::launch as *const (),
        coded::launch as *const (),
        convolution::launch as *const (),
        depthwise::launch as *const (),
        dropout::launch as *const (),
        elementwise::launch as *const (),
        embedding::launch as *const (),
        fused::launch as *const (),
        gather::launch as *const (),
        int8::launch as *const (),
        layout::launch as *const (),
        linear::launch as *const (),
        loss::launch as *const (),
        norm::launch as *const (),
        optimizer::launch as *const (),
        pool::launch as *const (),
        prune::launch as *const (),
        rotary::launch as *const (),
    ];
    let addresses = || families.iter().map(|launch| launch.addr());
    let (first, last) = (addresses().min()?, addresses().max()?);
    let start = (first - AROUND) / page_size() * page_size();
    (last - first <= MOST).then_some((start, last - start + AROUND))
}

/// The code of the C library, and code and tables of its functions of numbers, as the system lists them: where each begins, and
/// its bytes.
#[cfg(target_os = "linux")]
fn libraries() -> Vec<(usize, usize)> {
    use crate::memory::program::{Mapping, mappings};

    let is_of = |path: &str, names: [&str; 2]| {
        let name = path.rsplit('/').next().unwrap_or_default();
        names.iter().any(|start| name.starts_with(start))
    };
    let is_wanted = |Mapping { access, path, .. }: &Mapping| match access.as_str() {
        "r-xp" => is_of(path, ["libc.", "libc-"]) || is_of(path, ["libm.", "libm-"]),
        "r--p" => is_of(path, ["libm.", "libm-"]),
        _ => false,
    };
    mappings().into_iter().filter(is_wanted).map(|mapping| (mapping.start, mapping.bytes)).collect()
}

#[cfg(all(test, target_os = "linux", not(miri)))]
mod tests {
    use super::*;

    #[test]
    fn code_lies_in_one_place_and_can_be_mapped() {
        let kernels = kernels().expect("in one place");
        let libraries = libraries();
        assert!(kernels.1 > 64 << 10 && libraries.iter().all(|(_, bytes)| *bytes > 0), "{kernels:?} {libraries:?}");
        for (start, bytes) in libraries.into_iter().chain([kernels]) {
            // Systems before Linux 5.14 do not know the call.
            let is_known = || std::io::Error::last_os_error().raw_os_error() != Some(libc::EINVAL);
            assert!(populate(start, bytes) || !is_known(), "{start:x} {bytes}");
        }
    }
}
