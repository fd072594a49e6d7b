//! Convolutions: by cuDNN, where it is here and has an algorithm within the workspace; by cuBLAS where the window is one
//! pixel; else by cuBLAS and patches in the workspace, or by kernels of our own.
//!
//! Holds: an algorithm is asked for once for each convolution, and the same one runs ever after, so that a run repeats. One
//! whose sums have no fixed order is taken only when the experiment allows it.

use std::{
    cell::RefCell,
    collections::HashMap,
    ffi::{c_int, c_void},
    rc::Rc,
};

use cudarc::cudnn::{
    CudnnError,
    result::{self},
    sys::{
        self, cudnnConvolutionBwdDataAlgo_t as DataAlgo, cudnnConvolutionBwdFilterAlgo_t as FilterAlgo,
        cudnnConvolutionFwdAlgo_t as ForwardAlgo, cudnnDataType_t as Type, cudnnMathType_t as Math,
    },
};

use super::{Options, device::Device, direct_convolution, gemm, operands::Operands, patches};
use crate::{
    backend::{DType, Kernel, Window, kernel::MatMul},
    error::{Error, Result},
};

/// The three convolutions of a layer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum Which {
    Forward,
    InputGradient,
    WeightGradient,
}

/// Launches a convolution or one of its gradients.
pub(super) fn launch(kernel: &Kernel, o: &Operands<'_>) -> Result<()> {
    let (which, window, accumulate) = match *kernel {
        Kernel::Conv2d(window) => (Which::Forward, window, false),
        Kernel::Conv2dInputGrad(window) => (Which::InputGradient, window, false),
        Kernel::Conv2dWeightGrad { window, accumulate } => (Which::WeightGradient, window, accumulate),
        _ => return o.unsupported(),
    };
    if window.size == 1 && window.stride == 1 && window.padding == 0 {
        return pointwise(which, &window, accumulate, o);
    }
    let (from, to) = (o.input_type(0), o.output_type(0));
    let narrow = |dtype| matches!(dtype, DType::Bf16 | DType::F16);
    let is_known =
        from == o.input_type(1) && (from == to || (which == Which::WeightGradient && narrow(from) && to == DType::F32));
    if !is_known {
        return o.unsupported();
    }
    // cuDNN rounds a gradient of narrow tensors before it is added to the wider one: its sums would not be f32's.
    let library = if from == to { o.backend().device().dnn()? } else { None };
    match library {
        Some(dnn) => match dnn.plan(which, &window, from, o.backend().options(), o.backend().workspace().1)? {
            Some(plan) => plan.run(dnn, o, accumulate),
            None => without_library(kernel, o),
        },
        None => without_library(kernel, o),
    }
}

/// By products of patches where the workspace has room for them, else by a kernel that needs none.
fn without_library(kernel: &Kernel, o: &Operands<'_>) -> Result<()> {
    if patches::launch(kernel, o)? { Ok(()) } else { direct_convolution::launch(kernel, o) }
}

/// A window of one pixel: a product of all pixels with the weights.
fn pointwise(which: Which, w: &Window, accumulate: bool, o: &Operands<'_>) -> Result<()> {
    let (pixels, channels, filters) = (w.out_pixels(), w.channels, w.filters);
    let [a, b] = [o.input(0), o.input(1)];
    let (product, operands) = match which {
        // y [pixels, filters] = x wᵀ
        Which::Forward => {
            (MatMul { m: pixels, n: filters, k: channels, transpose_a: false, transpose_b: true, accumulate }, [a, b])
        }
        // dx [pixels, channels] = dy w
        Which::InputGradient => {
            (MatMul { m: pixels, n: channels, k: filters, transpose_a: false, transpose_b: false, accumulate }, [a, b])
        }
        // dw [filters, channels] = dyᵀ x
        Which::WeightGradient => {
            (MatMul { m: filters, n: channels, k: pixels, transpose_a: true, transpose_b: false, accumulate }, [b, a])
        }
    };
    gemm::product(&product, o, operands, o.input_type(0), o.output(0), o.output_type(0))
}

/// cuDNN on one device.
pub(super) struct Dnn {
    handle: sys::cudnnHandle_t,
    plans: RefCell<HashMap<Question, Option<Rc<Plan>>>>,
}

/// What an algorithm is asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
struct Question {
    which: Which,
    window: Window,
    dtype: DType,
    options: Options,
    workspace_bytes: usize,
}

/// cuDNN's refusal.
fn failed(doing: &str, error: CudnnError) -> Error {
    Error::Device(format!("cuDNN, {doing}: {:?}", error.0))
}

fn data_type(dtype: DType) -> Type {
    match dtype {
        DType::F64 => Type::CUDNN_DATA_DOUBLE,
        DType::Bf16 => Type::CUDNN_DATA_BFLOAT16,
        DType::F16 => Type::CUDNN_DATA_HALF,
        DType::F32 | DType::U32 | DType::U8 => Type::CUDNN_DATA_FLOAT,
    }
}

