//! cuDNN's algorithms for a convolution, and the choice among them.
//!
//! Always holds: cuDNN is asked once for each convolution, and the first algorithm that it then runs is used from then on, so
//! that a run repeats. An algorithm whose sums have no fixed order, or whose operands are rounded, is used only when the
//! experiment allows it: with f32 it is told to multiply in f32, regardless of the units it was proposed with, and an algorithm
//! that cannot do so refuses.

use std::{
    cell::{Cell, RefCell},
    collections::{HashMap, VecDeque},
    ffi::{c_int, c_void},
    rc::Rc,
};

use cudarc::cudnn::{
    CudnnError, result,
    sys::{
        self, cudnnConvolutionBwdDataAlgo_t as DataAlgo, cudnnConvolutionBwdFilterAlgo_t as FilterAlgo,
        cudnnConvolutionFwdAlgo_t as ForwardAlgo, cudnnMathType_t as Math,
    },
};

use super::{Which, failed, shapes::Shapes};
use crate::{
    backend::{
        DType, Window,
        cuda::{
            Options,
            device::Device,
            handle::{Handle, Owned},
            launch::Pointer,
            work::Work,
        },
    },
    error::Result,
};

// SAFETY: the library makes a new handle, and waits for what it has queued before it ends one.
unsafe impl Handle for sys::cudnnHandle_t {
    type Asked<'a> = ();
    type Error = CudnnError;

    const TAKE_BACK: unsafe fn(Self) -> std::result::Result<(), CudnnError> = result::destroy_handle;

    fn make((): ()) -> std::result::Result<Self, CudnnError> {
        result::create_handle()
    }
}

/// cuDNN on one device.
pub(in super::super) struct Dnn {
    /// Their descriptors are the library's, so they go before it.
    plans: RefCell<HashMap<Question, Rc<Plan>>>,
    handle: Owned<sys::cudnnHandle_t>,
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

impl Question {
    /// The units that multiply in an algorithm that was proposed with `proposed`; `None` where it rounds what it may not.
    /// cuDNN's manual says of proposals both that they name the units of the convolution's descriptor and that algorithms
    /// without tensor cores name the default ones, so the default is taken, and told to multiply in f32.
    fn math_of(&self, proposed: Math) -> Option<Math> {
        if self.dtype != DType::F32 || self.options.tf32 {
            return Some(proposed);
        }
        match proposed {
            Math::CUDNN_FMA_MATH | Math::CUDNN_DEFAULT_MATH => Some(Math::CUDNN_FMA_MATH),
            Math::CUDNN_TENSOR_OP_MATH | Math::CUDNN_TENSOR_OP_MATH_ALLOW_CONVERSION => None,
        }
    }
}

impl Dnn {
    /// Starts the library on the device's stream.
    pub(in super::super) fn new(device: &Device) -> Result<Self> {
        let handle = Owned::<sys::cudnnHandle_t>::new(()).map_err(|error| failed("starting", error))?;
        // SAFETY: handle and stream are alive.
        unsafe { result::set_stream(handle.raw(), device.stream().raw().cast()) }
            .map_err(|error| failed("choosing a stream", error))?;
        Ok(Self { plans: RefCell::default(), handle })
    }

    /// Queues a convolution. Returns false when cuDNN has no algorithm within the workspace.
    ///
    /// # Errors
    /// Fails when the library does.
    pub(super) fn run(&self, question: Question, device: &Device, places: Places, accumulate: bool) -> Result<bool> {
        let known = self.plans.borrow().get(&question).cloned();
        let plan = match known {
            Some(plan) => plan,
            None => {
                let plan = Rc::new(Plan::find(self.handle.raw(), &question)?);
                self.plans.borrow_mut().insert(question, Rc::clone(&plan));
                plan
            }
        };
        // An algorithm that was proposed and then refuses is not tried again.
        loop {
            let Some(way) = plan.ways.borrow().front().copied() else { return Ok(false) };
            let run = Run { plan: Rc::clone(&plan), way, places, accumulate };
            let has_run = &plan.has_run[usize::from(accumulate)];
            if has_run.get() && device.kept().is_keeping() {
                device.submit(Work::Convolution(run))?;
                return Ok(true);
            }
            // It may refuse, so this is found out at once.
            device.flush()?;
            if run.queue(self)? {
                has_run.set(true);
                return Ok(true);
            }
            plan.ways.borrow_mut().pop_front();
            plan.has_run.iter().for_each(|has_run| has_run.set(false));
        }
    }
}

/// Where a convolution reads, writes and works.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Places {
    /// Of images and weights, of the output's gradient and weights, or of images and the output's gradient.
    pub(super) from: [Pointer; 2],
    pub(super) to: Pointer,
    /// Of as many bytes as the question says.
    pub(super) work: Pointer,
}

/// A convolution with an algorithm that was chosen for it.
#[derive(Clone)]
pub(in super::super) struct Run {
    plan: Rc<Plan>,
    way: Way,
    places: Places,
    accumulate: bool,
}

/// A convolution, and the algorithms that are left for it, fastest first.
struct Plan {
    shapes: Shapes,
    ways: RefCell<VecDeque<Way>>,
    /// Whether the library has run the first of them, without and with adding to what is there.
    has_run: [Cell<bool>; 2],
}

