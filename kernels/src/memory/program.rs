//! The mappings of the program's own file and of its libraries.
//!
//! Owns their list, and what is made of it at the beginning of the program. Always holds: what is asked of the system changes no
//! byte. Only Linux lists them.

/// Bytes of a large page, as blocks of files are in the system's cache.
#[cfg(target_os = "linux")]
const LARGE: usize = 2 << 20;

/// Whether the addresses of the program's code or constants fit the large pages of its file.
///
/// Where the file lies in the system's cache in blocks of 2 MiB, Linux maps all of a block where one of its pages is touched, but only
/// if the addresses fit, which they do by chance in one process of sixteen. Such a process is 5 to 18 MB larger than the others
/// (kernel 6.18, ext4).
pub fn fits_large_pages() -> bool {
    #[cfg(target_os = "linux")]
    return own().iter().any(|mapping| mapping.start.wrapping_sub(mapping.offset).is_multiple_of(LARGE));
    #[cfg(not(target_os = "linux"))]
    false
}

/// Takes back the pages of code and constants that only the loader has read, 4 to 5 MB. It is for the beginning of a program, when
/// it has touched little.
pub fn forget_loading() {
    #[cfg(all(target_os = "linux", not(miri)))]
    for mapping in own() {
        let start = std::ptr::without_provenance_mut(mapping.start);
        // SAFETY: these pages are as they are in the file, for nothing can write to them, and are read from it again when they
        // are touched next.
        unsafe { libc::madvise(start, mapping.bytes, libc::MADV_DONTNEED) };
    }
}

/// The mappings of the program's code, and of its constants but those behind the code, which the loader has written to.
#[cfg(target_os = "linux")]
fn own() -> Vec<Mapping> {
    let program = std::env::current_exe().unwrap_or_default();
    let is_as_in_file =
        |mapping: &Mapping| mapping.access == "r-xp" || (mapping.access == "r--p" && mapping.offset == 0);
    let is_own = |mapping: &Mapping| std::path::Path::new(&mapping.path) == program && is_as_in_file(mapping);
    mappings().into_iter().filter(is_own).collect()
}

/// A mapping of a file.
#[cfg(target_os = "linux")]
#[derive(Debug)]
pub(crate) struct Mapping {
    pub(crate) start: usize,
    pub(crate) bytes: usize,
    /// As the system writes it: `r-xp` is code, `r--p` constants.
    pub(crate) access: String,
    /// Where in the file it begins.
    pub(crate) offset: usize,
    pub(crate) path: String,
}

/// The mappings of files, as the system lists them.
#[cfg(target_os = "linux")]
pub(crate) fn mappings() -> Vec<Mapping> {
    let mapping = |line: &str| {
        let mut fields = line.splitn(6, ' ');
        let (extent, access, offset, path) = (fields.next()?, fields.next()?, fields.next()?, fields.nth(2)?);
        let (start, end) = extent.split_once('-')?;
        let [start, end, offset] = [start, end, offset].map(|number| usize::from_str_radix(number, 16).ok());
        let start = start?;
        let bytes = end?.checked_sub(start)?;
        Some(Mapping { start, bytes, access: access.to_owned(), offset: offset?, path: path.trim_start().to_owned() })
    };
    std::fs::read_to_string("/proc/self/maps").unwrap_or_default().lines().filter_map(mapping).collect()
}

#[cfg(all(test, target_os = "linux", not(miri)))]
mod tests {
    use super::*;

    /// Resident bytes of the program's code and constants, in KiB.
    fn resident() -> u64 {
        let smaps = std::fs::read_to_string("/proc/self/smaps").expect("readable");
        let of = |mapping: Mapping| {
            let about = smaps.lines().skip_while(move |line| !line.starts_with(&format!("{:x}-", mapping.start)));
            let rss = about.into_iter().find_map(|line| line.strip_prefix("Rss:")).expect("a size");
            rss.trim().trim_end_matches(" kB").parse::<u64>().expect("a number")
        };
        own().into_iter().map(of).sum()
    }

    #[test]
    fn the_program_runs_on_without_what_the_loader_has_read() {
        let here = forget_loading as *const () as usize;
        assert!(
            own().iter().any(|m| m.access == "r-xp" && (m.start..m.start + m.bytes).contains(&here)),
            "{:?}",
            own()
        );
        // Other tests touch more meanwhile, but not all of it.
        let all: usize = own().iter().map(|mapping| mapping.bytes).sum();
        for mapping in own() {
            let start = std::ptr::without_provenance_mut(mapping.start);
            // SAFETY: the call only reads pages of the program.
            assert_eq!(unsafe { libc::madvise(start, mapping.bytes, libc::MADV_POPULATE_READ) }, 0);
        }
        let before = resident();
        forget_loading();
        assert!(before >= all as u64 / 1024 && resident() < before, "{before} KiB of {all} bytes, then {}", resident());
    }
}
