//! A range of device addresses into which memory is mapped, end to end.
//!
//! Owns the addresses, from the start, and the memory behind them, as it grows. Always holds: what is mapped begins where
//! the range does, has no gap, and may be read and written; a growth that is refused leaves the range as it was; nothing is
//! left when the range goes, unless the driver does not take it back. Refuses: more than the addresses it has, and what the
//! driver refuses.
//!
//! The calls and their rules are those of "Virtual Memory Management" in NVIDIA's CUDA Driver API. Sizes are multiples of
//! the granularity. A handle may be released while its memory is mapped: the last mapping then frees the memory
//! (`cuMemRelease`). Whole mappings are unmapped, before the addresses are freed (`cuMemUnmap`, `cuMemAddressFree`).

use std::rc::Rc;

use cudarc::driver::{
    DriverError, result,
    sys::{self, CUdevice_attribute, CUresult},
};

use super::{arena::Address, device::Device};

/// A range of addresses, and the memory at its beginning.
pub(super) struct Range {
    device: Rc<Device>,
    address: Address,
    bytes: u64,
    granularity: u64,
    /// Bytes of each mapping, from the beginning of the range on.
    mappings: Vec<u64>,
}

/// What mapped memory is a multiple of, in bytes; `None` where the device has no such memory.
///
/// # Errors
/// Fails when the driver does.
pub(super) fn granularity(device: &Device) -> Result<Option<u64>, DriverError> {
    let supported = CUdevice_attribute::CU_DEVICE_ATTRIBUTE_VIRTUAL_ADDRESS_MANAGEMENT_SUPPORTED;
    // SAFETY: the handle is the driver's own.
    if unsafe { result::device::get_attribute(device.handle(), supported) }? == 0 {
        return Ok(None);
    }
    let (mut bytes, properties) = (0, properties(device));
    let least = sys::CUmemAllocationGranularity_flags::CU_MEM_ALLOC_GRANULARITY_MINIMUM;
    // SAFETY: both structures are alive and complete.
    unsafe { sys::cuMemGetAllocationGranularity(&raw mut bytes, &raw const properties, least) }.result()?;
    Ok(Some(bytes as u64).filter(|bytes| *bytes > 0))
}

impl Range {
    /// Addresses for `bytes`, rounded up to the `granularity`, without memory.
    ///
    /// # Errors
    /// Fails when the driver does.
    pub(super) fn new(device: &Rc<Device>, bytes: u64, granularity: u64) -> Result<Self, DriverError> {
        let bytes = bytes.next_multiple_of(granularity);
        let mut address = 0;
        // SAFETY: the place of the address is alive. The driver chooses the alignment and the address.
        unsafe { sys::cuMemAddressReserve(&raw mut address, size(bytes), 0, 0, 0) }.result()?;
        Ok(Self { device: Rc::clone(device), address, bytes, granularity, mappings: Vec::new() })
    }

    /// Where the range begins.
    pub(super) fn address(&self) -> Address {
        self.address
    }

    /// Bytes of memory behind the addresses.
    pub(super) fn mapped(&self) -> u64 {
        self.mappings.iter().sum()
    }

    /// Maps `bytes` more, rounded up to the granularity, behind what is mapped.
    ///
    /// # Errors
    /// `CUDA_ERROR_OUT_OF_MEMORY` past the end of the range, or where the card has no room; others when the driver fails.
    pub(super) fn grow(&mut self, bytes: u64) -> Result<(), DriverError> {
        let (bytes, mapped) = (bytes.next_multiple_of(self.granularity), self.mapped());
        if bytes > self.bytes - mapped {
            return Err(DriverError(CUresult::CUDA_ERROR_OUT_OF_MEMORY));
        }
        let (mut handle, properties) = (0, properties(&self.device));
        // SAFETY: both structures are alive and complete.
        unsafe { sys::cuMemCreate(&raw mut handle, size(bytes), &raw const properties, 0) }.result()?;
        let at = self.address + mapped;
        // SAFETY: the addresses are this range's, nothing is mapped there, and the memory is as large.
        let is_mapped = unsafe { sys::cuMemMap(at, size(bytes), 0, handle, 0) }.result();
        // SAFETY: the handle is not used again. Its memory stays as long as it is mapped.
        let is_released = unsafe { sys::cuMemRelease(handle) }.result();
        is_mapped?;
        self.mappings.push(bytes);
        let is_ready = is_released.and_then(|()| self.open(at, bytes));
        if is_ready.is_err() {
            self.mappings.pop();
            // SAFETY: this is the whole mapping, and nothing uses it yet.
            let _ = unsafe { sys::cuMemUnmap(at, size(bytes)) };
        }
        is_ready
    }

    /// Lets the device read and write a mapping.
    fn open(&self, at: Address, bytes: u64) -> Result<(), DriverError> {
        let access = sys::CUmemAccessDesc {
            location: location(&self.device),
            flags: sys::CUmemAccess_flags::CU_MEM_ACCESS_FLAGS_PROT_READWRITE,
        };
        // SAFETY: the structure is alive, and the addresses are a whole mapping.
        unsafe { sys::cuMemSetAccess(at, size(bytes), &raw const access, 1) }.result()
    }

    /// Fills everything that is mapped.
    ///
    /// # Errors
    /// Fails when the driver does.
    pub(super) fn fill(&self, with: u8) -> Result<(), DriverError> {
        // SAFETY: as many bytes are mapped, and the range waits for the stream before it unmaps them.
        unsafe { result::memset_d8_async(self.address, with, size(self.mapped()), self.device.stream().raw()) }
    }
}

impl Drop for Range {
    fn drop(&mut self) {
        // The driver does not wait for work that uses the memory. A device that has failed takes back what it can.
        let _ = self.device.finish();
        let mut at = self.address;
        for bytes in self.mappings.drain(..) {
            // SAFETY: this is a whole mapping, and what used it is done.
            let _ = unsafe { sys::cuMemUnmap(at, size(bytes)) };
            at += bytes;
        }
        // SAFETY: this is the whole range, and nothing is mapped there.
        let _ = unsafe { sys::cuMemAddressFree(self.address, size(self.bytes)) };
    }
}

/// Memory on the device, not shared with other processes.
fn properties(device: &Device) -> sys::CUmemAllocationProp {
    sys::CUmemAllocationProp {
        type_: sys::CUmemAllocationType::CU_MEM_ALLOCATION_TYPE_PINNED,
        requestedHandleTypes: sys::CUmemAllocationHandleType::CU_MEM_HANDLE_TYPE_NONE,
        location: location(device),
        win32HandleMetaData: std::ptr::null_mut(),
        allocFlags: sys::CUmemAllocationProp_st__bindgen_ty_1 {
            compressionType: 0,
            gpuDirectRDMACapable: 0,
            usage: 0,
            reserved: [0; 4],
        },
    }
}

fn location(device: &Device) -> sys::CUmemLocation {
    sys::CUmemLocation { type_: sys::CUmemLocationType::CU_MEM_LOCATION_TYPE_DEVICE, id: device.handle() }
}

/// Bytes as the driver counts them, cut at the largest number that it takes.
fn size(bytes: u64) -> usize {
    usize::try_from(bytes).unwrap_or(usize::MAX)
}
