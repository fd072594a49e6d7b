//! Ranges of addresses that memory is mapped into: what the simulated driver refuses, and what the engine makes of it.

use std::rc::Rc;

use cudarc::driver::{
    result,
    sys::{self, CUresult},
};
use plimsoll_engine::backend::cuda::{
    Device,
    pool_manners::{self, Answer, Did},
};
use plimsoll_tests::on_simulated_gpu;

use crate::gpu::Gpu;

const MIB: usize = 1 << 20;
const INVALID: CUresult = CUresult::CUDA_ERROR_INVALID_VALUE;
const OK: CUresult = CUresult::CUDA_SUCCESS;

fn location() -> sys::CUmemLocation {
    sys::CUmemLocation { type_: sys::CUmemLocationType::CU_MEM_LOCATION_TYPE_DEVICE, id: 0 }
}

fn create(bytes: usize) -> Result<u64, CUresult> {
    let properties = sys::CUmemAllocationProp {
        type_: sys::CUmemAllocationType::CU_MEM_ALLOCATION_TYPE_PINNED,
        requestedHandleTypes: sys::CUmemAllocationHandleType::CU_MEM_HANDLE_TYPE_NONE,
        location: location(),
        win32HandleMetaData: std::ptr::null_mut(),
        allocFlags: sys::CUmemAllocationProp_st__bindgen_ty_1 {
            compressionType: 0,
            gpuDirectRDMACapable: 0,
            usage: 0,
            reserved: [0; 4],
        },
    };
    let mut handle = 0;
    // SAFETY: both structures are alive and complete.
    let said = unsafe { sys::cuMemCreate(&raw mut handle, bytes, &raw const properties, 0) };
    if said == OK { Ok(handle) } else { Err(said) }
}

fn reserve(bytes: usize) -> Result<u64, CUresult> {
    let mut at = 0;
    // SAFETY: the place of the address is alive.
    let said = unsafe { sys::cuMemAddressReserve(&raw mut at, bytes, 0, 0, 0) };
    if said == OK { Ok(at) } else { Err(said) }
}

fn map(at: u64, bytes: usize, handle: u64) -> CUresult {
    // SAFETY: the simulated driver looks before it maps.
    unsafe { sys::cuMemMap(at, bytes, 0, handle, 0) }
}

fn open(at: u64, bytes: usize) -> CUresult {
    let flags = sys::CUmemAccess_flags::CU_MEM_ACCESS_FLAGS_PROT_READWRITE;
    let access = sys::CUmemAccessDesc { location: location(), flags };
    // SAFETY: the structure is alive, and the simulated driver looks for mappings.
    unsafe { sys::cuMemSetAccess(at, bytes, &raw const access, 1) }
}

fn unmap(at: u64, bytes: usize) -> CUresult {
    // SAFETY: nothing that is queued uses the memory.
    unsafe { sys::cuMemUnmap(at, bytes) }
}

fn release(handle: u64) -> CUresult {
    // SAFETY: the simulated driver knows its handles.
    unsafe { sys::cuMemRelease(handle) }
}

fn give(at: u64, bytes: usize) -> CUresult {
    // SAFETY: the simulated driver knows its ranges.
    unsafe { sys::cuMemAddressFree(at, bytes) }
}

fn room() -> usize {
    result::mem_get_info().expect("the card's memory").0
}

#[test]
fn the_driver_refuses_what_is_not_whole_or_mapped_twice() {
    on_simulated_gpu("virtual_memory::the_driver_refuses_what_is_not_whole_or_mapped_twice", &[], || {
        let _gpu = Gpu::new();
        let before = room();
        assert_eq!((create(MIB), reserve(3 * MIB)), (Err(INVALID), Err(INVALID)), "half a granule");
        assert_eq!(create(1 << 40), Err(CUresult::CUDA_ERROR_OUT_OF_MEMORY));
        let range = reserve(8 * MIB).expect("addresses");
        assert_eq!(room(), before, "addresses take nothing of the card");
        let (first, second) = (create(4 * MIB).expect("room"), create(2 * MIB).expect("room"));
        assert_eq!(before - room(), 6 * MIB);
        assert_eq!(open(range, 4 * MIB), INVALID, "nothing is mapped");
        assert_eq!(map(range, 4 * MIB, first), OK);
        assert_eq!(map(range + 2 * MIB as u64, 2 * MIB, second), INVALID, "an address that is mapped");
        assert_eq!(map(range + 8 * MIB as u64, 2 * MIB, second), INVALID, "behind the range");
        assert_eq!(map(range + 5 * MIB as u64, 2 * MIB, second), INVALID, "half a granule");
        assert_eq!((open(range, 2 * MIB), unmap(range, 2 * MIB)), (INVALID, INVALID), "a part of a mapping");
        assert_eq!(give(range, 8 * MIB), INVALID, "a range with a mapping");
        assert_eq!((release(first), release(first)), (OK, INVALID));
        assert_eq!(before - room(), 6 * MIB, "what is mapped stays");
        assert_eq!(unmap(range, 4 * MIB), OK);
        assert_eq!(before - room(), 2 * MIB, "the last mapping is gone");
        assert_eq!(map(range, 4 * MIB, first), INVALID, "a handle that was released");
        assert_eq!((release(second), give(range, 4 * MIB), give(range, 8 * MIB)), (OK, INVALID, OK));
        assert_eq!(room(), before);
    });
}

