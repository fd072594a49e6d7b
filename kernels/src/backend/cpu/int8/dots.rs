//! Sums of products of codes: by the widest instructions that the processor has, and the same integers by any.

use std::ops::Range;

#[cfg(target_arch = "x86_64")]
use std::arch::x86_64::*;

#[cfg(target_arch = "x86_64")]
use super::panels;

/// Pixels whose sums are in registers at once.
pub(super) const PIXELS: usize = 6;
/// Filters whose sums are.
const FILTERS: usize = 2;

/// Which instructions multiply.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Way {
    /// The instructions that every processor has.
    Plain,
    /// 16 products of 16 bits at once, added in pairs.
    #[cfg(target_arch = "x86_64")]
    Avx2,
    /// 64 products of 8 bits at once, added in fours ("VNNI").
    #[cfg(target_arch = "x86_64")]
    Vnni,
}

impl Way {
    /// The fastest that this processor has. A few loads: the standard library remembers the result.
    pub(super) fn best() -> Self {
        #[cfg(target_arch = "x86_64")]
        {
            if is_x86_feature_detected!("avx512f")
                && is_x86_feature_detected!("avx512bw")
                && is_x86_feature_detected!("avx512vnni")
            {
                return Self::Vnni;
            }
            if is_x86_feature_detected!("avx2") {
                return Self::Avx2;
            }
        }
        Self::Plain
    }

    /// Whether it multiplies rows of exactly so many `taps` as bytes, if it has `room` to lay codes out in.
    pub(super) fn reads_rows_of(self, taps: usize, room: &[u32]) -> bool {
        match self {
            Self::Plain => {
                let _ = (taps, room);
                false
            }
            #[cfg(target_arch = "x86_64")]
            Self::Avx2 => false,
            #[cfg(target_arch = "x86_64")]
            Self::Vnni => taps.is_multiple_of(panels::IN_WORD) && panels::has_room(taps, room),
        }
    }

    /// Whether patches are to be bytes.
    pub(super) fn takes_bytes(self) -> bool {
        match self {
            Self::Plain => false,
            #[cfg(target_arch = "x86_64")]
            Self::Avx2 => false,
            #[cfg(target_arch = "x86_64")]
            Self::Vnni => true,
        }
    }
}

/// Some terms of the sums of a piece.
#[derive(Debug, Clone)]
pub(super) struct Block<'a> {
    /// A row of `stride` a pixel, zeros behind the terms; as bytes where the way takes them, in the first half then.
    pub(super) patches: &'a [i16],
    /// A multiple of 64, or of what [`Way::reads_rows_of`] takes.
    pub(super) stride: usize,
    /// A multiple of [`PIXELS`].
    pub(super) rows: usize,
    /// All codes: a row of `taps` for each filter.
    pub(super) weight: &'a [u8],
    pub(super) taps: usize,
    /// Which taps the terms are.
    pub(super) depths: Range<usize>,
}

impl Block<'_> {
    /// The codes of filters two by two, the last one twice where they are odd, and where the sums of both begin: the codes of
    /// the terms, and all that follow them.
    fn pairs(&self, filters: &Range<usize>) -> impl Iterator<Item = (usize, [&[u8]; FILTERS])> {
        let of = |filter: usize| &self.weight[filter * self.taps + self.depths.start..];
        let (start, last) = (filters.start, filters.end.saturating_sub(1));
        filters.clone().step_by(FILTERS).map(move |first| (first - start, [of(first), of((first + 1).min(last))]))
    }
}

/// Adds the sums of `filters` to `sums`, whose rows are as long as `sums` has room for `block.rows` of them. If there is room
/// for them, codes are laid out before they are multiplied.
pub(super) fn multiply(way: Way, block: &Block<'_>, filters: Range<usize>, room: &mut [u32], sums: &mut [i32]) {
    #[cfg(not(target_arch = "x86_64"))]
    let _ = room;
    let columns = sums.len() / block.rows.max(1);
    if columns == 0 {
        return;
    }
    assert!(block.depths.len() <= block.stride && filters.len() <= columns);
    let of_pixels: unsafe fn(&Block<'_>, usize, &Range<usize>, &mut [i32]) = match way {
        Way::Plain => plain,
        #[cfg(target_arch = "x86_64")]
        Way::Avx2 => avx2,
        #[cfg(target_arch = "x86_64")]
        Way::Vnni => vnni,
    };
    // SAFETY: the way says that this processor has the instructions.
    unsafe {
        #[cfg(target_arch = "x86_64")]
        if way == Way::Vnni && panels::has_room(block.depths.len(), room) {
            return panels::multiply(block, filters, room, sums, columns);
        }
        for (pixel, sums) in (0..block.rows).step_by(PIXELS).zip(sums.chunks_exact_mut(PIXELS * columns)) {
            of_pixels(block, pixel, &filters, sums);
        }
    }
}

