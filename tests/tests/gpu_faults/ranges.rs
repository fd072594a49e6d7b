//! Where the tensors of a run lie, mapped memory or blocks of the driver's pool: the same predictions, the same losses, and
//! nothing left behind. And the segments of such a run, one by one.

use std::{rc::Rc, sync::Arc};

use cudarc::driver::{result, sys};
use plimsoll_engine::{
    Bytes, Error,
    backend::{
        Backend, Cuda, DType,
        cuda::{Device, Options},
    },
    device::profile::{Profile, shipped},
    memory::{allocator::Place, probe::Measure},
    train::{Command, Event, Outcome, Summary},
};
use plimsoll_tests::{is_left_out, on_simulated_gpu};

use crate::card::{Card, experiment, on_card};

const MIB: u64 = 1 << 20;

/// Whether the driver has no memory that could be mapped, which a test is about.
fn is_without_mapped_memory() -> bool {
    is_left_out(&["PLIMSOLL_SIM_VIRTUAL"], "mapped memory")
}

/// A run of three steps with a test after the second; its losses, what the card holds for it then, its summary, and its
/// warnings about mapped memory.
fn run(card: &Card, preset: &str, policy: &str) -> (Vec<f64>, u64, Summary, Vec<String>) {
    let pool = format!("gpu.pool={policy}");
    let experiment = experiment(preset, &["run.steps=3", "batch.micro=16", &pool]);
    let calm = card.calm(&experiment);
    let idle = card.held();
    card.begin(&experiment, true);
    let mut losses = card.steps(2);
    card.send(Command::Evaluate);
    card.until(|event| matches!(event, Event::Evaluated { .. }));
    let held = card.held() - idle;
    card.send(Command::Resume);
    let mut warnings = Vec::new();
    loop {
        match card.next() {
            Event::Step(record) => losses.push(record.loss),
            Event::Warning(warning) if warning.contains("mapped") => warnings.push(warning),
            Event::Ended { outcome, summary, .. } => {
                assert!(matches!(outcome, Outcome::Finished), "{outcome:?}");
                assert_eq!((summary.left_over, card.held(), &losses), (Bytes(0), idle, &calm), "{policy}");
                return (losses, held, *summary, warnings);
            }
            _ => {}
        }
    }
}

/// Every policy takes what was predicted, by the counters and by the card's own account, and comes to the same losses; the
/// warnings of each run.
fn every_policy(card: &Card, preset: &str) -> Vec<Vec<String>> {
    let mut first = None;
    let mut said = Vec::new();
    for policy in ["planned", "grow", "give-back", "reserve"] {
        let (losses, held, summary, warnings) = run(card, preset, policy);
        let (predicted, measured) = (&summary.predicted, &summary.measured);
        assert_eq!((predicted.live, predicted.reserved), (measured.live, measured.reserved), "{policy}");
        let is_all_there = policy != "give-back";
        assert!(held > 0 && held <= measured.reserved.0, "{policy}: {held} of {measured:?}");
        assert!(!is_all_there || held == measured.reserved.0, "{policy}: {held} of {measured:?}");
        assert_eq!(*first.get_or_insert_with(|| losses.clone()), losses, "{policy}");
        said.push(warnings);
    }
    said
}

#[test]
fn every_policy_takes_what_was_predicted_of_mapped_memory() {
    on_card("ranges::every_policy_takes_what_was_predicted_of_mapped_memory", &[], |card| {
        assert_eq!(every_policy(card, "cnn-digits"), vec![Vec::<String>::new(); 4]);
    });
}

#[test]
fn every_policy_takes_what_was_predicted_of_the_pool() {
    let settings = [("PLIMSOLL_SIM_VIRTUAL", "0")];
    on_card("ranges::every_policy_takes_what_was_predicted_of_the_pool", &settings, |card| {
        assert_eq!(every_policy(card, "cnn-digits"), vec![Vec::<String>::new(); 4]);
    });
}

