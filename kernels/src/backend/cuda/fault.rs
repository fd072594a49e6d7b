//! What fails on a GPU: the driver's errors as the engine's, and the end of a context that is lost.
//!
//! After some errors the driver serves nothing in a context any more, and takes nothing back. Its manual says that the
//! process then has to be restarted. Drivers have been seen to serve a new context, so the engine tries that; if it fails,
//! opening the GPU reports it. Always holds: nothing of a lost context is used after its end.

use std::fmt::Debug;

use cudarc::driver::{
    DriverError, result,
    sys::{self, CUresult},
};

use super::{opened::Context, virtual_memory::Addresses};
use crate::{
    bytes::Bytes,
    error::{DeviceFull, DeviceLost, Error},
};

/// Bytes that a library may need for itself or for kernels that it loads.
const ROOM: usize = 96 << 20;

/// Memory that a failed GPU did not take back. Pools and ranges of addresses are the GPU's and not its context's: they outlive
/// it.
#[derive(Default)]
pub(super) struct Left {
    pub(super) blocks: Vec<sys::CUdeviceptr>,
    pub(super) pools: Vec<sys::CUmemoryPool>,
    pub(super) addresses: Vec<Addresses>,
}

impl Left {
    fn is_empty(&self) -> bool {
        self.blocks.is_empty() && self.pools.is_empty() && self.addresses.is_empty()
    }
}

/// The error of a call to the driver.
pub(super) fn failed(doing: &str, error: DriverError) -> Error {
    let text = error.error_string().ok().map(|text| text.to_string_lossy().into_owned());
    let reason = text.unwrap_or_else(|| format!("{error:?}"));
    if is_lost(error.0) {
        return DeviceLost { place: String::new(), doing: doing.to_owned(), reason }.into();
    }
    Error::Device(format!("{doing}: {reason}"))
}

/// What an error of the driver says, without the word before it.
pub(super) fn reason(error: Error) -> String {
    match error {
        Error::Device(reason) | Error::NoDevice(reason) => reason,
        error => error.to_string(),
    }
}

/// [`failed`], where the GPU may have no room for what the driver needs of it: for `label`.
pub(super) fn refused(label: &'static str, doing: &str, error: DriverError) -> Error {
    if error.0 == CUresult::CUDA_ERROR_OUT_OF_MEMORY { full(label) } else { failed(doing, error) }
}

/// The failure of a library. One that found no room for its kernels or for itself seldom says so: a card that is nearly full
/// does, where the status is one that this may end in.
pub(super) fn of_library(label: &'static str, doing: &str, status: &dyn Debug, may_lack_room: bool) -> Error {
    let is_full = || result::mem_get_info().is_ok_and(|(free, _)| free < ROOM);
    if may_lack_room && is_full() { full(label) } else { Error::Device(format!("{label}, {doing}: {status:?}")) }
}

/// A card without room for what the driver or a library needs of it; the caller fills in how full it is.
pub(super) fn full(label: &'static str) -> Error {
    let (layer, [asked, free, reserved, total]) = (String::new(), [Bytes::ZERO; 4]);
    DeviceFull { layer, op: "", label, asked, free, reserved, total }.into()
}

/// Whether the driver serves nothing any more after an error: the errors that, by its manual, leave the process in an
/// inconsistent state or mean that it must end (Driver API, `CUresult`), and the errors of the hardware.
fn is_lost(error: CUresult) -> bool {
    matches!(
        error,
        CUresult::CUDA_ERROR_ECC_UNCORRECTABLE
            | CUresult::CUDA_ERROR_NVLINK_UNCORRECTABLE
            | CUresult::CUDA_ERROR_CONTAINED
            | CUresult::CUDA_ERROR_TENSOR_MEMORY_LEAK
            | CUresult::CUDA_ERROR_EXTERNAL_DEVICE
            | CUresult::CUDA_ERROR_MPS_CLIENT_TERMINATED
            | CUresult::CUDA_ERROR_ILLEGAL_ADDRESS
            | CUresult::CUDA_ERROR_LAUNCH_TIMEOUT
            | CUresult::CUDA_ERROR_CONTEXT_IS_DESTROYED
            | CUresult::CUDA_ERROR_ASSERT
            | CUresult::CUDA_ERROR_HARDWARE_STACK_ERROR
            | CUresult::CUDA_ERROR_ILLEGAL_INSTRUCTION
            | CUresult::CUDA_ERROR_MISALIGNED_ADDRESS
            | CUresult::CUDA_ERROR_INVALID_ADDRESS_SPACE
            | CUresult::CUDA_ERROR_INVALID_PC
            | CUresult::CUDA_ERROR_LAUNCH_FAILED
    )
}

/// Ends a context that is lost, so that the next one is another. The libraries retain it too and never release it, so that a
/// release alone does not end it. What it left in pools and ranges is returned by a context made for that.
pub(super) fn renew(handle: sys::CUdevice, left: Left) {
    // SAFETY: nothing of this process uses the context any more. What is left belongs to the driver, and nothing else has
    // it; what is not taken now is lost.
    unsafe {
        let _ = sys::cuDevicePrimaryCtxReset_v2(handle);
        if left.is_empty() {
            return;
        }
        let Ok(_context) = Context::enter(handle) else { return };
        for block in left.blocks {
            let _ = result::memory_free(block);
        }
        for pool in left.pools {
            let _ = result::mem_pool::destroy(pool);
        }
        for mut addresses in left.addresses {
            addresses.give_back();
        }
    }
}
