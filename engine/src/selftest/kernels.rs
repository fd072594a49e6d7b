//! Every kernel in every type: its result on the device against the CPU's in f64, twice with the same bits, and nothing written
//! outside its outputs.
//!
//! The operands of both sides are rounded to the device's type first, so that both read the same numbers.

use std::any::TypeId;

use super::{
    Bench, Choice, Fault, Found, Runner,
    cases::{self, Case, FLOATS, Operand, optimizer},
    compare::{Worst, allowed, compared, is_product, meant},
    draw::Draw,
};
use crate::{
    backend::{
        Backend, Cpu, DType, Executor, HostSlice, Kernel, Tensor,
        ops::{Coded, Elementwise, Gather, Int8, Loss, Optimizer, StateValues},
    },
    bytes::Bytes,
    device::{Target, cpu_threads},
    error::Result,
    memory::{Category, Ledger},
    step::workspace,
};

/// Elements before and after an operand that lies inside a buffer.
const MARGIN: usize = 256;
/// The value of these elements.
const MARK: f64 = 77.0;
/// Updates of each optimizer's case, one after another.
const UPDATES: usize = 3;
/// One code among this many may be its neighbour.
const CODES: usize = 32;

pub(super) fn run<B: Backend>(bench: &Bench<B>, choice: &Choice, runner: &mut Runner<'_>) {
    for (i, dtype) in FLOATS.into_iter().enumerate() {
        let name = |kernel: &str| format!("kernel/{}/{kernel}", dtype.name());
        if !cases::names().iter().any(|kernel| runner.wants(&name(kernel))) {
            continue;
        }
        let mut draw = Draw::new(choice.seed.wrapping_add(i as u64));
        let mut all = cases::all(&mut draw, dtype, choice.extent);
        for kernel in cases::names() {
            let (own, others) = all.into_iter().partition(|case| cases::name(&case.kernel) == kernel);
            all = others;
            runner.check(name(kernel), || of_one(bench, &mut draw, own));
        }
    }
}

/// The cases of one kernel.
fn of_one<B: Backend>(bench: &Bench<B>, draw: &mut Draw, cases: Vec<Case>) -> Result<Found, Fault> {
    if cases.is_empty() {
        return Err(Fault::new("no launch of this kernel is known"));
    }
    let (mut worst, mut launches) = (Worst::default(), 0);
    for room in rooms(&bench.target, &cases[0].kernel) {
        let executor = (bench.open)(Ledger::new(None, false))?;
        let _workspace = workspace(&executor, room)?;
        for case in &cases {
            let mut case = Some(case.clone());
            for _ in 0..UPDATES {
                let Some(now) = case else { break };
                launches += 1;
                let outcome = try_one(&executor, &now, &mut worst)?;
                case = optimizer::next(draw, &now, &outcome.after);
            }
        }
        // A write behind a block is seen here at the latest.
        executor.step_ended()?;
    }
    let text = if is_reference::<B>() { "each in f64 as well" } else { "each on the CPU in f64" };
    Ok(Found::new(format!("{launches} launches, {text}, and twice"), worst))
}

/// The workspaces that a kernel is launched with. A kernel that uses one takes other ways without one, with a small one, and
/// with as much as a run lends by default.
fn rooms(target: &Target, kernel: &Kernel) -> Vec<Bytes> {
    let rooms = [Bytes::ZERO, Bytes::kib(40), Bytes::mib(32)];
    rooms[..if is_product(kernel) && target.is_gpu() { 3 } else { 1 }].to_vec()
}

/// Whether the device is the reference for others.
pub(super) fn is_reference<B: Backend>() -> bool {
    TypeId::of::<B>() == TypeId::of::<Cpu>()
}

/// The effect of a launch.
#[derive(Debug, Clone, PartialEq)]
pub struct Outcome {
    /// The operands as the kernel saw them: rounded to their types.
    pub inputs: Vec<Vec<f64>>,
    /// The outputs before.
    pub before: Vec<Vec<f64>>,
    /// The operands after the launch.
    pub after: Vec<Vec<f64>>,
}