/// A run at planned places on a card whose pools grow by 32 MiB, with mapped memory or without.
fn planned(name: &str, is_mapped: bool) {
    let settings = [("PLIMSOLL_SIM_POOL_STEP_MIB", "32"), ("PLIMSOLL_SIM_VIRTUAL", if is_mapped { "1" } else { "0" })];
    on_card(name, &settings, |card| {
        let (_, _, summary, warnings) = run(card, "cnn-digits", "planned");
        let (predicted, measured) = (&summary.predicted, &summary.measured);
        assert_eq!((predicted.live, predicted.reserved), (measured.live, measured.reserved));
        assert_eq!(warnings, Vec::<String>::new());
        let (step, slack) = (if is_mapped { 2 * MIB } else { 32 * MIB }, measured.reserved.0 - measured.live.0);
        assert!(measured.reserved.0.is_multiple_of(step) && slack < step, "{measured:?}");
        // At the line to the byte, and refused a byte below.
        let held_to = |budget: Bytes| {
            let changes = ["run.steps=3", "batch.micro=16", "gpu.pool=planned", &format!("budget={}B", budget.0)];
            card.run(&experiment("cnn-digits", &changes))
        };
        let line = held_to(Bytes::gib(1)).summary.predicted.process;
        let run = held_to(line);
        assert!(matches!(run.outcome, Outcome::Finished), "{:?}", run.outcome);
        assert_eq!(run.summary.measured.reserved, measured.reserved);
        match held_to(line - Bytes(1)).outcome {
            Outcome::OverBudget(refusal) => assert_eq!(refusal.error.live + refusal.error.asked, line),
            other => panic!("{other:?}"),
        }
    });
}

#[cfg(not(feature = "candle-cuda"))]
#[test]
fn planned_places_take_no_more_than_a_granule_above_them_where_memory_is_mapped() {
    planned("ranges::planned_places_take_no_more_than_a_granule_above_them_where_memory_is_mapped", true);
}

#[test]
fn planned_places_take_whole_pages_of_a_pool_without_mapped_memory() {
    planned("ranges::planned_places_take_whole_pages_of_a_pool_without_mapped_memory", false);
}

// Candle's device has no mapped memory.
#[cfg(not(feature = "candle-cuda"))]
mod refusals {
    use super::{every_policy, is_without_mapped_memory, on_card};

    /// A driver that refuses a call costs a run nothing but a warning, which tells why.
    fn refused(name: &str, call: &str, why: &str) {
        if is_without_mapped_memory() {
            return;
        }
        on_card(name, &[("PLIMSOLL_SIM_VIRTUAL_REFUSES", call)], |card| {
            for warnings in every_policy(card, "mlp-digits") {
                let [warning] = &warnings[..] else { panic!("{warnings:?}") };
                assert!(warning.contains("blocks of the driver's pool") && warning.contains(why), "{warning}");
            }
        });
    }

    #[test]
    fn of_addresses() {
        refused("ranges::refusals::of_addresses", "reserve", "asking for a range of addresses: out of memory");
    }

    #[test]
    fn of_memory() {
        refused("ranges::refusals::of_memory", "create", "mapping memory: operation not supported");
    }

    #[test]
    fn of_a_mapping() {
        refused("ranges::refusals::of_a_mapping", "map", "mapping memory: operation not supported");
    }

    #[test]
    fn of_access() {
        refused("ranges::refusals::of_access", "access", "mapping memory: operation not supported");
    }

    #[test]
    fn to_tell_what_is_mapped() {
        refused("ranges::refusals::to_tell_what_is_mapped", "tell", "the driver does not tell what is mapped");
    }
}

/// A backend on the first card whose tensors take at most so much, and the card.
fn backend(limit: u64, gives_back: bool) -> (Cuda, Rc<Device>) {
    let device = Device::open(0).expect("a card");
    let profile: Arc<Profile> = shipped()[0].clone();
    let options = Options { gives_back, tf32: false, deterministic: true, guarded: false, tensor_cores: false };
    (Cuda::new(&device, profile, Some(Bytes(limit)), options).expect("a pool"), device)
}

