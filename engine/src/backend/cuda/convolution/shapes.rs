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
    backend::{DType, Window},
    error::{Error, Result},
};

/// Channels are innermost, in images and in filters.
const FORMAT: sys::cudnnTensorFormat_t = sys::cudnnTensorFormat_t::CUDNN_TENSOR_NHWC;

/// A descriptor of the library's, which goes back to it when it is dropped.
pub(super) struct Descriptor<D: Copy> {
    pub(super) raw: D,
    destroy: unsafe fn(D) -> std::result::Result<(), CudnnError>,
}

impl<D: Copy> Descriptor<D> {
    /// What `create` made and `destroy` takes back, once `set` has said what it describes.
    fn new(
        created: std::result::Result<D, CudnnError>,
        destroy: unsafe fn(D) -> std::result::Result<(), CudnnError>,
        set: impl FnOnce(D) -> std::result::Result<(), CudnnError>,
    ) -> Result<Self> {
        let describing = |error| failed("describing a convolution", error);
        let descriptor = Self { raw: created.map_err(describing)?, destroy };
        set(descriptor.raw).map_err(describing)?;
        Ok(descriptor)
    }
}

impl<D: Copy> Drop for Descriptor<D> {
    fn drop(&mut self) {
        // SAFETY: nothing else has the descriptor.
        let _ = unsafe { (self.destroy)(self.raw) };
    }
}

/// Images of `[batch, channels, height, width]`.
fn images(data: Type, extents: [usize; 4]) -> Result<Descriptor<Images>> {
    Descriptor::new(result::create_tensor_descriptor(), result::destroy_tensor_descriptor, |raw| {
        // SAFETY: the descriptor is alive.
        unsafe { result::set_tensor4d_descriptor(raw, FORMAT, data, extents.map(int)) }
    })
}

/// Filters of `[filters, channels, size, size]`.
fn filters(data: Type, extents: [usize; 4]) -> Result<Descriptor<Filters>> {
    Descriptor::new(result::create_filter_descriptor(), result::destroy_filter_descriptor, |raw| {
        // SAFETY: the descriptor is alive.
        unsafe { result::set_filter4d_descriptor(raw, data, FORMAT, extents.map(int)) }
    })
}

/// A window that moves by its stride, whose products are summed in f32.
fn moving(window: &Window) -> Result<Descriptor<Convolution>> {
    let (padding, stride) = (int(window.padding), int(window.stride));
    let mode = sys::cudnnConvolutionMode_t::CUDNN_CROSS_CORRELATION;
    Descriptor::new(result::create_convolution_descriptor(), result::destroy_convolution_descriptor, |raw| {
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
    pub(super) x: Descriptor<Images>,
    pub(super) y: Descriptor<Images>,
    pub(super) w: Descriptor<Filters>,
    pub(super) convolution: Descriptor<Convolution>,
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
        unsafe { result::set_convolution_math_type(self.convolution.raw, math) }
            .map_err(|error| failed("choosing how to multiply", error))
    }
}
