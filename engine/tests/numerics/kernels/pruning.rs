//! Pruning by magnitude, in plain loops.

use plimsoll_engine::backend::ops::Prune;

/// What the outputs of `kernel` become; `outs` holds them before.
pub(crate) fn run(kernel: &Prune, ins: &[Vec<f64>], outs: &mut [Vec<f64>]) {
    let key = |weight: f64| (weight as f32).abs().to_bits();
    match *kernel {
        Prune::Count(bits) => {
            let low = (ins[1][0] as u64) << (bits.shift + bits.count);
            for key in ins[0].iter().map(|weight| u64::from(key(*weight))) {
                let is_in = bits.are_highest() || (low..low + (1 << (bits.shift + bits.count))).contains(&key);
                if is_in {
                    outs[0][((key >> bits.shift) % (1 << bits.count)) as usize] += 1.0;
                }
            }
        }
        Prune::Pick { bits, rank } => {
            let [prefix, wanted] = if bits.are_highest() { [0.0, f64::from(rank)] } else { [outs[1][0], outs[1][1]] };
            let last = (1 << bits.count) - 1;
            let before = |value: usize| outs[0][..value].iter().sum::<f64>();
            let value = (0..last).find(|value| before(value + 1) >= wanted).unwrap_or(last);
            let left = wanted - before(value);
            outs[1] = vec![prefix * f64::from(1 << bits.count) + value as f64, left];
            outs[0].fill(0.0);
        }
        Prune::Mask => {
            let kept: Vec<bool> = ins[0].iter().map(|weight| f64::from(key(*weight)) > ins[1][0]).collect();
            outs[0] = packed(&kept);
        }
        Prune::Groups { columns, kept, of } => {
            let mut stays = vec![false; ins[0].len()];
            for row in 0..ins[0].len() / columns {
                for begin in (0..columns).step_by(of) {
                    let mut group: Vec<usize> =
                        (begin..columns.min(begin + of)).map(|column| row * columns + column).collect();
                    group.sort_by_key(|i| std::cmp::Reverse(key(ins[0][*i])));
                    group.iter().take(kept).for_each(|i| stays[*i] = true);
                }
            }
            outs[0] = packed(&stays);
        }
        Prune::Apply => {
            for out in outs {
                for (i, weight) in out.iter_mut().enumerate() {
                    if (ins[0][i / 8] as u8) & (1 << (i % 8)) == 0 {
                        *weight = 0.0;
                    }
                }
            }
        }
    }
}

fn packed(bits: &[bool]) -> Vec<f64> {
    let byte = |bits: &[bool]| bits.iter().rev().fold(0, |byte: u32, bit| 2 * byte + u32::from(*bit));
    bits.chunks(8).map(|bits| f64::from(byte(bits))).collect()
}
