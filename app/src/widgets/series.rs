//! A growing series that draws at a cost of its pixels, not of its points.
//!
//! Owns the points and a pyramid over them: level k holds the minimum and maximum of blocks of [`FAN`]^k points and is kept
//! up to date as points arrive. Always holds: the drawn curve contains the least and the greatest value of every pixel
//! column. Not-a-number has no place on a curve: it is left out.

/// Nodes of one level under one node of the next.
const FAN: usize = 8;

/// The least and the greatest of a block.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Range {
    /// The least value.
    pub(crate) min: f32,
    /// The greatest value.
    pub(crate) max: f32,
}

impl Range {
    const NONE: Self = Self { min: f32::INFINITY, max: f32::NEG_INFINITY };

    fn with(self, other: Self) -> Self {
        Self { min: self.min.min(other.min), max: self.max.max(other.max) }
    }

    fn is_empty(self) -> bool {
        self.min > self.max
    }
}

/// Values in order, with the pyramid.
#[derive(Debug, Clone, Default)]
pub(crate) struct Series {
    values: Vec<f32>,
    levels: Vec<Vec<Range>>,
}

impl Series {
    /// Adds a value at the end.
    pub(crate) fn push(&mut self, value: f32) {
        let index = self.values.len();
        self.values.push(value);
        let point = point(value);
        let mut block = index / FAN;
        for level in 0.. {
            // A level is worth its memory once the level below has more than one block's worth of nodes.
            if level == self.levels.len() {
                if block == 0 {
                    break;
                }
                let first = self.span(level, 0, FAN);
                self.levels.push(vec![first]);
            }
            let nodes = &mut self.levels[level];
            if block == nodes.len() {
                nodes.push(point);
            } else {
                nodes[block] = nodes[block].with(point);
            }
            block /= FAN;
        }
    }

    /// Forgets all values but the first `count`.
    pub(crate) fn keep(&mut self, count: usize) {
        if count < self.values.len() {
            let values = std::mem::take(self).values;
            values[..count].iter().for_each(|value| self.push(*value));
        }
    }

    /// The values.
    pub(crate) fn values(&self) -> &[f32] {
        &self.values
    }

    /// The last value.
    pub(crate) fn last(&self) -> Option<f32> {
        self.values.last().copied()
    }

    /// The greatest finite value.
    pub(crate) fn highest(&self) -> Option<f32> {
        self.range(0, self.values.len()).map(|range| range.max)
    }

    /// Least and greatest of `from..to`; `None` if there is no finite value.
    pub(crate) fn range(&self, from: usize, to: usize) -> Option<Range> {
        let (mut from, mut to) = (from, to.min(self.values.len()));
        let mut found = Range::NONE;
        let mut level = 0;
        while from < to {
            // Whole blocks are left to the level above; the ragged ends are read here.
            let (inner_from, inner_to) = (from.next_multiple_of(FAN), to / FAN * FAN);
            if level >= self.levels.len() || inner_from >= inner_to {
                return Some(found.with(self.span(level, from, to))).filter(|r| !r.is_empty());
            }
            found = found.with(self.span(level, from, inner_from)).with(self.span(level, inner_to, to));
            (from, to, level) = (inner_from / FAN, inner_to / FAN, level + 1);
        }
        Some(found).filter(|r| !r.is_empty())
    }

    /// Nodes `from..to` of a level; level 0 is the values, level k is `levels[k - 1]`.
    fn span(&self, level: usize, from: usize, to: usize) -> Range {
        match level {
            0 => self.values[from..to.min(self.values.len())].iter().fold(Range::NONE, |r, v| r.with(point(*v))),
            _ => {
                let nodes = &self.levels[level - 1];
                nodes[from..to.min(nodes.len())].iter().fold(Range::NONE, |r, node| r.with(*node))
            }
        }
    }

