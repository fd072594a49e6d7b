//! Weights lent to candle, and taken in from it.

use candle_core::{CpuStorage, DType, Storage};
use plimsoll_engine::{
    backend::{Cpu, Executor},
    experiment::Precision,
    interop::{CandleTensors, lend, take_in},
    memory::{Ledger, probe},
    step::Session,
};

use super::*;

fn session(precision: Precision) -> Session<Cpu> {
    let experiment = Experiment { precision, ..tiny(ModelKind::Resnet) };
    let executor = Executor::new(Cpu::new(1), Ledger::new(None, false));
    Session::new(executor, &experiment, &info(&experiment)).expect("a model")
}

/// Where the elements of each tensor lie.
fn places(tensors: &CandleTensors) -> HashMap<String, usize> {
    let place = |tensor: &Tensor| match &*tensor.storage_and_layout().0 {
        Storage::Cpu(CpuStorage::F32(elements)) => elements.as_ptr() as usize,
        _ => panic!("elements of another type or place"),
    };
    tensors.iter().map(|(name, tensor)| (name.clone(), place(tensor))).collect()
}

fn copied(tensors: &CandleTensors) -> CandleTensors {
    tensors.iter().map(|(name, tensor)| (name.clone(), tensor.copy().expect("of the processor"))).collect()
}

fn elements(tensor: &Tensor) -> Vec<f32> {
    tensor.flatten_all().and_then(|flat| flat.to_vec1()).expect("f32")
}

#[test]
fn lent_weights_lie_where_they_lay_and_come_back() {
    for precision in [Precision::F32, Precision::Bf16Mixed] {
        let mut session = session(precision);
        let (first, before) = lend(&session, |tensors| (places(tensors), copied(tensors))).expect("lent");
        let (second, again) = lend(&session, |tensors| (places(tensors), copied(tensors))).expect("lent again");
        assert!(first.len() > 60 && first == second, "they were copied");
        assert!(before.iter().all(|(name, tensor)| elements(tensor) == elements(&again[name])));
        // A borrower that panics has not taken them along.
        let panics = std::panic::AssertUnwindSafe(|| lend(&session, |_| panic!("the borrower")));
        assert!(std::panic::catch_unwind(panics).is_err());
        // Types are converted, and what lies otherwise is brought in order.
        let changed: CandleTensors = before
            .iter()
            .map(|(name, tensor)| {
                let halved = (tensor * 0.5).and_then(|half| half.to_dtype(DType::F64)).expect("half");
                let turned = halved.t().and_then(|turned| turned.contiguous()).and_then(|turned| turned.t());
                (name.clone(), turned.unwrap_or(halved))
            })
            .collect();
        take_in(&mut session, &changed).expect("they fit");
        let after = lend(&session, copied).expect("lent");
        for (name, tensor) in &after {
            let halves: Vec<f32> = elements(&before[name]).iter().map(|weight| weight * 0.5).collect();
            assert_eq!(elements(tensor), halves, "{name}");
        }
        assert_eq!(lend(&session, places).expect("lent"), first);
    }
}

#[test]
fn lending_takes_no_memory_of_the_run() {
    let meter = probe::Meter::new();
    let before = probe::meter_this_thread(Some(meter));
    let session = session(Precision::F32);
    meter.reset_peak();
    let (now, count) = (meter.now().live, lend(&session, CandleTensors::len).expect("lent"));
    let (peak, after) = (meter.peak().live, meter.now().live);
    probe::meter_this_thread(before);
    // The names of the tensors are the engine's, for the length of the call.
    let names = 200 * count as u64;
    assert!(after == now && peak.0 <= now.0 + names, "{now} before, {peak} at most, {after} after");
}

#[test]
fn tensors_without_a_place_are_refused_before_any_is_taken() {
    let mut session = session(Precision::F32);
    let before = lend(&session, copied).expect("lent");
    let name = before.keys().find(|name| name.ends_with("weight")).expect("a weight").clone();
    let mut wrong: CandleTensors =
        before.iter().map(|(name, t)| (name.clone(), t.zeros_like().expect("f32"))).collect();
    wrong.insert("conv9.weight".to_owned(), Tensor::zeros(3, DType::F32, &Device::Cpu).expect("three"));
    let said = take_in(&mut session, &wrong).expect_err("a stranger").to_string();
    assert!(said.contains("the model has no tensor conv9.weight; name tensors as a checkpoint does"), "{said}");
    let misshapen = CandleTensors::from([(name.clone(), Tensor::zeros(3, DType::F32, &Device::Cpu).expect("three"))]);
    let said = take_in(&mut session, &misshapen).expect_err("misshapen").to_string();
    assert!(said.contains(&format!("{name} is [3], and the model's is")), "{said}");
    let after = lend(&session, copied).expect("lent");
    assert!(before.iter().all(|(name, tensor)| elements(tensor) == elements(&after[name])), "nothing was taken in");
}
