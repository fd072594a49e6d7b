//! The parameters of a sample, and the content of a picture.

use std::collections::HashSet;

use super::*;

const IMAGE: usize = 32 * 32 * CHANNELS;

#[test]
fn a_sample_depends_on_the_seed_and_its_number_alone() {
    let some = generate(&[5, 3, 8], 32, 10, 1);
    let all = generate(&(0..20).collect::<Vec<_>>(), 32, 10, 1);
    assert_eq!(some.pixels[IMAGE..2 * IMAGE], all.pixels[3 * IMAGE..4 * IMAGE]);
    assert_eq!((some.labels[0], some.labels[1], all.labels[13]), (5, 3, 3));
    assert_ne!(some.pixels, generate(&[5, 3, 8], 32, 10, 2).pixels);
}

#[test]
fn no_two_samples_are_alike_and_none_is_flat() {
    let samples = generate(&(0..300).collect::<Vec<_>>(), 32, 7, 3);
    let images: HashSet<&[u8]> = samples.pixels.chunks_exact(IMAGE).collect();
    assert_eq!(images.len(), 300);
    for image in images {
        let (low, high) = (image.iter().min(), image.iter().max());
        assert!(high > low.map(|v| v + 30).as_ref(), "{low:?} {high:?}");
    }
    assert_eq!(samples.labels.iter().max(), Some(&6));
}

#[test]
fn the_mean_colour_does_not_tell_the_class() {
    let samples = generate(&(0..2000).collect::<Vec<_>>(), 32, 10, 1);
    let mut means = [0.0; 10];
    for (image, label) in samples.pixels.chunks_exact(IMAGE).zip(&samples.labels) {
        means[usize::from(*label)] += image.iter().map(|v| f64::from(*v)).sum::<f64>() / (IMAGE * 200) as f64;
    }
    let (low, high) = means.iter().fold((255.0f64, 0.0f64), |(low, high), mean| (low.min(*mean), high.max(*mean)));
    // A single image's mean varies by some twenty.
    assert!(high - low < 15.0, "{means:?}");
}

#[test]
fn a_larger_image_shows_the_same_scene() {
    let (small, large) = (generate(&[4], 32, 10, 1), generate(&[4], 128, 10, 1));
    let mean = |pixels: &[u8]| pixels.iter().map(|v| f64::from(*v)).sum::<f64>() / pixels.len() as f64;
    assert_eq!(large.pixels.len(), 128 * 128 * CHANNELS);
    assert!((mean(&small.pixels) - mean(&large.pixels)).abs() < 4.0);
}
