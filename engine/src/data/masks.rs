//! Generated coloured shapes with a mask: one to three shapes an image, and for every pixel the shape it belongs to.
//!
//! The scenes are those of [`shapes`](super::shapes), with more and smaller shapes. A pixel belongs to the topmost
//! shape that covers at least half of it: class 0 is the background and the fragments on it, class 1 the first shape.
//! Sample `i` is a function of the seed and `i` alone. Refuses what `shapes` refuses.

use crate::{
    data::{
        DatasetInfo, Input, Split, divide,
        image_set::{self, Samples, Streamed},
        shapes,
        source::{Source, Store},
    },
    error::Result,
    experiment::{Data, LabelKind},
};

/// Images with several shapes each, and a class for every pixel.
pub(super) struct MaskedShapes;

impl Source for MaskedShapes {
    fn info(&self, data: &Data) -> Result<DatasetInfo> {
        // The mask adds a byte to each pixel.
        shapes::check(data, shapes::CHANNELS + 1)?;
        let (train, test) = divide(data.samples, data.test_fraction)?;
        let (side, classes) = (data.side, data.classes + 1);
        let input = Input::Image { height: side, width: side, channels: shapes::CHANNELS };
        Ok(DatasetInfo {
            input,
            labels_per_sample: side * side,
            scored_labels: side * side,
            label: LabelKind::Class,
            classes,
            train,
            test,
        })
    }

    fn open(&self, data: &Data, info: &DatasetInfo, seed: u64) -> Result<Store> {
        Ok(image_set::placed(data, Masks::new(info, data, seed), Masks::all))
    }

    fn held_bytes(&self, data: &Data, info: &DatasetInfo) -> Result<usize> {
        Ok(image_set::placed_bytes(data, info))
    }
}

/// The samples of one choice and seed, which are made when they are asked for: the first are for testing.
#[derive(Debug)]
pub(super) struct Masks {
    side: usize,
    /// The number of classes of shapes.
    classes: usize,
    train: usize,
    test: usize,
    seed: u64,
}

impl Masks {
    pub(super) fn new(facts: &DatasetInfo, data: &Data, seed: u64) -> Self {
        Self { side: data.side, classes: data.classes, train: facts.train, test: facts.test, seed }
    }

    /// Training and test samples, generated on all cores.
    pub(super) fn all(&self) -> (Samples, Samples) {
        let indices: Vec<u32> = (0..(self.train + self.test) as u32).collect();
        let (test, train) = indices.split_at(self.test);
        let generate = |indices: &[u32]| {
            let make = |index, image: &mut [u8], mask: &mut [u8]| self.make(index, image, mask);
            shapes::generate_by(indices, self.side, self.side * self.side, make)
        };
        (generate(train), generate(test))
    }

    fn make(&self, index: u32, image: &mut [u8], mask: &mut [u8]) {
        let (scene, classes) = shapes::Scene::crowded(self.seed, u64::from(index), self.classes);
        scene.draw(image, self.side);
        scene.mask(&classes, mask, self.side);
    }
}

impl Streamed for Masks {
    fn count(&self, split: Split) -> usize {
        match split {
            Split::Train => self.train,
            Split::Test => self.test,
        }
    }

    fn read(&self, split: Split, index: usize, pixels: &mut [u8], labels: &mut [u8]) -> Result<()> {
        let before = if split == Split::Train { self.test } else { 0 };
        self.make((before + index) as u32, pixels, labels);
        Ok(())
    }

    fn is_work(&self) -> bool {
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::experiment::DataKind;

    fn samples(classes: usize) -> (DatasetInfo, Samples, Samples) {
        let data = Data { kind: DataKind::Masks, classes, samples: 300, side: 32, ..Data::default() };
        let facts = MaskedShapes.info(&data).expect("possible");
        let (train, test) = Masks::new(&facts, &data, 1).all();
        (facts, train, test)
    }

    #[test]
    fn every_pixel_has_a_class_and_every_class_has_pixels() {
        for classes in [2, 10] {
            let (facts, train, _) = samples(classes);
            assert_eq!((facts.labels_per_sample, facts.scored_labels, facts.classes), (1024, 1024, classes + 1));
            assert_eq!((train.labels.len(), train.pixels.len()), (240 * 1024, 240 * 1024 * 3));
            let mut counts = vec![0; classes + 1];
            train.labels.iter().for_each(|class| counts[usize::from(*class)] += 1);
            let ground = counts[0] as f64 / train.labels.len() as f64;
            assert!((0.5..0.9).contains(&ground), "{ground}");
            assert!(counts.iter().all(|n| *n > 1000), "{counts:?}");
        }
    }

    #[test]
    fn a_mask_is_where_its_shape_is_lighter_than_the_ground() {
        let (_, train, _) = samples(4);
        let (mut inside, mut outside) = ((0.0, 0), (0.0, 0));
        for (pixel, class) in train.pixels.chunks_exact(3).zip(&train.labels) {
            let sum = if *class > 0 { &mut inside } else { &mut outside };
            sum.0 += pixel.iter().map(|v| f64::from(*v)).sum::<f64>() / 3.0;
            sum.1 += 1;
        }
        let [inside, outside] = [inside, outside].map(|(sum, n)| sum / f64::from(n));
        assert!(inside > outside + 30.0, "{inside} {outside}");
    }

    #[test]
    fn both_parts_are_of_one_set_and_share_no_sample() {
        let (_, train, test) = samples(4);
        let images = |samples: &Samples| {
            samples.pixels.chunks_exact(3072).map(<[u8]>::to_vec).collect::<std::collections::HashSet<_>>()
        };
        let (train, test) = (images(&train), images(&test));
        assert_eq!((train.len(), test.len(), train.intersection(&test).count()), (240, 60, 0));
    }
}
