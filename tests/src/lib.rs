//! Whole-program tests, and what they share: the table of what cards reported, and on Linux the simulated GPU.

pub mod card_reports;
#[cfg(target_os = "linux")]
mod manners;
#[cfg(target_os = "linux")]
mod rates;
#[cfg(target_os = "linux")]
mod simulator;

#[cfg(target_os = "linux")]
pub use manners::{MANNER, MANNERS, Manner, is_left_out, manner_settings, with_every_manner};
#[cfg(target_os = "linux")]
pub use rates::share_rates;
#[cfg(target_os = "linux")]
pub use simulator::{calls_of, heard_on_simulated_gpu, on_simulated_gpu, simulated_gpu};
