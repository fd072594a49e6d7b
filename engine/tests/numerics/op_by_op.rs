//! Dry run against real run, op by op: the same ops in the same order, and at each the memory that was measured.

use std::rc::Rc;

use plimsoll_engine::{
    Bytes, Experiment,
    backend::{
        Cpu, DryRun, Executor, Rates,
        thread_pool::{ThreadPool, ThreadPriority},
    },
    data::DatasetInfo,
    device::{Processor, Target, cpu_threads},
    memory::{Category, Ledger, Point, ledger::Recording, probe::uncounted},
    selftest::steps::{Noise, cases, passes},
    step::{Blank, Session},
};

fn dry(experiment: &Experiment, facts: &DatasetInfo) -> [Recording; 3] {
    let executor =
        Executor::new(DryRun::new(Target::Cpu(Processor::detect()), Rates::NOMINAL), Ledger::new(None, true));
    let mut session = Session::new(executor, experiment, facts).expect("no budget");
    passes(&mut session, || Blank(experiment.batch.micro)).expect("a dry run")
}

#[test]
fn the_real_step_writes_the_ledger_of_the_dry_one() {
    for (experiment, facts) in cases() {
        let noise = Noise::new(experiment.batch.micro, &facts, 5);
        let executor = Executor::new(Cpu::new(cpu_threads()), Ledger::new(None, true));
        let mut session = Session::new(executor, &experiment, &facts).expect("no budget");
        let real = passes(&mut session, || &noise).expect("a real run");
        for (real, dry) in real.iter().zip(&dry(&experiment, &facts)) {
            assert_eq!(real.timeline.points, dry.timeline.points, "{experiment:?}");
            assert_eq!(real.alive_at_peak(), dry.alive_at_peak(), "{experiment:?}");
            assert_eq!((real.live_peak, real.reserved_peak), (dry.live_peak, dry.reserved_peak));
        }
    }
}

/// What threads that ended in other tests leave, which any thread frees later, a metered one too: 4.4 KiB a thread (`Local` and
/// `Bag` of crossbeam-epoch).
const OF_ENDED_THREADS: Bytes = Bytes::kib(64);

/// Measured bytes at every op of the second step, above the idle level.
fn measured(pool: &ThreadPool, experiment: &Experiment, facts: &DatasetInfo, noise: &Noise) -> Vec<Bytes> {
    let meter = pool.meter();
    let idle = meter.now().live;
    let samples = pool.run(|| {
        let executor = Executor::new(Cpu::new(cpu_threads()), Ledger::new(None, false));
        let mut session = Session::new(executor, experiment, facts).expect("no budget");
        session.step(1e-3, || Ok(noise)).expect("a first step");
        session.executor().sample(uncounted(|| Rc::new(meter)), 4096);
        session.step(1e-3, || Ok(noise)).expect("a second step");
        session.executor().take_samples()
    });
    let live = meter.now().live;
    assert!(live <= idle, "everything is given back: {live} alive, {idle} before");
    samples.into_iter().map(|sample| sample.high.saturating_sub(idle)).collect()
}

#[test]
fn memory_measured_at_every_op_is_what_the_dry_run_says() {
    let pool = ThreadPool::new(ThreadPriority::Normal).expect("threads");
    for (experiment, facts) in cases() {
        let noise = Noise::new(experiment.batch.micro, &facts, 5);
        let samples = measured(&pool, &experiment, &facts, &noise);
        let [_, steady, _] = dry(&experiment, &facts);
        assert_eq!(samples.len(), steady.timeline.points.len(), "{experiment:?}");
        for (point, sample) in steady.timeline.points.iter().zip(samples) {
            let place = || format!("{} of {} in {experiment:?}", point.op, steady.timeline.layer(point.layer));
            // Tensors are exact; scratch and bookkeeping are bounds.
            assert!(sample <= point.live, "{}: {sample} measured, {} predicted", place(), point.live);
            let least = tensors(point).saturating_sub(OF_ENDED_THREADS);
            assert!(sample >= least, "{}: {sample} measured, {} in tensors", place(), tensors(point));
        }
    }
}

fn tensors(point: &Point) -> Bytes {
    point.live - point.categories.get(Category::Context) - point.categories.get(Category::Scratch)
}