    /// The curve over `xs` (one per value, never falling) between `left` and `right`, with at most about two points a
    /// column of `columns`. One point beyond each side is kept, so that the curve leaves the picture.
    pub(crate) fn curve(&self, xs: &[f64], left: f64, right: f64, columns: usize) -> Vec<[f64; 2]> {
        let end = xs.len().min(self.values.len());
        let xs = &xs[..end];
        let from = xs.partition_point(|x| *x < left).saturating_sub(1);
        let to = (xs.partition_point(|x| *x <= right) + 1).min(end);
        if to <= from {
            return Vec::new();
        }
        if to - from <= columns.max(1) * 2 {
            let finite = (from..to).filter(|i| self.values[*i].is_finite());
            return finite.map(|i| [xs[i], f64::from(self.values[i])]).collect();
        }
        let mut points = Vec::with_capacity(columns * 2 + 4);
        let (first, last) = (xs[from], xs[to - 1]);
        let mut start = from;
        let (mut before, mut width) = (f32::NAN, 0);
        for column in 1..=columns {
            let edge = first + (last - first) * column as f64 / columns as f64;
            let stop = if column == columns { to } else { stop(&xs[..to], start, width, edge) };
            width = stop - start;
            if let Some(Range { min, max }) = self.range(start, stop) {
                let x = f64::midpoint(xs[start], xs[stop - 1]);
                // The end that is nearer to where the curve comes from is drawn first.
                let rising = before.is_nan() || (before - min).abs() <= (before - max).abs();
                let (a, b) = if rising { (min, max) } else { (max, min) };
                points.push([x, f64::from(a)]);
                if a != b {
                    points.push([x, f64::from(b)]);
                }
                before = b;
            }
            start = stop;
        }
        points
    }
}

/// The first place from `start` on whose value is not below `edge`; `guess` is how many are, or nearly.
fn stop(xs: &[f64], start: usize, guess: usize, edge: f64) -> usize {
    const NEAR: usize = 2;
    let end = xs.len();
    let (from, to) = ((start + guess).saturating_sub(NEAR).clamp(start, end), (start + guess + NEAR).min(end));
    let is_in = (from == start || xs[from - 1] < edge) && (to == end || xs[to] >= edge);
    let (from, to) = if is_in { (from, to) } else { (start, end) };
    from + xs[from..to].partition_point(|x| *x < edge)
}

fn point(value: f32) -> Range {
    if value.is_finite() { Range { min: value, max: value } } else { Range::NONE }
}

/// A series and its exponential moving average, kept for one strength of smoothing.
#[derive(Debug, Clone, Default)]
pub(crate) struct Smoothed {
    raw: Series,
    smooth: Series,
    strength: f32,
    /// Running average and its weight: early values are not drawn towards zero.
    average: f64,
    weight: f64,
}

impl Smoothed {
    /// Adds a value at the end.
    pub(crate) fn push(&mut self, value: f32) {
        self.raw.push(value);
        if self.strength > 0.0 {
            self.follow(value);
        }
    }

    /// Forgets all values but the first `count`.
    pub(crate) fn keep(&mut self, count: usize) {
        if count < self.raw.values.len() {
            self.raw.keep(count);
            let strength = std::mem::take(&mut self.strength);
            self.set_strength(strength);
        }
    }

    /// The values as measured.
    pub(crate) fn raw(&self) -> &Series {
        &self.raw
    }

    /// The moving average; the values themselves at strength 0.
    pub(crate) fn smooth(&self) -> &Series {
        if self.strength > 0.0 { &self.smooth } else { &self.raw }
    }

    /// Sets the strength, 0 to below 1: the share of the past in the average.
    pub(crate) fn set_strength(&mut self, strength: f32) {
        if strength == self.strength {
            return;
        }
        (self.strength, self.smooth, self.average, self.weight) = (strength, Series::default(), 0.0, 0.0);
        if strength > 0.0 {
            for i in 0..self.raw.values.len() {
                self.follow(self.raw.values[i]);
            }
        }
    }

