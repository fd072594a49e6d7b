//! Generated coloured shapes: square images of three channels, the class is the shape.
//!
//! Sample `i` is a function of the seed and `i` alone, its class is `i` modulo the classes. Place, size, tilt and
//! colours vary. The shape is lighter than its background, which has a gradient and a wave. There are fragments, and
//! every pixel is noisy. A larger image shows the same scene with more pixels. Neither a colour nor a place gives the
//! class away, only the outline does, so a model that uses neighbouring pixels has the advantage. Refuses: fewer than 2
//! or more than 10 classes, more than [`MAX_SAMPLES`], and more than [`MAX_PIXEL_BYTES`].

mod outline;

use crate::{
    bytes::{Bytes, counted},
    data::{
        DatasetInfo, Input, Split, divide,
        image_set::{self, Samples, Streamed, split},
        source::{Source, Store},
    },
    error::{Problem, Result},
    experiment::{Data, Placement, limits::MAX_SAMPLES},
    rng::{Rng, Stream},
};
use outline::{Outline, Point};

/// The most bytes of pixels that are generated.
pub(super) const MAX_PIXEL_BYTES: usize = 4 << 30;

/// The side of a scene in its own units: places and sizes are drawn for an image of this side.
const SCENE: f32 = 32.0;
pub(super) const CHANNELS: usize = 3;

/// The most that a shape is turned, in radians: beyond it, a few thousand samples are too few to learn from.
const MOST_TILT: f32 = 0.5;

type Colour = [f32; CHANNELS];

/// Images with one shape each.
pub(super) struct ColouredShapes;

impl Source for ColouredShapes {
    fn info(&self, data: &Data) -> Result<DatasetInfo> {
        check(data, CHANNELS)?;
        let (train, test) = divide(data.samples, data.test_fraction)?;
        let input = Input::Image { height: data.side, width: data.side, channels: CHANNELS };
        Ok(DatasetInfo::one_label(input, data.classes, train, test))
    }

    fn open(&self, data: &Data, info: &DatasetInfo, seed: u64) -> Result<Store> {
        Ok(image_set::placed(data, Shapes::new(info, data.loaded_side(), seed), Shapes::all))
    }

    fn held_bytes(&self, data: &Data, info: &DatasetInfo) -> Result<usize> {
        Ok(match data.placement {
            Placement::Host => image_set::held_bytes(data, info),
            // The order of the samples.
            Placement::Streamed | Placement::Device => (info.train + info.test) * size_of::<u32>(),
        })
    }
}

/// Refuses sizes past the limits, with `pixel_bytes` a pixel.
pub(super) fn check(data: &Data, pixel_bytes: usize) -> Result<()> {
    let most = Outline::ALL.len();
    if !(2..=most).contains(&data.classes) {
        let message = format!("shapes cannot be of {}", counted(data.classes as u64, "class"));
        return Err(Problem::new("data.classes", message, format!("use 2 to {most}")).into());
    }
    if !(2..=MAX_SAMPLES).contains(&data.samples) {
        let message = format!("{} samples cannot be generated", data.samples);
        return Err(Problem::new("data.samples", message, format!("use 2 to {MAX_SAMPLES}")).into());
    }
    // A stream holds none of them.
    let is_held = data.placement != Placement::Streamed;
    if is_held && data.samples * data.side * data.side * pixel_bytes > MAX_PIXEL_BYTES {
        let (samples, side) = (data.samples, data.side);
        let message = format!("{samples} images of {side} x {side} are more than {}", Bytes(MAX_PIXEL_BYTES as u64));
        let fewer = MAX_PIXEL_BYTES / (side * side * pixel_bytes);
        if fewer < 2 {
            let side = (MAX_PIXEL_BYTES / (2 * pixel_bytes)).isqrt();
            return Err(Problem::new("data.side", message, format!("use {side} or less")).into());
        }
        let mend = format!("use {fewer} or fewer, or stream them (data.placement=streamed)");
        return Err(Problem::new("data.samples", message, mend).into());
    }
    Ok(())
}