/// The sums of six pixels, each with two filters.
type Sums = [[i32; FILTERS]; PIXELS];

/// Adds the new sums to those of two filters, or of one at the end of a row.
#[inline(always)]
fn add(found: Sums, at: usize, filters: &Range<usize>, sums: &mut [i32]) {
    let count = FILTERS.min(filters.len() - at);
    for (row, found) in sums.chunks_exact_mut(sums.len() / PIXELS).zip(found) {
        row[at..at + count].iter_mut().zip(found).for_each(|(sum, found)| *sum += found);
    }
}

fn plain(block: &Block<'_>, pixel: usize, filters: &Range<usize>, sums: &mut [i32]) {
    for (at, pair) in block.pairs(filters) {
        let mut found = Sums::default();
        for (found, patch) in found.iter_mut().zip(block.patches[pixel * block.stride..].chunks_exact(block.stride)) {
            for (found, codes) in found.iter_mut().zip(pair) {
                let terms = patch[..block.depths.len()].iter().zip(codes);
                *found = terms.map(|(x, code)| i32::from(*x) * i32::from(*code as i8)).sum();
            }
        }
        add(found, at, filters, sums);
    }
}

/// Each sum of four registers.
#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2")]
fn four(of: [__m256i; 4]) -> [i32; 4] {
    let pairs = [_mm256_hadd_epi32(of[0], of[1]), _mm256_hadd_epi32(of[2], of[3])];
    let fours = _mm256_hadd_epi32(pairs[0], pairs[1]);
    bytemuck::cast(_mm_add_epi32(_mm256_castsi256_si128(fours), _mm256_extracti128_si256::<1>(fours)))
}

/// The sums of twelve registers.
#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2")]
fn together(of: [[__m256i; FILTERS]; PIXELS]) -> Sums {
    let mut sums = Sums::default();
    for (sums, of) in sums.chunks_exact_mut(2).zip(of.chunks_exact(2)) {
        let [a, b, c, d] = four([of[0][0], of[0][1], of[1][0], of[1][1]]);
        (sums[0], sums[1]) = ([a, b], [c, d]);
    }
    sums
}

/// The rows of six pixels, in as many steps as the terms take.
#[cfg(target_arch = "x86_64")]
#[inline(always)]
fn rows<T, const STEP: usize>(patches: &[T], pixel: usize, stride: usize, steps: usize) -> [&[[T; STEP]]; PIXELS] {
    let patches = &patches[pixel * stride..][..PIXELS * stride];
    std::array::from_fn(|p| &patches[p * stride..].as_chunks().0[..steps])
}

