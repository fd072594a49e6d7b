//! The mappings of the program's own file and of its libraries.
//!
//! Owns their list, and the size of the pages that the program's code lies in. Always holds: what is asked of the system changes no
//! byte. Only Linux lists them.

/// Lets the code and the constants of the program lie in small pages from here on, and takes back what was mapped of them.
///
/// Where the file lies in the system's cache in blocks of 2 MiB, and the addresses of a process happen to fit them, Linux maps 2 MiB
/// where a page is touched. One process of sixteen was so 5 to 18 MB larger than the others, by nothing but chance. It is for
/// the beginning of a program, when it has touched little.
#[cfg(all(target_os = "linux", not(miri)))]
pub fn in_small_pages() {
    let Ok(program) = std::env::current_exe() else { return };
    for mapping in mappings().into_iter().filter(|mapping| std::path::Path::new(&mapping.path) == program) {
        // Constants behind the code were written to when the program was loaded.
        if mapping.access == "r-xp" || (mapping.access == "r--p" && mapping.offset == 0) {
            let start = std::ptr::without_provenance_mut(mapping.start);
            // SAFETY: these pages are as they are in the file, for nothing can write to them, and are read from it again when
            // they are touched next.
            unsafe {
                if libc::madvise(start, mapping.bytes, libc::MADV_NOHUGEPAGE) == 0 {
                    libc::madvise(start, mapping.bytes, libc::MADV_DONTNEED);
                }
            }
        }
    }
}

/// Does nothing where the system lists no mappings.
#[cfg(not(all(target_os = "linux", not(miri))))]
pub fn in_small_pages() {}

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

    #[test]
    fn the_program_runs_on_in_small_pages() {
        in_small_pages();
        let program = std::env::current_exe().expect("a path");
        let code = mappings().into_iter().find(|m| m.access == "r-xp" && std::path::Path::new(&m.path) == program);
        let code = code.expect("its code is listed");
        assert!((code.start..code.start + code.bytes).contains(&(in_small_pages as *const () as usize)));
        // proc_pid_smaps(5): the flag "nh" is that of mappings without huge pages.
        let smaps = std::fs::read_to_string("/proc/self/smaps").expect("readable");
        let about = smaps.lines().skip_while(|line| !line.starts_with(&format!("{:x}-", code.start)));
        let flags = about.skip(1).find_map(|line| line.strip_prefix("VmFlags:")).expect("flags");
        let has_huge_pages = std::path::Path::new("/sys/kernel/mm/transparent_hugepage").exists();
        assert_eq!(flags.split_whitespace().any(|flag| flag == "nh"), has_huge_pages, "{flags}");
    }
}
