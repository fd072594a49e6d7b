//! Published weights, mapped into memory by candle after their headers were checked against the files.
//!
//! Always holds: a mapped file takes only memory of the system's own cache of files. Pages that were read are given back
//! part by part where a tensor lies in the order in which it is read, and otherwise tensor by tensor: a process never looks larger
//! by more than one tensor.

use std::{
    collections::HashMap,
    fs::File,
    iter,
    path::{Path, PathBuf},
};

use candle_core::safetensors::MmapedSafetensors;

use super::compressed::parts;
#[cfg(unix)]
use crate::memory::host::page_size;
use crate::{
    error::{Error, Result},
    experiment::{
        Experiment, Frozen, LowRank, PruneKind, preset,
        weights::{
            files::{self, Files},
            own,
        },
    },
    header::{self, Place, WEIGHTS, unreadable},
};

/// Weights that lie in one or several files.
pub struct Mapped {
    /// The file or folder that was chosen.
    pub(super) path: PathBuf,
    pub(super) tensors: HashMap<String, Place>,
    /// The texts stored with the tensors of the first file.
    pub(super) facts: HashMap<String, String>,
    /// The configuration that lies next to them.
    pub(super) config: Option<PathBuf>,
    map: MmapedSafetensors,
}

impl Mapped {
    /// Opens the weights at `path`: a safetensors file, or a folder in the layout of Hugging Face.
    ///
    /// # Errors
    /// Fails for a path without weights, for pickled ones, and for files that cannot be read, were cut short or damaged.
    pub fn open(path: &Path) -> Result<Self> {
        let Files { paths, promised, index, config } = files::found(path)?;
        let (mut tensors, mut facts, mut file_of) = (HashMap::new(), HashMap::new(), HashMap::new());
        for (number, path) in paths.iter().enumerate() {
            let file = File::open(path).map_err(|error| unreadable(path, &error))?;
            let header = header::read(path, &file, WEIGHTS)?;
            for (name, place) in header.tensors {
                if file_of.insert(name.clone(), number).is_some() {
                    let message = "is in two files of the model; fetch or save them again";
                    return Err(Error::file_at(path, format!("tensor {name}"), message));
                }
                tensors.insert(name, place);
            }
            if number == 0 {
                facts = header.facts;
            }
        }
        let missing = promised.iter().find(|(name, number)| file_of.get(*name) != Some(number));
        if let (Some((name, number)), Some(index)) = (missing, index) {
            let message = format!("is not in {}, where it should be; fetch the files again", paths[*number].display());
            return Err(Error::file_at(index, format!("tensor {name}"), message));
        }
        // SAFETY: the mapping is only read. As with every mapped file, another program that cuts the file short while it is
        // being read ends this one; a file of weights is written once.
        let map = unsafe { MmapedSafetensors::multi(&paths) };
        let map = map.map_err(|error| Error::file(path, format!("cannot be mapped into memory: {error}")))?;
        let mapped = Self { path: path.to_owned(), tensors, facts, config, map };
        mapped.tensors.keys().filter_map(|name| mapped.elements(name).ok()).for_each(map_few_at_once);
        Ok(mapped)
    }

    /// The elements of a tensor, as the file has them.
    ///
    /// # Errors
    /// Fails for a tensor that is not there.
    pub(super) fn elements(&self, name: &str) -> Result<&[u8]> {
        let gone = |error: candle_core::Error| Error::file_at(&self.path, format!("tensor {name}"), error.to_string());
        self.map.get(name).map(|view| view.data()).map_err(gone)
    }

    /// How the layers of the run that saved them are factored, where they are.
    pub(super) fn low_rank(&self) -> Option<LowRank> {
        self.experiment().map(|own| own.low_rank).filter(LowRank::is_chosen)
    }

    /// Whether the run that saved these weights takes channels out of its model.
    pub(super) fn prunes_channels(&self) -> bool {
        self.experiment().is_some_and(|own| own.prune.kind == PruneKind::Channels)
    }

    /// A note if the run that saved these weights made zeros of some that `experiment`, which trains them, lets go.
    pub(super) fn zeros_that_fill(&self, experiment: &Experiment) -> Option<String> {
        let kind = self.experiment()?.prune.kind;
        let goes_on = experiment.prune.kind.sets_to_zero() || experiment.frozen == Frozen::All;
        (kind.sets_to_zero() && !goes_on).then(|| {
            format!(
                "their run pruned them (prune.kind = {}), and this one does not: zeros become other numbers again as it \
                 trains, unless prune.* is written here as well",
                kind.key()
            )
        })
    }

    /// The experiment of the run that saved these weights, if a run of this program did.
    pub(super) fn experiment(&self) -> Option<Experiment> {
        let text = own::fact(&self.facts, "experiment")?;
        preset::parse(text, self.path.join("experiment")).ok()
    }

    /// Gives the pages of a tensor, and of what a compressed file has in place of it, back to the system, which has them in its
    /// cache.
    pub(super) fn release(&self, name: &str) {
        // An error of a name that is not there may carry a backtrace, which takes tens of megabytes.
        let names = iter::once(name.to_owned()).chain(parts(name)).filter(|name| self.tensors.contains_key(name));
        names.filter_map(|name| self.elements(&name).ok()).for_each(give_back);
    }
}

/// Has the system map pages of `bytes` some at a time: it may map 2 MiB of a file at once, which all count for this process.
fn map_few_at_once(bytes: &[u8]) {
    #[cfg(target_os = "linux")]
    advise(bytes, libc::MADV_NOHUGEPAGE);
    #[cfg(not(target_os = "linux"))]
    let _ = bytes;
}

/// Lets the system forget that this process has read the pages of `bytes`, but for the last one if they end within it.
pub(super) fn give_back(bytes: &[u8]) {
    #[cfg(unix)]
    advise(bytes, libc::MADV_DONTNEED);
    #[cfg(not(unix))]
    let _ = bytes;
}

/// Advises the system on the pages from the one that `bytes` begin in to the one that they end in, without that one.
#[cfg(unix)]
fn advise(bytes: &[u8], advice: i32) {
    let (page, begin) = (page_size(), bytes.as_ptr().addr());
    let (first, end) = (begin / page * page, (begin + bytes.len()) / page * page);
    if end > first {
        // SAFETY: the pages are of a mapping of a file that lives as long as `bytes`, and nothing writes to it: where the
        // system forgets a page, the next read brings the same bytes again. If it refuses, nothing changes.
        let _ = unsafe { libc::madvise(first as *mut libc::c_void, end - first, advice) };
    }
}
