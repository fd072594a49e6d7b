//! How a GPU is used.

use crate::{
    bytes::Bytes,
    device::PoolPolicy,
    experiment::{
        Experiment,
        limits::MAX_WORKSPACE,
        settings::{KERNELS, Limits, Number, settings},
    },
};

settings! {
    /// How a GPU is used. On the processor these settings have no effect.
    pub struct Gpu in gpu {
        /// The pool's treatment of empty memory.
        pub pool: PoolPolicy = PoolPolicy::Planned, KERNELS.when(on_gpu).words_were(&[("give-back", "release")]);
        /// The one buffer that cuBLAS and cuDNN work in, from the pool; 0: none, and algorithms that need none.
        pub workspace: Bytes = Bytes::mib(32), KERNELS.when(on_gpu).limits(Limits::Within {
            low: Number::Size(Bytes::ZERO), high: Number::Size(MAX_WORKSPACE), what: "a workspace",
        });
        /// Products of f32 with operands rounded to 10 bits (TF32): faster, less exact.
        pub tf32: bool = false, KERNELS.when(on_gpu);
        /// Whether the same run gives the same bits; slower where an algorithm without a fixed order is faster.
        pub deterministic: bool = true, KERNELS.when(on_gpu);
    }
}

fn on_gpu(e: &Experiment) -> bool {
    !e.is_on_cpu()
}
