//! Pools, the card's limit, and what unwritten memory holds.

use std::fs;

use cudarc::driver::{
    result,
    sys::{CUmemPool_attribute as Attribute, CUresult},
};
use plimsoll_tests::on_simulated_gpu;

use crate::gpu::{Gpu, Pool, code, free};

const MIB: usize = 1 << 20;

#[test]
fn a_pool_refuses_what_crosses_its_limit_and_serves_after() {
    on_simulated_gpu("memory::a_pool_refuses_what_crosses_its_limit_and_serves_after", &[], || {
        let gpu = Gpu::new();
        let (pool, stream) = (Pool::new(64 * MIB), gpu.stream());
        let first = pool.alloc(20 * MIB, stream).expect("a first segment");
        let second = pool.alloc(20 * MIB, stream).expect("a second segment");
        assert_eq!(pool.get(Attribute::CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT), 64 * MIB as u64);
        assert_eq!(pool.get(Attribute::CU_MEMPOOL_ATTR_USED_MEM_CURRENT), 40 * MIB as u64);
        let refused = pool.alloc(20 * MIB, stream).expect_err("a third segment is past the limit");
        assert_eq!(refused.0, CUresult::CUDA_ERROR_OUT_OF_MEMORY);
        free(first, stream);
        let again = pool.alloc(20 * MIB, stream).expect("what was freed in the stream");
        assert_eq!(again, first);
        free(again, stream);
        free(second, stream);
        gpu.finish(stream).expect("the stream");
        assert_eq!(pool.get(Attribute::CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT), 0, "nothing is kept without a threshold");
        assert_eq!(pool.get(Attribute::CU_MEMPOOL_ATTR_RESERVED_MEM_HIGH), 64 * MIB as u64);
    });
}

#[test]
fn a_threshold_keeps_memory_and_the_marks_reset_to_the_present() {
    on_simulated_gpu("memory::a_threshold_keeps_memory_and_the_marks_reset_to_the_present", &[], || {
        let gpu = Gpu::new();
        let (pool, stream) = (Pool::new(0), gpu.stream());
        pool.set(Attribute::CU_MEMPOOL_ATTR_RELEASE_THRESHOLD, u64::MAX).expect("the threshold");
        let small = pool.alloc(1, stream).expect("room");
        let large = pool.alloc(33 * MIB, stream).expect("room");
        free(large, stream);
        gpu.finish(stream).expect("the stream");
        assert_eq!(pool.get(Attribute::CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT), (32 + 34) * MIB as u64);
        assert_eq!(pool.get(Attribute::CU_MEMPOOL_ATTR_USED_MEM_CURRENT), 512);
        assert_eq!(pool.get(Attribute::CU_MEMPOOL_ATTR_USED_MEM_HIGH), 33 * MIB as u64 + 512);
        pool.set(Attribute::CU_MEMPOOL_ATTR_USED_MEM_HIGH, 0).expect("the mark");
        assert_eq!(pool.get(Attribute::CU_MEMPOOL_ATTR_USED_MEM_HIGH), 512);
        assert!(pool.set(Attribute::CU_MEMPOOL_ATTR_USED_MEM_HIGH, 1).is_err(), "only to 0");
        free(small, stream);
        gpu.finish(stream).expect("the stream");
        // SAFETY: the pool is alive, and what was taken of it is freed.
        unsafe { result::mem_pool::destroy(pool.0) }.expect("destroyed");
    });
}

#[test]
fn what_nobody_wrote_is_not_a_number() {
    on_simulated_gpu("memory::what_nobody_wrote_is_not_a_number", &[], || {
        let gpu = Gpu::new();
        let stream = gpu.stream();
        let ptr = gpu.upload(&[1.0f32; 100], stream);
        assert_eq!(gpu.download::<f32>(ptr, 100, stream), [1.0; 100]);
        free(ptr, stream);
        let ptr = gpu.alloc(400, stream);
        assert!(gpu.download::<f32>(ptr, 100, stream).into_iter().all(f32::is_nan));
    });
}

#[test]
fn a_copy_beyond_an_allocation_ends_the_context() {
    on_simulated_gpu("memory::a_copy_beyond_an_allocation_ends_the_context", &[], || {
        let gpu = Gpu::new();
        let stream = gpu.stream();
        let ptr = gpu.alloc(512, stream);
        // SAFETY: the simulated driver looks before it copies.
        let refused = unsafe { result::memcpy_htod_async(ptr + 512, &[1u8; 8], stream) };
        assert_eq!(code(refused), CUresult::CUDA_ERROR_ILLEGAL_ADDRESS);
        assert_eq!(code(gpu.finish(stream)), CUresult::CUDA_ERROR_ILLEGAL_ADDRESS, "as on a card, it stays");
    });
}

#[test]
fn an_allocation_fails_when_it_is_told_to_and_once() {
    let settings = [("PLIMSOLL_SIM_FAIL_ALLOC", "2")];
    on_simulated_gpu("memory::an_allocation_fails_when_it_is_told_to_and_once", &settings, || {
        let gpu = Gpu::new();
        let (pool, stream) = (Pool::new(0), gpu.stream());
        let worked: Vec<bool> = (0..4).map(|_| pool.alloc(512, stream).is_ok()).collect();
        assert_eq!(worked, [true, false, true, true]);
    });
}

#[test]
fn others_fill_the_card_while_a_program_runs() {
    let file = std::env::temp_dir().join(format!("others-{}", std::process::id()));
    // The same file in the process that is started, where the variable is set.
    let file = std::env::var("PLIMSOLL_SIM_OTHERS_FILE").unwrap_or_else(|_| file.display().to_string());
    let settings = [("PLIMSOLL_SIM_TOTAL_MIB", "1024"), ("PLIMSOLL_SIM_OTHERS_FILE", file.as_str())];
    on_simulated_gpu("memory::others_fill_the_card_while_a_program_runs", &settings, || {
        let gpu = Gpu::new();
        let (pool, stream) = (Pool::new(0), gpu.stream());
        pool.alloc(64 * MIB, stream).expect("an empty card");
        let (free, total) = result::mem_get_info().expect("the card");
        assert_eq!((total, free), (1024 * MIB, (1024 - 300 - 64) * MIB));
        fs::write(&file, "600").expect("written");
        assert_eq!(result::mem_get_info().expect("the card").0, 60 * MIB);
        assert!(pool.alloc(64 * MIB, stream).is_err(), "the others have it");
        fs::write(&file, "0").expect("written");
        pool.alloc(64 * MIB, stream).expect("they gave it back");
        fs::remove_file(&file).expect("removed");
    });
}
