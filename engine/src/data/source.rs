//! Sources of samples: the trait that each kind of data implements, and the registry of all kinds.
//!
//! Owns [`Source`] and [`of`], the one place that knows which file serves which kind. A source is one file with a type that
//! implements [`Source`]; the facts that are known without opening anything (its task, its settings) are in
//! [`SourceTraits`](crate::experiment::SourceTraits).

use std::path::Path;

use crate::{
    data::{
        DatasetInfo, Input, Inspection, brackets, cifar, corpus, digits, idx,
        image_set::ImageStore,
        images, masks, modular,
        sequences::TokenRows,
        shapes, sort, spirals,
        table::{self, TableRows},
        text, tokens,
    },
    error::{Problem, Result},
    experiment::{Data, DataKind},
    tensor::Shape,
};

/// A kind of data.
pub(super) trait Source: Sync {
    /// Everything about a choice that is known before it is opened, found in one look. The findings of an earlier look
    /// (`known`) are checked again only if they may have changed.
    ///
    /// # Errors
    /// Fails if [`Source::info`] does.
    fn inspect(&self, data: &Data, known: Option<&Inspection>) -> Result<Inspection> {
        let _ = known;
        let info = self.info(data)?;
        Ok(Inspection::new(data, info, self.held_bytes(data, &info)?))
    }

    /// [`Source::open`] after a look.
    ///
    /// # Errors
    /// Fails if [`Source::open`] does.
    fn open_inspected(&self, data: &Data, found: &Inspection, seed: u64) -> Result<Store> {
        self.open(data, found.info(), seed)
    }

    /// The facts of a choice that a model must know, from names, headers and sizes alone. Generates nothing and reads no
    /// file whole.
    ///
    /// # Errors
    /// Fails for files that are missing, unreadable or not in their format, and for settings that contradict the data.
    fn info(&self, data: &Data) -> Result<DatasetInfo>;

    /// Refuses settings that are impossible with any files.
    ///
    /// # Errors
    /// A problem, with the key of its setting.
    fn limits(&self, data: &Data) -> Result<()> {
        let _ = data;
        Ok(())
    }

    /// Reads or generates the samples that `info` describes, or prepares to do so one by one.
    ///
    /// # Errors
    /// Fails for files that have changed since `info` looked, or are damaged where it did not look.
    fn open(&self, data: &Data, info: &DatasetInfo, seed: u64) -> Result<Store>;

    /// Host bytes of the data that [`Source::open`] returns.
    ///
    /// # Errors
    /// Fails if [`Source::info`] does.
    fn held_bytes(&self, data: &Data, info: &DatasetInfo) -> Result<usize>;

    /// Shape of all training inputs on a device: images, or rows of tokens with the token after the last input.
    fn device_shape(&self, info: &DatasetInfo) -> Shape {
        match info.input {
            Input::Image { .. } => info.input.shape(info.train),
            Input::Tokens { length, .. } => [info.train, length + 1].into(),
        }
    }
}

/// Samples that a source has opened.
#[derive(Debug)]
pub(super) enum Store {
    /// Images.
    Images(ImageStore),
    /// Sequences.
    Rows(Box<dyn TokenRows>),
    /// Rows of a table.
    Table(TableRows),
}

/// The source of a choice.
pub(super) fn of(data: &Data) -> &'static dyn Source {
    match data.kind {
        DataKind::Digits => &digits::Digits,
        DataKind::Shapes => &shapes::ColouredShapes,
        DataKind::Spirals => &spirals::SpiralArms,
        DataKind::Idx => &idx::IdxFiles,
        DataKind::Cifar10 => &cifar::CIFAR10,
        DataKind::Cifar100 => &cifar::CIFAR100,
        DataKind::Images => &images::ImageFolder,
        DataKind::Masks => &masks::MaskedShapes,
        DataKind::Modular => &modular::ModularSums,
        DataKind::Sort => &sort::SortedDigits,
        DataKind::Brackets => &brackets::BalancedBrackets,
        DataKind::Text if data.is_tokenized() => &corpus::Corpus,
        DataKind::Text => &text::FileBytes,
        DataKind::Jsonl => &corpus::Corpus,
        DataKind::Tokens => &tokens::MarkovChain,
        DataKind::Table => &table::TableFile,
    }
}

/// The folder or file that was chosen.
///
/// # Errors
/// Fails when none is chosen.
pub(super) fn chosen_path(data: &Data) -> Result<&Path> {
    let chosen = data.path.as_deref().filter(|path| !path.as_os_str().is_empty());
    let is_file = data.kind.traits().path.is_some_and(|path| path.is_file);
    let (what, mend) = if is_file {
        ("no file is chosen", "choose the file to learn from")
    } else {
        ("no folder is chosen", "choose the folder that holds the data files")
    };
    Ok(chosen.ok_or_else(|| Problem::new("data.path", what, mend))?)
}
