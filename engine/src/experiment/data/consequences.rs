//! Consequences of the choice of data, before anything is opened.

use std::path::Path;

use crate::{
    bytes::Bytes,
    experiment::{
        CachePlace, Data, DataCache, DataKind, DataSetting, ImageExtents, Labelled, NormaliseWhen, Placement,
        TableTask, Task,
    },
};

/// The vocabulary if none is chosen. No tokenizer has so few tokens.
pub(super) const UNCHOSEN: usize = 10;

impl DataKind {
    /// Whether it uses a setting.
    pub fn uses(self, setting: DataSetting) -> bool {
        self.traits().settings.contains(&setting)
    }

    /// Whether the samples come from a file or folder that the user chooses.
    pub fn is_on_disk(self) -> bool {
        self.traits().path.is_some()
    }

    /// The task that can be learned from it.
    pub fn task(self) -> Task {
        self.traits().task
    }

    /// Whether `data.side` is the side of its images.
    pub fn has_side(self) -> bool {
        self.uses(DataSetting::Side)
    }

    /// Whether `data.samples` are generated.
    pub fn has_samples(self) -> bool {
        self.uses(DataSetting::Samples)
    }

    /// Whether `data.length` is the length of its sequences.
    pub fn has_length(self) -> bool {
        self.uses(DataSetting::Length)
    }

    /// Whether `data.vocabulary` is the number of its tokens.
    pub fn has_vocabulary(self) -> bool {
        self.uses(DataSetting::Vocabulary)
    }

    /// Whether its samples have red, green and blue, which can be scaled as published weights expect it.
    pub fn has_colours(self) -> bool {
        matches!(self.traits().image, ImageExtents::OfSide | ImageExtents::Fixed([_, _, 3]))
    }

    /// Whether `data.test_fraction` decides which samples are held out.
    pub fn is_split(self) -> bool {
        self.uses(DataSetting::TestFraction)
    }

    /// Whether its samples are pictures that are read or generated one by one, so that a stream of them can be kept.
    pub fn can_keep(self) -> bool {
        self.traits().has_pictures && self.traits().is_streamable
    }
}

impl Data {
    /// Chooses a source. A length that counts something else than the new source's was not chosen for it, and becomes the
    /// usual one there.
    pub fn choose(&mut self, kind: DataKind) {
        let before = std::mem::replace(&mut self.kind, kind);
        if let Some((unit, usual)) = kind.traits().usual_length
            && before.traits().usual_length.is_none_or(|(own, _)| own != unit)
        {
            self.length = usual;
        }
    }

    /// The prefix of a path that names data which ship with the program.
    pub(crate) const SHIPPED: &str = "shipped:";

    /// The file or folder of the data, where it is not there.
    pub fn missing_path(&self) -> Option<&Path> {
        let is_shipped = |path: &&Path| path.to_str().is_some_and(|path| path.starts_with(Self::SHIPPED));
        self.path.as_deref().filter(|path| !is_shipped(path) && !path.exists())
    }

    /// The tokenizer's file or folder, where one is chosen.
    pub fn chosen_tokenizer(&self) -> Option<&Path> {
        self.tokenizer.as_deref().filter(|path| !path.as_os_str().is_empty())
    }

    /// Whether samples are texts that become tokens: not windows of a file's bytes.
    pub fn is_tokenized(&self) -> bool {
        self.kind.uses(DataSetting::Tokenizer) && (self.kind == DataKind::Jsonl || self.chosen_tokenizer().is_some())
    }

    /// The form in which streamed samples are kept; none for samples that are not streamed.
    pub(crate) fn kept(&self) -> DataCache {
        let is_kept = self.placement == Placement::Streamed && self.kind.can_keep();
        if is_kept { self.cache } else { DataCache::None }
    }

    /// Whether its images wait between two epochs, in host memory or on a disk.
    pub fn has_waiting_images(&self) -> bool {
        let is_held = self.placement == Placement::Host && self.kind.traits().has_pictures;
        is_held || !self.kept().is_none()
    }

    /// Whether its images can wait as they were loaded, so that each batch resizes them. Variants are made of resized ones.
    pub fn can_wait_as_loaded(&self) -> bool {
        let has_sides = self.kind.has_side() && self.kind.task() == Task::Class;
        has_sides && self.has_waiting_images() && self.kept().copies().is_none()
    }