/// The step that follows the whole ones among all codes, zeros behind it, if it is one of the first `steps`.
#[cfg(target_arch = "x86_64")]
#[inline(always)]
fn last<const STEP: usize>(pair: [&[u8]; FILTERS], steps: usize) -> [[u8; STEP]; FILTERS] {
    let mut last = [[0; STEP]; FILTERS];
    for (last, codes) in last.iter_mut().zip(pair) {
        let (whole, rest) = codes.as_chunks::<STEP>();
        if whole.len() < steps {
            last[..rest.len()].copy_from_slice(rest);
        }
    }
    last
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2")]
fn avx2(block: &Block<'_>, pixel: usize, filters: &Range<usize>, sums: &mut [i32]) {
    const STEP: usize = 16;
    let steps = block.depths.len().div_ceil(STEP);
    let rows = rows::<i16, STEP>(block.patches, pixel, block.stride, steps);
    for (at, pair) in block.pairs(filters) {
        // The last step of the terms may reach past them, where patches have zeros.
        let (whole, last) = (pair.map(|codes| codes.as_chunks().0), last::<STEP>(pair, steps));
        let mut found = [[_mm256_setzero_si256(); FILTERS]; PIXELS];
        for step in 0..steps {
            let weights = [0, 1].map(|f| *whole[f].get(step).unwrap_or(&last[f]));
            let weights = weights.map(|codes| _mm256_cvtepi8_epi16(bytemuck::cast(codes)));
            for (found, row) in found.iter_mut().zip(rows) {
                let x = bytemuck::cast(row[step]);
                for (found, weights) in found.iter_mut().zip(weights) {
                    *found = _mm256_add_epi32(*found, _mm256_madd_epi16(x, weights));
                }
            }
        }
        add(together(found), at, filters, sums);
    }
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx512f,avx512bw,avx512vnni,avx2")]
fn vnni(block: &Block<'_>, pixel: usize, filters: &Range<usize>, sums: &mut [i32]) {
    const STEP: usize = 64;
    let steps = block.depths.len().div_ceil(STEP);
    let rows = rows::<u8, STEP>(bytemuck::cast_slice(block.patches), pixel, block.stride, steps);
    let half = |x: __m512i| _mm256_add_epi32(_mm512_castsi512_si256(x), _mm512_extracti64x4_epi64::<1>(x));
    for (at, pair) in block.pairs(filters) {
        // As above.
        let (whole, last) = (pair.map(|codes| codes.as_chunks().0), last::<STEP>(pair, steps));
        let mut found = [[_mm512_setzero_si512(); FILTERS]; PIXELS];
        for step in 0..steps {
            let weights = [0, 1].map(|f| bytemuck::cast(*whole[f].get(step).unwrap_or(&last[f])));
            for (found, row) in found.iter_mut().zip(rows) {
                let x = bytemuck::cast(row[step]);
                for (found, weights) in found.iter_mut().zip(weights) {
                    *found = _mm512_dpbusd_epi32(*found, x, weights);
                }
            }
        }
        // Not by `map`, which the compiler calls with every register in memory.
        let mut halves = [[_mm256_setzero_si256(); FILTERS]; PIXELS];
        for (halves, found) in halves.iter_mut().zip(&found) {
            for (to, found) in halves.iter_mut().zip(found) {
                *to = half(*found);
            }
        }
        add(together(halves), at, filters, sums);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rng::Rng;

    /// Every way that this processor has.
    fn ways() -> Vec<Way> {
        let mut ways = vec![Way::Plain];
        #[cfg(target_arch = "x86_64")]
        {
            ways.extend(is_x86_feature_detected!("avx2").then_some(Way::Avx2));
            ways.extend((Way::best() == Way::Vnni).then_some(Way::Vnni));
        }
        ways
    }

    #[test]
    fn every_way_comes_to_the_same_integers_and_the_extremes_do_not_overflow() {
        let rng = Rng::from_key(5);
        for case in 0..200 {
            let draw = |i: u64, below: usize| rng.below(case * 1000 + i, below);
            let (taps, filters) = (1 + draw(0, 300), 1 + draw(1, if case % 3 == 0 { 80 } else { 9 }));
            let (begin, rows) = (draw(2, taps), PIXELS * (1 + draw(3, 4)));
            let depths = begin..begin + 1 + draw(4, taps - begin);
            let stride = depths.len().next_multiple_of(64);
            let is_extreme = case % 4 == 0;
            let weight: Vec<u8> = (0..taps * filters)
                .map(
                    |i| if is_extreme { (-127_i8) as u8 } else { (rng.below(case ^ i as u64, 255) as i32 - 127) as u8 },
                )
                .collect();
            let codes: Vec<u8> = (0..rows * stride)
                .map(|i| match i % stride < depths.len() {
                    true if is_extreme => 255,
                    true => rng.below(!(case ^ i as u64), 256) as u8,
                    false => 0,
                })
                .collect();
            let mut wanted = vec![7; rows * filters];
            for (i, sum) in wanted.iter_mut().enumerate() {
                let (row, filter) = (i / filters, i % filters);
                for (at, tap) in depths.clone().enumerate() {
                    *sum += i32::from(codes[row * stride + at]) * i32::from(weight[filter * taps + tap] as i8);
                }
            }
            for way in ways() {
                let mut patches: Vec<i16> = codes.iter().map(|code| i16::from(*code)).collect();
                if way.takes_bytes() {
                    bytemuck::cast_slice_mut::<i16, u8>(&mut patches)[..codes.len()].copy_from_slice(&codes);
                }
                let block = Block { patches: &patches, stride, rows, weight: &weight, taps, depths: depths.clone() };
                for room in [0, 8 * stride] {
                    let mut sums = vec![7; rows * filters];
                    multiply(way, &block, 0..filters, &mut vec![9; room], &mut sums);
                    assert_eq!(sums, wanted, "{way:?}, {taps} taps, {depths:?}, {filters} filters, {room} words");
                }
            }
        }
    }
}
