//! A memory pool of the driver's.
//!
//! Owns the pool, and makes every call about it. Always holds: what is free stays in the pool until it is asked back; a pool
//! that the driver does not take back is kept for when the device is closed. The driver has no call that changes the most that
//! a pool may hold, so another pool takes its place for that, as long as it never held anything. Marks are read by one call as long
//! as nothing but this program's own blocks was in the pool since they were set back. Refuses what the driver refuses.

use std::{cell::Cell, ptr, rc::Rc};

use cudarc::driver::{
    DriverError,
    result::{self, mem_pool},
    sys::{self, CUmemPool_attribute as Attribute},
};

use super::{arena::Address, device::Device, virtual_memory::size};

/// A pool of a device's memory.
pub(super) struct DriverPool {
    device: Rc<Device>,
    handle: Cell<sys::CUmemoryPool>,
    marks: Cell<Marks>,
}

/// What is known of the marks of used and reserved bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Marks {
    /// Nothing: what is there may have become less since they were set back.
    Unknown,
    /// They were set back to what is there, and no call was made since that changes it.
    SetBack,
    /// The same, and that was the bytes of this program's blocks in so many reserved bytes. Whatever a library takes raises the
    /// mark of used bytes above the bytes of these blocks, so without that both marks are still what is there.
    Steady(u64),
}

/// The most bytes since the marks were set back.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Highest {
    pub(super) used: u64,
    pub(super) reserved: u64,
}

impl DriverPool {
    /// A pool that the driver lets grow to `most` bytes; to the size of the card where that is 0.
    ///
    /// # Errors
    /// Fails when the driver does.
    pub(super) fn new(device: &Rc<Device>, most: u64) -> Result<Self, DriverError> {
        let properties = sys::CUmemPoolProps {
            allocType: sys::CUmemAllocationType::CU_MEM_ALLOCATION_TYPE_PINNED,
            handleTypes: sys::CUmemAllocationHandleType::CU_MEM_HANDLE_TYPE_NONE,
            location: sys::CUmemLocation {
                type_: sys::CUmemLocationType::CU_MEM_LOCATION_TYPE_DEVICE,
                id: device.handle(),
            },
            win32SecurityAttributes: ptr::null_mut(),
            maxSize: size(most),
            usage: 0,
            reserved: [0; 54],
        };
        // SAFETY: the structure is alive and complete.
        let handle = unsafe { mem_pool::create(&properties) }?;
        let pool = Self { device: Rc::clone(device), handle: Cell::new(handle), marks: Cell::new(Marks::Unknown) };
        pool.set(Attribute::CU_MEMPOOL_ATTR_RELEASE_THRESHOLD, u64::MAX)?;
        Ok(pool)
    }

    /// The device.
    pub(super) fn device(&self) -> &Rc<Device> {
        &self.device
    }

    /// Makes it the device's: what a library takes for itself is in it as well. When the pool goes, the device's own follows it.
    ///
    /// # Errors
    /// Fails when the driver does.
    pub(super) fn is_device_s(&self) -> Result<(), DriverError> {
        self.ask(Ask::Serve)
    }

    /// Lets it hold `most` bytes from here on, if it never held anything. It is the device's afterwards.
    ///
    /// # Errors
    /// Fails when the driver does; the pool then is as it was.
    pub(super) fn bound(&self, most: u64) -> Result<(), DriverError> {
        if self.get(Attribute::CU_MEMPOOL_ATTR_RESERVED_MEM_HIGH)? > 0 {
            return Ok(());
        }
        let other = Self::new(&self.device, most)?;
        other.is_device_s()?;
        // The one that was here goes.
        self.handle.swap(&other.handle);
        self.marks.set(Marks::Unknown);
        Ok(())
    }

    /// Takes a block, which what is queued from now on may use.
    ///
    /// # Errors
    /// The pool's limit, or a card without room.
    pub(super) fn take(&self, bytes: u64) -> Result<Address, DriverError> {
        self.marks.set(Marks::Unknown);
        // SAFETY: pool and stream are alive.
        unsafe { mem_pool::alloc_async(self.handle.get(), size(bytes), self.device.stream().raw()) }
    }

    /// Gives a block of this pool back, once what was queued is done. It is not used after.
    ///
    /// # Errors
    /// Fails when the driver does.
    pub(super) fn give(&self, block: Address) -> Result<(), DriverError> {
        self.marks.set(Marks::Unknown);
        // SAFETY: the address came from this pool, and nothing uses it after what is queued.
        unsafe { result::free_async(block, self.device.stream().raw()) }
    }