    /// Height and width of an image as it waits.
    pub(crate) fn loaded_side(&self) -> usize {
        if self.load_side > 0 && self.can_wait_as_loaded() { self.load_side } else { self.side }
    }

    /// Whether images are resized whenever a batch is made of them.
    pub fn is_resized_on_the_fly(&self) -> bool {
        self.loaded_side() != self.side
    }

    /// Whether images wait as floats that are scaled.
    pub(crate) fn is_normalised_beforehand(&self) -> bool {
        self.normalise_when == NormaliseWhen::Beforehand && self.has_waiting_images()
    }

    /// Whether a file keeps them.
    pub fn is_kept_on_disk(&self) -> bool {
        !self.kept().is_none() && self.cache_in == CachePlace::Disk
    }

    /// Whether training images are varied.
    pub(crate) fn is_varied(&self) -> bool {
        self.flip || self.crop_padding > 0 || self.color_jitter != 0.0
    }

    /// The line of host memory; `None` if it is the machine's memory.
    pub fn host_line(&self) -> Option<Bytes> {
        Some(self.host_budget).filter(|line| *line > Bytes::ZERO)
    }

    /// Whether samples are decoded, generated or resized as they are needed, which several threads do in less time.
    pub fn is_work(&self) -> bool {
        let is_made = self.kind.is_on_disk() || self.placement != Placement::Host;
        self.kind.traits().image == ImageExtents::OfSide && (is_made || self.is_resized_on_the_fly())
    }

    /// Whether both choices have the same samples: how they are fed to the model may differ.
    pub(crate) fn has_samples_of(&self, other: &Self) -> bool {
        let Self { workers, prefetch, host_budget, .. } = *self;
        *self == Self { workers, prefetch, host_budget, ..other.clone() }
    }

    /// The part of a sample that has a label.
    pub fn labelled(&self) -> Labelled {
        match self.task() {
            Task::Value => Labelled::Value,
            Task::Class | Task::Mask | Task::Next if self.is_tokenized() => Labelled::Token,
            Task::Class | Task::Mask | Task::Next => self.kind.traits().labelled,
        }
    }

    /// The task that is learned. For a table whose task is not decided yet, a class.
    pub fn task(&self) -> Task {
        let is_value = self.kind == DataKind::Table && self.task == TableTask::Regression;
        if is_value { Task::Value } else { self.kind.task() }
    }

    /// The rows that the model's embedding is to have; `None` if the tokenizer's number decides.
    pub fn chosen_vocabulary(&self) -> Option<usize> {
        Some(self.vocabulary).filter(|count| *count > UNCHOSEN)
    }

    /// Whether it uses a tokenizer. A model of generated tokens is prompted by it, if it is known.
    pub(super) fn uses_tokenizer(&self) -> bool {
        self.kind.uses(DataSetting::Tokenizer) || self.kind == DataKind::Tokens && self.chosen_tokenizer().is_some()
    }

    /// Windows of bytes have 256 tokens for any choice.
    pub(super) fn uses_vocabulary(&self) -> bool {
        let is_open = self.kind != DataKind::Text || self.is_tokenized() || self.chosen_vocabulary().is_some();
        self.kind.uses(DataSetting::Vocabulary) && is_open
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_length_of_another_unit_becomes_the_usual_one_and_one_of_tokens_stays_with_tokens() {
        let chosen = |from, length, to| {
            let mut data = Data { kind: from, length, ..Data::default() };
            data.choose(to);
            assert_eq!(data.kind, to);
            data.length
        };
        assert_eq!(chosen(DataKind::Tokens, 1024, DataKind::Sort), 8);
        assert_eq!(chosen(DataKind::Sort, 12, DataKind::Brackets), 10);
        assert_eq!(chosen(DataKind::Brackets, 20, DataKind::Text), 64);
        assert_eq!(chosen(DataKind::Tokens, 1024, DataKind::Jsonl), 1024);
        assert_eq!(chosen(DataKind::Digits, 64, DataKind::Sort), 8, "no length was chosen for images");
        assert_eq!(chosen(DataKind::Sort, 12, DataKind::Sort), 12, "the same source is not a change");
        assert_eq!(chosen(DataKind::Sort, 12, DataKind::Digits), 12, "where nothing reads it, it waits");
    }
}
