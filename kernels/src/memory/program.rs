//! The mappings of the program's own file and of its libraries.
//!
//! Owns their list, what follows from it for the size of the process, and the call that maps code before it runs. Refuses
//! nothing: only Linux lists mappings, and other systems map code as it is called.

use std::sync::OnceLock;

/// Bytes of a large page, as blocks of files are in the system's cache.
#[cfg(target_os = "linux")]
const LARGE: usize = 2 << 20;

/// Whether the addresses of the program's code or constants fit the large pages of its file.
///
/// Where the file lies in the system's cache in blocks of 2 MiB, Linux maps all of a block where one of its pages is touched,
/// but only if the addresses fit, which they do by chance in one process of sixteen. Such a process is 5 to 18 MB larger than
/// the others (kernel 6.18, ext4).
pub fn fits_large_pages() -> bool {
    #[cfg(target_os = "linux")]
    return own().iter().any(|mapping| mapping.start.wrapping_sub(mapping.offset).is_multiple_of(LARGE));
    #[cfg(not(target_os = "linux"))]
    false
}

/// Starts the program again, in this process and with the same arguments, with `value` in the environment under `name`. Returns
/// only where the system refuses; then nothing has changed but the environment. No other thread may have begun.
#[cfg(all(target_os = "linux", not(miri)))]
pub fn start_again(name: &str, value: &str) {
    use std::{ffi::CString, os::unix::ffi::OsStringExt};

    let c_string = |text: std::ffi::OsString| CString::new(text.into_vec()).ok();
    let Some(program) = std::env::current_exe().ok().and_then(|path| c_string(path.into_os_string())) else { return };
    let Some(arguments) = std::env::args_os().map(c_string).collect::<Option<Vec<_>>>() else { return };
    let pointers: Vec<_> = arguments.iter().map(|text| text.as_ptr()).chain([std::ptr::null()]).collect();
    // SAFETY: no other thread reads the environment. The program and the list with its end are strings that live through the
    // call, which changes nothing of this process where it fails: the standard library's way would set signals back.
    unsafe {
        std::env::set_var(name, value);
        libc::execv(program.as_ptr(), pointers.as_ptr());
    }
}

/// Maps the code of a package before it is called, by some of its functions, and by the bytes that may lie before the first and
/// behind the last of them: the compiler lays a package's code in one place. False if it did not, or if the system refuses; it
/// then maps the code when it is called.
pub fn map_around(functions: &[*const ()], beside: usize) -> bool {
    #[cfg(target_os = "linux")]
    return around(functions, beside).is_some_and(|(start, bytes)| map(start, bytes));
    #[cfg(not(target_os = "linux"))]
    {
        let _ = (functions, beside);
        false
    }
}

/// Lists functions of a package.
pub type Functions = fn() -> Vec<*const ()>;

/// The code that [`map_ahead`] maps: functions of it, and the bytes beside them.
static AHEAD: OnceLock<(Functions, usize)> = OnceLock::new();

/// Tells [`map_ahead`] to map the code of a package above this one, as [`map_around`] does. The first call counts.
pub fn tell_ahead(functions: Functions, beside: usize) {
    // What was told first stays.
    let _ = AHEAD.set((functions, beside));
}

/// Maps the code that was told of. False if none was, and if the system maps code only as it is called.
pub fn map_ahead() -> bool {
    AHEAD.get().is_some_and(|(functions, beside)| map_around(&functions(), *beside))
}

/// Maps pages of a file before they are read; false if the system refuses.
#[cfg(target_os = "linux")]
pub(crate) fn map(start: usize, bytes: usize) -> bool {
    let start = std::ptr::without_provenance_mut(start);
    // SAFETY: the call only reads pages of program and libraries, and fails where there are none.
    unsafe { libc::madvise(start, bytes, libc::MADV_POPULATE_READ) == 0 }
}

/// The whole pages from the first of these functions to the last one, with what lies beside them: where they begin, and their
/// bytes. `None` if the functions are too far apart to belong to one package.
#[cfg(target_os = "linux")]
pub(crate) fn around(functions: &[*const ()], beside: usize) -> Option<(usize, usize)> {
    use super::host::page_size;

    /// More than the code of any package.
    const MOST: usize = 16 << 20;
    let addresses = || functions.iter().map(|function| function.addr());
    let (first, last) = (addresses().min()?, addresses().max()?);
    let mapping = mappings().into_iter().find(|mapping| (mapping.start..mapping.end()).contains(&first))?;
    let start = first.saturating_sub(beside).max(mapping.start) / page_size() * page_size();
    let end = (last + beside).min(mapping.end());
    (last - first <= MOST).then_some((start, end.saturating_sub(start)))
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

#[cfg(target_os = "linux")]
impl Mapping {
    fn end(&self) -> usize {
        self.start + self.bytes
    }
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

    /// Set for the child of a test, to how often it has started.
    const STARTS: &str = "PLIMSOLL_TEST_STARTS";

    #[test]
    fn a_program_starts_again_with_its_arguments() {
        match std::env::var(STARTS).as_deref() {
            // In the child: the test's harness reads no environment while its only test runs.
            Ok("1") => start_again(STARTS, "2"),
            Ok(starts) => println!("start {starts} of {:?}", std::env::args().nth(1)),
            Err(_) => {
                let this = "memory::program::tests::a_program_starts_again_with_its_arguments";
                let mut child = std::process::Command::new(std::env::current_exe().expect("a path"));
                let output = child.args([this, "--exact", "--nocapture"]).env(STARTS, "1").output().expect("it starts");
                let said = String::from_utf8_lossy(&output.stdout).into_owned();
                assert!(output.status.success() && said.contains(&format!("start 2 of Some({this:?})")), "{said}");
            }
        }
    }

    #[test]
    fn the_code_of_the_program_is_listed_with_its_addresses() {
        let here = fits_large_pages as *const () as usize;
        let own = own();
        assert!(own.iter().any(|m| m.access == "r-xp" && (m.start..m.start + m.bytes).contains(&here)), "{own:?}");
        let fits = own.iter().any(|mapping| (mapping.start - mapping.offset) % LARGE == 0);
        assert_eq!(fits_large_pages(), fits);
    }
}
