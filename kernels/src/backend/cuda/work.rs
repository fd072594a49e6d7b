//! What the stream of kernels is given, as data: launches of our kernels, and calls of the libraries.
//!
//! Owns everything that a piece of work needs to be queued, so that it can be queued later than it was asked for. Always holds:
//! a piece names kernels of loaded modules, which stay loaded as long as the device is open, and memory that is the run's when
//! the stream comes to it. Refuses nothing: operands were checked when the piece was made.

use std::{
    ffi::CStr,
    hash::{Hash, Hasher},
};

use cudarc::driver::{result, sys::CUfunction};

use super::{
    convolution::Run,
    device::Device,
    epilogue,
    fault::refused,
    gemm::Product,
    launch::{Grid, Packed},
};
use crate::{
    device::graphs::LIBRARY_NODES,
    error::{Error, Result},
};

/// A piece of work.
pub(super) enum Work {
    /// One of our kernels.
    Launch(Launch),
    /// A product by cuBLAS.
    Product(Product),
    /// A product with an epilogue by cuBLASLt.
    Epilogue(epilogue::Run),
    /// A convolution by cuDNN.
    Convolution(Run),
}

/// A launch of a kernel.
#[derive(PartialEq)]
pub(super) struct Launch {
    pub(super) function: CUfunction,
    pub(super) name: &'static CStr,
    pub(super) grid: Grid,
    pub(super) args: Packed,
}

impl Work {
    /// Whether the other is the same kernel or call, at any addresses.
    pub(super) fn is_like(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Launch(own), Self::Launch(other)) => own.function == other.function,
            (Self::Product(own), Self::Product(other)) => own.is_like(other),
            (Self::Epilogue(own), Self::Epilogue(other)) => own.is_like(other),
            (Self::Convolution(own), Self::Convolution(other)) => own.is_like(other),
            (Self::Launch(_) | Self::Product(_) | Self::Epilogue(_) | Self::Convolution(_), _) => false,
        }
    }

    /// Whether the other is the same to the last argument.
    pub(super) fn is_same(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Launch(own), Self::Launch(other)) => own == other,
            (Self::Product(own), Self::Product(other)) => own == other,
            (Self::Epilogue(own), Self::Epilogue(other)) => own.is_same(other),
            (Self::Convolution(own), Self::Convolution(other)) => own.is_same(other),
            (Self::Launch(_) | Self::Product(_) | Self::Epilogue(_) | Self::Convolution(_), _) => false,
        }
    }

    /// Hashes what work that is alike has in common.
    pub(super) fn hash_shape(&self, to: &mut impl Hasher) {
        match self {
            Self::Launch(launch) => (0, launch.function.addr()).hash(to),
            Self::Product(product) => (1, product.extents()).hash(to),
            Self::Convolution(run) => (2, run.number()).hash(to),
            Self::Epilogue(run) => (3, run.number()).hash(to),
        }
    }

    /// The nodes of a graph that it is, at the most.
    pub(super) fn nodes(&self) -> u64 {
        match self {
            Self::Launch(_) => 1,
            Self::Product(_) | Self::Epilogue(_) | Self::Convolution(_) => LIBRARY_NODES,
        }
    }

    /// Whether it is a library's call that the library has refused since it was made.
    pub(super) fn is_refused(&self) -> bool {
        matches!(self, Self::Epilogue(run) if run.is_refused())
    }

    /// Tells a library what it has to know before its call.
    ///
    /// # Errors
    /// The library's.
    pub(super) fn prepare(&self, device: &Device) -> Result<()> {
        match self {
            Self::Product(product) => product.prepare(device.blas()?),
            Self::Launch(_) | Self::Epilogue(_) | Self::Convolution(_) => Ok(()),
        }
    }

    /// Queues it.
    ///
    /// # Errors
    /// The driver's or the library's.
    pub(super) fn queue(&self, device: &Device) -> Result<()> {
        self.prepare(device)?;
        match self {
            Self::Launch(launch) => launch.queue(device),
            Self::Product(product) => product.queue(device.blas()?),
            Self::Epilogue(run) => run.queue(device),
            Self::Convolution(run) => match device.dnn()?.map(|dnn| run.queue(dnn)).transpose()? {
                Some(true) => Ok(()),
                _ => Err(Error::Device("cuDNN refuses a convolution that it has run before".to_owned())),
            },
        }
    }
}

impl Launch {
    fn queue(&self, device: &Device) -> Result<()> {
        let [blocks, threads] = self.grid.extents();
        let stream = device.stream().raw();
        // SAFETY: the family that launches gives the kernel's own arguments; extents were checked when the operands were
        // made, and its scratch is as large as its rule says. Module and stream are alive.
        unsafe { result::launch_kernel(self.function, blocks, threads, 0, stream, &mut self.args.places()) }
            .map_err(|error| refused("kernels", &format!("launching {}", self.name.to_string_lossy()), error))
    }
}
