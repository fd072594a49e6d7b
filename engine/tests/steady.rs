//! A step whose memory is there: it calls the system for none, and its tensors lie where those of the step before did.
//!
//! In a process of its own: another run that ends hands free pages of the whole heap back.

use plimsoll_engine::{
    Bytes,
    backend::{
        Cpu, Executor,
        thread_pool::{ThreadPool, ThreadPriority},
    },
    data::DatasetInfo,
    experiment::shipped,
    hardware::Machine,
    memory::{
        Ledger,
        host::{LimitedBy, Line},
    },
    plan::Plan,
    selftest::steps::Noise,
    step::Session,
};

/// Pages that this thread met for the first time, or again after it had given them back, so far ("minflt", proc(5)).
fn faults() -> u64 {
    let stat = std::fs::read_to_string("/proc/thread-self/stat").expect("Linux tells");
    let fields = stat.rsplit_once(") ").expect("the name ends").1;
    fields.split(' ').nth(7).and_then(|field| field.parse().ok()).expect("a number")
}

/// The faults of `count` steps of a session on one thread.
fn in_steps(session: &mut Session<Cpu>, noise: &Noise, count: u64) -> u64 {
    let before = faults();
    for _ in 0..count {
        session.step(1e-3, || Ok(noise)).expect("a step");
    }
    faults() - before
}

/// Whether the system gives pages of 2 MiB unasked, so that few are met.
fn are_pages_huge() -> bool {
    let setting = std::fs::read_to_string("/sys/kernel/mm/transparent_hugepage/enabled");
    setting.is_ok_and(|setting| setting.contains("[always]"))
}

#[test]
#[cfg(target_os = "linux")]
fn a_steady_step_meets_no_new_page() {
    for name in ["mlp-digits", "cnn-shapes", "vit-digits"] {
        let experiment = shipped::find(name).expect("ships").expect("a preset");
        let plan = Plan::of(&experiment, &Machine::nominal()).expect("a plan");
        let places = plan.places.as_ref().expect("they are found");
        let info: &DatasetInfo = plan.resolved.info();
        let noise = Noise::new(experiment.batch.micro, info, 5);
        let threads = ThreadPool::of(1, ThreadPriority::Normal).expect("a thread");
        let [first, later] = threads.run(|| {
            let ledger = Ledger::within(Line { bytes: Bytes(u64::MAX), limited_by: LimitedBy::Budget }, true);
            ledger.follow(Some(places));
            let executor = Executor::new(Cpu::in_arena(1, plan.peak.reserved), ledger);
            let mut session = Session::new(executor, &experiment, info).expect("no budget");
            let first = in_steps(&mut session, &noise, 10);
            [first, in_steps(&mut session, &noise, 10)]
        });
        // Almost all of the range is met in the first steps; later ones may still find a page of the heap's that is new, for
        // scratch. With tensors on the heap, 10 steps of `cnn-shapes` meet 420.
        assert!(are_pages_huge() || first >= places.extent().0 / 4096 / 2, "{name}: {first} in the first steps");
        assert!(later <= 64, "{name}: {later} in 10 later steps, {first} in the first");
    }
}