/// An algorithm, what it works in, and the units that multiply.
#[derive(Debug, Clone, Copy, PartialEq)]
struct Way {
    algorithm: Algorithm,
    workspace_bytes: usize,
    math: Math,
}

#[derive(Debug, Clone, Copy, PartialEq)]
enum Algorithm {
    Forward(ForwardAlgo),
    InputGradient(DataAlgo),
    WeightGradient(FilterAlgo),
}

/// cuDNN's proposals, fastest first, that the experiment allows.
macro_rules! propose {
    ($question:expr, $handle:expr, $ask:path, $perf:ty, [$($descriptor:expr),*], $wrap:path) => {{
        const PROPOSALS: usize = 16;
        let (most, mut count) = (PROPOSALS as c_int, 0);
        // SAFETY: all zeros are a valid value of every field; handle and descriptors are alive, and there is room for as many
        // proposals as are asked for.
        let (proposals, asked) = unsafe {
            let mut proposals: [$perf; PROPOSALS] = std::mem::zeroed();
            let asked = $ask($handle, $($descriptor.raw()),*, most, &mut count, proposals.as_mut_ptr());
            (proposals, asked)
        };
        let count = match asked {
            Ok(()) => usize::try_from(count).unwrap_or(0).min(PROPOSALS),
            Err(error) if is_refusal(error) => 0,
            Err(error) => return Err(failed("choosing an algorithm", error)),
        };
        let is_allowed = |p: &&$perf| {
            p.status == sys::cudnnStatus_t::CUDNN_STATUS_SUCCESS
                && p.memory <= $question.workspace_bytes
                && (!$question.options.deterministic
                    || p.determinism == sys::cudnnDeterminism_t::CUDNN_DETERMINISTIC)
                && $question.math_of(p.mathType).is_some()
        };
        let way = |p: &$perf| Way {
            algorithm: $wrap(p.algo),
            workspace_bytes: p.memory,
            math: $question.math_of(p.mathType).unwrap_or(p.mathType),
        };
        proposals[..count].iter().filter(is_allowed).map(way).collect()
    }};
}

impl Plan {
    fn find(handle: sys::cudnnHandle_t, question: &Question) -> Result<Self> {
        let shapes = Shapes::new(&question.window, question.dtype)?;
        shapes.set_math(match question.dtype {
            DType::F32 if question.options.tf32 => Math::CUDNN_DEFAULT_MATH,
            DType::F32 | DType::F64 | DType::U32 | DType::U8 => Math::CUDNN_FMA_MATH,
            DType::Bf16 | DType::F16 => Math::CUDNN_TENSOR_OP_MATH,
        })?;
        let Shapes { x, y, w, convolution } = &shapes;
        let ways = match question.which {
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
        Ok(Self { shapes, ways: RefCell::new(ways), has_run: Default::default() })
    }
}

impl Run {
    /// Whether the other is the same but for addresses.
    pub(in super::super) fn is_like(&self, other: &Self) -> bool {
        Rc::ptr_eq(&self.plan, &other.plan) && self.way == other.way && self.accumulate == other.accumulate
    }

    /// Whether the other is the same.
    pub(in super::super) fn is_same(&self, other: &Self) -> bool {
        self.is_like(other) && self.places == other.places
    }

    /// A number that others of the same plan have as well.
    pub(in super::super) fn number(&self) -> usize {
        Rc::as_ptr(&self.plan).addr() + usize::from(self.accumulate)
    }

    /// Queues it; says no where the library refuses the algorithm.
    ///
    /// # Errors
    /// Fails when the library does.
    pub(in super::super) fn queue(&self, dnn: &Dnn) -> Result<bool> {
        self.plan.shapes.set_math(self.way.math)?;
        match self.launch(dnn.handle.raw()) {
            Ok(()) => Ok(true),
            Err(error) if is_refusal(error) => Ok(false),
            Err(error) => Err(failed("a convolution", error)),
        }
    }

    fn launch(&self, handle: sys::cudnnHandle_t) -> std::result::Result<(), CudnnError> {
        // Of the type that is summed in.
        let (one, beta) = (1.0f32, f32::from(u8::from(self.accumulate)));
        let [one, beta] = [&one, &beta].map(|factor| std::ptr::from_ref(factor).cast::<c_void>());
        let Places { from: [a, b], to, work } = self.places;
        let [a, b, to, work] = [a, b, to, work].map(|pointer| pointer.0 as *mut c_void);
        let room = self.way.workspace_bytes;
        let Shapes { x, y, w, convolution } = &self.plan.shapes;
        let (x, y, w, convolution) = (x.raw(), y.raw(), w.raw(), convolution.raw());
        // SAFETY: handle and descriptors are alive, tensors are as large as the descriptors say, which was checked against
        // the window; the workspace is at least as large as the algorithm asked for.
        unsafe {
            match self.way.algorithm {
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
    }
}

/// Whether cuDNN says that it does not serve what it is asked for: a parameter, a combination, or a part of it that is not
/// there (CUDNN_STATUS_BAD_PARAM, _NOT_SUPPORTED and what follows them, and of _INTERNAL_ERROR what is found out before a
/// launch).
fn is_refusal(error: CudnnError) -> bool {
    matches!(error.0 as u32, 2000..=4002)
}
