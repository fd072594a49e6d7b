//! What runs in place of a library's call that waits to be queued: the library may refuse it then.
//!
//! Owns launches and products as data, which are made for the operands of the call. Always holds: a module is loaded when its
//! kernel is queued and not before, so what never runs takes no memory; whatever the refused call may have written is written
//! again, and where that is added to, the call was refused before it wrote. Refuses what a launch refuses.

use std::{cell::RefCell, ffi::CStr};

use super::{
    device::Device,
    gemm::Product,
    launch::{Grid, Packed},
    module::Source,
    work::{Launch, Work},
};
use crate::{backend::DType, error::Result};

/// A kernel of a module that may not be loaded yet, and its arguments.
pub(super) struct Unloaded {
    pub(super) source: &'static Source,
    pub(super) types: [DType; 2],
    pub(super) name: &'static CStr,
    pub(super) grid: Grid,
    pub(super) args: Packed,
}

impl Unloaded {
    /// The launch, ready to be queued.
    ///
    /// # Errors
    /// The compiler's, or the driver's.
    pub(super) fn load(self, device: &Device) -> Result<Launch> {
        let Self { source, types, name, grid, args } = self;
        let function = device.modules().get(device, source, types)?.function(name)?;
        Ok(Launch { function, name, grid, args })
    }
}

/// A piece of what runs instead.
pub(super) enum Piece {
    /// One of our kernels.
    Launch(Unloaded),
    /// A product by cuBLAS.
    Product(Product),
}

impl From<Unloaded> for Piece {
    fn from(launch: Unloaded) -> Self {
        Self::Launch(launch)
    }
}

impl From<Product> for Piece {
    fn from(product: Product) -> Self {
        Self::Product(product)
    }
}

impl Piece {
    /// The same as work to be queued now.
    ///
    /// # Errors
    /// The compiler's, or the driver's.
    pub(super) fn load(&self, device: &Device) -> Result<Work> {
        Ok(match self {
            Self::Launch(Unloaded { source, types, name, grid, args }) => {
                let args = args.clone();
                Work::Launch(Unloaded { source, types: *types, name, grid: *grid, args }.load(device)?)
            }
            Self::Product(product) => Work::Product(product.clone()),
        })
    }
}

/// Where pieces are put while they are collected, in place of being submitted.
#[derive(Default)]
pub(super) struct Aside(RefCell<Option<Vec<Piece>>>);

impl Aside {
    /// What `submit` would submit.
    ///
    /// # Errors
    /// Those of `submit`.
    pub(super) fn collect(&self, submit: impl FnOnce() -> Result<()>) -> Result<Vec<Piece>> {
        *self.0.borrow_mut() = Some(Vec::new());
        let submitted = submit();
        let pieces = self.0.take().unwrap_or_default();
        submitted.map(|()| pieces)
    }

    /// Takes a piece while they are collected, or hands it back to be submitted.
    pub(super) fn keep<T: Into<Piece>>(&self, piece: T) -> Option<T> {
        match &mut *self.0.borrow_mut() {
            Some(pieces) => {
                pieces.push(piece.into());
                None
            }
            None => Some(piece),
        }
    }
}