fn try_one<B: Backend>(executor: &Executor<B>, case: &Case, worst: &mut Worst) -> Result<Outcome, Fault> {
    let of = |fault: Fault| Fault { message: format!("{}: {}", describe(case), fault.message), ..fault };
    let outcome = launch(executor, case, 0).map_err(of)?;
    let wanted = reference(case, &outcome).map_err(of)?;
    judge(case, &outcome.after, &wanted, worst).map_err(of)?;
    if let Some(apart) = apart(executor, case).map_err(of)?
        && !has_same_bits(&outcome.after, &apart)
    {
        return Err(of(Fault::new("a launch for each tensor gave other bits")));
    }
    let inside = launch(executor, case, MARGIN).map_err(of)?;
    if !has_same_bits(&outcome.after, &inside.after) {
        return Err(of(Fault::new("a second launch gave other bits")));
    }
    // Rows of odd matrices start anywhere.
    if is_of_rows(&case.kernel) {
        let odd = launch(executor, case, MARGIN + 1).map_err(of)?;
        judge(case, &odd.after, &wanted, worst).map_err(of)?;
    }
    Ok(outcome)
}

/// Whether the engine launches it on some rows of a tensor.
fn is_of_rows(kernel: &Kernel) -> bool {
    matches!(
        kernel,
        Kernel::Linear(_)
            | Kernel::Loss(Loss::CrossEntropy { .. })
            | Kernel::Loss(Loss::CrossEntropyGrad { .. })
            | Kernel::Loss(Loss::Distil { .. })
            | Kernel::Loss(Loss::DistilGrad { .. })
            | Kernel::Loss(Loss::SquaredError)
            | Kernel::Loss(Loss::SquaredErrorGrad { .. })
    )
}

fn describe(case: &Case) -> String {
    let types = |operands: &[Operand]| {
        let types: Vec<String> = operands.iter().map(|(x, dtype)| format!("{} x {}", x.len(), dtype.name())).collect();
        types.join(", ")
    };
    format!("{:?} of ({}) to ({})", case.kernel, types(&case.inputs), types(&case.outputs))
}

/// Launches with operands that stand alone, or, with a `margin`, inside larger buffers that must stay as they are.
///
/// # Errors
/// A [`Fault`] when the device refuses or fails, when an element outside an operand was written to, or when an input was.
pub fn launch<B: Backend>(executor: &Executor<B>, case: &Case, margin: usize) -> Result<Outcome, Fault> {
    let make = |operands: &[Operand]| operands.iter().map(|o| Placed::new(executor, o, margin)).collect::<Result<_>>();
    let [ins, outs]: [Vec<Placed<B>>; 2] = [make(&case.inputs)?, make(&case.outputs)?];
    let read = |of: &[Placed<B>]| of.iter().map(|o| values(executor, &o.own)).collect::<Result<Vec<_>, Fault>>();
    let (inputs, before) = (read(&ins)?, read(&outs)?);
    let tensors = |of: &'_ [Placed<B>]| of.iter().map(|o| o.own.clone()).collect::<Vec<_>>();
    let (from, to) = (tensors(&ins), tensors(&outs));
    executor.launch(case.kernel, &from.iter().collect::<Vec<_>>(), &to.iter().collect::<Vec<_>>())?;
    for placed in ins.iter().chain(&outs) {
        placed.check(executor)?;
    }
    let read_only = read(&ins)?;
    if !has_same_bits(&inputs, &read_only) {
        return Err(Fault::new("an input was written to"));
    }
    Ok(Outcome { inputs, before, after: read(&outs)? })
}