    fn follow(&mut self, value: f32) {
        if value.is_finite() {
            let keep = f64::from(self.strength);
            self.average = self.average * keep + f64::from(value) * (1.0 - keep);
            self.weight = self.weight * keep + 1.0 - keep;
        }
        let smooth = if self.weight > 0.0 { (self.average / self.weight) as f32 } else { f32::NAN };
        self.smooth.push(smooth);
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn series(values: &[f32]) -> Series {
        let mut series = Series::default();
        values.iter().for_each(|v| series.push(*v));
        series
    }

    fn naive(values: &[f32]) -> Option<Range> {
        let range = values.iter().fold(Range::NONE, |r, v| r.with(point(*v)));
        Some(range).filter(|r| !r.is_empty())
    }

    proptest! {
        #[test]
        fn the_pyramid_answers_as_a_scan_would(values in prop::collection::vec(prop_oneof![9 => -1e3f32..1e3, 1 => Just(f32::NAN)], 0..3000), a in 0usize..3000, b in 0usize..3000) {
            let (from, to) = (a.min(b).min(values.len()), a.max(b).min(values.len()));
            prop_assert_eq!(series(&values).range(from, to), naive(&values[from..to]));
        }

        #[test]
        fn a_decimated_curve_keeps_least_and_greatest_of_what_is_seen(values in prop::collection::vec(-1e3f32..1e3, 1..4000), gaps in prop::collection::vec(0.0f64..3.0, 4000), columns in 1usize..300, cut in (0.0f64..1.0, 0.0f64..1.0)) {
            let xs: Vec<f64> = gaps[..values.len()].iter().scan(0.0, |x, gap| { *x += gap; Some(*x) }).collect();
            let end = xs[xs.len() - 1];
            let (left, right) = (cut.0.min(cut.1) * end, cut.0.max(cut.1) * end);
            let points = series(&values).curve(&xs, left, right, columns);
            prop_assert!(points.len() <= columns * 2 + 4);
            prop_assert!(points.windows(2).all(|w| w[0][0] <= w[1][0]));
            let seen: Vec<f32> = xs.iter().zip(&values).filter(|(x, _)| (left..=right).contains(*x)).map(|(_, v)| *v).collect();
            if let Some(Range { min, max }) = naive(&seen) {
                let drawn: Vec<f32> = points.iter().map(|p| p[1] as f32).collect();
                let drawn = naive(&drawn).expect("something is seen");
                prop_assert!(drawn.min <= min && drawn.max >= max);
                prop_assert!(values.contains(&drawn.min) && values.contains(&drawn.max));
            }
        }
    }

    #[test]
    fn a_long_flat_curve_costs_one_point_a_column_and_a_spike_survives() {
        let mut values = vec![1.0; 1_000_000];
        values[123_456] = 9.0;
        let series = series(&values);
        let xs: Vec<f64> = (0..values.len()).map(|i| i as f64).collect();
        let points = series.curve(&xs, 0.0, 1e6, 800);
        assert!(points.len() <= 802, "{}", points.len());
        assert!(points.iter().any(|p| p[1] == 9.0));
    }

    #[test]
    fn what_is_kept_of_a_curve_is_as_if_no_more_had_come() {
        let values: Vec<f32> = (0..1000).map(|i| (i as f32).sin()).collect();
        for count in [0, 1, 8, 64, 511, 1000] {
            let (mut cut, mut short) = (Smoothed::default(), Smoothed::default());
            cut.set_strength(0.9);
            short.set_strength(0.9);
            values.iter().for_each(|value| cut.push(*value));
            values[..count].iter().for_each(|value| short.push(*value));
            cut.keep(count);
            assert_eq!(format!("{cut:?}"), format!("{short:?}"), "{count}");
        }
    }

    #[test]
    fn smoothing_starts_at_the_first_value_and_follows_slowly() {
        let mut curve = Smoothed::default();
        curve.push(4.0);
        curve.set_strength(0.9);
        curve.push(0.0);
        assert_eq!(curve.smooth().values()[0], 4.0);
        assert!((1.5..2.5).contains(&curve.smooth().values()[1]));
        curve.set_strength(0.0);
        assert_eq!(curve.smooth().values(), curve.raw().values());
    }
}
