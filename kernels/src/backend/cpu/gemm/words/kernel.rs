//! The kernels of AVX-512, one for each kind of word, and that of AMX. No other processor multiplies word by word.

use std::{arch::asm, marker::PhantomData};

use std::arch::x86_64::{
    __m512, __m512i, _mm512_add_ps, _mm512_dpbf16_ps, _mm512_fmadd_ps, _mm512_set1_ps, _mm512_setzero_ps,
    _mm512_setzero_si512, _mm512_shuffle_i32x4, _mm512_unpackhi_epi32, _mm512_unpackhi_epi64, _mm512_unpacklo_epi32,
    _mm512_unpacklo_epi64,
};

use bytemuck::cast;
use half::bf16;

use super::{
    COLUMNS, Group, Panel, ROWS, Term,
    blocks::{EXTENT, LINE, Step, Sums},
};
use crate::backend::cpu::float::Float;

/// Numbers in a register.
const LANES: usize = 16;

/// Writes rows of words, given as their bytes, as columns; their rows are `stride` words apart.
pub(in crate::backend::cpu) fn transpose(rows: [&[u8]; LANES], to: &mut [u32], stride: usize) {
    // SAFETY: words are laid out only where the processor was found to have the instructions.
    unsafe { transpose_words(rows, to, stride) }
}

#[target_feature(enable = "avx512f")]
fn transpose_words(rows: [&[u8]; LANES], to: &mut [u32], stride: usize) {
    let [mut x, mut y] = [[_mm512_setzero_si512(); LANES]; 2];
    for (x, row) in x.iter_mut().zip(rows) {
        *x = cast::<[u8; 64], _>(*row.first_chunk().expect("the bytes of a row"));
    }
    // Pairs of rows, then fours: after it, each quarter of `x[4 i + j]` is column `j` of a quarter, of rows `4 i` to `4 i + 3`.
    for i in (0..LANES).step_by(2) {
        y[i] = _mm512_unpacklo_epi32(x[i], x[i + 1]);
        y[i + 1] = _mm512_unpackhi_epi32(x[i], x[i + 1]);
    }
    for i in (0..LANES).step_by(4) {
        x[i] = _mm512_unpacklo_epi64(y[i], y[i + 2]);
        x[i + 1] = _mm512_unpackhi_epi64(y[i], y[i + 2]);
        x[i + 2] = _mm512_unpacklo_epi64(y[i + 1], y[i + 3]);
        x[i + 3] = _mm512_unpackhi_epi64(y[i + 1], y[i + 3]);
    }
    // The even and the odd quarters of eights, then of all.
    for i in 0..4 {
        y[i] = _mm512_shuffle_i32x4::<0x88>(x[i], x[4 + i]);
        y[4 + i] = _mm512_shuffle_i32x4::<0xdd>(x[i], x[4 + i]);
        y[8 + i] = _mm512_shuffle_i32x4::<0x88>(x[8 + i], x[12 + i]);
        y[12 + i] = _mm512_shuffle_i32x4::<0xdd>(x[8 + i], x[12 + i]);
    }
    let mut put = |row: usize, x| {
        *to[row * stride..].first_chunk_mut::<LANES>().expect("room for a row") = cast::<__m512i, _>(x);
    };
    for i in 0..4 {
        put(i, _mm512_shuffle_i32x4::<0x88>(y[i], y[8 + i]));
        put(4 + i, _mm512_shuffle_i32x4::<0x88>(y[4 + i], y[12 + i]));
        put(8 + i, _mm512_shuffle_i32x4::<0xdd>(y[i], y[8 + i]));
        put(12 + i, _mm512_shuffle_i32x4::<0xdd>(y[4 + i], y[12 + i]));
    }
}

