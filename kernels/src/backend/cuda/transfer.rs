//! Copies between host and device.
//!
//! Data for the device are written to page-locked memory and copied on a stream of their own, while kernels run; the stream of
//! kernels waits before the first use. Data for the host go to such memory too, and the host reads them when they are there.
//! Large tensors pass part by part. Always holds: a piece of page-locked memory is written again only when the copy out of it
//! is done. The pieces are host memory, outside the budget.

use std::{cell::RefCell, rc::Rc};

use cudarc::driver::result;

use super::{
    device::Device,
    fault::failed,
    launch::Pointer,
    memory_pool::Block,
    stream::{Event, Queue},
};
use crate::error::Result;

/// Pieces that may wait for their copies before the host does.
const PIECES: usize = 4;

/// Bytes of a tensor that is copied part by part. Two parts are under way at once.
const PART: usize = 4 << 20;

/// The page-locked memory of one device.
pub(super) struct Staging {
    device: Rc<Device>,
    pieces: RefCell<Vec<Piece>>,
    /// Pieces that parcels have returned.
    returned: Rc<RefCell<Vec<Piece>>>,
}

/// Some page-locked memory, and the copy out of it.
struct Piece {
    /// Page-locked, the driver's until it is given back.
    bytes: &'static mut [u8],
    copy: Option<Event>,
}

/// Which way bytes are copied, and the place on the device.
enum Way {
    ToDevice(Pointer),
    ToHost(Pointer),
}

impl Staging {
    /// No copies yet.
    pub(super) fn new(device: &Rc<Device>) -> Self {
        Self { device: Rc::clone(device), pieces: RefCell::default(), returned: Rc::default() }
    }

    /// Copies `bytes` that `fill` writes to `to`, a place in `block`. Does not wait for the copy.
    ///
    /// # Errors
    /// Fails when the driver does.
    pub(super) fn send(&self, bytes: usize, fill: impl FnOnce(&mut [u8]), to: Pointer, block: &Block) -> Result<()> {
        if bytes == 0 {
            return Ok(());
        }
        self.device.flush()?;
        let mut piece = self.piece(bytes)?;
        fill(&mut piece.bytes[..bytes]);
        // The place is this block's from where the kernels' stream stands now.
        Event::record(self.device.stream())?.hold_back(self.device.copy_stream())?;
        piece.start(Way::ToDevice(to), bytes, self.device.copy_stream())?;
        block.fills_until(Event::record(self.device.copy_stream())?);
        self.pieces.borrow_mut().push(piece);
        Ok(())
    }

    /// Starts to copy `bytes` from the device, behind the kernels that were queued.
    ///
    /// # Errors
    /// Fails when the driver does.
    pub(super) fn fetch(&self, from: Pointer, bytes: usize) -> Result<Parcel> {
        self.fetch_with_room(from, bytes, bytes.max(1))
    }

    /// Copies `bytes` from the device, behind the kernels that were queued, and hands them to `take` part by part. The next
    /// part is copied while one is taken.
    ///
    /// # Errors
    /// Fails when the driver or a kernel does, and with the errors of `take`.
    pub(super) fn fetch_in_parts(
        &self,
        from: Pointer,
        bytes: usize,
        take: &mut dyn FnMut(&[u8]) -> Result<()>,
    ) -> Result<()> {
        // Every part has the room of the largest, so that two pieces serve all tensors.
        let parcel = |at: usize| self.fetch_with_room(Pointer(from.0 + at as u64), PART.min(bytes - at), PART);
        let mut parts = (0..bytes).step_by(PART);
        let mut ahead = parts.next().map(parcel).transpose()?;
        while let Some(part) = ahead.take() {
            ahead = parts.next().map(parcel).transpose()?;
            part.open(&mut *take)??;
        }
        Ok(())
    }

    /// Copies `bytes` that `fill` writes part by part to `to`, a place in `block`.
    ///
    /// # Errors
    /// Fails when the driver does, and with the errors of `fill`.
    pub(super) fn send_in_parts(
        &self,
        bytes: usize,
        fill: &mut dyn FnMut(&mut [u8]) -> Result<()>,
        to: Pointer,
        block: &Block,
    ) -> Result<()> {
        for at in (0..bytes).step_by(PART) {
            let mut filled = Ok(());
            let to = Pointer(to.0 + at as u64);
            self.send(PART.min(bytes - at), |part| filled = fill(part), to, block)?;
            filled?;
        }
        Ok(())
    }