/// The name of a class's shape.
pub(super) fn class_name(class: usize) -> Option<&'static str> {
    Outline::ALL.get(class).map(|outline| outline.name())
}

/// The samples of one choice and seed, which are made when they are asked for.
#[derive(Debug)]
pub(super) struct Shapes {
    side: usize,
    classes: usize,
    seed: u64,
    train: Vec<u32>,
    test: Vec<u32>,
}

impl Shapes {
    pub(super) fn new(facts: &DatasetInfo, side: usize, seed: u64) -> Self {
        let classes: Vec<u8> = (0..facts.train + facts.test).map(|index| (index % facts.classes) as u8).collect();
        let (train, test) = split(seed, &classes, facts.test);
        Self { side, classes: facts.classes, seed, train, test }
    }

    /// Training and test samples, generated on all cores.
    pub(super) fn all(&self) -> (Samples, Samples) {
        let generate = |indices: &[u32]| generate(indices, self.side, self.classes, self.seed);
        (generate(&self.train), generate(&self.test))
    }
}

impl Streamed for Shapes {
    fn count(&self, split: Split) -> usize {
        match split {
            Split::Train => self.train.len(),
            Split::Test => self.test.len(),
        }
    }

    fn read(&self, split: Split, index: usize, pixels: &mut [u8], labels: &mut [u8]) -> Result<()> {
        let index = match split {
            Split::Train => self.train[index],
            Split::Test => self.test[index],
        };
        make(index, self.classes, self.seed, pixels, labels, self.side);
        Ok(())
    }

    fn is_work(&self) -> bool {
        true
    }
}

fn make(index: u32, classes: usize, seed: u64, image: &mut [u8], labels: &mut [u8], side: usize) {
    labels[0] = (index as usize % classes) as u8;
    Scene::new(seed, u64::from(index), classes).draw(image, side);
}

fn generate(indices: &[u32], side: usize, classes: usize, seed: u64) -> Samples {
    generate_by(indices, side, 1, |index, image, labels| {
        make(index, classes, seed, image, labels, side);
    })
}

/// Samples of `targets` labels, each written by `make` from its index.
pub(super) fn generate_by(
    indices: &[u32],
    side: usize,
    targets: usize,
    make: impl Fn(u32, &mut [u8], &mut [u8]) + Sync,
) -> Samples {
    let image_bytes = side * side * CHANNELS;
    let mut pixels = vec![0; indices.len() * image_bytes];
    let mut labels = vec![0; indices.len() * targets];
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    let share = indices.len().div_ceil(threads).max(1);
    std::thread::scope(|scope| {
        let make = &make;
        let shares = pixels.chunks_mut(share * image_bytes).zip(labels.chunks_mut(share * targets));
        for (indices, (pixels, labels)) in indices.chunks(share).zip(shares) {
            scope.spawn(move || {
                let places = pixels.chunks_exact_mut(image_bytes).zip(labels.chunks_exact_mut(targets));
                for (index, (image, labels)) in indices.iter().zip(places) {
                    make(*index, image, labels);
                }
            });
        }
    });
    Samples { pixels, labels }
}

/// Random numbers of one sample, one after the other.
struct Draw {
    rng: Rng,
    next: u64,
}

impl Draw {
    fn uniform(&mut self, low: f32, high: f32) -> f32 {
        self.next += 1;
        self.rng.range(self.next, f64::from(low), f64::from(high)) as f32
    }

    fn below(&mut self, n: usize) -> usize {
        self.next += 1;
        self.rng.below(self.next, n)
    }

    /// Sine and cosine of any angle.
    fn direction(&mut self) -> Point {
        self.uniform(0.0, std::f32::consts::TAU).sin_cos()
    }

