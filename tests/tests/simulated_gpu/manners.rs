//! The switches for what programs have seen drivers do: each does what it says.

use cudarc::driver::sys::CUmemPool_attribute as Attribute;
use plimsoll_tests::on_simulated_gpu;

use crate::gpu::{Gpu, Pool, free};

const MIB: usize = 1 << 20;
const STEPS: (&str, &str) = ("PLIMSOLL_SIM_POOL_STEP_MIB", "32");

fn reserved(pool: &Pool) -> u64 {
    pool.get(Attribute::CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT) / MIB as u64
}

fn used(pool: &Pool) -> u64 {
    pool.get(Attribute::CU_MEMPOOL_ATTR_USED_MEM_CURRENT)
}

#[test]
fn a_pool_grows_by_steps_of_the_size_that_is_asked_for() {
    on_simulated_gpu("manners::a_pool_grows_by_steps_of_the_size_that_is_asked_for", &[STEPS], || {
        let gpu = Gpu::new();
        let (pool, stream) = (Pool::new(0), gpu.stream());
        pool.alloc(33 * MIB, stream).expect("room");
        assert_eq!(reserved(&pool), 64);
    });
}

#[test]
fn chunks_that_join_serve_what_neither_would_alone() {
    let settings = [("PLIMSOLL_SIM_POOL_JOINS", "1")];
    on_simulated_gpu("manners::chunks_that_join_serve_what_neither_would_alone", &settings, || {
        let gpu = Gpu::new();
        let (pool, stream) = (Pool::new(0), gpu.stream());
        pool.set(Attribute::CU_MEMPOOL_ATTR_RELEASE_THRESHOLD, u64::MAX).expect("the threshold");
        let blocks: Vec<_> = (0..4).map(|_| pool.alloc(32 * MIB, stream).expect("room")).collect();
        assert_eq!(reserved(&pool), 128);
        free(blocks[1], stream);
        free(blocks[2], stream);
        assert_eq!(pool.alloc(64 * MIB, stream).expect("joined"), blocks[1]);
        assert_eq!(reserved(&pool), 128);
        // What is free at the end is grown by what a block lacks.
        free(blocks[3], stream);
        pool.alloc(80 * MIB, stream).expect("grown");
        assert_eq!(reserved(&pool), 128 + 48);
        free(blocks[0], stream);
        gpu.finish(stream).expect("the stream");
        pool.set(Attribute::CU_MEMPOOL_ATTR_RELEASE_THRESHOLD, 0).expect("the threshold");
        gpu.finish(stream).expect("the stream");
        assert_eq!(reserved(&pool), 64 + 80, "the first chunk goes back alone");
    });
}

#[test]
fn used_may_be_the_bytes_that_were_asked_for() {
    let settings = [("PLIMSOLL_SIM_POOL_COUNTS", "1")];
    on_simulated_gpu("manners::used_may_be_the_bytes_that_were_asked_for", &settings, || {
        let gpu = Gpu::new();
        let (pool, stream) = (Pool::new(0), gpu.stream());
        let first = pool.alloc(1, stream).expect("room");
        let second = pool.alloc(700, stream).expect("room");
        assert_eq!((used(&pool), second - first), (701, 512), "pieces are as large as ever");
        free(second, stream);
        assert_eq!(used(&pool), 1);
    });
}

/// Blocks of 1 MiB that a pool of a limit gives, and what it then holds, in MiB.
fn filled(limit: usize) -> (usize, u64) {
    let gpu = Gpu::new();
    let (pool, stream) = (Pool::new(limit * MIB), gpu.stream());
    let count = (0..).take_while(|_| pool.alloc(MIB, stream).is_ok()).count();
    (count, reserved(&pool))
}

#[test]
fn a_limit_may_be_rounded_up() {
    on_simulated_gpu("manners::a_limit_may_be_rounded_up", &[STEPS, ("PLIMSOLL_SIM_POOL_LIMIT", "up")], || {
        assert_eq!([filled(2), filled(33), filled(64)], [(32, 32), (64, 64), (64, 64)]);
    });
}

#[test]
fn a_limit_may_be_rounded_down() {
    on_simulated_gpu("manners::a_limit_may_be_rounded_down", &[STEPS, ("PLIMSOLL_SIM_POOL_LIMIT", "down")], || {
        assert_eq!([filled(2), filled(63), filled(64)], [(0, 0), (32, 32), (64, 64)]);
    });
}

#[test]
fn the_last_growth_may_be_smaller() {
    on_simulated_gpu("manners::the_last_growth_may_be_smaller", &[STEPS, ("PLIMSOLL_SIM_POOL_LIMIT", "fits")], || {
        assert_eq!([filled(2), filled(47), filled(64)], [(2, 2), (46, 46), (64, 64)]);
    });
}
