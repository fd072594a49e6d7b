//! A range of device addresses into which memory is mapped.
//!
//! Owns the addresses, from the start, and the memory behind them, piece by piece. Always holds: pieces do not overlap, each
//! may be read and written, and one lies in the first gap that holds it, so they lie end to end while none goes; a piece that
//! is refused leaves the range as it was. What the driver does not take back is kept for when the device is closed. Counts
//! what is mapped by asking the driver address by address, and not by its own list. Refuses: more than the addresses it has,
//! and what the driver refuses.
//!
//! The calls and their rules are those of "Virtual Memory Management" in NVIDIA's CUDA Driver API. Sizes are multiples of
//! the granularity. A handle may be released while its memory is mapped: the last mapping then frees the memory
//! (`cuMemRelease`). Whole mappings are unmapped, before the addresses are freed (`cuMemUnmap`, `cuMemAddressFree`). The
//! mapping that an address belongs to is an attribute of a pointer (`CU_POINTER_ATTRIBUTE_MAPPING_SIZE`). An address of a range
//! is seen to have attributes before anything is mapped there (NVIDIA/DALI, pull request 3064), so whether it is mapped
//! (`CU_POINTER_ATTRIBUTE_MAPPED`) is asked first.

use std::{collections::BTreeMap, rc::Rc};

use cudarc::driver::{
    DriverError,
    sys::{self, CUdevice_attribute, CUpointer_attribute as Attribute, CUresult},
};

use super::{
    arena::Address,
    device::{Device, attribute},
};

/// A range of addresses, and the memory in it.
pub(super) struct Range {
    device: Rc<Device>,
    granularity: u64,
    addresses: Addresses,
    /// Nothing was ever mapped from here on.
    top: Address,
}

/// Addresses that the driver has set aside, and what is mapped there.
#[derive(Debug, Default)]
pub(super) struct Addresses {
    start: Address,
    bytes: u64,
    /// Where each mapping begins, and its bytes.
    mappings: BTreeMap<Address, u64>,
}

/// Whether a device has such memory. It need not be open.
///
/// # Errors
/// Fails when the driver does.
pub(super) fn is_supported(device: sys::CUdevice) -> Result<bool, DriverError> {
    let supported = CUdevice_attribute::CU_DEVICE_ATTRIBUTE_VIRTUAL_ADDRESS_MANAGEMENT_SUPPORTED;
    Ok(attribute(device, supported)? != 0)
}

/// What mapped memory is a multiple of, in bytes; `None` where the device has no such memory.
///
/// # Errors
/// Fails when the driver does.
pub(super) fn granularity(device: &Device) -> Result<Option<u64>, DriverError> {
    if !is_supported(device.handle())? {
        return Ok(None);
    }
    let (mut bytes, properties) = (0, properties(device));
    let least = sys::CUmemAllocationGranularity_flags::CU_MEM_ALLOC_GRANULARITY_MINIMUM;
    // SAFETY: both structures are alive and complete.
    unsafe { sys::cuMemGetAllocationGranularity(&raw mut bytes, &raw const properties, least) }.result()?;
    Ok(Some(bytes as u64).filter(|bytes| *bytes > 0))
}

/// What mapped memory is a multiple of, if the driver maps a piece of it now and tells that it did; `None` where a run's memory
/// is to come from the pool. Nothing stays mapped.
pub(super) fn mapped_step(device: &Rc<Device>) -> Option<u64> {
    let step = granularity(device).ok().flatten().filter(|_| cfg!(not(feature = "candle-cuda")))?;
    let mut range = Range::new(device, step, step).ok()?;
    range.map(step).ok()?;
    (range.counted() == step).then_some(step)
}

impl Range {
    /// Addresses for `bytes`, a multiple of the `granularity`, without memory.
    ///
    /// # Errors
    /// Fails when the driver does.
    pub(super) fn new(device: &Rc<Device>, bytes: u64, granularity: u64) -> Result<Self, DriverError> {
        let addresses = Addresses::reserve(bytes)?;
        Ok(Self { device: Rc::clone(device), granularity, top: addresses.start, addresses })
    }

    /// Where the range begins.
    pub(super) fn address(&self) -> Address {
        self.addresses.start
    }

    /// Bytes of memory that it has mapped.
    pub(super) fn mapped(&self) -> u64 {
        self.addresses.mappings.values().sum()
    }

    /// Whether there are addresses for a piece of `bytes`.
    pub(super) fn has_gap(&self, bytes: u64) -> bool {
        self.addresses.gap(bytes).is_some()
    }

    /// Maps a piece of `bytes`, a multiple of the granularity, into the first gap that holds it; where it begins.
    ///
    /// # Errors
    /// `CUDA_ERROR_OUT_OF_MEMORY` where no gap is as large, or the card has no room; others when the driver fails.
    pub(super) fn map(&mut self, bytes: u64) -> Result<Address, DriverError> {
        let at = self.addresses.gap(bytes).ok_or(DriverError(CUresult::CUDA_ERROR_OUT_OF_MEMORY))?;
        let is_ready = self.addresses.map(at, bytes, &self.device)?;
        self.top = self.top.max(at + bytes);
        if is_ready.is_err() {
            // What the driver does not unmap now, it is asked to unmap when the range goes.
            let _ = self.unmap(at);
        }
        is_ready.map(|()| at)
    }

    /// Unmaps the piece that begins at an address. Nothing that is queued uses it.
    ///
    /// # Errors
    /// Fails when the driver does; the piece then stays.
    pub(super) fn unmap(&mut self, at: Address) -> Result<(), DriverError> {
        self.addresses.unmap(at)
    }

