//! The prediction of a pool holds for later steps, and the bookkeeping is that of a dry run of its own.

use super::{dry::MICRO_BATCHES, *};
use crate::{
    Experiment,
    experiment::{PoolPolicy, UpdateTime, shipped},
    memory::{
        Phase,
        allocator::{Allocator, Places},
        tally,
    },
    selftest::{draw::fresh_seed, experiments::Experiments},
    step::bookkeeping,
};

/// The shipped presets whose data need no folder of the user's.
fn shipped_presets() -> impl Iterator<Item = (&'static str, Experiment)> {
    let all = shipped::shipped().iter().map(|(name, _)| (*name, shipped::open(name).expect("a preset").experiment));
    all.filter(|(_, experiment)| !experiment.data.kind.is_on_disk())
}

/// The most that the pool holds in many steps, with an evaluation after every few.
fn held(resolved: &Resolved, places: Option<&Arc<Places>>) -> Bytes {
    let shortened = shortened(resolved.experiment());
    let mut dry = Dry::new(resolved, &shortened, &Machine::nominal(), Purpose::Record, places).expect("a session");
    let mut most = Bytes::ZERO;
    for step in 1..=23 {
        dry.step().expect("a step");
        if step % 5 == 0 {
            dry.evaluate().expect("an evaluation");
        }
        let taken = dry.take_recording();
        most = most.max(dry.recordings[taken].reserved_peak);
    }
    most
}

#[test]
fn no_later_step_takes_more_of_a_pool_than_was_predicted() {
    let seed = fresh_seed();
    let drawn = Experiments::new(seed, "rtx4060-8g", None).take(60).map(|drawn| (drawn.family, drawn.experiment));
    let mut more_than_needed = 0;
    for (name, mut experiment) in shipped_presets().chain(drawn) {
        experiment.device = "rtx4060-8g".to_owned();
        experiment.budget = Bytes::gib(8);
        experiment.shorten(40);
        for policy in [PoolPolicy::Grow, PoolPolicy::Release, PoolPolicy::Planned] {
            experiment.gpu.pool = policy;
            let resolved = Resolved::new(&experiment, &Machine::nominal()).expect("possible");
            let plan = predict(&resolved, &Machine::nominal()).expect("a plan");
            let (predicted, held) = (plan.peak.reserved, held(&resolved, plan.places.as_ref()));
            assert!(predicted >= held, "{name}, seed {seed}, {policy:?}: {predicted} predicted, {held} held");
            more_than_needed += usize::from(predicted > held);
        }
    }
    assert!(more_than_needed <= 4, "{more_than_needed} predictions were more than is held, seed {seed}");
}

#[test]
fn a_step_of_many_micro_batches_keeps_to_the_places_of_two() {
    for (retain_graph, accumulation) in [(false, 3), (false, 3 * MICRO_BATCHES), (true, 5)] {
        let mut experiment = shipped::open("cnn-shapes-accumulate").expect("a preset").experiment;
        (experiment.device, experiment.gpu.pool) = ("rtx4060-8g".to_owned(), PoolPolicy::Planned);
        (experiment.batch.accumulation, experiment.retain_graph) = (accumulation, retain_graph);
        experiment.shorten(40);
        // So large that the pool's least segment hides nothing.
        (experiment.model.width, experiment.batch.micro) = (128, 32);
        let resolved = Resolved::new(&experiment, &Machine::nominal()).expect("possible");
        let plan = predict(&resolved, &Machine::nominal()).expect("a plan");
        let places = plan.places.as_ref().expect("no worse than growing");
        let purpose = Purpose::Record;
        let mut dry = Dry::new(&resolved, &experiment, &Machine::nominal(), purpose, Some(places)).expect("a session");
        for _ in 0..5 {
            dry.step().expect("a step");
            dry.evaluate().expect("an evaluation");
            let taken = dry.take_recording();
            assert_eq!(dry.recordings[taken].reserved_peak, plan.peak.reserved, "{accumulation}");
        }
        assert_eq!(plan.peak.reserved, places.segment());
    }
}

