//! Products with coded weights: against plain loops over the values that the papers list, and by finite differences.

use plimsoll_engine::{
    backend::{
        DType,
        ops::{Code, Coded, CodedProduct},
    },
    selftest::{
        cases,
        draw::{Draw, fresh_seed},
    },
};

use super::bench::Threads;

/// The 4-bit NormalFloat of appendix E of "QLoRA" (Dettmers et al. 2023).
const NF4: [f64; 16] = [
    -1.0,
    -0.696_192_800_998_687_7,
    -0.525_073_051_452_636_7,
    -0.394_917_488_098_144_53,
    -0.284_441_381_692_886_35,
    -0.184_773_430_228_233_34,
    -0.091_050_036_251_544_95,
    0.0,
    0.079_580_299_556_255_34,
    0.160_930_201_411_247_25,
    0.246_112_301_945_686_34,
    0.337_915_241_718_292_24,
    0.440_709_829_330_444_34,
    0.562_617_003_917_694_1,
    0.722_956_836_223_602_3,
    1.0,
];

/// The magnitudes of the dynamic code of bitsandbytes, `create_dynamic_map` with a sign: 2^i values in the decade i.
fn dynamic() -> Vec<f64> {
    let mut values = vec![0.0];
    for decade in 0..7 {
        let (count, top) = (1 << decade, 10f64.powi(decade - 6));
        values.extend((0..count).map(|i| top * (0.1 + 0.9 * (f64::from(i) + 0.5) / f64::from(count))));
    }
    values.push(1.0);
    values
}

/// The elements that codes and scales stand for: numbers of f32, as they are everywhere.
fn decoded(code: Code, codes: &[f64], scales: &[Vec<f64>], count: usize) -> Vec<f64> {
    let dynamic = dynamic();
    let scale = |block: usize| match scales {
        [plain] => plain[block],
        [codes, tops, mean] => {
            let place = codes[block] as i32 - 127;
            let value = f64::from(dynamic[place.unsigned_abs() as usize] as f32);
            mean[0] + f64::from(place.signum()) * value * tops[block / 256]
        }
        _ => panic!("one operand or three"),
    };
    let half = |i: usize| (codes[i / 2] as usize >> if i.is_multiple_of(2) { 4 } else { 0 }) & 15;
    let value = |i: usize| match code {
        Code::Int8 => f64::from(codes[i] as u8 as i8) / 127.0,
        Code::Nf4 => NF4[half(i)],
        Code::Int4 => (half(i) as f64 - 8.0) / 7.0,
    };
    (0..count).map(|i| f64::from(value(i) as f32 * scale(i / code.block()) as f32)).collect()
}

/// [`Coded`] in plain loops; the codes of random elements are tested where they are made.
pub(crate) fn run(kernel: &Coded, ins: &[Vec<f64>], outs: &mut [Vec<f64>]) {
    match *kernel {
        Coded::Encode(_) | Coded::EncodeScales => {}
        Coded::Decode(code) => outs[0] = decoded(code, &ins[0], &ins[1..], outs[0].len()),
        Coded::Product(CodedProduct { rows, out, inner, code, by_input }) => {
            let w = decoded(code, &ins[1], &ins[2..], out * inner);
            let [depth, columns] = if by_input { [out, inner] } else { [inner, out] };
            let weight = |k: usize, j: usize| if by_input { w[k * inner + j] } else { w[j * inner + k] };
            for i in 0..rows {
                for j in 0..columns {
                    outs[0][i * columns + j] = (0..depth).map(|k| ins[0][i * depth + k] * weight(k, j)).sum();
                }
            }
        }
    }
}

#[test]
fn the_gradient_by_the_input_is_that_of_finite_differences() {
    let seed = fresh_seed();
    let (threads, mut draw) = (Threads::new(2), Draw::new(seed));
    for _ in 0..6 {
        let sizes @ [rows, out, inner] = [draw.between(1, 9), draw.between(1, 90), draw.between(1, 90)];
        for case in cases::coded::products(&mut draw, DType::F64, sizes).into_iter().step_by(2) {
            let product = |inputs: &[(Vec<f64>, DType)], by_input: bool, columns: usize| {
                let plimsoll_engine::backend::Kernel::Coded(Coded::Product(p)) = case.kernel else {
                    panic!("a product")
                };
                let kernel = Coded::Product(CodedProduct { by_input, ..p });
                threads.launch(kernel, inputs, &[(vec![0.0; rows * columns], DType::F64)]).0.after.remove(0)
            };
            let (direction, weights) = (draw.numbers(rows * inner), draw.numbers(rows * out));
            let value = |sign: f64| {
                let mut inputs = case.inputs.clone();
                inputs[0].0.iter_mut().zip(&direction).for_each(|(x, d)| *x += sign / 4096.0 * d);
                product(&inputs, false, out).iter().zip(&weights).map(|(y, w)| y * w).sum::<f64>()
            };
            let difference = (value(1.0) - value(-1.0)) * 2048.0;
            let mut inputs = case.inputs.clone();
            inputs[0].0.clone_from(&weights);
            let slope: f64 = product(&inputs, true, inner).iter().zip(&direction).map(|(g, d)| g * d).sum();
            let allowed = 1e-6 * (1.0 + difference.abs());
            assert!((slope - difference).abs() <= allowed, "seed {seed}: {slope}, not {difference}: {:?}", case.kernel);
        }
    }
}
