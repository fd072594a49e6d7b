//! What an open GPU holds of the driver: its context, a stream for kernels and a stream for copies.
//!
//! In a build with candle's CUDA device the stream of kernels is candle's (`candle.rs`); in any other it is our own. Always
//! holds: the context is current on the thread that opened the GPU, and ends after both streams. Refuses what the driver
//! refuses.

use cudarc::driver::{DriverError, result, sys};

#[cfg(feature = "candle-cuda")]
use super::candle::Candle as Kernels;
#[cfg(not(feature = "candle-cuda"))]
use super::stream::Stream as Kernels;
use super::{
    fault::refused,
    handle::{Handle, Owned},
    stream::{Queue, Stream},
};
use crate::error::Result;

/// What an open GPU holds, dropped in this order.
pub(super) struct Opened {
    kernels: Kernels,
    copies: Stream,
    _context: Context,
}

impl Opened {
    /// Enters the context of the GPU at `index`, whose handle it is, and makes two streams.
    ///
    /// # Errors
    /// The card has no room for it, or the driver fails.
    pub(super) fn start(index: usize, handle: sys::CUdevice) -> Result<Self> {
        let opening = |error| refused("the driver's own part", &format!("opening cuda:{index}"), error);
        let context = Context::enter(handle).map_err(opening)?;
        #[cfg(feature = "candle-cuda")]
        let kernels = Kernels::open(index)?;
        #[cfg(not(feature = "candle-cuda"))]
        let kernels = Kernels::new().map_err(opening)?;
        Ok(Self { kernels, copies: Stream::new().map_err(opening)?, _context: context })
    }

    /// What the stream of kernels belongs to.
    #[cfg(feature = "candle-cuda")]
    pub(super) fn candle(&self) -> &Kernels {
        &self.kernels
    }

    /// The stream of kernels.
    pub(super) fn compute(&self) -> Queue<'_> {
        self.kernels.queue()
    }

    /// The stream of copies.
    pub(super) fn copy(&self) -> Queue<'_> {
        self.copies.queue()
    }

    /// Waits until everything that was queued on both is done.
    ///
    /// # Errors
    /// The failure of what was queued.
    pub(super) fn finish(&self) -> Result<(), DriverError> {
        self.copy().finish().and_then(|()| self.compute().finish())
    }
}

// SAFETY: the driver retains the primary context once more for each, and ends it when the last one is released.
unsafe impl Handle for sys::CUdevice {
    /// The device.
    type Asked<'a> = Self;
    type Error = DriverError;

    const TAKE_BACK: unsafe fn(Self) -> Result<(), DriverError> = result::primary_ctx::release;

    fn make(device: Self) -> Result<Self, DriverError> {
        // SAFETY: the device is the driver's own. Its context is retained, and made current on the one thread that uses it;
        // it is released where that fails.
        unsafe {
            let context = result::primary_ctx::retain(device)?;
            result::ctx::set_current(context).inspect_err(|_| _ = result::primary_ctx::release(device))?;
        }
        Ok(device)
    }
}

/// A GPU's context, retained once.
pub(super) struct Context {
    _retained: Owned<sys::CUdevice>,
}

impl Context {
    /// Retains it and makes it current on this thread.
    ///
    /// # Errors
    /// Fails when the driver does.
    pub(super) fn enter(device: sys::CUdevice) -> Result<Self, DriverError> {
        Owned::new(device).map(|_retained| Self { _retained })
    }
}