/// The outputs of a kernel of several tensors by a launch for each of them; `None` for another kernel.
fn apart<B: Backend>(executor: &Executor<B>, case: &Case) -> Result<Option<Vec<Vec<f64>>>, Fault> {
    let make = |of: &[Operand]| of.iter().map(|o| Ok(Placed::new(executor, o, 0)?.own)).collect::<Result<Vec<_>>>();
    let [ins, outs] = [make(&case.inputs)?, make(&case.outputs)?];
    match case.kernel {
        Kernel::Optimizer(Optimizer::UpdateAll { update, count }) => {
            for i in 0..count {
                let inputs: Vec<_> = ins[i..=i].iter().chain(&ins[count..]).collect();
                let outputs: Vec<_> = outs[i..].iter().step_by(count).collect();
                executor.launch(Optimizer::Update(update), &inputs, &outputs)?;
            }
        }
        Kernel::Optimizer(Optimizer::SumAllSquares { accumulate, .. }) => {
            if !accumulate {
                executor.launch(Elementwise::Fill(0.0), &[], &[&outs[0]])?;
            }
            ins.iter().try_for_each(|x| executor.launch(Optimizer::SumSquares, &[x], &[&outs[0]]))?;
        }
        _ => return Ok(None),
    }
    outs.iter().map(|tensor| values(executor, tensor)).collect::<Result<_, Fault>>().map(Some)
}

/// An operand, alone or inside a larger buffer.
struct Placed<B: Backend> {
    whole: Tensor<B>,
    own: Tensor<B>,
    margin: usize,
}

impl<B: Backend> Placed<B> {
    fn new(executor: &Executor<B>, (numbers, dtype): &Operand, margin: usize) -> Result<Self> {
        let mut all = vec![MARK; margin];
        all.extend(numbers);
        all.extend(vec![MARK; margin]);
        let whole = executor.allocate([all.len()], *dtype, Category::Batch, "operand")?;
        let backend = executor.backend();
        match dtype {
            DType::U8 => backend.write(&whole, HostSlice::U8(&all.iter().map(|x| *x as u8).collect::<Vec<_>>())),
            DType::U32 => backend.write(&whole, HostSlice::U32(&all.iter().map(|x| *x as u32).collect::<Vec<_>>())),
            _ => backend.write(&whole, HostSlice::F32(&all.iter().map(|x| *x as f32).collect::<Vec<_>>())),
        }?;
        let own = if margin == 0 { whole.clone() } else { whole.rows_view(margin..margin + numbers.len()) };
        Ok(Self { whole, own, margin })
    }

    fn check(&self, executor: &Executor<B>) -> Result<(), Fault> {
        let all = if self.margin == 0 { return Ok(()) } else { values(executor, &self.whole)? };
        let (end, margin) = (all.len() - self.margin, self.margin);
        match all[..margin].iter().chain(&all[end..]).position(|x| *x != MARK) {
            None => Ok(()),
            Some(place) => Err(Fault::new(format!("element {place} outside {:?} was written to", self.own))),
        }
    }
}

pub(super) fn values<B: Backend>(executor: &Executor<B>, tensor: &Tensor<B>) -> Result<Vec<f64>, Fault> {
    executor.read(tensor)?.ok_or_else(|| Fault::new("the device has no numbers"))
}

fn has_same_bits(a: &[Vec<f64>], b: &[Vec<f64>]) -> bool {
    a.iter().flatten().map(|x| x.to_bits()).eq(b.iter().flatten().map(|x| x.to_bits()))
}

/// The CPU's results for the same numbers in f64.
fn reference(case: &Case, outcome: &Outcome) -> Result<Vec<Vec<f64>>, Fault> {
    let executor = Executor::new(Cpu::new(cpu_threads()), Ledger::new(None, false));
    let wide = |numbers: &[Vec<f64>], of: &[Operand], is_output: bool| -> Vec<Operand> {
        let types = of.iter().enumerate().map(|(i, (_, dtype))| reference_type(&case.kernel, is_output, i, *dtype));
        numbers.iter().cloned().zip(types).collect()
    };
    let inputs = wide(&outcome.inputs, &case.inputs, false);
    let mut outputs = wide(&outcome.before, &case.outputs, true);
    let copies = copies(case);
    // In f64 there is none: it is the weight, rounded.
    outputs.truncate(outputs.len() - copies);
    let case = Case { inputs, outputs, ..*case };
    let mut wanted = launch(&executor, &case, 0)?.after;
    wanted.extend_from_within(..copies);
    Ok(wanted)
}

