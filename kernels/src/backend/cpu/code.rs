//! The machine code of the kernels and of the C library, with the tables of its functions of numbers, mapped before a run.
//!
//! The system maps the code of a program where it is first called, and how much of it at a time depends on the state of its
//! cache of files. So a run would add another amount to the process every time. Always holds: mapping changes no result, and
//! what was mapped before stays so. Only Linux has a call for it; if it is refused, code is mapped as it is called.

#[cfg(target_os = "linux")]
use crate::memory::program;

/// A family's functions lie around its launch. Those of the optimizers take the most, 400 KiB.
#[cfg(target_os = "linux")]
const BESIDE: usize = 448 << 10;

/// Maps the code of all families, and the C library with its functions of numbers. False if that of the families is
/// not mapped: the system maps its pages when they are called.
#[cfg(target_os = "linux")]
pub(super) fn map() -> bool {
    let is_mapped = program::map_around(&families(), BESIDE);
    for (start, bytes) in libraries() {
        // The libraries are small beside the kernels.
        let _ = program::map(start, bytes);
    }
    is_mapped
}

#[cfg(not(target_os = "linux"))]
pub(super) fn map() -> bool {
    false
}

/// A function of each family.
#[cfg(target_os = "linux")]
fn families() -> [*const (); 19] {
    use super::{
        activation, attention, coded, convolution, depthwise, dropout, elementwise, embedding, fused, gather, int8,
        layout, linear, loss, norm, optimizer, pool, prune, rotary,
    };

    [
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
    ]
}

/// The code of the C library, and code and tables of its functions of numbers, as the system lists them: where each begins, and
/// its bytes.
#[cfg(target_os = "linux")]
fn libraries() -> Vec<(usize, usize)> {
    use program::{Mapping, mappings};

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
    fn code_and_tables_of_libraries_can_be_mapped() {
        for (start, bytes) in libraries() {
            // Systems before Linux 5.14 do not know the call.
            let is_known = || std::io::Error::last_os_error().raw_os_error() != Some(libc::EINVAL);
            assert!(bytes > 0 && (program::map(start, bytes) || !is_known()), "{start:x} {bytes}");
        }
    }

    #[test]
    fn the_code_of_kernels_lies_in_one_place() {
        let (_, bytes) = program::around(&families(), BESIDE).expect("in one place");
        assert!(bytes > 64 << 10, "{bytes}");
    }
}
