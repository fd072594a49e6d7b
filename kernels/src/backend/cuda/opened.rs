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

/// A GPU's context, retained once.
pub(super) struct Context(sys::CUdevice);

impl Context {
    /// Retains it and makes it current on this thread.
    ///
    /// # Errors
    /// Fails when the driver does.
    pub(super) fn enter(handle: sys::CUdevice) -> Result<Self, DriverError> {
        // SAFETY: the handle is the driver's own; the context is retained until this is dropped, and made current on the one
        // thread that uses it.
        unsafe {
            let raw = result::primary_ctx::retain(handle)?;
            let context = Self(handle);
            result::ctx::set_current(raw)?;
            Ok(context)
        }
    }
}

impl Drop for Context {
    fn drop(&mut self) {
        // SAFETY: the context was retained once.
        let _ = unsafe { result::primary_ctx::release(self.0) };
    }
}
