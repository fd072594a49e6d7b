//! A line of many points, drawn as the band of pixels that it covers.
//!
//! Owns the shape only: points, name, hover and bounds belong to the line. Always holds: the band covers what the line would
//! cover, column by column, to within [`TOLERANCE`]. A band costs four corners a column however often the line goes up and
//! down in it, and none if it is straight. A renderer on the processor spends most of a frame on such corners.

use std::ops::RangeInclusive;

use eframe::egui::{
    Color32, Mesh, Pos2, Rangef, Shape, Ui,
    epaint::{BandPoint, BandShape},
    pos2,
};
use egui_plot::{ClosestElem, Line, PlotBounds, PlotGeometry, PlotItem, PlotItemBase, PlotTransform};

/// Corners that are off the straight line between their neighbours by fewer pixels are left out.
const TOLERANCE: f32 = 0.1;
/// Lines with fewer points than one in this many columns are drawn as lines.
const SPARSE: f32 = 2.0;

/// A line that may have many points.
pub(crate) struct DenseLine<'a> {
    line: Line<'a>,
    color: Color32,
    width: f32,
}

impl<'a> DenseLine<'a> {
    /// The line in a colour and a width in points. The horizontal places of its points never fall.
    pub(crate) fn new(line: Line<'a>, color: Color32, width: f32) -> Self {
        Self { line: line.color(color).width(width).allow_band(false), color, width }
    }
}

impl PlotItem for DenseLine<'_> {
    fn shapes(&self, ui: &Ui, transform: &PlotTransform, shapes: &mut Vec<Shape>) {
        let PlotGeometry::Points(points) = self.line.geometry() else { return };
        let clip = ui.clip_rect();
        if points.len() as f32 * SPARSE < clip.width() {
            return self.line.shapes(ui, transform, shapes);
        }
        let places = points.iter().map(|point| transform.position_from_point(point));
        let places: Vec<Pos2> = places.filter(|place| place.is_finite()).collect();
        let width = if self.highlighted() { self.width * 2.0 } else { self.width };
        let band = columns(&places, clip.x_range(), width / 2.0);
        let band = straightened(&band);
        shapes.push(if self.color.is_opaque() {
            BandShape::filled(band, self.color).into()
        } else {
            hard(&band, self.color)
        });
    }

    fn initialize(&mut self, x_range: RangeInclusive<f64>) {
        self.line.initialize(x_range);
    }

    fn color(&self) -> Color32 {
        self.color
    }

    fn geometry(&self) -> PlotGeometry<'_> {
        self.line.geometry()
    }

    fn bounds(&self) -> PlotBounds {
        self.line.bounds()
    }

    fn base(&self) -> &PlotItemBase {
        self.line.base()
    }

    fn base_mut(&mut self) -> &mut PlotItemBase {
        self.line.base_mut()
    }

    fn find_closest(&self, point: Pos2, transform: &PlotTransform) -> Option<ClosestElem> {
        self.line.find_closest(point, transform)
    }
}

/// The band with hard edges, which take half of the corners: those of a faint band cannot be told from soft ones.
fn hard(band: &[BandPoint], color: Color32) -> Shape {
    let mut mesh = Mesh::default();
    mesh.reserve_vertices(band.len() * 2);
    mesh.reserve_triangles(band.len() * 2);
    for point in band {
        mesh.colored_vertex(pos2(point.x, point.y.min), color);
        mesh.colored_vertex(pos2(point.x, point.y.max), color);
    }
    for corner in (0..band.len().saturating_sub(1) as u32).map(|i| i * 2) {
        mesh.add_triangle(corner, corner + 1, corner + 2);
        mesh.add_triangle(corner + 1, corner + 3, corner + 2);
    }
    mesh.into()
}

/// The part of each pixel column in `seen` that a line through `places` covers, `half` a width above and below it.
fn columns(places: &[Pos2], seen: Rangef, half: f32) -> Vec<BandPoint> {
    let (Some(first), Some(last)) = (places.first(), places.last()) else { return Vec::new() };
    let (left, right) = (first.x.max(seen.min - 1.0).floor(), last.x.min(seen.max + 1.0).floor());
    if left > right {
        return Vec::new();
    }
    let mut covered = vec![Rangef::NOTHING; (right - left) as usize + 1];
    for ends in places.windows(2) {
        let (a, b) = (ends[0], ends[1]);
        let height = |x: f32| if b.x > a.x { a.y + (b.y - a.y) * (x - a.x) / (b.x - a.x) } else { b.y };
        let (from, to) = (a.x.floor().max(left), b.x.floor().min(right));
        if from > to {
            continue;
        }
        let crossed = (from - left) as usize..=(to - left) as usize;
        for (column, range) in crossed.clone().zip(&mut covered[crossed]) {
            let (enters, leaves) = (left + column as f32, left + column as f32 + 1.0);
            let start = if a.x >= enters { a.y } else { height(enters) };
            let end = if b.x <= leaves { b.y } else { height(leaves) };
            *range = range.union(Rangef::new(start.min(end), start.max(end)));
        }
    }
    let point = |(column, range): (usize, &Rangef)| {
        let x = (left + column as f32 + 0.5).clamp(first.x, last.x);
        BandPoint::new(x, range.expand(half))
    };
    covered.iter().enumerate().filter(|(_, range)| range.span().is_finite()).map(point).collect()
}

