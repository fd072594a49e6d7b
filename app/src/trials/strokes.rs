//! A drawing by hand, brought to the size of a model's images.
//!
//! Always holds: the drawing fills the image as the digits of a set do, in any part of the square, so that
//! neither its place nor its size decides the answer.

/// A line that was drawn without lifting the pen: points from 0 to 1, x to the right and y down.
pub(crate) type Stroke = Vec<[f32; 2]>;

/// Width of the pen, of the height of a digit, in images without a border and with one.
const PEN: [f32; 2] = [0.19, 0.13];
/// Samples across and down a pixel: as many as made the shipped digits from their scans.
const FINE: usize = 4;
/// From this height on, digits have an empty border.
const HAS_BORDER: usize = 16;
/// The share of the height that it leaves them, as in MNIST: 20 of 28.
const INSIDE: f32 = 20.0 / 28.0;

/// Ink from 0 to 255, `[height, width]`.
pub(crate) fn ink(strokes: &[Stroke], height: usize, width: usize) -> Vec<u8> {
    let Some((lowest, highest)) = bounds(strokes) else { return vec![0; height * width] };
    let [inside, pen] = if height >= HAS_BORDER { [INSIDE, PEN[1]] } else { [1.0, PEN[0]] };
    // In pixels of the image, the pen stands out by its half on either side.
    let pen = pen * height as f32 * inside;
    let room = [width as f32 * inside - pen, height as f32 * inside - pen].map(|room| room.max(0.1));
    let extent = [highest[0] - lowest[0], highest[1] - lowest[1]];
    let scale = (room[0] / extent[0].max(1e-3)).min(room[1] / extent[1].max(1e-3));
    // A dot stays one.
    let scale = scale.min(12.0 * height as f32);
    let middle = [(lowest[0] + highest[0]) / 2.0, (lowest[1] + highest[1]) / 2.0];
    let place = |[x, y]: [f32; 2]| {
        [(x - middle[0]) * scale + width as f32 / 2.0, (y - middle[1]) * scale + height as f32 / 2.0]
    };
    let placed: Vec<Stroke> = strokes.iter().map(|stroke| stroke.iter().copied().map(place).collect()).collect();
    let is_inked = |point| placed.iter().any(|stroke| distance(stroke, point) <= pen / 2.0);
    let pixel = |at: usize| {
        let (x, y) = (at % width, at / width);
        let fine = |i: usize, whole: usize| whole as f32 + ((i as f32) + 0.5) / FINE as f32;
        let inked = (0..FINE * FINE).filter(|i| is_inked([fine(i % FINE, x), fine(i / FINE, y)])).count();
        (inked * 255 / (FINE * FINE)) as u8
    };
    (0..height * width).map(pixel).collect()
}

/// The lowest and the highest x and y; `None` without a point.
fn bounds(strokes: &[Stroke]) -> Option<([f32; 2], [f32; 2])> {
    let mut points = strokes.iter().flatten().copied();
    let first = points.next()?;
    Some(
        points.fold((first, first), |(low, high), [x, y]| {
            ([low[0].min(x), low[1].min(y)], [high[0].max(x), high[1].max(y)])
        }),
    )
}

/// The distance from a point to the nearest one of a line.
fn distance(stroke: &[[f32; 2]], point: [f32; 2]) -> f32 {
    let to = |[x, y]: [f32; 2]| (x - point[0]).hypot(y - point[1]);
    let along = |pair: &[[f32; 2]]| {
        let [a, b] = [pair[0], pair[1]];
        let [dx, dy] = [b[0] - a[0], b[1] - a[1]];
        let length = (dx * dx + dy * dy).max(1e-12);
        let share = (((point[0] - a[0]) * dx + (point[1] - a[1]) * dy) / length).clamp(0.0, 1.0);
        to([a[0] + share * dx, a[1] + share * dy])
    };
    let ends = stroke.first().map_or(f32::INFINITY, |first| to(*first));
    stroke.windows(2).map(along).fold(ends, f32::min)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_drawing_fills_the_image_wherever_it_was_drawn() {
        let line = |x: f32, from: f32, to: f32| vec![vec![[x, from], [x, to]]];
        let tall = ink(&line(0.5, 0.1, 0.9), 8, 8);
        assert_eq!(tall, ink(&line(0.1, 0.6, 0.8), 8, 8), "small and in a corner");
        assert!(tall[4] > 0 && tall[7 * 8 + 4] > 0 && tall[0] == 0 && tall[7] == 0, "{tall:?}");
        assert_eq!(ink(&[], 8, 8), vec![0; 64]);
        let dot = ink(&[vec![[0.2, 0.2]]], 28, 28);
        assert!(dot[14 * 28 + 14] == 255 && dot[0] == 0 && dot.iter().filter(|ink| **ink > 0).count() < 60);
        // MNIST leaves four pixels free.
        let bordered = ink(&line(0.5, 0.0, 1.0), 28, 28);
        let rows: Vec<usize> = (0..28).filter(|y| (0..28).any(|x| bordered[y * 28 + x] > 0)).collect();
        assert!(rows.len() >= 19 && rows[0] >= 3 && *rows.last().expect("inked") <= 24, "{rows:?}");
    }
}
