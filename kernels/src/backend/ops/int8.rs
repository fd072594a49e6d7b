//! Products of 8-bit integers for a trained model's dense layers and convolutions, and the rounding that prepares a model
//! for them in training.
//!
//! A weight `[out, taps]` has a scale a row, its largest magnitude over 127; its codes are from -127 to 127, each in a byte as
//! two's complement. An input has a *range* `[low, high]` for the whole tensor, which always includes zero; its codes are from 0
//! to 255, evenly apart over the range, and one of them, the *zero point*, is exactly zero, so that zeros around an image cost
//! nothing (Jacob et al. 2018, "Quantization and training of neural networks for efficient integer-arithmetic-only inference";
//! a scale a row by Krishnamoorthi 2018). Instructions that multiply four bytes by four at once take an unsigned and a signed
//! operand, which is why the two differ. Sums are integers of 32 bits, so every device and every instruction set comes to the
//! same ones; [`Int8::MOST_TAPS`] says how long they may be. Codes are computed in f32 for any types of tensors.
//!
//! Training rounds numbers as codes would and goes on with the result ("fake" quantisation). Rounding has no slope; the
//! straight-through estimator (Bengio et al. 2013) takes that of the identity, inside the range alone.

use super::{Contract, OperandBytes, Window, products};
use crate::{
    backend::{Backend, DType, Executor, Tensor, scratch::int8},
    device::Processor,
    error::Result,
    memory::Category,
};

/// How a range follows the inputs that it is shown.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Follow {
    /// The range grows to include everything.
    Widest,
    /// The range grows at once to include everything, and where a tensor's range is narrower it moves by this share towards
    /// that.
    Narrowing(f64),
}

/// Kernels of 8-bit integers.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Int8 {
    /// in: `w [rows, columns]`; out: codes (u8, two's complement), a scale a row (f32), the sum of a row's codes (u32, two's
    /// complement).
    Encode,
    /// in: `x`; out: `range [2]` (f32), updated. A range of zeros has not seen a tensor. NaN is skipped.
    Observe(Follow),
    /// in: `x`, `range`; out: codes (u8).
    Code,
    /// in: codes of `x [batch, height, width, channels]`, `range`, codes of `w [filters, size, size, channels]`, their scales and
    /// sums, and, when given, `bias [filters]`; out: `y [batch, oh, ow, filters]`. A dense layer is a window of one pixel.
    Product(Window),
    /// in: `w [rows, columns]`; out: the values of its codes.
    FakeWeight {
        /// Elements of a row.
        columns: usize,
    },
    /// in: `x`, `range`; out: the values of its codes; `x` itself if the range has seen nothing. NaN stays NaN.
    Fake,
    /// in: `x`, `range`; out: `dx`, updated: zero where the code of `x` is an end of the range because there is none beyond it,
    /// in a range that has seen something.
    FakeGrad,
}

impl Int8 {
    /// The most terms of a sum of products of codes that an integer of 32 bits holds.
    pub const MOST_TAPS: usize = i32::MAX as usize / (255 * 127);
}

impl Contract for Int8 {
    fn name(&self) -> &'static str {
        match self {
            Self::Encode => "encode weight",
            Self::Observe(_) => "observe range",
            Self::Code => "encode input",
            Self::Product(_) => "int8 product",
            Self::FakeWeight { .. } => "round weight",
            Self::Fake => "round input",
            Self::FakeGrad => "round input gradient",
        }
    }

    fn takes(&self, inputs: &[usize], outputs: &[usize]) -> bool {
        match (self, inputs, outputs) {
            (Self::Encode, [all], [codes, scales, sums]) => {
                let holds = codes == all && scales == sums && *scales > 0 && all.is_multiple_of(*scales);
                holds && all / scales <= Self::MOST_TAPS
            }
            (Self::Observe(_), [_], [2]) => true,
            (Self::Code | Self::Fake | Self::FakeGrad, [x, 2], [y]) => x == y,
            (Self::Product(w), [x, 2, weight, scales, sums, bias @ ..], [y]) => {
                let holds = w.is_valid() && w.taps() <= Self::MOST_TAPS && bias.iter().all(|bias| *bias == w.filters);
                let sizes = [w.elements(), w.filters * w.taps(), w.filters, w.filters, w.out_elements()];
                holds && bias.len() <= 1 && [*x, *weight, *scales, *sums, *y] == sizes
            }
            (Self::FakeWeight { columns }, [w], [y]) => w == y && *columns > 0 && w.is_multiple_of(*columns),
            (
                Self::Encode
                | Self::Observe(_)
                | Self::Code
                | Self::Product(_)
                | Self::FakeWeight { .. }
                | Self::Fake
                | Self::FakeGrad,
                _,
                _,
            ) => false,
        }
    }

    fn flops(&self) -> u64 {
        match self {
            Self::Product(w) => products(w.out_pixels(), w.filters, w.taps()),
            Self::Encode | Self::Observe(_) | Self::Code | Self::FakeWeight { .. } | Self::Fake | Self::FakeGrad => 0,
        }
    }

    fn traffic_bytes(&self, operands: &OperandBytes) -> u64 {
        operands.all()
    }

    fn cpu_scratch_bytes(&self, _dtype: DType, processor: Processor) -> usize {
        match self {
            Self::Product(w) => int8::product(w, processor.threads),
            Self::Encode | Self::Observe(_) | Self::Code | Self::FakeWeight { .. } | Self::Fake | Self::FakeGrad => 0,
        }
    }

    fn cuda_scratch_bytes(&self, _dtype: DType) -> usize {
        match self {
            // The range of each block of threads.
            Self::Observe(_) => int8::CUDA_RANGES * 2 * size_of::<f32>(),
            Self::Encode | Self::Code | Self::Product(_) | Self::FakeWeight { .. } | Self::Fake | Self::FakeGrad => 0,
        }
    }
}

