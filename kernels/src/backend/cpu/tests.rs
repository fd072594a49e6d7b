//! The guarded mode: a write behind a block is seen and named, and one inside it is not.

use super::*;
use crate::{
    backend::{Executor, ops::Elementwise},
    memory::{
        Category, Ledger,
        probe::{Meter, meter_this_thread},
    },
};

/// A guarded executor, once other tests have left a part.
fn executor() -> Executor<Cpu> {
    loop {
        match Cpu::guarded(1) {
            Some(cpu) => return Executor::new(cpu, Ledger::new(None, false)),
            None => std::thread::yield_now(),
        }
    }
}

fn tensor(executor: &Executor<Cpu>, elements: usize) -> Tensor<Cpu> {
    let _layer = executor.enter(executor.ledger().layer_id("block1/dense"));
    executor.allocate([elements], DType::F32, Category::Activations, "output").expect("room")
}

/// Writes a byte so far behind the first of a tensor of f32.
fn write(tensor: &Tensor<Cpu>, at: usize) {
    let CpuStorage::F32(elements) = &mut *tensor.storage().borrow_mut() else { panic!("a tensor of f32") };
    // SAFETY: the byte is the block's or its gap's, which is in the same part of the range.
    unsafe { elements.as_mut_ptr().cast::<u8>().add(at).write(0) };
}

/// Bytes behind the first of a block of 400, and whether they are its own.
const BYTES: [(usize, bool); 6] = [(0, true), (399, true), (400, false), (401, false), (447, false), (959, false)];

#[test]
fn a_write_behind_a_block_is_named_after_the_kernel_that_may_have_done_it() {
    for (at, is_own) in BYTES {
        let executor = executor();
        let [written, other] = [100, 7].map(|elements| tensor(&executor, elements));
        let _layer = executor.enter(executor.ledger().layer_id("block2/dense"));
        executor.launch(Elementwise::Fill(1.0), &[], &[&other]).expect("nothing was written past");
        write(&written, at);
        let seen = executor.launch(Elementwise::Fill(1.0), &[], &[&other]);
        let text = "fill in block2/dense: wrote behind the end of a block of 400 bytes, the output of block1/dense";
        assert_eq!(seen.map_err(|error| error.to_string()), if is_own { Ok(()) } else { Err(text.to_owned()) }, "{at}");
    }
}

#[test]
fn a_write_behind_a_block_is_seen_once_the_block_is_gone() {
    for (at, is_own) in BYTES {
        let executor = executor();
        let written = tensor(&executor, 100);
        write(&written, at);
        drop(written);
        // Its room has no other use before the look.
        let _others = [100, 3].map(|elements| tensor(&executor, elements));
        let seen = executor.step_ended();
        assert_eq!(seen.is_ok(), is_own, "{at}: {seen:?}");
        assert!(
            is_own || seen.is_err_and(|error| error.to_string().contains("behind the end of a block of 400 bytes"))
        );
    }
}

#[test]
fn a_block_that_was_never_written_is_not_a_number() {
    let executor = executor();
    let read = executor.read(&tensor(&executor, 5)).expect("it is there").expect("elements");
    assert!(read.len() == 5 && read.iter().all(|element| element.is_nan()));
}

#[test]
fn gaps_count_nowhere_and_room_is_used_again() {
    let meter = Meter::new();
    let before = meter_this_thread(Some(meter));
    let executor = executor();
    let idle = meter.now();
    let mut kept = Vec::with_capacity(2);
    for _ in 0..2 {
        kept.push(tensor(&executor, 1000));
        for _ in 0..50 {
            let passing = tensor(&executor, 250_000);
            executor.launch(Elementwise::Fill(0.5), &[], &[&passing]).expect("nothing was written past");
        }
        executor.step_ended().expect("nothing was written past");
    }
    let now = meter.now();
    let live = now.live - idle.live;
    // Two tensors and the engine's own structures beside them.
    assert!((8000..9000).contains(&live.0), "{live}");
    assert!((now.reserved - idle.reserved).0 < 10_000, "{now:?} {idle:?}");
    let most = meter.peak().reserved - idle.reserved;
    // A block of them at a time, and the one before it until the next look.
    assert!(most.0 < 2_100_000, "{most}");
    drop((kept, executor));
    assert_eq!(meter.now().live, Bytes::ZERO);
    meter_this_thread(before);
}
