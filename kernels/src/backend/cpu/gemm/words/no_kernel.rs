//! Processors without AVX-512 do not multiply word by word.

use half::bf16;

use super::{
    Group, Panel,
    blocks::{Step, Sums},
};

pub(super) fn transpose(_: [&[u8]; 16], _: &mut [u32], _: usize) {
    unreachable!("a product is planned so only where there is the instruction");
}

pub(super) fn singles<const N: usize>(_: &Group<'_, f32>, _: Panel<'_>, _: &mut [&mut [f32]; N], _: usize) {
    unreachable!("a product is planned so only where there is the instruction");
}

pub(super) fn pairs<const N: usize>(_: &Group<'_, bf16>, _: Panel<'_>, _: &mut [&mut [f32]; N], _: usize) {
    unreachable!("a product is planned so only where there is the instruction");
}

pub(super) struct Registers;

impl Registers {
    pub(super) fn set_up() -> Self {
        unreachable!("a product is planned so only where there is the instruction");
    }

    pub(super) fn multiply(&self, _: &[Step<'_>], _: &[u32], _: &mut Sums) {
        unreachable!("a product is planned so only where there is the instruction");
    }
}