impl Dnn {
    /// Starts the library on the device's stream.
    pub(super) fn new(device: &Device) -> Result<Self> {
        let handle = result::create_handle().map_err(|error| failed("starting", error))?;
        let dnn = Self { handle, plans: RefCell::default() };
        // SAFETY: handle and stream are alive.
        unsafe { result::set_stream(dnn.handle, device.stream().cast()) }
            .map_err(|error| failed("choosing a stream", error))?;
        Ok(dnn)
    }

    /// The way a convolution runs within the workspace; `None` when cuDNN has none.
    fn plan(
        &self,
        which: Which,
        window: &Window,
        dtype: DType,
        options: Options,
        workspace_bytes: usize,
    ) -> Result<Option<Rc<Plan>>> {
        let question = Question { which, window: *window, dtype, options, workspace_bytes };
        if let Some(plan) = self.plans.borrow().get(&question) {
            return Ok(plan.clone());
        }
        let plan = Plan::find(self.handle, &question)?.map(Rc::new);
        self.plans.borrow_mut().insert(question, plan.clone());
        Ok(plan)
    }
}

impl Drop for Dnn {
    fn drop(&mut self) {
        self.plans.borrow_mut().clear();
        // SAFETY: nobody else has the handle.
        let _ = unsafe { result::destroy_handle(self.handle) };
    }
}

/// An algorithm, and what it is over.
struct Plan {
    shapes: Shapes,
    algorithm: Algorithm,
    workspace_bytes: usize,
    dtype: DType,
}

#[derive(Debug, Clone, Copy)]
enum Algorithm {
    Forward(ForwardAlgo),
    InputGradient(DataAlgo),
    WeightGradient(FilterAlgo),
}

/// The descriptors of a convolution's tensors.
struct Shapes {
    x: sys::cudnnTensorDescriptor_t,
    y: sys::cudnnTensorDescriptor_t,
    w: sys::cudnnFilterDescriptor_t,
    convolution: sys::cudnnConvolutionDescriptor_t,
}

impl Shapes {
    fn new(window: &Window, dtype: DType) -> Result<Self> {
        let describing = |error| failed("describing a convolution", error);
        let shapes = Self {
            x: result::create_tensor_descriptor().map_err(describing)?,
            y: result::create_tensor_descriptor().map_err(describing)?,
            w: result::create_filter_descriptor().map_err(describing)?,
            convolution: result::create_convolution_descriptor().map_err(describing)?,
        };
        let int = |extent: usize| c_int::try_from(extent).unwrap_or(c_int::MAX);
        let data = data_type(dtype);
        let format = sys::cudnnTensorFormat_t::CUDNN_TENSOR_NHWC;
        let [batch, channels, filters, size] = [window.batch, window.channels, window.filters, window.size].map(int);
        let (height, width) = (int(window.height), int(window.width));
        let (out_height, out_width) = (int(window.out_height()), int(window.out_width()));
        let sums = if dtype == DType::F64 { Type::CUDNN_DATA_DOUBLE } else { Type::CUDNN_DATA_FLOAT };
        // SAFETY: the descriptors are alive.
        unsafe {
            result::set_tensor4d_descriptor(shapes.x, format, data, [batch, channels, height, width])
                .map_err(describing)?;
            result::set_tensor4d_descriptor(shapes.y, format, data, [batch, filters, out_height, out_width])
                .map_err(describing)?;
            result::set_filter4d_descriptor(shapes.w, data, format, [filters, channels, size, size])
                .map_err(describing)?;
            let (padding, stride) = (int(window.padding), int(window.stride));
            result::set_convolution2d_descriptor(
                shapes.convolution,
                padding,
                padding,
                stride,
                stride,
                1,
                1,
                sys::cudnnConvolutionMode_t::CUDNN_CROSS_CORRELATION,
                sums,
            )
            .map_err(describing)?;
        }
        Ok(shapes)
    }

    fn set_math(&self, math: Math) -> Result<()> {
        // SAFETY: the descriptor is alive.
        unsafe { result::set_convolution_math_type(self.convolution, math) }
            .map_err(|error| failed("choosing how to multiply", error))
    }
}

impl Drop for Shapes {
    fn drop(&mut self) {
        // SAFETY: nobody else has the descriptors.
        unsafe {
            let _ = result::destroy_tensor_descriptor(self.x);
            let _ = result::destroy_tensor_descriptor(self.y);
            let _ = result::destroy_filter_descriptor(self.w);
            let _ = result::destroy_convolution_descriptor(self.convolution);
        }
    }
}

