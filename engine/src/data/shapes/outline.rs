//! Outlines of the generated shapes, as signed distances: negative inside, in units of the shape's size.
//!
//! The distances are exact near straight edges and bounds elsewhere (method: Quilez, "2D distance functions"), enough to
//! smooth an edge over one pixel. Every outline stays within 1.1 of its middle and covers a similar area.

/// x to the right, y down.
pub(super) type Point = (f32, f32);

/// A shape. No two are the same after turning.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Outline {
    Disc,
    Square,
    Triangle,
    Ring,
    Cross,
    Star,
    Bar,
    Ell,
    HalfDisc,
    Rhombus,
}

impl Outline {
    /// All outlines, by class.
    pub(super) const ALL: [Self; 10] = [
        Self::Disc,
        Self::Square,
        Self::Triangle,
        Self::Ring,
        Self::Cross,
        Self::Star,
        Self::Bar,
        Self::Ell,
        Self::HalfDisc,
        Self::Rhombus,
    ];

    /// The name of the outline.
    pub(super) const fn name(self) -> &'static str {
        match self {
            Self::Disc => "disc",
            Self::Square => "square",
            Self::Triangle => "triangle",
            Self::Ring => "ring",
            Self::Cross => "cross",
            Self::Star => "star",
            Self::Bar => "bar",
            Self::Ell => "ell",
            Self::HalfDisc => "half disc",
            Self::Rhombus => "rhombus",
        }
    }

    /// Distance of `point` to the edge.
    pub(super) fn distance(self, point: Point) -> f32 {
        let (x, y) = point;
        let radius = x.hypot(y);
        match self {
            Self::Disc => radius - 0.75,
            Self::Square => rectangle(point, 0.68, 0.68),
            Self::Triangle => regular(point, 3, 0.5),
            Self::Ring => (radius - 0.66).abs() - 0.22,
            Self::Cross => rectangle(point, 0.95, 0.27).min(rectangle(point, 0.27, 0.95)),
            Self::Star => star(point),
            Self::Bar => rectangle(point, 1.0, 0.3),
            Self::Ell => rectangle((x + 0.38, y), 0.26, 0.78).min(rectangle((x - 0.05, y - 0.52), 0.69, 0.26)),
            Self::HalfDisc => (x.hypot(y + 0.4) - 0.98).max(-y - 0.4),
            Self::Rhombus => (x.abs() * 0.58 + y.abs()) / 1.156 - 0.52,
        }
    }
}

/// A rectangle of half sides `a` and `b`.
fn rectangle((x, y): Point, a: f32, b: f32) -> f32 {
    let (dx, dy) = (x.abs() - a, y.abs() - b);
    dx.max(0.0).hypot(dy.max(0.0)) + dx.max(dy).min(0.0)
}

/// A regular polygon whose sides are `inner` away from the middle.
fn regular((x, y): Point, sides: u8, inner: f32) -> f32 {
    let sector = std::f32::consts::TAU / f32::from(sides);
    let angle = y.atan2(x);
    let from_middle = angle - sector * (angle / sector).round();
    x.hypot(y) * from_middle.cos() - inner
}

/// Five points: in each fifth of a turn, the edge from a tip (1 from the middle) to a notch (0.42 from it).
fn star((x, y): Point) -> f32 {
    const TIP: f32 = 1.0;
    const NOTCH: f32 = 0.42;
    let sector = std::f32::consts::TAU / 5.0;
    let angle = y.atan2(x);
    let from_tip = (angle - sector * (angle / sector).round()).abs();
    let radius = x.hypot(y);
    let (px, py) = (radius * from_tip.cos(), radius * from_tip.sin());
    let (nx, ny) = (NOTCH * (sector / 2.0).cos(), NOTCH * (sector / 2.0).sin());
    // The line through the tip and the notch; outside is away from the middle.
    let (ex, ey) = (nx - TIP, ny);
    ((px - TIP) * ey - py * ex) / ex.hypot(ey)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn outlines_hold_similar_areas_within_their_bounds() {
        for outline in Outline::ALL {
            let mut area = 0.0;
            for i in 0..120 {
                for j in 0..120 {
                    let point = (i as f32 / 40.0 - 1.4875, j as f32 / 40.0 - 1.4875);
                    if outline.distance(point) < 0.0 {
                        area += 1.0 / 1600.0;
                        assert!(point.0.hypot(point.1) < 1.13, "{outline:?} reaches {point:?}");
                    }
                }
            }
            assert!((0.9..2.1).contains(&area), "{outline:?} has area {area}");
        }
    }
}
