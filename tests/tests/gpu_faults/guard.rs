//! The guarded mode: a write behind a block is seen.

use cudarc::driver::result;
use plimsoll_engine::{
    backend::{
        Backend, Cuda, DType,
        cuda::{Device, Options},
    },
    device::profile::shipped,
};
use plimsoll_tests::on_simulated_gpu;

#[test]
fn a_write_behind_a_block_is_seen_when_it_is_freed() {
    on_simulated_gpu("guard::a_write_behind_a_block_is_seen_when_it_is_freed", &[], || {
        let device = Device::open(0).expect("a card");
        let options =
            Options { gives_back: false, tf32: false, deterministic: true, guarded: true, tensor_cores: false };
        // Bytes behind the first of a block, and whether they are its own.
        for (at, is_own) in [(0, true), (399, true), (400, false), (401, false), (1000, false)] {
            let backend = Cuda::new(&device, shipped()[0].clone(), None, options).expect("a pool");
            let block = backend.allocate(100, DType::F32, None).expect("room");
            device.finish().expect("filled");
            // SAFETY: the byte is the block's or its gap's.
            unsafe { result::memset_d8_sync(block.address() + at, 0, 1) }.expect("written");
            result::ctx::synchronize().expect("done");
            backend.step_ended().expect("the block is alive");
            drop(block);
            let seen = backend.step_ended();
            assert_eq!(seen.is_ok(), is_own, "{at}: {seen:?}");
            assert!(is_own || seen.is_err_and(|error| error.to_string().contains("behind the end of a block")));
        }
    });
}