/// The first of cuDNN's proposals, which come fastest first, that the experiment allows.
macro_rules! propose {
    ($ask:path, $perf:ty, $handle:expr, $descriptors:expr, $question:expr, $wrap:path) => {{
        const PROPOSALS: usize = 16;
        // SAFETY: all zeros are a valid value of every field.
        let mut proposals: [$perf; PROPOSALS] = unsafe { std::mem::zeroed() };
        let mut count = 0;
        let [a, b, c, d] = $descriptors;
        // SAFETY: handle and descriptors are alive, and there is room for as many proposals as are asked for.
        let asked = unsafe {
            $ask(
                $handle,
                a.cast(),
                b.cast(),
                c.cast(),
                d.cast(),
                PROPOSALS as c_int,
                &mut count,
                proposals.as_mut_ptr(),
            )
        };
        if asked.is_err() {
            // A library that knows no such convolution says so here.
            count = 0;
        }
        proposals[..usize::try_from(count).unwrap_or(0).min(PROPOSALS)]
            .iter()
            .find(|p| {
                p.status == sys::cudnnStatus_t::CUDNN_STATUS_SUCCESS
                    && p.memory <= $question.workspace_bytes
                    && (!$question.options.deterministic
                        || p.determinism == sys::cudnnDeterminism_t::CUDNN_DETERMINISTIC)
            })
            .map(|p| ($wrap(p.algo), p.memory, p.mathType))
    }};
}

impl Plan {
    fn find(handle: sys::cudnnHandle_t, question: &Question) -> Result<Option<Self>> {
        let shapes = Shapes::new(&question.window, question.dtype)?;
        shapes.set_math(match question.dtype {
            DType::F32 if question.options.tf32 => Math::CUDNN_DEFAULT_MATH,
            DType::F32 | DType::F64 => Math::CUDNN_FMA_MATH,
            _ => Math::CUDNN_TENSOR_OP_MATH,
        })?;
        let (x, y, w, c) = (shapes.x, shapes.y, shapes.w, shapes.convolution);
        let any = |p: *mut c_void| p;
        let [x, y, w, c] = [any(x.cast()), any(y.cast()), any(w.cast()), any(c.cast())];
        let found = match question.which {
            Which::Forward => propose!(
                result::get_convolution_forward_algorithm,
                sys::cudnnConvolutionFwdAlgoPerf_t,
                handle,
                [x, w, c, y],
                question,
                Algorithm::Forward
            ),
            Which::InputGradient => propose!(
                result::get_convolution_backward_data_algorithm,
                sys::cudnnConvolutionBwdDataAlgoPerf_t,
                handle,
                [w, y, c, x],
                question,
                Algorithm::InputGradient
            ),
            Which::WeightGradient => propose!(
                result::get_convolution_backward_filter_algorithm,
                sys::cudnnConvolutionBwdFilterAlgoPerf_t,
                handle,
                [x, y, c, w],
                question,
                Algorithm::WeightGradient
            ),
        };
        let Some((algorithm, workspace_bytes, math)) = found else { return Ok(None) };
        shapes.set_math(math)?;
        Ok(Some(Self { shapes, algorithm, workspace_bytes, dtype: question.dtype }))
    }

    /// Queues it.
    fn run(&self, dnn: &Dnn, o: &Operands<'_>, accumulate: bool) -> Result<()> {
        let beta = f64::from(u8::from(accumulate));
        let (wide, narrow) = ([1.0, beta], [1.0f32, beta as f32]);
        let factor = |i: usize| -> *const c_void {
            if self.dtype == DType::F64 {
                std::ptr::from_ref(&wide[i]).cast()
            } else {
                std::ptr::from_ref(&narrow[i]).cast()
            }
        };
        let (work, room) = (o.backend().workspace().0.0 as *mut c_void, self.workspace_bytes);
        let [a, b] = [o.input(0), o.input(1)].map(|pointer| pointer.0 as *const c_void);
        let to = o.output(0).0 as *mut c_void;
        let Shapes { x, y, w, convolution } = self.shapes;
        // SAFETY: handle and descriptors are alive, tensors are as large as the descriptors say, which was checked against
        // the window; the workspace is at least as large as the algorithm asked for.
        unsafe {
            match self.algorithm {
                Algorithm::Forward(algorithm) => result::convolution_forward(
                    dnn.handle,
                    factor(0),
                    x,
                    a,
                    w,
                    b,
                    convolution,
                    algorithm,
                    work,
                    room,
                    factor(1),
                    y,
                    to,
                ),
                Algorithm::InputGradient(algorithm) => result::convolution_backward_data(
                    dnn.handle,
                    factor(0),
                    w,
                    b,
                    y,
                    a,
                    convolution,
                    algorithm,
                    work,
                    room,
                    factor(1),
                    x,
                    to,
                ),
                Algorithm::WeightGradient(algorithm) => result::convolution_backward_filter(
                    dnn.handle,
                    factor(0),
                    x,
                    a,
                    y,
                    b,
                    convolution,
                    algorithm,
                    work,
                    room,
                    factor(1),
                    w,
                    to,
                ),
            }
        }
        .map_err(|error| failed("a convolution", error))
    }
}
