//! Sums of products of codes, of many pixels: the weight's codes are laid out first, then no sum is spread over a register.
//!
//! A word has the codes of four terms, which one instruction multiplies by those of another word and adds to an integer
//! (VNNI). Always holds: it comes to the same integers as all other ways.

use std::{arch::x86_64::*, ops::Range};

use bytemuck::cast;

use super::dots::{Block, PIXELS};
use crate::backend::cpu::gemm::transpose;

/// Filters of a panel.
const COLUMNS: usize = 32;
/// Terms of a word.
pub(super) const IN_WORD: usize = 4;
/// Numbers in a register.
const LANES: usize = 16;
/// Pixels whose sums are in registers at once, if there are so many left.
const ROWS: usize = 2 * PIXELS;

/// Whether room for words is enough for a panel of so many terms.
pub(super) fn has_room(terms: usize, room: &[u32]) -> bool {
    room.len() >= COLUMNS * terms.next_multiple_of(IN_WORD * LANES) / IN_WORD
}

/// Adds the sums of `filters` to `sums`, `columns` of them a pixel.
#[target_feature(enable = "avx512f,avx512bw,avx512vnni")]
pub(super) fn multiply(block: &Block<'_>, filters: Range<usize>, room: &mut [u32], sums: &mut [i32], columns: usize) {
    let words = block.depths.len().div_ceil(IN_WORD);
    let patches: &[u8] = bytemuck::cast_slice(block.patches);
    for start in filters.clone().step_by(COLUMNS) {
        let some = start..filters.end.min(start + COLUMNS);
        lay(block, &some, room);
        let panel = &room.as_chunks::<COLUMNS>().0[..words];
        let at = start - filters.start..some.end - filters.start;
        let mut pixel = 0;
        while pixel < block.rows {
            let (patches, sums) = (&patches[pixel * block.stride..], &mut sums[pixel * columns..]);
            if block.rows - pixel >= ROWS {
                of_pixels::<ROWS>(patches, block.stride, panel, sums, columns, at.clone());
                pixel += ROWS;
            } else {
                of_pixels::<PIXELS>(patches, block.stride, panel, sums, columns, at.clone());
                pixel += PIXELS;
            }
        }
    }
}

/// Lays the codes of some filters out: the words of all filters, one after another; zeros if there are no more terms or
/// filters.
fn lay(block: &Block<'_>, filters: &Range<usize>, to: &mut [u32]) {
    const STEP: usize = IN_WORD * LANES;
    for (step, to) in (0..block.depths.len()).step_by(STEP).zip(to.chunks_exact_mut(COLUMNS * LANES)) {
        let terms = block.depths.start + step..block.depths.end.min(block.depths.start + step + STEP);
        for half in (0..COLUMNS).step_by(LANES) {
            let line = |i: usize| {
                let filter = filters.start + half + i;
                let from = filter * block.taps;
                (filter < filters.end).then(|| &block.weight[from + terms.start..from + terms.end])
            };
            let mut tile = [[0; STEP]; LANES];
            for (i, tile) in tile.iter_mut().enumerate() {
                line(i).into_iter().for_each(|line| tile[..line.len()].copy_from_slice(line));
            }
            transpose(tile.each_ref().map(|line| &line[..]), &mut to[half..], COLUMNS);
        }
    }
}

/// Adds the sums of some pixels and the filters of a panel, whose columns are `at`.
#[target_feature(enable = "avx512f,avx512bw,avx512vnni")]
fn of_pixels<const N: usize>(
    patches: &[u8],
    stride: usize,
    panel: &[[u32; COLUMNS]],
    sums: &mut [i32],
    columns: usize,
    at: Range<usize>,
) {
    let words = panel.len();
    let rows: [&[[u8; IN_WORD]]; N] = std::array::from_fn(|p| &patches[p * stride..].as_chunks().0[..words]);
    let mut found = [[_mm512_setzero_si512(); COLUMNS / LANES]; N];
    for (word, panel) in panel.iter().enumerate() {
        let weights: [__m512i; COLUMNS / LANES] = cast(*panel);
        for (found, row) in found.iter_mut().zip(rows) {
            let x = _mm512_set1_epi32(i32::from_ne_bytes(row[word]));
            for (found, weights) in found.iter_mut().zip(weights) {
                *found = _mm512_dpbusd_epi32(*found, x, weights);
            }
        }
    }
    for (sums, found) in sums.chunks_mut(columns).zip(found) {
        let sums = &mut sums[at.clone()];
        if let Some(sums) = sums.first_chunk_mut::<COLUMNS>() {
            for (to, found) in sums.as_chunks_mut::<LANES>().0.iter_mut().zip(found) {
                *to = cast(_mm512_add_epi32(cast(*to), found));
            }
            continue;
        }
        let mut whole = [[0; LANES]; COLUMNS / LANES];
        for (to, found) in whole.iter_mut().zip(found) {
            *to = cast(found);
        }
        sums.iter_mut().zip(whole.as_flattened()).for_each(|(sum, found)| *sum += found);
    }
}