/// Defines a kernel by how the product of two registers of words is added to a third.
macro_rules! kernel {
    ($name:ident, $inner:ident, $term:ty, $features:literal, |$sum:ident, $a:ident, $b:ident| $add:expr) => {
        /// `sums (+)= group * panel`.
        pub(super) fn $name<const N: usize>(
            group: &Group<'_, $term>,
            panel: Panel<'_>,
            sums: &mut [&mut [f32]; N],
            column: usize,
        ) {
            const { assert!(0 < N && N <= ROWS) };
            let along = group.along;
            for run in group.runs {
                let words = run.terms / <$term>::IN_WORD;
                let odd = run.terms - words * <$term>::IN_WORD;
                // One past the last term that is read.
                let end =
                    if odd > 0 { words * along + odd } else { words.saturating_sub(1) * along + <$term>::IN_WORD };
                assert!(run.starts[..N].iter().all(|start| run.terms == 0 || end <= start.len()), "terms of the rows");
            }
            // SAFETY: `run_words` and `multiply_near` assert that the processor has the instructions; the terms are as asserted.
            unsafe { $inner(group, panel, sums, column) }
        }

        /// # Safety
        /// Every run has its terms in each row.
        #[target_feature(enable = $features)]
        unsafe fn $inner<const N: usize>(
            group: &Group<'_, $term>,
            panel: Panel<'_>,
            sums: &mut [&mut [f32]; N],
            column: usize,
        ) {
            let Group { runs, along, add } = *group;
            let of_word = |word: usize| -> [__m512; COLUMNS / LANES] {
                let words: &[u32; COLUMNS] =
                    panel.words[word * panel.stride..].first_chunk().expect("a word of each column");
                cast(*words)
            };
            let mut found = [[_mm512_setzero_ps(); COLUMNS / LANES]; N];
            for run in runs {
                // Not by `from_fn`, which would be a call here.
                let mut starts = [std::ptr::null(); N];
                for (to, start) in starts.iter_mut().zip(run.starts) {
                    *to = start.as_ptr();
                }
                let words = run.terms / <$term>::IN_WORD;
                for word in 0..words {
                    let b = of_word(run.before + word);
                    for (found, start) in found.iter_mut().zip(starts) {
                        // SAFETY: the caller says that the row has this word.
                        let a = unsafe { start.add(word * along).cast::<f32>().read_unaligned() };
                        let $a = _mm512_set1_ps(a);
                        for ($sum, $b) in found.iter_mut().zip(b) {
                            *$sum = $add;
                        }
                    }
                }
                if words * <$term>::IN_WORD < run.terms {
                    let b = of_word(run.before + words);
                    for (found, start) in found.iter_mut().zip(run.starts) {
                        let half = <$term>::word(start[words * along], <$term>::ZERO);
                        let $a = _mm512_set1_ps(f32::from_bits(half));
                        for ($sum, $b) in found.iter_mut().zip(b) {
                            *$sum = $add;
                        }
                    }
                }
            }
            for (sums, found) in sums.iter_mut().zip(found) {
                let sums = &mut sums[column..];
                if let Some(sums) = sums.first_chunk_mut::<COLUMNS>() {
                    for (to, found) in sums.as_chunks_mut::<LANES>().0.iter_mut().zip(found) {
                        *to = cast(if add { _mm512_add_ps(cast(*to), found) } else { found });
                    }
                    continue;
                }
                let mut whole = [[0.0; LANES]; COLUMNS / LANES];
                for (to, found) in whole.iter_mut().zip(found) {
                    *to = cast(found);
                }
                for (to, found) in sums.iter_mut().zip(whole.as_flattened()) {
                    *to = if add { *to + *found } else { *found };
                }
            }
        }
    };
}

kernel!(singles, add_singles, f32, "avx512f", |sum, a, b| _mm512_fmadd_ps(a, b, *sum));
kernel!(pairs, add_pairs, bf16, "avx512f,avx512bf16", |sum, a, b| _mm512_dpbf16_ps(*sum, cast(a), cast(b)));