    /// Fills `bytes` from an address in a block of this pool on, which ends no earlier.
    ///
    /// # Errors
    /// Fails when the driver does.
    pub(super) fn fill(&self, from: Address, bytes: u64, with: u8) -> Result<(), DriverError> {
        self.device.stream().fill(from, bytes, with)
    }

    /// Gives the device back what is in no block.
    ///
    /// # Errors
    /// Fails when the driver does.
    pub(super) fn trim(&self) -> Result<(), DriverError> {
        self.marks.set(Marks::Unknown);
        self.ask(Ask::Trim)
    }

    /// What the driver counts.
    ///
    /// # Errors
    /// Fails when the driver does.
    pub(super) fn get(&self, attribute: Attribute) -> Result<u64, DriverError> {
        let mut value = 0;
        self.ask(Ask::Get(attribute, &mut value))?;
        Ok(value)
    }

    /// The marks of a pool in which this program's blocks have `own` bytes.
    ///
    /// # Errors
    /// Fails when the driver does.
    pub(super) fn highest(&self, own: u64) -> Result<Highest, DriverError> {
        let used = self.get(Attribute::CU_MEMPOOL_ATTR_USED_MEM_HIGH)?;
        if let Marks::Steady(reserved) = self.marks.get()
            && used == own
        {
            return Ok(Highest { used, reserved });
        }
        let reserved = self.get(Attribute::CU_MEMPOOL_ATTR_RESERVED_MEM_HIGH)?;
        let is_steady = self.marks.get() == Marks::SetBack && used == own;
        self.marks.set(if is_steady { Marks::Steady(reserved) } else { Marks::Unknown });
        Ok(Highest { used, reserved })
    }

    /// Whether the marks are what is there, as far as [`DriverPool::highest`] has seen.
    pub(super) fn is_steady(&self) -> bool {
        matches!(self.marks.get(), Marks::Steady(_))
    }

    /// Sets both marks back to what is there. Those that are steady are there already.
    ///
    /// # Errors
    /// Fails when the driver does.
    pub(super) fn set_back(&self) -> Result<(), DriverError> {
        if self.is_steady() {
            return Ok(());
        }
        self.set_used_back()?;
        self.set(Attribute::CU_MEMPOOL_ATTR_RESERVED_MEM_HIGH, 0)?;
        self.marks.set(Marks::SetBack);
        Ok(())
    }

    /// Sets the mark of used bytes back to what is there, unless it is steady.
    ///
    /// # Errors
    /// Fails when the driver does.
    pub(super) fn set_used_back(&self) -> Result<(), DriverError> {
        if self.is_steady() { Ok(()) } else { self.set(Attribute::CU_MEMPOOL_ATTR_USED_MEM_HIGH, 0) }
    }

    /// Sets a mark or a threshold.
    ///
    /// # Errors
    /// Fails when the driver does.
    fn set(&self, attribute: Attribute, value: u64) -> Result<(), DriverError> {
        self.ask(Ask::Set(attribute, value))
    }

    fn ask(&self, ask: Ask<'_>) -> Result<(), DriverError> {
        let pool = self.handle.get();
        // SAFETY: device and pool are alive, and a place is as wide as the attribute: 64 bits at the most.
        unsafe {
            match ask {
                Ask::Serve => result::device::set_mem_pool(self.device.handle(), pool),
                Ask::Trim => mem_pool::trim_to(pool, 0),
                Ask::Get(attribute, value) => mem_pool::get_attribute(pool, attribute, ptr::from_mut(value).cast()),
                Ask::Set(attribute, mut value) => mem_pool::set_attribute(pool, attribute, (&raw mut value).cast()),
            }
        }
    }
}

/// What a pool is asked for.
enum Ask<'a> {
    /// To be its device's.
    Serve,
    /// To give back what is in no block.
    Trim,
    Get(Attribute, &'a mut u64),
    Set(Attribute, u64),
}

impl Drop for DriverPool {
    fn drop(&mut self) {
        // SAFETY: nothing else has the pool.
        if unsafe { mem_pool::destroy(self.handle.get()) }.is_err() {
            self.device.leave_pool(self.handle.get());
        }
    }
}