    /// Starts to copy `bytes` from the device to a piece of at least `room`.
    fn fetch_with_room(&self, from: Pointer, bytes: usize, room: usize) -> Result<Parcel> {
        self.device.flush()?;
        let at = self.returned.borrow().iter().position(|piece| piece.bytes.len() >= room);
        let mut piece = match at {
            Some(at) => self.returned.borrow_mut().swap_remove(at),
            None => Piece::new(room)?,
        };
        piece.start(Way::ToHost(from), bytes, self.device.stream())?;
        Ok(Parcel { piece: Some(piece), bytes, returned: Rc::clone(&self.returned) })
    }

    /// A piece with room for `bytes` whose copy is done.
    fn piece(&self, bytes: usize) -> Result<Piece> {
        let mut pieces = self.pieces.borrow_mut();
        let is_done = |piece: &Piece| piece.copy.as_ref().is_none_or(Event::is_done);
        if let Some(at) = pieces.iter().position(|piece| piece.bytes.len() >= bytes && is_done(piece)) {
            return Ok(pieces.remove(at));
        }
        if pieces.len() >= PIECES {
            // The oldest: if it is too short, a longer one takes its place.
            let oldest = pieces.remove(0);
            if let Some(copy) = &oldest.copy {
                copy.wait()?;
            }
            if oldest.bytes.len() >= bytes {
                return Ok(oldest);
            }
        }
        Piece::new(bytes.next_power_of_two())
    }
}

/// Bytes on their way from the device.
pub(super) struct Parcel {
    piece: Option<Piece>,
    bytes: usize,
    returned: Rc<RefCell<Vec<Piece>>>,
}

impl Parcel {
    /// Whether they are here.
    pub(super) fn is_ready(&self) -> bool {
        self.copy().is_none_or(Event::is_done)
    }

    /// Waits for them and reads them.
    ///
    /// # Errors
    /// The failure of a kernel that was launched before.
    pub(super) fn open<T>(&self, read: impl FnOnce(&[u8]) -> T) -> Result<T> {
        self.copy().map_or(Ok(()), Event::wait)?;
        Ok(read(self.piece.as_ref().map_or(&[], |piece| &piece.bytes[..self.bytes])))
    }

    fn copy(&self) -> Option<&Event> {
        self.piece.as_ref().and_then(|piece| piece.copy.as_ref())
    }
}

impl Drop for Parcel {
    fn drop(&mut self) {
        // The next parcel comes in the same piece.
        if let Some(piece) = self.piece.take()
            && piece.copy.as_ref().is_none_or(|copy| copy.wait().is_ok())
        {
            self.returned.borrow_mut().push(piece);
        }
    }
}

impl Piece {
    fn new(bytes: usize) -> Result<Self> {
        // SAFETY: the memory is as long as it was asked for, zeroed before it is a slice, and given back by the same driver
        // when the piece is dropped.
        let bytes = unsafe {
            let start = result::malloc_host(bytes, 0)
                .map_err(|error| failed("asking for page-locked host memory", error))?
                .cast::<u8>();
            start.write_bytes(0, bytes);
            std::slice::from_raw_parts_mut(start, bytes)
        };
        Ok(Self { bytes, copy: None })
    }

    /// Starts to copy its first `bytes` to a place of the device that is as long, or from there.
    fn start(&mut self, way: Way, bytes: usize, queue: Queue<'_>) -> Result<()> {
        let (part, stream) = (&mut self.bytes[..bytes], queue.raw());
        // SAFETY: the stream is alive, and the place is as long. The piece keeps its bytes until the copy is done, and they
        // are written and read again only then.
        unsafe {
            match way {
                Way::ToDevice(to) => {
                    result::memcpy_htod_async(to.0, part, stream).map_err(|error| failed("copying to the GPU", error))
                }
                Way::ToHost(from) => result::memcpy_dtoh_async(part, from.0, stream)
                    .map_err(|error| failed("copying from the GPU", error)),
            }
        }?;
        self.copy = Some(Event::record(queue)?);
        Ok(())
    }
}

impl Drop for Piece {
    fn drop(&mut self) {
        if let Some(copy) = &self.copy {
            let _ = copy.wait();
        }
        // SAFETY: the memory came from the driver, and no copy out of it is under way.
        let _ = unsafe { result::free_host(self.bytes.as_mut_ptr().cast()) };
    }
}
