//! A GPU in use: its context, a stream for kernels, a stream for copies, and the loaded libraries and modules.
//!
//! Always holds: the thread that opened it makes every call; closing a failed GPU frees everything it left behind, so that
//! it can be opened again. Refuses: an index that no GPU has.

use std::{
    cell::{OnceCell, RefCell},
    ffi::c_int,
    rc::Rc,
    sync::atomic::{AtomicUsize, Ordering},
};

use cudarc::driver::{
    DriverError, result,
    sys::{self, CUdevice_attribute},
};

use super::{
    convolution::Dnn,
    epilogue::Epilogues,
    fault::{Left, failed, reason, refused, renew},
    gemm::Blas,
    instead::Aside,
    kept::Kept,
    library,
    memory_pool::Pool,
    module::Modules,
    opened::Opened,
    stream::Queue,
    virtual_memory::{Addresses, granularity, is_supported, mapped_step},
    work::Work,
};
use crate::{
    bytes::Bytes,
    device::{Description, graphs::Captured, profile::PoolProfile},
    error::{Error, Result},
};

/// The smallest piece that a pool hands out: the alignment of its blocks.
const GRANULE: Bytes = Bytes(512);

/// How many are open in this process: the driver has one context for all of one GPU.
static OPEN: AtomicUsize = AtomicUsize::new(0);

/// A GPU, open.
pub struct Device {
    modules: Modules,
    /// Its graphs go before the libraries, of which they keep descriptors.
    kept: Kept,
    blas: OnceCell<Blas>,
    epilogues: Epilogues,
    aside: Aside,
    dnn: OnceCell<Option<Dnn>>,
    /// `None` once it is being closed.
    opened: Option<Opened>,
    handle: sys::CUdevice,
    index: usize,
    name: String,
    capability: (i32, i32),
    multiprocessors: usize,
    total_bytes: u64,
    /// What the driver did not take back.
    left: RefCell<Left>,
}

/// How many GPUs the driver shows.
///
/// # Errors
/// Says what is missing on this machine.
fn count() -> Result<usize> {
    library::look().map_err(Error::Device)?;
    let count = result::device::get_count().map_err(|error| failed("counting GPUs", error))?;
    Ok(usize::try_from(count).unwrap_or(0))
}

/// Describes every GPU here. Opens none, so it takes no memory of a GPU.
///
/// # Errors
/// Says what is missing on this machine.
pub fn describe() -> Result<Vec<Description>, String> {
    let count = count().map_err(reason)?;
    (0..count).map(|index| describe_one(index).map_err(|error| reason(failed("asking for a GPU", error)))).collect()
}

fn describe_one(index: usize) -> Result<Description, DriverError> {
    let handle = result::device::get(index as c_int)?;
    let version = library::driver_version()?;
    let number = |which| attribute(handle, which).map(|n| u32::try_from(n).unwrap_or(0));
    let uuid = result::device::get_uuid(handle)?.bytes.map(|byte| byte as u8);
    let hex = |range: std::ops::Range<usize>| uuid[range].iter().map(|byte| format!("{byte:02x}")).collect::<String>();
    let uuid = format!("{}-{}-{}-{}-{}", hex(0..4), hex(4..6), hex(6..8), hex(8..10), hex(10..16));
    // Clocks are in kHz; memory transfers at both edges of its clock. A driver that no longer reports clocks says 0.
    let khz = |which| number(which).map(|khz| f64::from(khz) * 1e3);
    let bus_bytes = f64::from(number(CUdevice_attribute::CU_DEVICE_ATTRIBUTE_GLOBAL_MEMORY_BUS_WIDTH)?) / 8.0;
    Ok(Description {
        name: result::device::get_name(handle)?,
        uuid,
        capability: (
            number(CUdevice_attribute::CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR)?,
            number(CUdevice_attribute::CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR)?,
        ),
        multiprocessors: number(CUdevice_attribute::CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT)?,
        total_bytes: total_bytes(handle)?,
        clock_hz: khz(CUdevice_attribute::CU_DEVICE_ATTRIBUTE_CLOCK_RATE)?,
        memory_bytes_per_sec: 2.0 * bus_bytes * khz(CUdevice_attribute::CU_DEVICE_ATTRIBUTE_MEMORY_CLOCK_RATE)?,
        driver: format!("{}.{}", version / 1000, version % 1000 / 10),
        maps_memory: is_supported(handle)? && cfg!(not(feature = "candle-cuda")),
    })
}

/// What the driver says of a device, which need not be open.
///
/// # Errors
/// Fails when the driver does.
pub(super) fn attribute(handle: sys::CUdevice, which: CUdevice_attribute) -> Result<i32, DriverError> {
    // SAFETY: the handle is the driver's own.
    unsafe { result::device::get_attribute(handle, which) }
}