    /// Bytes of memory behind the addresses by the driver's account: what it says of one mapping after the other.
    pub(super) fn counted(&self) -> u64 {
        let (mut at, mut counted) = (self.addresses.start, 0);
        while at < self.top {
            let end = end_of_mapping(at).unwrap_or(at);
            counted += end - at;
            at = end.max(at + self.granularity);
        }
        counted
    }

    /// Fills the first `bytes`, all of which are mapped.
    ///
    /// # Errors
    /// Fails when the driver does.
    pub(super) fn fill(&self, bytes: u64, with: u8) -> Result<(), DriverError> {
        self.device.stream().fill(self.address(), bytes, with)
    }
}

impl Drop for Range {
    fn drop(&mut self) {
        // The driver does not wait for work that uses the memory.
        let _ = self.device.finish();
        let mut addresses = std::mem::take(&mut self.addresses);
        if !addresses.give_back() {
            self.device.leave_addresses(addresses);
        }
    }
}

impl Addresses {
    /// The first gap that holds `bytes`.
    fn gap(&self, bytes: u64) -> Option<Address> {
        let mut at = self.start;
        for (start, mapped) in &self.mappings {
            if start - at >= bytes {
                return Some(at);
            }
            at = start + mapped;
        }
        (self.start + self.bytes - at >= bytes).then_some(at)
    }

    /// Has the driver set `bytes` of addresses aside, at a place and with an alignment of its choice.
    fn reserve(bytes: u64) -> Result<Self, DriverError> {
        let mut start = 0;
        // SAFETY: the place of the address is alive.
        unsafe { sys::cuMemAddressReserve(&raw mut start, size(bytes), 0, 0, 0) }.result()?;
        Ok(Self { start, bytes, mappings: BTreeMap::new() })
    }

    /// Maps new memory of a device into a gap that holds `bytes`; whether the device may read and write it, if it is mapped.
    fn map(&mut self, gap: Address, bytes: u64, device: &Device) -> Result<Result<(), DriverError>, DriverError> {
        let (mut memory, properties, length) = (0, properties(device), size(bytes));
        let access = sys::CUmemAccessDesc {
            location: location(device),
            flags: sys::CUmemAccess_flags::CU_MEM_ACCESS_FLAGS_PROT_READWRITE,
        };
        // SAFETY: the structures are alive and complete. The addresses are of this range, nothing is mapped there, and the
        // memory is as large. Its name is not used once it is released; the memory stays as long as it is mapped.
        let is_ready = unsafe {
            sys::cuMemCreate(&raw mut memory, length, &raw const properties, 0).result()?;
            let is_mapped = sys::cuMemMap(gap, length, 0, memory, 0).result();
            let is_released = sys::cuMemRelease(memory).result();
            is_mapped?;
            is_released.and_then(|()| sys::cuMemSetAccess(gap, length, &raw const access, 1).result())
        };
        self.mappings.insert(gap, bytes);
        Ok(is_ready)
    }

    /// Unmaps the mapping that begins at an address, if one does. Nothing that is queued uses it.
    fn unmap(&mut self, at: Address) -> Result<(), DriverError> {
        let Some(bytes) = self.mappings.get(&at) else { return Ok(()) };
        unmapped(at, *bytes)?;
        self.mappings.remove(&at);
        Ok(())
    }

    /// Gives memory and addresses back, and says whether the driver took all of it. Nothing that is queued uses them.
    pub(super) fn give_back(&mut self) -> bool {
        self.mappings.retain(|at, bytes| unmapped(*at, *bytes).is_err());
        // SAFETY: this is the whole range, and nothing is mapped there.
        self.mappings.is_empty() && unsafe { sys::cuMemAddressFree(self.start, size(self.bytes)) }.result().is_ok()
    }
}

/// Unmaps a whole mapping of [`Addresses`].
fn unmapped(at: Address, bytes: u64) -> Result<(), DriverError> {
    // SAFETY: this is a whole mapping, and nothing uses it.
    unsafe { sys::cuMemUnmap(at, size(bytes)) }.result()
}

/// Where the mapping ends that an address belongs to, by the driver; `None` where there is none.
fn end_of_mapping(at: Address) -> Option<Address> {
    let ask = |attribute| {
        let mut value = 0u64;
        // SAFETY: the place is alive, and as wide as the widest of the attributes: an address, and a number of bytes.
        let said = unsafe { sys::cuPointerGetAttribute((&raw mut value).cast(), attribute, at) };
        said.result().ok().map(|()| value)
    };
    ask(Attribute::CU_POINTER_ATTRIBUTE_MAPPED).filter(|is_mapped| *is_mapped != 0)?;
    let start = ask(Attribute::CU_POINTER_ATTRIBUTE_MAPPING_BASE_ADDR)?;
    let end = start.checked_add(ask(Attribute::CU_POINTER_ATTRIBUTE_MAPPING_SIZE)?)?;
    (start <= at && at < end).then_some(end)
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
pub(super) fn size(bytes: u64) -> usize {
    usize::try_from(bytes).unwrap_or(usize::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_piece_goes_into_the_first_gap_that_holds_it() {
        let gap = |mappings: &[(u64, u64)], bytes| {
            Addresses { start: 100, bytes: 50, mappings: mappings.iter().copied().collect() }.gap(bytes)
        };
        assert_eq!((gap(&[], 50), gap(&[], 51)), (Some(100), None));
        assert_eq!((gap(&[(100, 20)], 30), gap(&[(100, 20)], 31)), (Some(120), None));
        let two = [(110, 10), (140, 5)];
        assert_eq!([10, 20, 21].map(|bytes| gap(&two, bytes)), [Some(100), Some(120), None]);
        assert_eq!(gap(&[(100, 45)], 5), Some(145));
    }
}
