//! What a kernel needs while it runs: the only rules that compute bytes of scratch, a file for each kind of device.
//!
//! The executor books these bytes in the ledger around a launch; the kernels stay within them. Always holds: the rules
//! need no device, so that a machine without a GPU plans for one.

mod cpu;
pub(in crate::backend) mod cuda;
pub(in crate::backend) mod parts;

use crate::{
    backend::{DType, Kernel},
    device::Target,
};

/// Upper bound of the bytes `kernel` allocates while it runs on `target`, with operands of `dtype`.
pub fn bytes(kernel: &Kernel, dtype: DType, target: &Target) -> u64 {
    match target {
        Target::Cpu { threads } => cpu::bytes(kernel, dtype, *threads),
        Target::Gpu(profile) => cuda::bytes(kernel, dtype, profile),
    }
}