/// The slopes that a straight line from the last kept corner may have.
#[derive(Clone, Copy)]
struct Slopes(Rangef);

impl Slopes {
    const ALL: Self = Self(Rangef::EVERYTHING);

    /// The slopes that also pass a corner which lies `across` further, `rise` higher.
    fn narrowed(self, across: f32, rise: f32) -> Self {
        let (low, high) = ((rise - TOLERANCE) / across, (rise + TOLERANCE) / across);
        Self(Rangef::new(self.0.min.max(low), self.0.max.min(high)))
    }
}

/// The band without corners that lie on the straight line between others.
fn straightened(band: &[BandPoint]) -> Vec<BandPoint> {
    let Some((first, rest)) = band.split_first() else { return Vec::new() };
    let mut kept = vec![*first];
    let (mut anchor, mut before, mut slopes) = (*first, None, [Slopes::ALL; 2]);
    for point in rest {
        let rises = |anchor: BandPoint| [point.y.min - anchor.y.min, point.y.max - anchor.y.max];
        let across = point.x - anchor.x;
        let passes = slopes.iter().zip(rises(anchor)).all(|(slopes, rise)| slopes.0.contains(rise / across));
        if let Some(corner) = before.filter(|_| !passes) {
            kept.push(corner);
            (anchor, slopes) = (corner, [Slopes::ALL; 2]);
        }
        let (across, rises) = (point.x - anchor.x, rises(anchor));
        slopes = [slopes[0].narrowed(across, rises[0]), slopes[1].narrowed(across, rises[1])];
        before = Some(*point);
    }
    kept.extend(before);
    kept
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const SEEN: Rangef = Rangef { min: 0.0, max: 400.0 };

    /// Least and greatest of a band at a place.
    fn at(band: &[BandPoint], x: f32) -> Rangef {
        let next = band.iter().position(|point| point.x >= x).expect("inside the band").max(1);
        let (a, b) = (band[next - 1], band[next]);
        let share = (x - a.x) / (b.x - a.x);
        let between = |a: f32, b: f32| a + (b - a) * share;
        Rangef::new(between(a.y.min, b.y.min), between(a.y.max, b.y.max))
    }

    proptest! {
        #[test]
        fn a_band_covers_the_line_column_by_column(heights in prop::collection::vec(0f32..300.0, 2..2000), gaps in prop::collection::vec(0f32..2.0, 2000), from in -100f32..100.0) {
            let places: Vec<Pos2> = heights.iter().zip(&gaps).scan(from, |x, (y, gap)| { *x += gap; Some(pos2(*x, *y)) }).collect();
            let band = columns(&places, SEEN, 0.0);
            prop_assert!(band.windows(2).all(|pair| pair[0].x < pair[1].x));
            for place in places.iter().filter(|place| SEEN.contains(place.x)) {
                let column = band.iter().min_by(|a, b| (a.x.floor() - place.x.floor()).abs().total_cmp(&(b.x.floor() - place.x.floor()).abs())).expect("a column");
                prop_assert!(column.y.min <= place.y + 1e-3 && place.y <= column.y.max + 1e-3, "{place:?} {column:?}");
            }
            // One column ends where the next begins, so that no gap can be seen.
            prop_assert!(band.windows(2).all(|pair| pair[0].y.expand(1e-2).intersects(pair[1].y)));
        }

        #[test]
        fn corners_are_left_out_only_where_the_line_is_straight(ends in prop::collection::vec((0f32..300.0, 0f32..5.0, 1usize..40), 1..30), noise in 0f32..0.04) {
            let band: Vec<BandPoint> = ends.iter().flat_map(|(y, height, count)| (0..*count).map(move |i| (y + i as f32 * height / 7.0, *height))).enumerate().map(|(i, (y, height))| {
                let y = y + if i % 2 == 0 { noise } else { -noise };
                BandPoint::new(i as f32 + 0.5, y..=y + height)
            }).collect();
            let kept = straightened(&band);
            prop_assert_eq!((kept.first(), kept.last()), (band.first(), band.last()));
            for point in band.iter().filter(|_| kept.len() > 1) {
                let drawn = at(&kept, point.x);
                prop_assert!((drawn.min - point.y.min).abs() < TOLERANCE + 0.01 && (drawn.max - point.y.max).abs() < TOLERANCE + 0.01, "{point:?} {drawn:?}");
            }
        }
    }

    #[test]
    fn a_straight_line_costs_two_corners_and_a_spike_survives() {
        let mut places: Vec<Pos2> = (0..4000).map(|i| pos2(i as f32 / 10.0, 50.0)).collect();
        assert_eq!(straightened(&columns(&places, SEEN, 0.8)).len(), 2);
        places[1234].y = 7.0;
        let band = straightened(&columns(&places, SEEN, 0.8));
        assert!(band.len() <= 6, "{band:?}");
        assert!(band.iter().any(|point| point.y.min <= 7.0), "{band:?}");
    }

    #[test]
    fn nothing_is_drawn_of_what_is_out_of_sight() {
        let places: Vec<Pos2> = (0..1000).map(|i| pos2(i as f32 * 10.0 - 5000.0, i as f32)).collect();
        assert!(columns(&places, SEEN, 0.8).len() <= 403);
        assert!(columns(&places, Rangef::new(6000.0, 6400.0), 0.8).is_empty());
        assert!(columns(&[], SEEN, 0.8).is_empty());
    }
}
