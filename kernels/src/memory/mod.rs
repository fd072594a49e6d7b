//! Memory: the account of blocks (ledger), their times (timeline), models of allocators, and measurements (probe).
//!
//! Two kinds of figure live here and never mix. *Predicted* comes from the [`Ledger`] of a dry run. *Measured* comes from
//! the [`probe`], which counts the blocks of the program's allocator and knows nothing of the ledger.

mod aligned;
pub mod allocator;
pub mod arena;
pub mod ballast;
pub mod bookkeeping;
pub mod category;
pub mod disk;
pub mod guard;
pub mod heap;
pub mod host;
pub mod ledger;
pub mod lent;
mod part;
mod phase;
pub mod probe;
pub mod program;
pub mod tally;
pub mod timeline;

pub use bookkeeping::Bookkeeping;
pub use category::{Categories, Category};
pub use ledger::{Blocks, Ledger, Ticket};
pub use part::Part;
pub use phase::Phase;
pub use timeline::{Alive, Point, Timeline};
