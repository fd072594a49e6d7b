//! One look at a choice of data, before anything of it is opened.
//!
//! Owns [`Inspection`], which an experiment carries from its resolution on, so that there is one look. Always holds: it
//! belongs to one choice of data, and its findings were true at the time.

use std::sync::Arc;

use crate::{
    bytes::Bytes,
    data::{
        corpus::{Found, TextFacts},
        idx::Labelled,
        images::Listing,
        kept, source,
        table::{self, TableFacts},
        weighed::Weighed,
    },
    error::Result,
    experiment::{Data, DatasetInfo, Input},
    memory::disk,
};

/// The findings about a choice of data. Cheap to clone.
#[derive(Debug, Clone)]
pub struct Inspection {
    info: DatasetInfo,
    host_bytes: Bytes,
    /// Room on the disk that samples are to be kept on.
    disk_free: Option<Bytes>,
    /// The files, if the data are a folder of files.
    listing: Option<Arc<Weighed<Listing>>>,
    /// The largest label, where labels are files of their own.
    labelled: Option<Arc<Labelled>>,
    /// The findings in text files, and what they mean.
    texts: Option<(Arc<Found>, Arc<TextFacts>)>,
    /// The findings in a table, and what they mean.
    table: Option<(Arc<table::Found>, Arc<TableFacts>)>,
    /// Anything else that was recognised, in words.
    notes: Vec<String>,
    /// A warning that a tokenizer has far fewer tokens than the embedding has rows.
    few_tokens: Option<String>,
}

impl Inspection {
    /// Looks at names, headers and sizes; nothing is generated or read whole. The findings of `known` are used as long as
    /// the files are the same.
    ///
    /// # Errors
    /// Files that are missing, unreadable or not in their format; an impossible choice.
    pub fn of(data: &Data, known: Option<&Self>) -> Result<Self> {
        source::of(data).inspect(data, known)
    }

    /// The findings of data that are not opened: `info` alone.
    pub(crate) fn known(data: &Data, info: DatasetInfo) -> Self {
        Self::new(data, info, 0)
    }

    /// The findings of data that take `held` bytes once they are open, for their samples and for the lists to find them.
    pub(super) fn new(data: &Data, info: DatasetInfo, held: usize) -> Self {
        let scaling = match info.input {
            Input::Image { width, channels, .. } => 2 * width * channels * size_of::<f32>(),
            Input::Tokens { .. } => 0,
        };
        let chosen = data.path.as_ref().map_or(0, |path| path.as_os_str().len());
        Self {
            info,
            host_bytes: Bytes((held + scaling + chosen) as u64),
            disk_free: if data.is_kept_on_disk() { kept::folder(data).and_then(|at| disk::free_at(&at)) } else { None },
            listing: None,
            labelled: None,
            texts: None,
            table: None,
            notes: Vec::new(),
            few_tokens: None,
        }
    }

    /// The same findings, with the files of `listing`.
    pub(super) fn with_listing(self, listing: Arc<Weighed<Listing>>) -> Self {
        Self { listing: Some(listing), ..self }
    }

    /// The same findings, with files of labels.
    pub(super) fn with_labelled(self, labelled: Arc<Labelled>) -> Self {
        Self { labelled: Some(labelled), ..self }
    }

    /// The largest label, where labels are files of their own.
    pub(super) fn labelled(&self) -> Option<&Arc<Labelled>> {
        self.labelled.as_ref()
    }

    /// The same findings, with more notes.
    pub(super) fn with_notes(mut self, notes: impl IntoIterator<Item = String>) -> Self {
        self.notes.extend(notes);
        self
    }

    /// The same, where a tokenizer has far fewer tokens than the embedding has rows.
    pub(super) fn with_few_tokens(self, few_tokens: Option<String>) -> Self {
        Self { few_tokens, ..self }
    }

    /// A warning that a tokenizer has far fewer tokens than the embedding has rows.
    pub(crate) fn few_tokens(&self) -> Option<&str> {
        self.few_tokens.as_deref()
    }

    /// Facts that were recognised in the files and are shown nowhere else, a line each.
    pub fn notes(&self) -> &[String] {
        &self.notes
    }

    /// The same findings, with text files.
    pub(super) fn with_texts(self, found: Arc<Found>, facts: TextFacts) -> Self {
        Self { texts: Some((found, Arc::new(facts))), ..self }
    }

    /// The findings in text files.
    pub(super) fn texts(&self) -> Option<&Arc<Found>> {
        self.texts.as_ref().map(|(found, _)| found)
    }

    /// The facts of text files that become tokens; `None` for other data.
    pub fn text_facts(&self) -> Option<&TextFacts> {
        self.texts.as_ref().map(|(_, facts)| &**facts)
    }

    /// The same findings, with a table.
    pub(super) fn with_table(self, found: Arc<table::Found>, facts: TableFacts) -> Self {
        Self { table: Some((found, Arc::new(facts))), ..self }
    }

    /// The findings in a table.
    pub(super) fn table(&self) -> Option<&Arc<table::Found>> {
        self.table.as_ref().map(|(found, _)| found)
    }

    /// The facts of a table; `None` for other data.
    pub fn table_facts(&self) -> Option<&TableFacts> {
        self.table.as_ref().map(|(_, facts)| &**facts)
    }

    /// The files, if the data are a folder of files.
    pub(super) fn listing(&self) -> Option<&Arc<Weighed<Listing>>> {
        self.listing.as_ref()
    }

    /// Bytes of the findings that an open data set shares with it.
    pub(super) fn shared_bytes(&self) -> Bytes {
        let listing = self.listing.as_ref().map(|listing| listing.bytes());
        let texts = self.texts.as_ref().map(|(found, _)| found.shared_bytes());
        let table = self.table.as_ref().map(|(found, _)| found.shared_bytes());
        listing.or(texts).or(table).unwrap_or(Bytes::ZERO)
    }

    /// The facts of the data that a model must know.
    pub fn info(&self) -> &DatasetInfo {
        &self.info
    }

    /// Room on the disk that samples are to be kept on; `None` if none are kept there, or if the system does not report it.
    pub fn disk_free(&self) -> Option<Bytes> {
        self.disk_free
    }

    /// Host bytes of the data set itself once it is open: its samples if they are held, or the lists to find them if they
    /// are streamed or on the device. This memory is outside the budget, and outlives a run.
    pub fn host_bytes(&self) -> Bytes {
        self.host_bytes
    }
}