#[test]
fn neighbours_are_one_piece_and_memory_without_access_ends_the_context() {
    on_simulated_gpu(
        "virtual_memory::neighbours_are_one_piece_and_memory_without_access_ends_the_context",
        &[],
        || {
            let gpu = Gpu::new();
            let stream = gpu.stream();
            let range = reserve(8 * MIB).expect("addresses");
            for (at, bytes) in [(0, 2 * MIB), (2 * MIB as u64, 2 * MIB), (4 * MIB as u64, 2 * MIB)] {
                assert_eq!(map(range + at, bytes, create(bytes).expect("room")), OK);
            }
            assert_eq!(open(range, 4 * MIB), OK);
            let seam = range + 2 * MIB as u64 - 4;
            assert!(gpu.download::<f32>(seam, 2, stream).into_iter().all(f32::is_nan), "never written");
            // SAFETY: both sides of the seam are mapped.
            unsafe { result::memcpy_htod_async(seam, &[1.5f32, 2.5], stream) }.expect("a copy over the seam");
            assert_eq!(gpu.download::<f32>(seam, 2, stream), [1.5, 2.5]);
            // SAFETY: the simulated driver looks before it copies.
            let closed = unsafe { result::memcpy_htod_async(range + 4 * MIB as u64, &[1u8; 8], stream) };
            assert_eq!(closed.expect_err("no access").0, CUresult::CUDA_ERROR_ILLEGAL_ADDRESS);
        },
    );
}

/// What the engine finds of virtual memory on the simulated card, and that it leaves nothing behind.
fn asked() -> Answer {
    let device: Rc<Device> = Device::open(0).expect("a card");
    let before = device.free_bytes().expect("free");
    let answers = pool_manners::ask(&device);
    assert_eq!(device.free_bytes(), Ok(before));
    answers.into_iter().find(|answer| answer.question == "virtual memory").expect("an answer")
}

#[test]
fn a_range_grows_by_whole_granules_and_gives_all_back() {
    on_simulated_gpu("virtual_memory::a_range_grows_by_whole_granules_and_gives_all_back", &[], || {
        let Some(Did::Mapped { granularity_bytes, mapped_bytes, counted_bytes, fell_bytes, kept_bytes, .. }) =
            asked().did
        else {
            panic!("no answer");
        };
        assert_eq!((granularity_bytes, mapped_bytes), (Some(2 << 20), (32 + 34) << 20));
        assert_eq!((counted_bytes, fell_bytes, kept_bytes), ((32 + 34) << 20, (32 + 34) << 20, 0));
    });
}

#[test]
fn a_growth_that_the_card_refuses_leaves_nothing() {
    let settings = [("PLIMSOLL_SIM_CONTEXT_MIB", "300"), ("PLIMSOLL_SIM_TOTAL_MIB", "340")];
    on_simulated_gpu("virtual_memory::a_growth_that_the_card_refuses_leaves_nothing", &settings, || {
        let answer = asked();
        assert!(answer.fault.as_ref().is_some_and(|fault| fault.contains("OUT_OF_MEMORY")), "{answer:?}");
    });
}

#[test]
fn a_device_without_virtual_memory_says_so() {
    let settings = [("PLIMSOLL_SIM_VIRTUAL", "0")];
    on_simulated_gpu("virtual_memory::a_device_without_virtual_memory_says_so", &settings, || {
        let answer = asked();
        assert!(matches!(answer.did, Some(Did::Mapped { granularity_bytes: None, mapped_bytes: 0, .. })), "{answer:?}");
        let _gpu = Gpu::new();
        assert_eq!(reserve(2 * MIB), Err(CUresult::CUDA_ERROR_NOT_SUPPORTED));
    });
}
