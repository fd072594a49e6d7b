//! The description of a convolution for cuDNN: its tensors, its filters, and the stride and padding of its window.

use std::ffi::c_int;

use cudarc::cudnn::{
    CudnnError, result,
    sys::{
        self, cudnnConvolutionDescriptor_t as Convolution, cudnnDataType_t as Type, cudnnFilterDescriptor_t as Filters,
        cudnnMathType_t as Math, cudnnTensorDescriptor_t as Images,
    },
};

use super::failed;
use crate::{
    backend::{
        DType, Window,
        cuda::handle::{Handle, Owned},
    },
    error::{Error, Result},
};

/// Channels are innermost, in images and in filters.
const FORMAT: sys::cudnnTensorFormat_t = sys::cudnnTensorFormat_t::CUDNN_TENSOR_NHWC;

// SAFETY: the library makes a new descriptor. It reads one only during a call.
unsafe impl Handle for Images {
    type Asked<'a> = ();
    type Error = CudnnError;

    const TAKE_BACK: unsafe fn(Self) -> std::result::Result<(), CudnnError> = result::destroy_tensor_descriptor;

    fn make((): ()) -> std::result::Result<Self, CudnnError> {
        result::create_tensor_descriptor()
    }
}

// SAFETY: as above.
unsafe impl Handle for Filters {
    type Asked<'a> = ();
    type Error = CudnnError;

    const TAKE_BACK: unsafe fn(Self) -> std::result::Result<(), CudnnError> = result::destroy_filter_descriptor;

    fn make((): ()) -> std::result::Result<Self, CudnnError> {
        result::create_filter_descriptor()
    }
}

// SAFETY: as above.
unsafe impl Handle for Convolution {
    type Asked<'a> = ();
    type Error = CudnnError;

    const TAKE_BACK: unsafe fn(Self) -> std::result::Result<(), CudnnError> = result::destroy_convolution_descriptor;

    fn make((): ()) -> std::result::Result<Self, CudnnError> {
        result::create_convolution_descriptor()
    }
}

/// A new descriptor, once `set` has said what it describes.
fn described<D>(set: impl FnOnce(D) -> std::result::Result<(), CudnnError>) -> Result<Owned<D>>
where
    D: for<'a> Handle<Asked<'a> = (), Error = CudnnError>,
{
    let descriptor = Owned::<D>::new(());
    let described = descriptor.and_then(|descriptor| set(descriptor.raw()).map(|()| descriptor));
    described.map_err(|error| failed("describing a convolution", error))
}

/// Images of `[batch, channels, height, width]`.
fn images(data: Type, extents: [usize; 4]) -> Result<Owned<Images>> {
    described(|raw| {
        // SAFETY: the descriptor is alive.
        unsafe { result::set_tensor4d_descriptor(raw, FORMAT, data, extents.map(int)) }
    })
}

/// Filters of `[filters, channels, size, size]`.
fn filters(data: Type, extents: [usize; 4]) -> Result<Owned<Filters>> {
    described(|raw| {
        // SAFETY: the descriptor is alive.
        unsafe { result::set_filter4d_descriptor(raw, data, FORMAT, extents.map(int)) }
    })
}

/// A window that moves by its stride, whose products are summed in f32.
fn moving(window: &Window) -> Result<Owned<Convolution>> {
    let (padding, stride) = (int(window.padding), int(window.stride));
    let mode = sys::cudnnConvolutionMode_t::CUDNN_CROSS_CORRELATION;
    described(|raw| {
        // SAFETY: the descriptor is alive.
        unsafe {
            result::set_convolution2d_descriptor(
                raw,
                padding,
                padding,
                stride,
                stride,
                1,
                1,
                mode,
                Type::CUDNN_DATA_FLOAT,
            )
        }
    })
}

/// An extent of tensors that the library can count.
fn int(extent: usize) -> c_int {
    c_int::try_from(extent).unwrap_or(c_int::MAX)
}

fn data_type(dtype: DType) -> Result<Type> {
    match dtype {
        DType::F32 => Ok(Type::CUDNN_DATA_FLOAT),
        DType::Bf16 => Ok(Type::CUDNN_DATA_BFLOAT16),
        DType::F16 => Ok(Type::CUDNN_DATA_HALF),
        DType::F64 | DType::U32 | DType::U8 => {
            Err(Error::Misused(format!("a convolution of {dtype:?} by the library")))
        }
    }
}

/// The descriptors of a convolution.
pub(super) struct Shapes {
    pub(super) x: Owned<Images>,
    pub(super) y: Owned<Images>,
    pub(super) w: Owned<Filters>,
    pub(super) convolution: Owned<Convolution>,
}

impl Shapes {
    /// The descriptors for tensors of `dtype`: f32, bf16 or f16.
    ///
    /// # Errors
    /// Fails when the library does.
    pub(super) fn new(window: &Window, dtype: DType) -> Result<Self> {
        let Window { batch, height, width, channels, size, .. } = *window;
        let data = data_type(dtype)?;
        Ok(Self {
            x: images(data, [batch, channels, height, width])?,
            y: images(data, [batch, window.filters, window.out_height(), window.out_width()])?,
            w: filters(data, [window.filters, channels, size, size])?,
            convolution: moving(window)?,
        })
    }

    /// Chooses the units that multiply.
    ///
    /// # Errors
    /// Fails when the library does.
    pub(super) fn set_math(&self, math: Math) -> Result<()> {
        // SAFETY: the descriptor is alive.
        unsafe { result::set_convolution_math_type(self.convolution.raw(), math) }
            .map_err(|error| failed("choosing how to multiply", error))
    }
}