/// The type of an operand where floating-point numbers are f64: a few operands are f32 for any other types.
fn reference_type(kernel: &Kernel, is_output: bool, i: usize, dtype: DType) -> DType {
    let is_f32 = match kernel {
        Kernel::Gather(Gather::Images) => !is_output,
        // Scales, and scales of scales.
        Kernel::Coded(Coded::Encode(_)) => is_output,
        Kernel::Coded(Coded::EncodeScales) => true,
        Kernel::Coded(Coded::Decode(_)) => !is_output,
        Kernel::Coded(Coded::Product(_)) => !is_output && i > 0,
        // Ranges and scales of integers.
        Kernel::Int8(Int8::Encode | Int8::Observe(_)) => is_output,
        Kernel::Int8(Int8::Code | Int8::Fake | Int8::FakeGrad) => !is_output && i > 0,
        Kernel::Int8(Int8::Product(_)) => !is_output && (i == 1 || i == 3),
        // The number of elements decides nothing here.
        Kernel::Optimizer(Optimizer::Update(update)) if is_output && i > 0 => {
            let layout = update.rule.state_layout([1].into(), dtype);
            layout.get(i - 1).is_some_and(|spec| matches!(spec.values, StateValues::Scales | StateValues::ScaleRoots))
        }
        _ => false,
    };
    if is_f32 || !FLOATS.contains(&dtype) { dtype } else { DType::F64 }
}

/// How many narrower copies of weights an update writes, after their states.
fn copies(case: &Case) -> usize {
    let (rule, count) = match &case.kernel {
        Kernel::Optimizer(Optimizer::Update(update)) => (update.rule, 1),
        Kernel::Optimizer(Optimizer::UpdateAll { update, count }) => (update.rule, *count),
        _ => return 0,
    };
    case.outputs.len() - count * (1 + rule.state_layout([1].into(), DType::F32).len())
}

/// Compares a launch's outputs with the expected ones.
fn judge(case: &Case, got: &[Vec<f64>], wanted: &[Vec<f64>], worst: &mut Worst) -> Result<(), Fault> {
    if let Some(outputs) = meant(case, got, wanted) {
        for (i, [got, wanted, tolerance]) in outputs.into_iter().flatten().enumerate() {
            let here = Worst::between(got, wanted, tolerance);
            if !here.holds() {
                let message = format!("number {i} of what is kept stands for {got:e}, not {wanted:e}");
                return Err(Fault { message, worst: here });
            }
            *worst = worst.or(here);
        }
        return Ok(());
    }
    for (i, (got, wanted)) in got.iter().zip(wanted).enumerate() {
        let mut neighbours = 0;
        let [got, wanted] = [got, wanted].map(|numbers| compared(case, i, numbers));
        for (place, (got, wanted)) in got.iter().zip(wanted.iter()).enumerate() {
            let here = Worst::between(*got, *wanted, allowed(case, i, *wanted));
            neighbours += usize::from(here.error != 0.0 && !FLOATS.contains(&case.outputs[i].1));
            if !here.holds() {
                let message = format!("output {i} at {place} is {got:e}, not {wanted:e}");
                return Err(Fault { message, worst: here });
            }
            *worst = worst.or(here);
        }
        if neighbours > 1 + got.len() / CODES {
            return Err(Fault::new(format!("{neighbours} of {} integers of output {i} are others", got.len())));
        }
    }
    Ok(())
}
