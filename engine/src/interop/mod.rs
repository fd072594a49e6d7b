//! Models of other programs: the layout of Hugging Face, torchvision and timm on a disk.
//!
//! Owns the names and layouts of published tensors (one table a family), reading them ([`Fitted`]) and writing them. Always
//! holds: with loaded weights the model computes the same as in the program that they come from. Refuses weights of another
//! model, tensor by tensor and by the configuration next to them.

mod adapter;
mod agrees;
mod coded;
mod compressed;
mod config;
mod export;
mod finite;
mod fit;
mod head;
mod labels;
mod layout;
mod lent;
mod low_rank;
mod mapped;
mod names;
mod ranges;
mod slots;
mod vision;
mod written;

pub use self::{
    compressed::{Compressed, compressed},
    export::{Exported, export, left_out},
    fit::{Fitted, chosen, teaching},
    lent::{CandleTensors, Lends, lend, take_in},
    low_rank::{Spectra, factored, factoring_bytes},
    mapped::Mapped,
};
pub(crate) use self::{head::known, low_rank::factoring_touched, ranges::write as write_ranges, slots::are_alike};
