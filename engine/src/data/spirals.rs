//! Generated spirals: points of a plane that lie along arms; the class of a point is its arm.
//!
//! Sample `i` is a function of the seed and `i` alone, its class is `i` modulo the arms. Every arm winds [`TURNS`] times from
//! near the centre to the rim, and points lie about it by [`NOISE`]. No straight line and no single coordinate separates the
//! arms: a network needs a hidden layer, and its width and depth show in the accuracy. A point is an image of one pixel with
//! two channels, its coordinates, so everything that works on images works on it. Refuses: fewer than 2 or more than
//! [`MAX_ARMS`] arms, more than [`MAX_SAMPLES`] samples.

use crate::{
    data::{
        DatasetInfo, Input, Split, divide,
        image_set::{self, Samples, Streamed, split},
        sequences::within,
        source::{Source, Store},
    },
    error::Result,
    experiment::{Data, Placement, limits::MAX_SAMPLES},
    rng::{Rng, Stream},
};

/// The most arms: with more of them, neighbours overlap.
const MAX_ARMS: usize = 10;
/// How often an arm winds around the centre.
const TURNS: f64 = 1.25;
/// Distances of the first and the last point of an arm from the centre. The plane that is seen reaches from -1 to 1.
const RADII: [f64; 2] = [0.1, 0.9];
/// Standard deviation of a point's distance from its arm, along each axis.
const NOISE: f64 = 0.015;
/// Numbers of a point.
const COORDINATES: usize = 2;

/// Spirals.
pub(super) struct SpiralArms;

impl Source for SpiralArms {
    fn info(&self, data: &Data) -> Result<DatasetInfo> {
        self.limits(data)?;
        let (train, test) = divide(data.samples, data.test_fraction)?;
        let input = Input::Image { height: 1, width: 1, channels: COORDINATES };
        Ok(DatasetInfo::one_label(input, data.classes, train, test))
    }

    fn limits(&self, data: &Data) -> Result<()> {
        within("data.classes", data.classes, 2, MAX_ARMS, "a number of arms")?;
        within("data.samples", data.samples, 2, MAX_SAMPLES, "a number of samples")
    }

    fn open(&self, data: &Data, info: &DatasetInfo, seed: u64) -> Result<Store> {
        Ok(image_set::placed(data, Spirals::new(info, seed), Spirals::all))
    }

    fn held_bytes(&self, data: &Data, info: &DatasetInfo) -> Result<usize> {
        Ok(match data.placement {
            Placement::Host => image_set::held_bytes(data, info),
            // The order of the samples.
            Placement::Streamed | Placement::Device => (info.train + info.test) * size_of::<u32>(),
        })
    }
}

/// The samples of one choice and seed, which are made when they are asked for.
#[derive(Debug)]
struct Spirals {
    arms: usize,
    seed: u64,
    train: Vec<u32>,
    test: Vec<u32>,
}

impl Spirals {
    fn new(info: &DatasetInfo, seed: u64) -> Self {
        let classes: Vec<u8> = (0..info.train + info.test).map(|index| (index % info.classes) as u8).collect();
        let (train, test) = split(seed, &classes, info.test);
        Self { arms: info.classes, seed, train, test }
    }

    fn part(&self, split: Split) -> &[u32] {
        match split {
            Split::Train => &self.train,
            Split::Test => &self.test,
        }
    }

    /// Training and test samples.
    fn all(&self) -> (Samples, Samples) {
        let part = |split| {
            let indices = self.part(split);
            let pixels = indices.iter().flat_map(|index| self.point(*index)).collect();
            let labels = indices.iter().map(|index| self.arm(*index)).collect();
            Samples { pixels, labels }
        };
        (part(Split::Train), part(Split::Test))
    }

    fn arm(&self, index: u32) -> u8 {
        (index as usize % self.arms) as u8
    }

    /// The coordinates of a sample, from -1 at 0 to 1 at 255.
    fn point(&self, index: u32) -> [u8; COORDINATES] {
        let rng = Rng::new(self.seed, Stream::Data, u64::from(index));
        let along = rng.uniform(0);
        let radius = RADII[0] + (RADII[1] - RADII[0]) * along;
        let turn = TURNS * along + f64::from(self.arm(index)) / self.arms as f64;
        let (sine, cosine) = (turn * std::f64::consts::TAU).sin_cos();
        let at = [radius * cosine + NOISE * rng.normal(1), radius * sine + NOISE * rng.normal(2)];
        // A cast saturates.
        at.map(|coordinate| ((coordinate + 1.0) / 2.0 * 255.0).round() as u8)
    }
}

