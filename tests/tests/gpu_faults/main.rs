//! Faults of a GPU while it trains: each ends its run in words, leaves nothing behind, and the next run of the same program
//! comes to the same numbers as one that never saw a fault. And what the driver does not tell of a GPU, and how many kernels a
//! step launches.
#![cfg(all(target_os = "linux", feature = "cuda"))]

mod card;
mod commands;
mod compiling;
mod epilogues;
mod full;
mod graphs;
mod guard;
mod launches;
mod loaded;
mod lost;
mod ranges;
mod steady;
mod untold;