fn total_bytes(handle: sys::CUdevice) -> Result<u64, DriverError> {
    // SAFETY: the handle is the driver's own.
    unsafe { result::device::total_mem(handle) }.map(|bytes| bytes as u64)
}

impl Device {
    /// Opens the GPU at `index`: its primary context, two streams.
    ///
    /// # Errors
    /// Says what is missing, and where to get it.
    pub fn open(index: usize) -> Result<Rc<Self>> {
        let count = count()?;
        if index >= count {
            let there = match count {
                0 => "the driver shows none to this process".to_owned(),
                1 => "there is one, cuda:0".to_owned(),
                _ => format!("there are cuda:0 to cuda:{}", count - 1),
            };
            return Err(Error::NoDevice(format!("there is no GPU cuda:{index}; {there}")));
        }
        let opening = |error| refused("the driver's own part", &format!("opening cuda:{index}"), error);
        let handle = result::device::get(index as c_int).map_err(opening)?;
        let attribute = |which| attribute(handle, which).map_err(opening);
        if attribute(CUdevice_attribute::CU_DEVICE_ATTRIBUTE_MEMORY_POOLS_SUPPORTED)? == 0 {
            return Err(Error::NoDevice(format!(
                "cuda:{index} has no memory pools, by which the budget is kept; a virtual GPU may have to be configured for \
                 them"
            )));
        }
        let capability = (
            attribute(CUdevice_attribute::CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR)?,
            attribute(CUdevice_attribute::CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR)?,
        );
        let multiprocessors = attribute(CUdevice_attribute::CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT)?;
        let name = result::device::get_name(handle).map_err(opening)?;
        let total_bytes = total_bytes(handle).map_err(opening)?;
        let opened = Some(Opened::start(index, handle)?);
        OPEN.fetch_add(1, Ordering::Relaxed);
        Ok(Rc::new(Self {
            modules: Modules::new(),
            kept: Kept::default(),
            blas: OnceCell::new(),
            epilogues: Epilogues::default(),
            aside: Aside::default(),
            dnn: OnceCell::new(),
            opened,
            handle,
            index,
            name,
            capability,
            multiprocessors: usize::try_from(multiprocessors).unwrap_or(1),
            total_bytes,
            left: RefCell::default(),
        }))
    }

    /// Keeps a block that the driver did not take back. It is freed with the device.
    pub(super) fn leave_block(&self, block: sys::CUdeviceptr) {
        self.left.borrow_mut().blocks.push(block);
    }

    /// Keeps a pool that the driver did not take back. It is freed with the device.
    pub(super) fn leave_pool(&self, pool: sys::CUmemoryPool) {
        self.left.borrow_mut().pools.push(pool);
    }

    /// Keeps addresses that the driver did not take back. They are freed with the device.
    pub(super) fn leave_addresses(&self, addresses: Addresses) {
        self.left.borrow_mut().addresses.push(addresses);
    }

    /// Starts the libraries, so that they hold their own memory from now on. Returns how a pool of this device
    /// hands out memory: what it says is used for a byte, what it took from the device for that, and what more it takes for
    /// a larger block. The last two are rounded up to what can be mapped. And what mapped memory is a multiple of, if a piece of
    /// it was mapped and told here.
    ///
    /// # Errors
    /// Fails when a library or the driver does.
    pub fn warm_up(self: &Rc<Self>) -> Result<PoolProfile> {
        self.blas()?;
        self.epilogues.start();
        self.dnn()?;
        let pool = Rc::new(Pool::new(self, None)?);
        let byte = pool.allocate(1, None)?;
        let (granule, segment) = (pool.used()?, pool.reserved()?);
        // A little more than a segment tells what the rest is rounded to.
        let more = pool.allocate(segment.0 + 1, None)?;
        let page = pool.reserved()?.saturating_sub(segment + segment);
        drop((byte, more));
        // A driver may count bytes that it hands out in larger pieces.
        let granule = granule.max(GRANULE);
        let page = if page.0 == 0 { segment } else { page };
        // A segment is to be mapped: it is a multiple of the granularity, as those of a pool are.
        let step = granularity(self).ok().flatten().unwrap_or(1);
        let [segment, page] = [segment, page].map(|bytes| Bytes(bytes.0.next_multiple_of(step)));
        Ok(PoolProfile { granule, segment, page, mapped: mapped_step(self).map(Bytes) })
    }

    /// The driver's handle.
    pub(super) fn handle(&self) -> sys::CUdevice {
        self.handle
    }

    /// The number the driver gives it.
    pub fn index(&self) -> usize {
        self.index
    }

    /// The GPU's product name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Compute capability, major and minor.
    pub fn capability(&self) -> (i32, i32) {
        self.capability
    }

    /// The number of multiprocessors.
    pub fn multiprocessors(&self) -> usize {
        self.multiprocessors
    }

    /// The GPU's memory, as the driver shows it.
    pub fn total_bytes(&self) -> u64 {
        self.total_bytes
    }