impl Streamed for Spirals {
    fn count(&self, split: Split) -> usize {
        self.part(split).len()
    }

    fn read(&self, split: Split, index: usize, pixels: &mut [u8], labels: &mut [u8]) -> Result<()> {
        let index = self.part(split)[index];
        pixels.copy_from_slice(&self.point(index));
        labels[0] = self.arm(index);
        Ok(())
    }

    fn is_work(&self) -> bool {
        false
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::experiment::DataKind;

    fn data(classes: usize) -> Data {
        Data { kind: DataKind::Spirals, classes, samples: 3000, ..Data::default() }
    }

    fn spirals(classes: usize, seed: u64) -> Spirals {
        Spirals::new(&SpiralArms.info(&data(classes)).expect("possible"), seed)
    }

    /// The arm whose curve is nearest to a point.
    fn nearest(point: &[u8], arms: usize) -> usize {
        let [x, y] = [0, 1].map(|i| f64::from(point[i]) / 255.0 * 2.0 - 1.0);
        let distance = |arm: usize| {
            let at = |step: usize| {
                let along = step as f64 / 400.0;
                let radius = RADII[0] + (RADII[1] - RADII[0]) * along;
                let (sine, cosine) = ((TURNS * along + arm as f64 / arms as f64) * std::f64::consts::TAU).sin_cos();
                (radius * cosine - x).hypot(radius * sine - y)
            };
            (0..=400).map(at).fold(f64::INFINITY, f64::min)
        };
        (0..arms).min_by(|a, b| distance(*a).total_cmp(&distance(*b))).expect("two arms at least")
    }

    #[test]
    fn a_point_lies_nearest_to_its_own_arm() {
        for (arms, right) in [(2, 0.999), (3, 0.999), (10, 0.9)] {
            let (train, _) = spirals(arms, 1).all();
            let hits = train.pixels.chunks(2).zip(&train.labels).filter(|(p, arm)| nearest(p, arms) == **arm as usize);
            let share = hits.count() as f64 / train.labels.len() as f64;
            assert!(share >= right, "{arms}: {share}");
        }
    }

    #[test]
    fn no_straight_line_tells_two_arms_apart() {
        let (train, _) = spirals(2, 1).all();
        for angle in 0..180 {
            let (sine, cosine) = f64::from(angle).to_radians().sin_cos();
            let side = |p: &[u8]| (f64::from(p[0]) - 127.5) * cosine + (f64::from(p[1]) - 127.5) * sine > 0.0;
            let hits = train.pixels.chunks(2).zip(&train.labels).filter(|(p, arm)| side(p) == (**arm == 1)).count();
            let share = hits as f64 / train.labels.len() as f64;
            assert!((0.2..0.8).contains(&share), "{angle}: {share}");
        }
    }

    #[test]
    fn held_and_streamed_samples_are_the_same_and_seeds_differ() {
        let (one, other) = (spirals(3, 1), spirals(3, 2));
        let (train, test) = one.all();
        assert_ne!(train, other.all().0);
        assert_eq!((train.labels.len(), test.labels.len()), (2400, 600));
        for (split, all) in [(Split::Train, &train), (Split::Test, &test)] {
            for index in 0..one.count(split) {
                let (mut point, mut arm) = ([0; 2], [0; 1]);
                one.read(split, index, &mut point, &mut arm).expect("generated");
                assert_eq!((&point[..], arm[0]), (&all.pixels[2 * index..][..2], all.labels[index]));
            }
        }
    }

    #[test]
    fn arms_and_samples_out_of_range_are_refused() {
        let error = |data: Data| SpiralArms.info(&data).expect_err("impossible").to_string();
        assert!(
            error(data(1)).starts_with("data.classes: 1 is not a number of arms; write 2 to 10"),
            "{}",
            error(data(1))
        );
        assert!(error(data(11)).starts_with("data.classes: "));
        assert!(error(Data { samples: 1, ..data(3) }).starts_with("data.samples: "));
        assert!(error(Data { samples: MAX_SAMPLES + 1, ..data(3) }).starts_with("data.samples: "));
    }
}
