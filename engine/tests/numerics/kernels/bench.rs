//! A place to launch kernels: random operands, a pool of threads, a meter.

use plimsoll_engine::{
    backend::{
        Backend, Cpu, DType, DryRun, Executor, HostSlice, Kernel, Tensor, Window,
        ops::{MatMul, Pool},
        thread_pool::{ThreadPool, ThreadPriority},
    },
    device::{Processor, Target},
    memory::{Category, Ledger, probe::uncounted},
    selftest::{Outcome, cases::Operand, draw::Draw},
};

/// Random shapes.
pub(crate) trait Shapes {
    fn window(&mut self, largest: usize, own_filters: bool) -> Window;
    fn matmul(&mut self, largest: usize) -> MatMul;
}

impl Shapes for Draw {
    fn window(&mut self, largest: usize, own_filters: bool) -> Window {
        let size = self.between(1, 5);
        let channels = self.pick(&[1, 2, 3, 7, 16, 17, 32, 65]).min(largest * 8);
        Window {
            batch: self.between(1, 3),
            height: self.between(size, size.max(largest)),
            width: self.between(size, size.max(largest)),
            channels,
            filters: if own_filters { channels } else { self.pick(&[1, 3, 8, 16, 19, 32, 70]).min(largest * 8) },
            size,
            stride: self.between(1, 4),
            padding: self.between(0, size - 1),
        }
    }

    fn matmul(&mut self, largest: usize) -> MatMul {
        MatMul {
            m: self.between(1, largest),
            n: self.between(1, largest),
            k: self.between(1, largest),
            transpose_a: self.coin(),
            transpose_b: self.coin(),
            accumulate: self.coin(),
        }
    }
}

/// Bytes of a launch.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Cost {
    /// What the meter saw beyond what was alive before.
    pub(crate) measured: u64,
    /// What the ledger booked beyond what was alive before.
    pub(crate) booked: u64,
}

/// The engine's threads, with nothing else on them.
pub(crate) struct Threads {
    pool: ThreadPool,
}

impl Threads {
    pub(crate) fn new(count: usize) -> Self {
        Self { pool: ThreadPool::of(count, ThreadPriority::Normal).expect("threads") }
    }

    /// Launches once.
    pub(crate) fn launch(&self, kernel: impl Into<Kernel>, inputs: &[Operand], outputs: &[Operand]) -> (Outcome, Cost) {
        let (kernel, meter) = (kernel.into(), self.pool.meter());
        self.pool.run(|| {
            let executor = Executor::new(Cpu::new(self.pool.count()), Ledger::new(None, false));
            let ins: Vec<_> = inputs.iter().map(|o| upload(&executor, o)).collect();
            let outs: Vec<_> = outputs.iter().map(|o| upload(&executor, o)).collect();
            let read = |tensors: &[Tensor<Cpu>]| tensors.iter().map(|t| values(&executor, t)).collect();
            let (inputs, before) = (read(&ins), read(&outs));
            let (ins, refs): (Vec<_>, Vec<_>) = (ins.iter().collect(), outs.iter().collect());
            let booked = executor.ledger().live();
            meter.reset_peak();
            let alive = meter.now().live;
            executor.launch(kernel, &ins, &refs).unwrap_or_else(|e| panic!("{e}"));
            let cost = Cost { measured: meter.peak().live.0 - alive.0, booked: executor.ledger().peak().0 - booked.0 };
            uncounted(|| (Outcome { inputs, before, after: read(&outs) }, cost))
        })
    }
}

impl Threads {
    /// Pools, and takes the gradient back: `[x, dy]` as the kernels saw them, the winners' places and `dx`.
    pub(crate) fn pool_and_back(&self, w: Window, x: &Operand, dy: &Operand) -> [Vec<f64>; 4] {
        self.pool.run(|| {
            let executor = Executor::new(Cpu::new(self.pool.count()), Ledger::new(None, false));
            let [x, dx, y, dy] = [x, x, dy, dy].map(|operand| upload(&executor, operand));
            let index = upload(&executor, &(vec![0.0; dy.elements()], DType::U8));
            executor.launch(Pool::Max(w), &[&x], &[&y, &index]).unwrap_or_else(|e| panic!("{e}"));
            executor.launch(Pool::MaxGrad(w), &[&dy, &index], &[&dx]).unwrap_or_else(|e| panic!("{e}"));
            [x, dy, index, dx].map(|tensor| values(&executor, &tensor))
        })
    }
}

fn upload(executor: &Executor<Cpu>, (numbers, dtype): &Operand) -> Tensor<Cpu> {
    let tensor = executor.allocate([numbers.len()], *dtype, Category::Batch, "operand").expect("no budget");
    if *dtype == DType::U8 {
        let bytes: Vec<u8> = numbers.iter().map(|&x| x as u8).collect();
        executor.backend().write(&tensor, HostSlice::U8(&bytes)).expect("bytes");
    } else if *dtype == DType::U32 {
        let integers: Vec<u32> = numbers.iter().map(|&x| x as u32).collect();
        executor.backend().write(&tensor, HostSlice::U32(&integers)).expect("integers");
    } else {
        let floats: Vec<f32> = numbers.iter().map(|&x| x as f32).collect();
        executor.backend().write(&tensor, HostSlice::F32(&floats)).expect("numbers");
    }
    tensor
}

fn values(executor: &Executor<Cpu>, tensor: &Tensor<Cpu>) -> Vec<f64> {
    executor.read(tensor).expect("candle has elements").expect("candle has elements")
}

/// What a dry run books for the same launch.
pub(crate) fn dry(threads: usize, kernel: Kernel, inputs: &[Operand], outputs: &[Operand]) -> u64 {
    let executor = Executor::new(
        DryRun::new(Target::Cpu(Processor::with_threads(threads)), plimsoll_engine::backend::Rates::NOMINAL),
        Ledger::new(None, false),
    );
    let make = |o: &Operand| executor.allocate([o.0.len()], o.1, Category::Batch, "operand").expect("no budget");
    let (ins, outs): (Vec<_>, Vec<_>) = (inputs.iter().map(make).collect(), outputs.iter().map(make).collect());
    let before = executor.ledger().live();
    executor.launch(kernel, &ins.iter().collect::<Vec<_>>(), &outs.iter().collect::<Vec<_>>()).expect("no arithmetic");
    executor.ledger().peak().0 - before.0
}
