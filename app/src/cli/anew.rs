//! Starting the program again at other addresses.
//!
//! Always holds: what the program was asked to do is asked again, by the same process, which has done nothing yet. If the system
//! refuses, the program goes on where it is.

#[cfg(target_os = "linux")]
use std::{env, process};

#[cfg(target_os = "linux")]
use plimsoll_engine::memory::program;

/// The process that was started again, by its number, and how often.
#[cfg(target_os = "linux")]
const VARIABLE: &str = "PLIMSOLL_STARTED_AGAIN";

/// Starts more than this have another reason than chance.
#[cfg(target_os = "linux")]
const MOST: u32 = 4;

/// Starts the program again where it would be several megabytes larger than others by its addresses alone, so that the size of a
/// process can be told from that of another one.
#[cfg(target_os = "linux")]
pub(super) fn start_where_small() {
    let own = process::id();
    let said = env::var(VARIABLE).unwrap_or_default();
    let number = |text: &str| text.parse::<u32>().ok();
    // Processes that this one starts have numbers of their own.
    let starts = said.split_once(' ').filter(|(process, _)| number(process) == Some(own)).and_then(|(_, n)| number(n));
    let starts = starts.unwrap_or(0);
    if starts >= MOST || !program::fits_large_pages() {
        return;
    }
    program::start_again(VARIABLE, &format!("{own} {}", starts + 1));
}

/// Other systems do not tell addresses.
#[cfg(not(target_os = "linux"))]
pub(super) fn start_where_small() {}