    fn colour(&mut self, low: f32, high: f32) -> Colour {
        [(); CHANNELS].map(|()| self.uniform(low, high))
    }
}

/// An outline, placed.
struct Placed {
    outline: Outline,
    centre: Point,
    /// Scene units of one unit of the outline.
    size: f32,
    cosine: f32,
    sine: f32,
    colour: Colour,
}

impl Placed {
    /// How much of the pixel at `point` it covers, 0 to 1; `sharpness` is pixels to a unit of the scene.
    fn cover(&self, point: Point, sharpness: f32) -> f32 {
        let (x, y) = ((point.0 - self.centre.0) / self.size, (point.1 - self.centre.1) / self.size);
        // Outlines reach 1.1 units at most; beyond that nothing has to be computed.
        if x * x + y * y > (1.2 + 1.0 / self.size).powi(2) {
            return 0.0;
        }
        let turned = (self.cosine * x + self.sine * y, self.cosine * y - self.sine * x);
        (0.5 - self.outline.distance(turned) * self.size * sharpness).clamp(0.0, 1.0)
    }
}

/// A slow or quick change of the background across the image.
struct Wave {
    direction: Point,
    phase: f32,
    colour: Colour,
}

/// Everything in one image.
pub(super) struct Scene {
    ground: Colour,
    slope: Wave,
    wave: Wave,
    /// The shapes first, then the fragments, which lie over them.
    things: Vec<Placed>,
    noise: f32,
    rng: Rng,
}

impl Scene {
    /// One shape, of class `index` modulo the classes.
    fn new(seed: u64, index: u64, classes: usize) -> Self {
        let rng = Rng::new(seed, Stream::Data, index);
        let mut draw = Draw { rng, next: 0 };
        let ground = draw.colour(0.15, 0.55);
        let shape = shape(&mut draw, Outline::ALL[index as usize % classes], ground, (7.5, 12.0));
        Self::with(draw, ground, vec![shape])
    }

    /// One to three smaller shapes, and the class of each, from 1.
    pub(super) fn crowded(seed: u64, index: u64, classes: usize) -> (Self, Vec<u8>) {
        // Different random numbers than those of a scene with one shape.
        let mut draw = Draw { rng: Rng::new(!seed, Stream::Data, index), next: 0 };
        let ground = draw.colour(0.15, 0.55);
        let count = draw.below(3) + 1;
        let outlines: Vec<usize> = (0..count).map(|_| draw.below(classes)).collect();
        let shapes = outlines.iter().map(|class| shape(&mut draw, Outline::ALL[*class], ground, (4.5, 8.5))).collect();
        (Self::with(draw, ground, shapes), outlines.iter().map(|class| *class as u8 + 1).collect())
    }

    /// The shapes, and over them the fragments that every scene has. A fragment's colour lies between the ground's and the
    /// first shape's.
    fn with(mut draw: Draw, ground: Colour, mut things: Vec<Placed>) -> Self {
        let (rng, colour) = (draw.rng, things[0].colour);
        for outline in [Outline::Disc, Outline::Bar, Outline::Bar] {
            // Darker than the ground or lighter, but less so than the shape.
            let strength = draw.uniform(-0.6, 0.6);
            let colour = std::array::from_fn(|c| ground[c] + strength * (colour[c] - ground[c]));
            let size = draw.uniform(1.5, 3.5);
            let turn = draw.direction();
            things.push(placed(&mut draw, outline, size, SCENE / 2.0, turn, colour));
        }
        let slope = wave(&mut draw, 0.02, 0.06, 0.12);
        let wave = wave(&mut draw, 0.3, 0.9, 0.06);
        let noise = draw.uniform(0.02, 0.12);
        Self { ground, slope, wave, things, noise, rng: Rng::from_key(!rng.key()) }
    }