    /// Free bytes of the card.
    ///
    /// # Errors
    /// Fails when the driver does.
    pub fn free_bytes(&self) -> Result<u64> {
        let (free, _) = result::mem_get_info().map_err(|error| failed("asking for free memory", error))?;
        Ok(free as u64)
    }

    /// Reports to `listener` every module of kernels that is to be compiled from now on, with how many were compiled before it;
    /// without a listener, reports nothing.
    pub fn tell_of_compiling(&self, listener: Option<Box<dyn Fn(usize)>>) {
        self.modules.tell(listener);
    }

    /// The compiled kernels.
    pub(super) fn modules(&self) -> &Modules {
        &self.modules
    }

    /// cuBLAS, started when it is first needed.
    ///
    /// # Errors
    /// Fails when the library does.
    pub(super) fn blas(&self) -> Result<&Blas> {
        if self.blas.get().is_none() {
            let _ = self.blas.set(Blas::new(self)?);
        }
        self.blas.get().ok_or_else(|| Error::Device("cuBLAS did not start".to_owned()))
    }

    /// cuBLASLt, started when it is first needed.
    pub(super) fn epilogues(&self) -> &Epilogues {
        &self.epilogues
    }

    /// Why products of the last run, or some of them, had their bias from kernels of our own, if they were to have it from
    /// cuBLASLt.
    pub fn why_no_epilogue(&self) -> Option<String> {
        self.epilogues.why_not()
    }

    /// cuDNN, where it is here and starts; it is started when it is first needed.
    ///
    /// # Errors
    /// Fails when the card has no room for it, or is lost.
    pub(super) fn dnn(&self) -> Result<Option<&Dnn>> {
        if self.dnn.get().is_none() {
            let _ = self.dnn.set(self.start_dnn()?);
        }
        Ok(self.dnn.get().and_then(Option::as_ref))
    }

    fn start_dnn(&self) -> Result<Option<Dnn>> {
        if library::dnn().is_err() {
            return Ok(None);
        }
        match Dnn::new(self) {
            Ok(dnn) => Ok(Some(dnn)),
            Err(Error::Device(why)) => {
                self.finish()?;
                library::dnn_does_not_start(&why);
                Ok(None)
            }
            Err(error) => Err(error),
        }
    }

    /// Gives the stream of kernels a piece of work, at once or with others of its step.
    ///
    /// # Errors
    /// The driver's or a library's, for this piece or for one before it.
    pub(super) fn submit(&self, work: Work) -> Result<()> {
        self.kept.keep(work)?.map_or(Ok(()), |work| work.queue(self))
    }

    /// Where the work is put that is only to run if a library refuses a call.
    pub(super) fn aside(&self) -> &Aside {
        &self.aside
    }

    /// Work that waits to be queued.
    pub(super) fn kept(&self) -> &Kept {
        &self.kept
    }

    /// Queues the work that waits.
    ///
    /// # Errors
    /// The driver's or a library's, for that work or for work before it.
    pub(super) fn flush(&self) -> Result<()> {
        self.kept.flush(self);
        self.kept.failure()
    }

    /// Ends the graphs of a run.
    pub(super) fn end_graphs(&self) {
        self.kept.flush(self);
        self.kept.end();
    }

    /// What became of the graphs of the last run.
    pub fn captured(&self) -> Captured {
        self.kept.told()
    }

    /// Why the last run launched its work, or some of it, piece by piece, if it was to make graphs.
    pub fn why_not_captured(&self) -> Option<String> {
        self.kept.why_not()
    }

    /// The stream of kernels, with all work that was submitted on it.
    pub(super) fn stream(&self) -> Queue<'_> {
        self.kept.flush(self);
        self.opened().compute()
    }

    /// The stream that copies batches while kernels run.
    pub(super) fn copy_stream(&self) -> Queue<'_> {
        self.opened().copy()
    }

    /// What it holds.
    pub(super) fn opened(&self) -> &Opened {
        self.opened.as_ref().expect("only a drop closes it")
    }

    /// Waits until everything that was queued is done.
    ///
    /// # Errors
    /// The failure of a kernel or a copy that was queued before.
    pub fn finish(&self) -> Result<()> {
        self.kept.flush(self);
        self.opened().finish().map_err(|error| failed("waiting for the GPU", error))
    }
}

impl Drop for Device {
    fn drop(&mut self) {
        let is_lost = self.finish().is_err();
        // What lives in the context is dropped before it. A failure here loses nothing more.
        self.kept.end();
        self.modules.unload();
        drop((self.blas.take(), std::mem::take(&mut self.epilogues), self.dnn.take()));
        drop(self.opened.take());
        let is_last = OPEN.fetch_sub(1, Ordering::Relaxed) == 1;
        if is_lost && is_last {
            renew(self.handle, self.left.take());
        }
    }
}
