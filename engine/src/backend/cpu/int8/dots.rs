//! Sums of products of codes: by the widest instructions that the processor has, and the same integers by any.

use std::ops::Range;

#[cfg(target_arch = "x86_64")]
use std::arch::x86_64::*;

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
    /// The fastest that this processor has. A few loads: the standard library remembers what it detected.
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
    /// A multiple of 64.
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
    /// The codes of two filters; of one twice at the end.
    fn pair(&self, filter: usize, end: usize) -> [&[u8]; FILTERS] {
        [filter, (filter + 1).min(end - 1)].map(|filter| {
            let first = filter * self.taps;
            &self.weight[first + self.depths.start..first + self.depths.end]
        })
    }
}

/// Adds the sums of `filters` to `sums`, whose rows are as long as `sums` has room for `block.rows` of them.
pub(super) fn multiply(way: Way, block: &Block<'_>, filters: Range<usize>, sums: &mut [i32]) {
    let columns = sums.len() / block.rows.max(1);
    let needed = if way.takes_bytes() { block.rows * block.stride / 2 } else { block.rows * block.stride };
    assert!(block.patches.len() >= needed && block.depths.len() <= block.stride && filters.len() <= columns);
    for pixel in (0..block.rows).step_by(PIXELS) {
        for filter in filters.clone().step_by(FILTERS) {
            let pair = block.pair(filter, filters.end);
            let found = match way {
                Way::Plain => plain(block, pixel, pair),
                #[cfg(target_arch = "x86_64")]
                // SAFETY: the way says that this processor has these instructions.
                Way::Avx2 => unsafe { avx2(block, pixel, pair) },
                #[cfg(target_arch = "x86_64")]
                // SAFETY: as above.
                Way::Vnni => unsafe { vnni(block, pixel, pair) },
            };
            let at = filter - filters.start;
            let count = FILTERS.min(filters.end - filter);
            for (row, found) in sums[pixel * columns..].chunks_exact_mut(columns).zip(found) {
                row[at..at + count].iter_mut().zip(found).for_each(|(sum, found)| *sum += found);
            }
        }
    }
}

/// The sums of six pixels, each with two filters.
type Sums = [[i32; FILTERS]; PIXELS];

fn plain(block: &Block<'_>, pixel: usize, pair: [&[u8]; FILTERS]) -> Sums {
    let mut sums = Sums::default();
    for (sums, patch) in sums.iter_mut().zip(block.patches[pixel * block.stride..].chunks_exact(block.stride)) {
        for (sum, weight) in sums.iter_mut().zip(pair) {
            *sum = patch.iter().zip(weight).map(|(x, w)| i32::from(*x) * i32::from(*w as i8)).sum();
        }
    }
    sums
}

/// Each sum of four registers.
#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2")]
fn four(of: [__m256i; 4]) -> [i32; 4] {
    let pairs = [_mm256_hadd_epi32(of[0], of[1]), _mm256_hadd_epi32(of[2], of[3])];
    let fours = _mm256_hadd_epi32(pairs[0], pairs[1]);
    let sums = _mm_add_epi32(_mm256_castsi256_si128(fours), _mm256_extracti128_si256::<1>(fours));
    let mut to = [0; 4];
    // SAFETY: there is room for 16 bytes.
    unsafe { _mm_storeu_si128(to.as_mut_ptr().cast(), sums) };
    to
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

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2")]
fn avx2(block: &Block<'_>, pixel: usize, pair: [&[u8]; FILTERS]) -> Sums {
    const STEP: usize = 16;
    let mut sums = [[_mm256_setzero_si256(); FILTERS]; PIXELS];
    let patches = &block.patches[pixel * block.stride..(pixel + PIXELS) * block.stride];
    let length = pair[0].len();
    let whole = length / STEP * STEP;
    let mut rest = [[0; STEP]; FILTERS];
    for (rest, weight) in rest.iter_mut().zip(pair) {
        rest[..length - whole].copy_from_slice(&weight[whole..]);
    }
    for at in (0..length).step_by(STEP) {
        // SAFETY: 16 codes from `at` on are in both, where it is not the rest.
        let codes = |f: usize| if at == whole { rest[f].as_ptr() } else { unsafe { pair[f].as_ptr().add(at) } };
        // SAFETY: each points to 16 codes.
        let weights = [0, 1].map(|f| unsafe { _mm256_cvtepi8_epi16(_mm_loadu_si128(codes(f).cast())) });
        for (p, sums) in sums.iter_mut().enumerate() {
            // SAFETY: rows are as long as a multiple of 16, `at` is one below that, and there are six of them.
            let x = unsafe { _mm256_loadu_si256(patches.as_ptr().add(p * block.stride + at).cast()) };
            for (sum, weights) in sums.iter_mut().zip(weights) {
                *sum = _mm256_add_epi32(*sum, _mm256_madd_epi16(x, weights));
            }
        }
    }
    together(sums)
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx512f,avx512bw,avx512vnni,avx2")]
fn vnni(block: &Block<'_>, pixel: usize, pair: [&[u8]; FILTERS]) -> Sums {
    const STEP: usize = 64;
    let mut sums = [[_mm512_setzero_si512(); FILTERS]; PIXELS];
    let patches: &[u8] = bytemuck::cast_slice(block.patches);
    let patches = &patches[pixel * block.stride..(pixel + PIXELS) * block.stride];
    let length = pair[0].len();
    for at in (0..length).step_by(STEP) {
        let mask = if length - at < STEP { (1 << (length - at)) - 1 } else { u64::MAX };
        // SAFETY: what the mask leaves out is not read.
        let weights = pair.map(|w| unsafe { _mm512_maskz_loadu_epi8(mask, w.as_ptr().add(at).cast()) });
        for (p, sums) in sums.iter_mut().enumerate() {
            // SAFETY: rows are as long as a multiple of 64, `at` is one below that, and there are six of them.
            let x = unsafe { _mm512_loadu_si512(patches.as_ptr().add(p * block.stride + at).cast()) };
            for (sum, weights) in sums.iter_mut().zip(weights) {
                *sum = _mm512_dpbusd_epi32(*sum, x, weights);
            }
        }
    }
    let half = |x: __m512i| _mm256_add_epi32(_mm512_castsi512_si256(x), _mm512_extracti64x4_epi64::<1>(x));
    together(sums.map(|sums| sums.map(half)))
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
            let (taps, filters) = (1 + draw(0, 300), 1 + draw(1, 9));
            let (begin, rows) = (draw(2, taps), PIXELS * (1 + draw(3, 2)));
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
                let mut sums = vec![7; rows * filters];
                multiply(way, &block, 0..filters, &mut sums);
                assert_eq!(sums, wanted, "{way:?}, {taps} taps, {depths:?}, {filters} filters");
            }
        }
    }
}