    /// Writes the class of each pixel: the class of the topmost shape that covers half of it; fragments and ground are 0.
    pub(super) fn mask(&self, classes: &[u8], mask: &mut [u8], side: usize) {
        let sharpness = side as f32 / SCENE;
        let classes = || classes.iter().copied().chain(std::iter::repeat(0));
        for (i, pixel) in mask.iter_mut().enumerate() {
            let point = middle(i, side, sharpness);
            let covering = self.things.iter().zip(classes()).filter(|(thing, _)| thing.cover(point, sharpness) >= 0.5);
            *pixel = covering.last().map_or(0, |(_, class)| class);
        }
    }

    pub(super) fn draw(&self, image: &mut [u8], side: usize) {
        let sharpness = side as f32 / SCENE;
        for (i, pixel) in image.chunks_exact_mut(CHANNELS).enumerate() {
            let point = middle(i, side, sharpness);
            let slope = self.slope.at(point);
            let wave = self.wave.at(point);
            let mut colour: Colour =
                std::array::from_fn(|c| self.ground[c] + slope * self.slope.colour[c] + wave * self.wave.colour[c]);
            for thing in &self.things {
                let cover = thing.cover(point, sharpness);
                for (mixed, own) in colour.iter_mut().zip(thing.colour) {
                    *mixed += cover * (own - *mixed);
                }
            }
            // Two numbers of 10 bits a channel: their sum is a triangle from -1 to 1, as good as a normal here and quick.
            let mut bits = self.rng.bits(i as u64);
            for (value, mixed) in pixel.iter_mut().zip(colour) {
                let noise = ((bits & 1023) + (bits >> 10 & 1023)) as f32 / 1023.0 - 1.0;
                bits >>= 20;
                // A cast saturates.
                *value = ((mixed + self.noise * noise) * 255.0 + 0.5) as u8;
            }
        }
    }
}

impl Wave {
    fn at(&self, point: Point) -> f32 {
        (self.direction.0 * point.0 + self.direction.1 * point.1 + self.phase).sin()
    }
}

/// The middle of a pixel, in units of the scene.
fn middle(pixel: usize, side: usize, sharpness: f32) -> Point {
    (((pixel % side) as f32 + 0.5) / sharpness, ((pixel / side) as f32 + 0.5) / sharpness)
}

/// A shape of a size between `sizes`, lighter than the ground.
fn shape(draw: &mut Draw, outline: Outline, ground: Colour, sizes: (f32, f32)) -> Placed {
    let contrast = draw.uniform(0.3, 0.7);
    let tint = draw.colour(0.0, 1.0);
    let length = tint.iter().map(|part| part * part).sum::<f32>().sqrt().max(0.1);
    let colour: Colour = std::array::from_fn(|c| ground[c] + tint[c] / length * contrast);
    let size = draw.uniform(sizes.0, sizes.1);
    // The whole outline stays in the image, or nearly.
    let reach = SCENE / 2.0 - size;
    let tilt = draw.uniform(-MOST_TILT, MOST_TILT).sin_cos();
    placed(draw, outline, size, reach, tilt, colour)
}

/// An outline somewhere up to `reach` from the middle, turned by the angle of `(sine, cosine)`.
fn placed(
    draw: &mut Draw,
    outline: Outline,
    size: f32,
    reach: f32,
    (sine, cosine): (f32, f32),
    colour: Colour,
) -> Placed {
    let middle = SCENE / 2.0;
    let centre = (middle + draw.uniform(-reach, reach), middle + draw.uniform(-reach, reach));
    Placed { outline, centre, size, cosine, sine, colour }
}

/// A wave of `low` to `high` radians a unit of the scene, each channel up to `height` strong.
fn wave(draw: &mut Draw, low: f32, high: f32, height: f32) -> Wave {
    let (x, y) = draw.direction();
    let pace = draw.uniform(low, high);
    let phase = draw.uniform(0.0, std::f32::consts::TAU);
    Wave { direction: (x * pace, y * pace), phase, colour: draw.colour(-height, height) }
}

#[cfg(test)]
mod tests;