/// A place at the start of a segment.
fn place(segment: u32, mib: u64) -> Place {
    Place { segment, segment_bytes: mib * MIB, start: 0, bytes: 512 }
}

fn room() -> u64 {
    result::mem_get_info().expect("the card's memory").0 as u64
}

/// The size of the mapping that an address lies in, by the driver; `None` where there is none.
fn mapping(at: u64) -> Option<u64> {
    let ask = |attribute| {
        let mut value = 0u64;
        // SAFETY: the place is as wide as the attributes.
        unsafe { sys::cuPointerGetAttribute((&raw mut value).cast(), attribute, at) }.result().ok().map(|()| value)
    };
    let is_mapped = ask(sys::CUpointer_attribute::CU_POINTER_ATTRIBUTE_MAPPED)? != 0;
    ask(sys::CUpointer_attribute::CU_POINTER_ATTRIBUTE_MAPPING_SIZE).filter(|_| is_mapped)
}

#[cfg(not(feature = "candle-cuda"))]
#[test]
fn segments_lie_end_to_end_in_one_range_as_long_as_the_line() {
    if is_without_mapped_memory() {
        return;
    }
    on_simulated_gpu("ranges::segments_lie_end_to_end_in_one_range_as_long_as_the_line", &[], || {
        let (backend, device) = backend(100 * MIB, false);
        let before = room();
        let put = |place| backend.allocate(128, DType::F32, Some(place));
        let [first, second] = [place(0, 32), place(1, 34)].map(|place| put(place).expect("room"));
        assert_eq!(second.address() - first.address(), 32 * MIB);
        assert_eq!([&first, &second].map(|block| mapping(block.address())), [Some(32 * MIB), Some(34 * MIB)]);
        assert_eq!((before - room(), backend.pool().now().reserved), (66 * MIB, Bytes(66 * MIB)));
        // Refused are what crosses the line and what is no place; neither leaves anything.
        let past = put(place(2, 36)).map(|block| block.address());
        assert!(matches!(past, Err(Error::Budget(_))), "{past:?}");
        assert_eq!((before - room(), mapping(second.address() + 34 * MIB)), (66 * MIB, None));
        let third = put(place(3, 34)).expect("to the line");
        assert_eq!(third.address() - first.address(), 66 * MIB);
        assert_eq!(backend.pool().peak().reserved, Bytes(100 * MIB));
        drop((first, second, third));
        assert_eq!(backend.pool().now().reserved, Bytes(100 * MIB), "the run is not over");
        drop(backend);
        assert_eq!(device.free_bytes(), Ok(before));
    });
}

#[cfg(not(feature = "candle-cuda"))]
#[test]
fn what_is_given_back_is_unmapped_and_its_addresses_serve_again() {
    if is_without_mapped_memory() {
        return;
    }
    on_simulated_gpu("ranges::what_is_given_back_is_unmapped_and_its_addresses_serve_again", &[], || {
        let (backend, device) = backend(160 * MIB, true);
        let before = room();
        let put = |number, mib| backend.allocate(128, DType::F32, Some(place(number, mib))).expect("room");
        let reserved = || (before - room(), backend.pool().now().reserved.0);
        let (first, second, third) = (put(0, 64), put(1, 32), put(2, 64));
        let start = first.address();
        drop((first, third));
        backend.step_ended().expect("given back");
        assert_eq!(
            (reserved(), mapping(start), mapping(second.address())),
            ((32 * MIB, 32 * MIB), None, Some(32 * MIB))
        );
        let again = put(3, 64);
        assert_eq!((again.address(), reserved()), (start, (96 * MIB, 96 * MIB)));
        drop(again);
        backend.step_ended().expect("given back");
        // No gap of the range is as long, and the line has room for it.
        let long = put(4, 128);
        assert_eq!((mapping(long.address()), reserved()), (Some(128 * MIB), (160 * MIB, 160 * MIB)));
        let past = backend.allocate(128, DType::F32, Some(place(5, 2))).map(|block| block.address());
        assert!(matches!(past, Err(Error::Budget(_))), "{past:?}");
        drop(long);
        backend.step_ended().expect("given back");
        assert_eq!(reserved(), (32 * MIB, 32 * MIB));
        drop((second, backend));
        assert_eq!(device.free_bytes(), Ok(before));
    });
}

