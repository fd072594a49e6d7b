//! cuDNN's ways through a convolution, and the choice among them.
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
    result,
    sys::{
        self, cudnnConvolutionBwdDataAlgo_t as DataAlgo, cudnnConvolutionBwdFilterAlgo_t as FilterAlgo,
        cudnnConvolutionFwdAlgo_t as ForwardAlgo, cudnnMathType_t as Math,
    },
};

use super::{Which, failed, shapes::Shapes};
use crate::{
    backend::{
        DType, Window,
        cuda::{Options, device::Device, operands::Operands},
    },
    error::Result,
};

/// cuDNN on one device.
pub(in super::super) struct Dnn {
    handle: sys::cudnnHandle_t,
    plans: RefCell<HashMap<Question, Option<Rc<Plan>>>>,
}

/// What an algorithm is asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) struct Question {
    pub(super) which: Which,
    pub(super) window: Window,
    pub(super) dtype: DType,
    pub(super) options: Options,
    pub(super) workspace_bytes: usize,
}

impl Dnn {
    /// Starts the library on the device's stream.
    pub(in super::super) fn new(device: &Device) -> Result<Self> {
        let handle = result::create_handle().map_err(|error| failed("starting", error))?;
        let dnn = Self { handle, plans: RefCell::default() };
        // SAFETY: handle and stream are alive.
        unsafe { result::set_stream(dnn.handle, device.stream().cast()) }
            .map_err(|error| failed("choosing a stream", error))?;
        Ok(dnn)
    }

    /// The way a convolution runs within the workspace; `None` when cuDNN has none.
    ///
    /// # Errors
    /// The library's.
    pub(super) fn plan(&self, question: Question) -> Result<Option<Rc<Plan>>> {
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
pub(super) struct Plan {
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

/// The first of cuDNN's proposals, which come fastest first, that the experiment allows.
macro_rules! propose {
    ($question:expr, $handle:expr, $ask:path, $perf:ty, [$($descriptor:expr),*], $wrap:path) => {{
        const PROPOSALS: usize = 16;
        // SAFETY: all zeros are a valid value of every field.
        let mut proposals: [$perf; PROPOSALS] = unsafe { std::mem::zeroed() };
        let (most, mut count) = (PROPOSALS as c_int, 0);
        // SAFETY: handle and descriptors are alive, and there is room for as many proposals as are asked for.
        let asked = unsafe { $ask($handle, $($descriptor.raw),*, most, &mut count, proposals.as_mut_ptr()) };
        // A library that knows no such convolution says so here.
        let count = if asked.is_ok() { usize::try_from(count).unwrap_or(0).min(PROPOSALS) } else { 0 };
        proposals[..count]
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
        let Shapes { x, y, w, convolution } = &shapes;
        let found = match question.which {
            Which::Forward => propose!(
                question,
                handle,
                result::get_convolution_forward_algorithm,
                sys::cudnnConvolutionFwdAlgoPerf_t,
                [x, w, convolution, y],
                Algorithm::Forward
            ),
            Which::InputGradient => propose!(
                question,
                handle,
                result::get_convolution_backward_data_algorithm,
                sys::cudnnConvolutionBwdDataAlgoPerf_t,
                [w, y, convolution, x],
                Algorithm::InputGradient
            ),
            Which::WeightGradient => propose!(
                question,
                handle,
                result::get_convolution_backward_filter_algorithm,
                sys::cudnnConvolutionBwdFilterAlgoPerf_t,
                [x, y, convolution, w],
                Algorithm::WeightGradient
            ),
        };
        let Some((algorithm, workspace_bytes, math)) = found else { return Ok(None) };
        shapes.set_math(math)?;
        Ok(Some(Self { shapes, algorithm, workspace_bytes, dtype: question.dtype }))
    }

    /// Queues it.
    ///
    /// # Errors
    /// The library's.
    pub(super) fn run(&self, dnn: &Dnn, o: &Operands<'_>, accumulate: bool) -> Result<()> {
        let beta = f64::from(u8::from(accumulate));
        let (wide, narrow) = ([1.0, beta], [1.0f32, beta as f32]);
        let [one, beta] = [0, 1].map(|i: usize| -> *const c_void {
            if self.dtype == DType::F64 {
                std::ptr::from_ref(&wide[i]).cast()
            } else {
                std::ptr::from_ref(&narrow[i]).cast()
            }
        });
        let (work, room) = (o.backend().workspace().0.0 as *mut c_void, self.workspace_bytes);
        let [a, b] = [o.input(0), o.input(1)].map(|pointer| pointer.0 as *const c_void);
        let to = o.output(0).0 as *mut c_void;
        let Shapes { x, y, w, convolution } = &self.shapes;
        let (handle, x, y, w, convolution) = (dnn.handle, x.raw, y.raw, w.raw, convolution.raw);
        // SAFETY: handle and descriptors are alive, tensors are as large as the descriptors say, which was checked against
        // the window; the workspace is at least as large as the algorithm asked for.
        unsafe {
            match self.algorithm {
                Algorithm::Forward(by) => {
                    result::convolution_forward(handle, one, x, a, w, b, convolution, by, work, room, beta, y, to)
                }
                Algorithm::InputGradient(by) => {
                    result::convolution_backward_data(handle, one, w, b, y, a, convolution, by, work, room, beta, x, to)
                }
                Algorithm::WeightGradient(by) => result::convolution_backward_filter(
                    handle,
                    one,
                    x,
                    a,
                    y,
                    b,
                    convolution,
                    by,
                    work,
                    room,
                    beta,
                    w,
                    to,
                ),
            }
        }
        .map_err(|error| failed("a convolution", error))
    }
}