#[test]
fn the_bookkeeping_is_that_of_a_dry_run_for_nothing_else() {
    let shipped = shipped_presets().map(|(_, experiment)| experiment);
    let shipped = shipped.filter(|experiment| experiment.model.width < 1000);
    let drawn = Experiments::new(5, "cpu", None).take(40).map(|drawn| drawn.experiment);
    for experiment in shipped.chain(drawn) {
        let resolved = Resolved::new(&experiment, &Machine::nominal()).expect("possible");
        if resolved.target().is_gpu() {
            continue;
        }
        let counted = predict(&resolved, &Machine::nominal()).expect("a plan").bookkeeping;
        let alone = bookkeeping(&experiment, resolved.teacher(), resolved.info()).expect("it can be built");
        // Between two micro-batches that both are added to, it may vary by more than in the first and the last.
        let [counted, alone] = [counted, alone].map(|books| Phase::ALL.map(|phase| books.of(phase)));
        assert_eq!(counted, alone, "{experiment:?}");
    }
}

#[test]
fn micro_batches_that_are_left_out_change_nothing_that_is_shown() {
    let drawn = Experiments::new(29, "rtx4060-8g", None).take(40).map(|drawn| drawn.experiment);
    let (machine, mut left_out) = (Machine::nominal(), 0);
    for (number, mut experiment) in shipped_presets().map(|(_, experiment)| experiment).chain(drawn).enumerate() {
        // In the backward pass there is one micro-batch only.
        if experiment.model.width >= 1000 || experiment.optimizer.update == UpdateTime::InBackward {
            continue;
        }
        experiment.batch.accumulation = [2, 3, 4, 7, 16, 40][number % 6];
        experiment.shorten(40);
        for device in ["rtx4060-8g", "cpu"] {
            (experiment.device, experiment.budget) = (device.to_owned(), Bytes::gib(8));
            let Ok(resolved) = Resolved::new(&experiment, &machine) else { continue };
            let plan = predict(&resolved, &machine).expect("a plan");
            let shortened = shortened(resolved.experiment());
            let dry = || -> Result<_> {
                let purpose = if resolved.target().is_gpu() { Purpose::Record } else { Purpose::Log };
                let mut dry = Dry::new(&resolved, &shortened, &machine, purpose, None)?;
                let passes = dry.passes()?;
                let bookkeeping = dry.session.executor().ledger().gathered();
                Ok((dry, passes, bookkeeping))
            };
            let (mut dry, passes, bookkeeping) =
                if resolved.target().is_gpu() { dry() } else { tally::counted(dry) }.expect("a dry run");
            if !resolved.target().is_gpu() {
                dry.recordings = dry.session.executor().ledger().replayed(Allocator::of_processor(true), None);
            }
            assert_eq!(plan.bookkeeping, bookkeeping, "{experiment:?}");
            assert_eq!(plan.first, dry.recordings[0].timeline, "{experiment:?}");
            if let Some(steady) = passes.whole.steady {
                assert_eq!(plan.steady, dry.recordings[steady].timeline, "{experiment:?}");
                let apart = (plan.step_secs - passes.whole.step_secs).abs();
                assert!(apart < 1e-6 * plan.step_secs, "{} {}", plan.step_secs, passes.whole.step_secs);
            }
            left_out += usize::from(experiment.batch.accumulation > 4 && !experiment.retain_graph);
        }
    }
    assert!(left_out > 20, "{left_out} experiments");
}

/// A plan shows the step that a run does not have; that step takes no room in the range.
#[test]
fn a_run_that_goes_on_for_its_test_alone_is_given_no_room_for_steps() {
    let mut experiment = Experiment::default();
    experiment.run.steps = Some(3);
    let machine = Machine::nominal();
    let resolved = Resolved::new(&experiment, &machine).expect("an experiment");
    let whole = predict(&resolved, &machine).expect("a plan");
    let counters = crate::step::Counters { updates: 3, loss_scale: (1.0, 0), ..Default::default() };
    let resumed = crate::plan::Resumed { step: 3, counters, so_far: crate::plan::SoFar::default() };
    let test = predict(&resolved.resuming(Some(resumed)), &machine).expect("a plan");
    assert!(test.peak.live < whole.peak.live);
    let slack = |plan: &Plan| plan.peak.reserved - plan.peak.live;
    assert!(slack(&test) <= slack(&whole) + Bytes::kib(64), "{:?} {:?}", test.peak, whole.peak);
}