#[cfg(not(feature = "candle-cuda"))]
#[test]
fn what_a_library_takes_of_the_device_s_pool_is_within_what_is_left_of_the_line() {
    if is_without_mapped_memory() {
        return;
    }
    on_simulated_gpu(
        "ranges::what_a_library_takes_of_the_device_s_pool_is_within_what_is_left_of_the_line",
        &[],
        || {
            let (backend, _device) = backend(160 * MIB, true);
            let put = |number, mib| backend.allocate(128, DType::F32, Some(place(number, mib))).expect("room");
            // SAFETY: the null stream takes an allocation at any time, and the block is freed once.
            let fits = |mib: u64| unsafe {
                let block = result::malloc_async(std::ptr::null_mut(), (mib * MIB) as usize);
                block.map(|block| result::free_async(block, std::ptr::null_mut()).expect("freed")).is_ok()
            };
            let (first, second) = (put(0, 64), put(1, 32));
            assert!(!fits(66));
            drop(first);
            backend.step_ended().expect("given back");
            assert!(!fits(130));
            assert!(fits(128), "the line has room for it again");
            // What the pool holds is no more to be mapped.
            assert_eq!(backend.pool().now().reserved, Bytes(160 * MIB));
            let past = backend.allocate(128, DType::F32, Some(place(2, 2))).map(|block| block.address());
            assert!(matches!(past, Err(Error::Budget(_))), "{past:?}");
            drop(second);
        },
    );
}

#[test]
fn a_segment_that_cannot_be_mapped_is_a_block_of_the_pool_within_the_same_line() {
    if is_left_out(&["PLIMSOLL_SIM_POOL_STEP_MIB"], "a pool in steps of 2 MiB") {
        return;
    }
    on_simulated_gpu(
        "ranges::a_segment_that_cannot_be_mapped_is_a_block_of_the_pool_within_the_same_line",
        &[],
        || {
            let (backend, device) = backend(128 * MIB, false);
            let before = room();
            let put = |place| backend.allocate(128, DType::F32, Some(place));
            // Half a granule.
            let odd = put(Place { segment_bytes: 33 * MIB, ..place(0, 0) }).expect("room");
            let even = put(place(1, 64)).expect("room");
            assert_eq!((mapping(odd.address()), backend.pool().now().live), (None, Bytes(1024)));
            assert_eq!((before - room(), backend.pool().now().reserved), (98 * MIB, Bytes(98 * MIB)));
            for past in [place(2, 32), Place { segment_bytes: 31 * MIB, ..place(3, 0) }] {
                let past = put(past).map(|block| block.address());
                assert!(matches!(past, Err(Error::Budget(_))), "{past:?}");
            }
            drop((odd, even, backend));
            assert_eq!(device.free_bytes(), Ok(before));
        },
    );
}

#[test]
fn a_run_that_is_stopped_leaves_nothing() {
    on_card("ranges::a_run_that_is_stopped_leaves_nothing", &[], |card| {
        for policy in ["planned", "give-back"] {
            let pool = format!("gpu.pool={policy}");
            let experiment = experiment("cnn-digits", &["run.steps=3", "batch.micro=16", &pool]);
            let calm = card.calm(&experiment);
            let idle = card.held();
            card.begin(&experiment, true);
            card.steps(1);
            assert!(card.held() > idle);
            card.send(Command::Stop);
            let run = card.end();
            assert!(matches!(run.outcome, Outcome::Stopped), "{:?}", run.outcome);
            assert_eq!((run.summary.left_over, card.held()), (Bytes(0), idle), "{policy}");
            assert_eq!(card.calm(&experiment), calm);
        }
    });
}
