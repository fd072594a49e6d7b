use std::rc::Rc;

use super::*;
use crate::{
    backend::{HostSlice, Launched},
    experiment::ModelKind,
    memory::probe::Meter,
};

/// A CPU whose results of one kernel are off by a little in one place.
fn faulty(name: &'static str, place: usize, by: f64) -> Bench<Cpu> {
    Bench {
        open: Box::new(move |ledger| {
            let opened = Executor::new(Cpu::new(cpu_threads()), ledger);
            opened.watch(move |&Launched { executor, kernel, outputs, .. }| {
                if cases::name(kernel) == name && outputs[0].elements() > place {
                    let mut numbers = executor.read(outputs[0])?.unwrap_or_default();
                    numbers[place] += by;
                    let numbers: Vec<f32> = numbers.iter().map(|x| *x as f32).collect();
                    executor.backend().write(outputs[0], HostSlice::F32(&numbers))?;
                }
                Ok(())
            });
            Ok(opened)
        }),
        target: cpu(),
        measured: Rc::new(|| Bytes::ZERO),
        beside: Bytes::ZERO,
    }
}

fn failed<B: Backend>(bench: &Bench<B>, only: &[&str]) -> (Vec<Check>, usize) {
    let only = only.iter().map(|part| (*part).to_owned()).collect();
    let (mut failed, mut count) = (Vec::new(), 0);
    run(bench, &Choice { seed: 3, extent: Extent::Quick, only }, &mut |check| {
        count += 1;
        if !check.ok {
            failed.push(check);
        }
        ControlFlow::Continue(())
    });
    (failed, count)
}

#[test]
fn a_kernel_that_is_wrong_in_one_place_fails_its_check_and_no_other() {
    for (kernel, by) in [("add", 1e-4), ("layer-norm", 1e-2), ("max-pool", 0.25), ("rotary", 1e-4), ("embedding", 0.01)]
    {
        let bench = faulty(kernel, 5, by);
        let (failed, count) = failed(&bench, &["kernel/f32/"]);
        let names: Vec<&str> = failed.iter().map(|check| check.name.as_str()).collect();
        assert_eq!(names, [format!("kernel/f32/{kernel}")]);
        assert!(count == cases::names().len() && failed[0].worst_error > failed[0].tolerance, "{failed:?}");
        assert!(failed[0].fault.as_ref().is_some_and(|fault| fault.contains("output 0 at 5 is")), "{failed:?}");
    }
}

#[test]
fn a_fault_in_a_check_is_its_failure_and_not_the_end() {
    let bench = Bench::<Cpu> { open: Box::new(|_| Err(Error::Device("gone".to_owned()))), ..Bench::cpu(Meter::new()) };
    let (lost, count) = failed(&bench, &["kernel/bf16"]);
    assert!(lost.len() == count && lost[0].fault.as_deref() == Some("device: gone"), "{lost:?}");
    let panics = Bench::<Cpu> { open: Box::new(|_| panic!("a driver that panics")), ..Bench::cpu(Meter::new()) };
    let (lost, count) = failed(&panics, &["kernel/f16/re"]);
    assert!(lost.len() == count && count == 4, "{lost:?}");
    assert!(lost[0].fault.as_ref().is_some_and(|fault| fault.contains("a driver that panics")), "{lost:?}");
}

#[test]
fn every_kernel_has_a_launch_in_every_type_and_a_name_of_its_own() {
    for dtype in cases::FLOATS {
        let all = cases::all(&mut draw::Draw::new(1), dtype, Extent::Quick);
        for name in cases::names() {
            assert!(all.iter().any(|case| cases::name(&case.kernel) == name), "{name} in {}", dtype.name());
        }
    }
    let mut names = cases::names();
    names.sort_unstable();
    names.dedup();
    assert_eq!(names.len(), cases::names().len());
}

#[test]
fn a_gradient_that_is_a_little_wrong_is_no_slope() {
    for (kernel, only) in [("bias-gradient", "gradient/mlp"), ("layer-norm-gradient", "gradient/gpt2")] {
        let (failed, count) = failed(&faulty(kernel, 1, 0.01), &[only]);
        assert!(count == 1 && failed.len() == 1, "{kernel}: {failed:?}");
        assert!(failed[0].fault.as_ref().is_some_and(|fault| fault.contains("measured")), "{failed:?}");
    }
}

#[test]
fn memory_that_is_not_what_it_should_be_is_told() {
    let fault = |bench: &Bench<Cpu>, only: &str| {
        let (failed, count) = failed(bench, &[only]);
        assert!(count == 1 && failed.len() == 1, "{only}: {failed:?}");
        failed[0].fault.clone().expect("a fault")
    };
    let grown = std::cell::Cell::new(0);
    let grows = move || {
        grown.set(grown.get() + 16);
        Bytes(grown.get())
    };
    let leaking = Bench::<Cpu> { measured: Rc::new(grows), ..Bench::cpu(Meter::new()) };
    assert!(fault(&leaking, "leak/mlp").contains("after step 3, and"));
    let empty = Bench::<Cpu> { measured: Rc::new(|| Bytes::ZERO), ..Bench::cpu(Meter::new()) };
    assert!(fault(&empty, "step/cnn").contains("0 bytes measured after initialise"));
    let open = |_| Ok(Executor::new(Cpu::new(1), Ledger::new(None, false)));
    let unbounded = Bench::<Cpu> { open: Box::new(open), ..Bench::cpu(Meter::new()) };
    assert!(fault(&unbounded, "budget/mlp").contains("met None, and Some"));
}

#[test]
fn every_family_is_trained() {
    for kind in ModelKind::ALL {
        assert!(families::KINDS.iter().any(|(tried, _)| *tried == kind), "{}", kind.key());
    }
}

#[test]
fn nothing_is_checked_for_somebody_who_has_gone() {
    let mut count = 0;
    let choice = Choice { seed: 3, extent: Extent::Quick, only: vec!["kernel/f32/".to_owned()] };
    let bench = faulty("add", 5, 0.0);
    run(&bench, &choice, &mut |_| {
        count += 1;
        ControlFlow::Break(())
    });
    assert_eq!(count, 1);
}
