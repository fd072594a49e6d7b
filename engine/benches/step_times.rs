//! Times every op of a step beside its prediction: `cargo bench -p plimsoll-engine --bench step_times -- ../presets/cnn-digits.toml`.
//!
//! A line for each kind of op: how many there are in a step, their predicted and their measured microseconds. Steps and ops are
//! the fastest of some, and a reading of the clock at every op adds a little to it.

use std::{collections::BTreeMap, rc::Rc, time::Instant};

use plimsoll_engine::{
    Bytes,
    backend::{
        Cpu, Executor,
        thread_pool::{ThreadPool, ThreadPriority},
    },
    experiment::preset,
    memory::{
        Ledger,
        probe::{Measure, Reading},
    },
    plan::{Pass, Plan, measured_machine, op_secs},
    selftest::steps::Noise,
    step::Session,
};

/// The time since it was last read, in nanoseconds.
struct Clock(std::cell::Cell<Instant>);

impl Measure for Clock {
    fn now(&self) -> Reading {
        Reading::default()
    }

    fn peak(&self) -> Reading {
        let now = Instant::now();
        let elapsed = now - self.0.replace(now);
        Reading { live: Bytes(elapsed.as_nanos() as u64), reserved: Bytes::ZERO }
    }

    fn reset_peak(&self) {}

    fn reset_live_peak(&self) {}
}

const STEPS: usize = 60;

fn main() {
    for path in std::env::args().skip(1).filter(|word| word.ends_with(".toml")) {
        let experiment = preset::read(&path).expect("a preset");
        let pool = ThreadPool::new(ThreadPriority::Normal).expect("threads");
        let machine = measured_machine(&pool);
        let plan = Plan::of(&experiment, &machine).expect("a plan");
        let predicted = op_secs(&plan, Pass::Steady).expect("a plan");
        let points = &plan.timeline(Pass::Steady).points;
        let noise = Noise::new(experiment.batch.micro, plan.resolved.data().info(), 5);
        let (steps, whole) = pool.run(|| {
            let executor = Executor::new(Cpu::in_arena(pool.count(), plan.peak.reserved), Ledger::new(None, false));
            let mut session = Session::new(executor, &experiment, plan.resolved.data().info()).expect("no budget");
            let mut least = f64::INFINITY;
            for _ in 0..STEPS {
                let start = Instant::now();
                session.step(1e-3, || Ok(&noise)).expect("a step");
                least = least.min(start.elapsed().as_secs_f64());
            }
            let steps: Vec<Vec<f64>> = (0..STEPS)
                .map(|_| {
                    session.executor().sample(Rc::new(Clock(std::cell::Cell::new(Instant::now()))), 4096);
                    session.step(1e-3, || Ok(&noise)).expect("a step");
                    session.executor().take_samples().into_iter().map(|s| s.high.0 as f64 / 1e9).collect()
                })
                .collect();
            (steps, least)
        });
        let best = |i: usize| steps.iter().map(|step| step[i]).fold(f64::INFINITY, f64::min);
        let mut kinds: BTreeMap<String, (usize, f64, f64)> = BTreeMap::new();
        for (i, (point, predicted)) in points.iter().zip(&predicted).enumerate() {
            let kind = kinds.entry(point.op.to_string()).or_default();
            *kind = (kind.0 + 1, kind.1 + predicted, kind.2 + best(i));
        }
        let total: f64 = (0..points.len()).map(best).sum();
        println!(
            "{path}: predicted {:.0} us, measured {:.0} us, the sum of the fastest ops {:.0} us, launch {:.2} us",
            plan.step_secs * 1e6,
            whole * 1e6,
            total * 1e6,
            machine.rates(&plan.target, false).launch_secs * 1e6,
        );
        let mut kinds: Vec<_> = kinds.into_iter().collect();
        kinds.sort_by(|a, b| (b.1.2 - b.1.1).total_cmp(&(a.1.2 - a.1.1)));
        for (op, (count, predicted, measured)) in kinds {
            println!("  {op:36} {count:5} {:9.1} {:9.1}", predicted * 1e6, measured * 1e6);
        }
    }
}