/// A weight of codes: see [`Int8::Encode`].
pub struct Int8Weight<B: Backend> {
    codes: Tensor<B>,
    scales: Tensor<B>, // [out]
    sums: Tensor<B>,   // [out]
}

impl<B: Backend> Int8Weight<B> {
    /// Bytes of its tensors.
    pub fn bytes(&self) -> u64 {
        self.codes.bytes() + self.scales.bytes() + self.sums.bytes()
    }
}

impl<B: Backend> Executor<B> {
    /// The codes of `w [out, ..]`.
    ///
    /// # Errors
    /// Fails on shapes that do not fit, past the budget ([`Error::Budget`](crate::Error::Budget)) and when the device fails.
    pub fn int8_weight(&self, w: &Tensor<B>) -> Result<Int8Weight<B>> {
        self.ledger().set_op(Int8::Encode.name());
        let rows = w.shape().first();
        let make = |shape: [usize; 1], dtype, label| self.allocate(shape, dtype, Category::Parameters, label);
        let codes = make([w.elements()], DType::U8, "weight codes")?;
        let scales = make([rows], DType::F32, "weight scales")?;
        let sums = make([rows], DType::U32, "sums of weight codes")?;
        self.launch(Int8::Encode, &[w], &[&codes, &scales, &sums])?;
        Ok(Int8Weight { codes, scales, sums })
    }

    /// Shows `x` to a range: see [`Int8::Observe`].
    ///
    /// # Errors
    /// Fails on shapes that do not fit, past the budget ([`Error::Budget`](crate::Error::Budget)) and when the device fails.
    pub fn observe(&self, x: &Tensor<B>, range: &Tensor<B>, follow: Follow) -> Result<()> {
        self.launch(Int8::Observe(follow), &[x], &[range])
    }

    /// `x [rows, in] w^T + bias` by codes: `[rows, out]`.
    ///
    /// # Errors
    /// Fails on shapes that do not fit, past the budget ([`Error::Budget`](crate::Error::Budget)) and when the device fails.
    pub fn int8_linear(
        &self,
        x: &Tensor<B>,
        range: &Tensor<B>,
        w: &Int8Weight<B>,
        bias: Option<&Tensor<B>>,
    ) -> Result<Tensor<B>> {
        let (rows, inner, out) = (x.shape().rows(), x.shape().last(), w.scales.elements());
        let pixel =
            Window { batch: rows, height: 1, width: 1, channels: inner, filters: out, size: 1, stride: 1, padding: 0 };
        let y = self.int8_conv2d(x, range, w, bias, pixel)?;
        Ok(y.reshape([rows, out]))
    }

    /// Convolution of `x [batch, height, width, channels]` by codes, with `bias`.
    ///
    /// # Errors
    /// Fails on shapes that do not fit, past the budget ([`Error::Budget`](crate::Error::Budget)) and when the device fails.
    pub fn int8_conv2d(
        &self,
        x: &Tensor<B>,
        range: &Tensor<B>,
        w: &Int8Weight<B>,
        bias: Option<&Tensor<B>>,
        window: Window,
    ) -> Result<Tensor<B>> {
        let kernel = Int8::Product(window);
        self.expect(kernel.name(), x.elements() == window.elements(), || format!("{x:?} for {window:?}"))?;
        self.ledger().set_op(Int8::Code.name());
        let codes = self.allocate(x.shape(), DType::U8, Category::Activations, "input codes")?;
        self.launch(Int8::Code, &[x, range], &[&codes])?;
        let y = self.output(window.out_image(), x.dtype(), kernel.name())?;
        let inputs: Vec<&Tensor<B>> = [&codes, range, &w.codes, &w.scales, &w.sums].into_iter().chain(bias).collect();
        self.launch(kernel, &inputs, &[&y])?;
        Ok(y)
    }

    /// The values of the codes of `w [out, ..]`.
    ///
    /// # Errors
    /// Fails on shapes that do not fit, past the budget ([`Error::Budget`](crate::Error::Budget)) and when the device fails.
    pub fn fake_weight(&self, w: &Tensor<B>) -> Result<Tensor<B>> {
        let kernel = Int8::FakeWeight { columns: w.elements() / w.shape().first().max(1) };
        self.ledger().set_op(kernel.name());
        let y = self.allocate(w.shape(), w.dtype(), Category::Activations, "rounded weight")?;
        self.launch(kernel, &[w], &[&y])?;
        Ok(y)
    }

    /// The values of the codes of `x`.
    ///
    /// # Errors
    /// Fails on shapes that do not fit, past the budget ([`Error::Budget`](crate::Error::Budget)) and when the device fails.
    pub fn fake_input(&self, x: &Tensor<B>, range: &Tensor<B>) -> Result<Tensor<B>> {
        self.ledger().set_op(Int8::Fake.name());
        let y = self.allocate(x.shape(), x.dtype(), Category::Activations, "rounded input")?;
        self.launch(Int8::Fake, &[x, range], &[&y])?;
        Ok(y)
    }

    /// Turns the gradient by the values of the codes of `x` into the gradient by `x`, in place.
    ///
    /// # Errors
    /// Fails on shapes that do not fit, past the budget ([`Error::Budget`](crate::Error::Budget)) and when the device fails.
    pub fn fake_input_grad(&self, x: &Tensor<B>, range: &Tensor<B>, dx: &Tensor<B>) -> Result<()> {
        self.launch(Int8::FakeGrad, &[x, range], &[dx])
    }
}
