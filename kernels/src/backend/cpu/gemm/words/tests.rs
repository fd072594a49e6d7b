use super::*;
use crate::{
    backend::{
        cpu::gemm::{Arithmetic, is_row, matmul, matmul_of_words, matmul_plan},
        ops::MatMul,
    },
    device::Instructions,
    rng::Rng,
};

/// The product by each instruction that this processor has for bf16.
fn products(p: &MatMul, a: &[bf16], b: &[bf16], before: f32) -> Vec<Vec<f32>> {
    let mut found = vec![vec![before; p.m * p.n]];
    matmul(p, a, b, &mut found[0]);
    for (arithmetic, needed) in [(Arithmetic::Pairs, Instructions::Avx512Bf16), (Arithmetic::Blocks, Instructions::Amx)]
    {
        if Instructions::detect() >= needed && !is_row(p) {
            let mut c = vec![before; p.m * p.n];
            let sides = [if p.transpose_a { p.m } else { p.k }, if p.transpose_b { p.k } else { p.n }];
            let sides = [(sides[0], p.transpose_a), (sides[1], p.transpose_b)];
            let target = Target::new(&mut c, [p.m, p.n], p.accumulate);
            matmul_of_words(&matmul_plan(p, arithmetic, false), [a, b], sides, target);
            found.push(c);
        }
    }
    found
}

#[test]
fn products_of_any_layout_and_extent_are_the_sums_of_products() {
    let rng = Rng::from_key(11);
    for case in 0..300 {
        let draw = |i: u64, below: usize| rng.below(case * 100 + i, below);
        let deep = if case % 7 == 0 { 700 } else { 40 };
        let (m, n, k) = (2 + draw(0, 210), 1 + draw(1, 290), 1 + draw(2, deep));
        let (transpose_a, transpose_b, accumulate) = (draw(3, 2) == 0, draw(4, 2) == 0, draw(5, 2) == 0);
        let p = MatMul { m, n, k, transpose_a, transpose_b, accumulate };
        // Small whole numbers, whose sums are exact in any order.
        let filled = |key: u64, count: usize| -> Vec<f32> {
            (0..count).map(|i| rng.below(case ^ key << 32 ^ i as u64, 17) as f32 - 8.0).collect()
        };
        let (a, b) = (filled(1, m * k), filled(2, n * k));
        let narrow = |x: &[f32]| x.iter().map(|x| bf16::from_f32(*x)).collect::<Vec<_>>();
        let mut of_singles = vec![3.0_f32; m * n];
        matmul(&p, &a, &b, &mut of_singles);
        let narrow = products(&p, &narrow(&a), &narrow(&b), 3.0);
        for (at, found) in of_singles.iter().enumerate() {
            let (i, j) = (at / n, at % n);
            let term = |t: usize| {
                let left = if transpose_a { a[t * m + i] } else { a[i * k + t] };
                left * if transpose_b { b[j * k + t] } else { b[t * n + j] }
            };
            let wanted = (0..k).map(term).sum::<f32>() + if accumulate { 3.0 } else { 0.0 };
            assert_eq!(*found, wanted, "{p:?} at {i}, {j}");
            assert!(narrow.iter().all(|found| found[at] == wanted), "{p:?} at {i}, {j}");
        }
    }
}
