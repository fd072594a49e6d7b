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
        let data = data_type(dtype)?;
        Self::described(window, data).map_err(|error| failed("describing a convolution", error))
    }

    /// New descriptors of images, `[batch, channels, height, width]`, of filters, `[filters, channels, size, size]`, and of
    /// a window that moves by its stride, whose products are summed in f32.
    fn described(window: &Window, data: Type) -> std::result::Result<Self, CudnnError> {
        let Window { batch, height, width, channels, size, filters, .. } = *window;
        let [of_x, of_y, of_w] = [
            [batch, channels, height, width],
            [batch, filters, window.out_height(), window.out_width()],
            [filters, channels, size, size],
        ]
        .map(|extents| extents.map(int));
        let (padding, stride) = (int(window.padding), int(window.stride));
        let (mode, sums) = (sys::cudnnConvolutionMode_t::CUDNN_CROSS_CORRELATION, Type::CUDNN_DATA_FLOAT);
        // SAFETY: each descriptor is alive.
        unsafe {
            let x = Owned::<Images>::new(())?;
            result::set_tensor4d_descriptor(x.raw(), FORMAT, data, of_x)?;
            let y = Owned::<Images>::new(())?;
            result::set_tensor4d_descriptor(y.raw(), FORMAT, data, of_y)?;
            let w = Owned::<Filters>::new(())?;
            result::set_filter4d_descriptor(w.raw(), data, FORMAT, of_w)?;
            let moving = Owned::<Convolution>::new(())?;
            result::set_convolution2d_descriptor(moving.raw(), padding, padding, stride, stride, 1, 1, mode, sums)?;
            Ok(Self { x, y, w, convolution: moving })
        }
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