/// How the registers of AMX are set up: a palette, and of each register the bytes of a row and the rows (Intel's manual, volume 1,
/// chapter 18).
#[repr(align(64))]
struct Setup([u8; 64]);

const ALL_WHOLE: Setup = {
    let mut setup = [0; 64];
    setup[0] = 1;
    let mut register = 0;
    while register < 8 {
        setup[16 + 2 * register] = LINE as u8;
        setup[48 + register] = EXTENT as u8;
        register += 1;
    }
    Setup(setup)
};

/// The palette of registers that hold nothing, which a thread has at first.
const NONE: Setup = Setup([0; 64]);

/// The registers of AMX on this thread, each of 16 rows of 16 words, until this is dropped.
pub(super) struct Registers {
    of_this_thread: PhantomData<*const ()>,
}

impl Registers {
    /// Only a processor that has them may come here.
    pub(super) fn set_up() -> Self {
        load(&ALL_WHOLE);
        Self { of_this_thread: PhantomData }
    }

    /// The sums of the products of the blocks of a group of rows and a panel, which has 16 words from that of each step on.
    pub(super) fn multiply(&self, steps: &[Step<'_>], panel: &[u32], sums: &mut Sums) {
        let last = steps.iter().map(|step| step.word + EXTENT).max().unwrap_or(0);
        assert!(last * COLUMNS <= panel.len(), "words of the panel");
        // SAFETY: the registers are set up on this thread, and nothing but this function names them. Blocks have their rows in
        // memory, the panel has the words, and the sums have as many rows and columns as four registers.
        unsafe {
            asm!(
                "tilezero tmm0", "tilezero tmm1", "tilezero tmm2", "tilezero tmm3",
                "test {count}, {count}",
                "jz 3f",
                "2:",
                "mov {block}, [{step}]",
                "mov {stride}, [{step} + 8]",
                "tileloadd tmm4, [{block} + {stride}*1]",
                "mov {word}, [{step} + 32]",
                "shl {word}, 7",
                "add {word}, {panel}",
                "tileloadd tmm6, [{word} + {line}*1]",
                "tileloadd tmm7, [{word} + {line}*1 + 64]",
                "mov {block}, [{step} + 16]",
                "mov {stride}, [{step} + 24]",
                "tileloadd tmm5, [{block} + {stride}*1]",
                "tdpbf16ps tmm0, tmm4, tmm6",
                "tdpbf16ps tmm1, tmm4, tmm7",
                "tdpbf16ps tmm2, tmm5, tmm6",
                "tdpbf16ps tmm3, tmm5, tmm7",
                "add {step}, 40",
                "dec {count}",
                "jnz 2b",
                "3:",
                "tilestored [{sums} + {line}*1], tmm0",
                "tilestored [{sums} + {line}*1 + 64], tmm1",
                "tilestored [{sums} + {line}*1 + 2048], tmm2",
                "tilestored [{sums} + {line}*1 + 2112], tmm3",
                count = inout(reg) steps.len() => _,
                step = inout(reg) steps.as_ptr() => _,
                panel = in(reg) panel.as_ptr(),
                line = in(reg) 4 * COLUMNS,
                sums = in(reg) sums.0.as_mut_ptr(),
                block = out(reg) _, stride = out(reg) _, word = out(reg) _,
                out("tmm0") _, out("tmm1") _, out("tmm2") _, out("tmm3") _,
                out("tmm4") _, out("tmm5") _, out("tmm6") _, out("tmm7") _,
                options(nostack),
            );
        }
    }
}

impl Drop for Registers {
    fn drop(&mut self) {
        load(&NONE);
    }
}

/// Sets up the registers of this thread, with zeros.
fn load(setup: &Setup) {
    // SAFETY: `run_words` asserts that the processor has the instruction, and each setup is one that it takes.
    unsafe { asm!("ldtilecfg [{0}]", in(reg) setup.0.as_ptr(), options(nostack, readonly)) }
}
