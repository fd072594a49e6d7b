//! The values that codes stand for, on the CPU.

use super::*;
use crate::rng::{Rng, Stream};

fn normal(count: usize) -> Vec<f32> {
    let rng = Rng::new(7, Stream::Data, 0);
    (0..count as u64).map(|i| rng.normal(i) as f32 * 0.02).collect()
}

fn coded(code: Code, from: &[f32]) -> (Vec<u8>, Vec<f32>) {
    let (mut codes, mut scales) = (vec![0; code.bytes(from.len())], vec![0.0; code.blocks(from.len())]);
    encode(code, from, &mut codes, &mut scales);
    (codes, scales)
}

fn decoded(code: Code, bytes: &[u8], scales: &[f32], count: usize) -> Vec<f32> {
    let mut to = vec![0.0; count];
    decode_f32(Codes { code, bytes, scales: Scales::Plain(scales) }, 0, &mut to);
    to
}

#[test]
fn the_normal_float_has_the_values_of_the_paper_and_the_bytes_of_bitsandbytes() {
    // Appendix E of the paper, and thresholds of `dQuantizeNF4`.
    assert_eq!(NF4[1], -0.696_192_800_998_687_7_f64 as f32);
    assert_eq!(NF4[14], 0.722_956_836_223_602_3_f64 as f32);
    assert!(NF4.windows(2).all(|pair| pair[0] < pair[1]));
    let known: [f64; 4] =
        [-0.848_096_400_499_343_9, 0.039_790_149_778_127_67, 0.203_521_251_678_466_8, 0.861_478_418_111_801_1];
    for (at, threshold) in [0, 7, 9, 14].into_iter().zip(known) {
        assert!((f64::from(MIDDLES[at]) - threshold).abs() < 1e-7, "{at}");
    }
    // The first element of a pair in the higher half.
    let (codes, scales) = coded(Code::Nf4, &[2.0, -2.0, 0.0, 0.9, 0.1]);
    assert_eq!((codes, scales), (vec![0xf0, 0x7c, 0x80], vec![2.0]));
}

#[test]
fn each_element_has_the_nearest_value_and_what_was_decoded_has_the_same_codes() {
    for (code, count) in [
        (Code::Nf4, 64 * 5 + 7),
        (Code::Int8, 256 * 3 + 1),
        (Code::Int4, 128 * 4 + 3),
        (Code::Nf4, 40_000),
        (Code::Int4, 40_000),
    ] {
        let from = normal(count);
        let (codes, scales) = coded(code, &from);
        let back = decoded(code, &codes, &scales, count);
        let values: Vec<f32> = match code {
            Code::Nf4 => NF4.to_vec(),
            Code::Int8 => STEPS.to_vec(),
            Code::Int4 => (-7..=7).map(|step| step as f32 / 7.0).collect(),
        };
        for (i, (x, y)) in from.iter().zip(&back).enumerate() {
            let scale = scales[i / code.block()];
            let least = values.iter().map(|value| (value * scale - x).abs()).fold(f32::INFINITY, f32::min);
            assert!((y - x).abs() <= least * (1.0 + 1e-5) + 1e-9, "{code:?} {i}: {x} became {y}");
        }
        assert_eq!(coded(code, &back), (codes, scales), "{code:?}");
    }
}

#[test]
fn any_run_of_elements_is_decoded_alike() {
    for code in [Code::Nf4, Code::Int8, Code::Int4] {
        let from = normal(700);
        let (codes, scales) = coded(code, &from);
        let whole = decoded(code, &codes, &scales, 700);
        for (start, end) in [(0, 1), (1, 2), (63, 65), (1, 700), (129, 513), (699, 700), (5, 5)] {
            let mut to = vec![0.0; end - start];
            decode_f32(Codes { code, bytes: &codes, scales: Scales::Plain(&scales) }, start, &mut to);
            assert_eq!(to, whole[start..end], "{code:?} {start}..{end}");
        }
    }
}

#[test]
fn scales_by_codes_are_near_to_what_they_stand_for() {
    let (_, scales) = coded(Code::Nf4, &normal(64 * 600));
    let (mut codes, mut tops, mut mean) = (vec![0; 600], vec![0.0; 3], [0.0]);
    encode_scales(&scales, &mut codes, &mut tops, &mut mean);
    let by_codes = Scales::Coded { codes: &codes, tops: &tops, mean: mean[0] };
    for (i, scale) in scales.iter().enumerate() {
        let error = (by_codes.of(i) - scale).abs();
        assert!(error <= 0.02 * tops[i / SCALE_BLOCK], "{i}: {scale} became {}", by_codes.of(i));
    }
}

#[test]
fn a_block_of_zeros_is_zeros_and_a_nan_is_not_lost() {
    for code in [Code::Nf4, Code::Int8, Code::Int4] {
        let (codes, scales) = coded(code, &[0.0; 64]);
        assert_eq!(decoded(code, &codes, &scales, 64), [0.0; 64]);
        let mut from = [0.5; 64];
        from[9] = f32::NAN;
        let (codes, scales) = coded(code, &from);
        assert!(decoded(code, &codes, &scales, 64)[0].is_nan());
    }
}

#[test]
fn an_element_moves_by_half_a_step_at_the_most() {
    for (code, steps) in [(Code::Int8, 127.0), (Code::Int4, 7.0)] {
        let from = normal(128 * 50 + 9);
        let (codes, scales) = coded(code, &from);
        let back = decoded(code, &codes, &scales, from.len());
        for (i, (x, y)) in from.iter().zip(&back).enumerate() {
            let half = scales[i / code.block()] / steps / 2.0;
            assert!((x - y).abs() <= half * (1.0 + 1e-5), "{code:?} {i}: {x} became {y}");
        }
    }
    // The first of a pair in the higher half; zero is 8; two and a half steps are two, the even number.
    let (codes, scales) = coded(Code::Int4, &[7.0, -7.0, 0.0, 2.5, -1.2]);
    assert_eq!((codes, scales), (vec![0xf1, 0x8a, 0x70], vec![7.0]));
}
