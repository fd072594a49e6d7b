//! Candle's CUDA device beneath the engine, on the simulated GPU. `tests/candle-cuda.sh` builds and runs it: the program is
//! linked to NVIDIA's libraries, which the simulated GPU and the script stand in for.
//!
//! The simulated GPU runs no kernel of candle's, because they are PTX. Copies, uploads and allocations it runs as they are.
#![cfg(target_os = "linux")]

use std::collections::BTreeMap;

use candle_core::{CpuStorage, CudaStorage, Device, InplaceOp1, Layout, Storage, Tensor};
use cudarc::driver::DevicePtr;
use plimsoll_engine::{
    Bytes, Experiment,
    backend::{
        Cpu, Cuda, DType, Executor,
        cuda::{self, Options},
    },
    device::{Target, profile::shipped},
    experiment::{PoolPolicy, Precision, limits::MAX_BUDGET},
    hardware::Machine,
    interop::{CandleTensors, Lends, lend, take_in},
    memory::{Ledger, probe::Measure},
    plan::Resolved,
    step::Session,
};
use plimsoll_tests::on_simulated_gpu;

const LIMIT: Bytes = Bytes::mib(256);

fn resolved(precision: Precision) -> (Experiment, Resolved) {
    let experiment = Experiment { precision, ..Experiment::default() };
    let resolved = Resolved::new(&experiment, &Machine::nominal()).expect("the default is valid");
    (experiment, resolved)
}

fn on_processor(precision: Precision) -> Session<Cpu> {
    let (experiment, resolved) = resolved(precision);
    Session::new(Executor::new(Cpu::new(1), Ledger::new(None, false)), &experiment, resolved.info()).expect("a model")
}

fn on_gpu(precision: Precision) -> Session<Cuda> {
    let (experiment, resolved) = resolved(precision);
    let device = cuda::Device::open(0).expect("a card");
    let profile = shipped()[0].clone();
    let options = Options { gives_back: false, tf32: false, deterministic: true, guarded: false, tensor_cores: false };
    let backend = Cuda::new(&device, profile.clone(), Some(LIMIT), options).expect("a pool");
    let ledger = Ledger::for_target(&Target::Gpu(profile), PoolPolicy::Grow, MAX_BUDGET, false, false);
    Session::new(Executor::new(backend, ledger), &experiment, resolved.info()).expect("a model")
}

/// The bits of every tensor, brought to the host.
fn elements(tensors: &CandleTensors) -> BTreeMap<String, Vec<f32>> {
    let bring = |tensor: &Tensor| tensor.to_device(&Device::Cpu)?.flatten_all()?.to_vec1();
    tensors.iter().map(|(name, tensor)| (name.clone(), bring(tensor).expect("f32"))).collect()
}

/// Where each tensor lies.
fn addresses(tensors: &CandleTensors) -> BTreeMap<String, u64> {
    let address = |tensor: &Tensor| match &*tensor.storage_and_layout().0 {
        Storage::Cuda(storage) => {
            let slice = storage.as_cuda_slice::<f32>().expect("f32");
            assert_eq!(slice.len(), tensor.elem_count());
            slice.device_ptr(&storage.device.cuda_stream()).0
        }
        _ => panic!("elements of another place"),
    };
    tensors.iter().map(|(name, tensor)| (name.clone(), address(tensor))).collect()
}

/// Writes one number to all elements, in place, as a kernel of a borrower's would.
struct Fill(f32);

impl InplaceOp1 for Fill {
    fn name(&self) -> &'static str {
        "fill"
    }

    fn cpu_fwd(&self, _: &mut CpuStorage, _: &Layout) -> candle_core::Result<()> {
        Ok(())
    }

    fn cuda_fwd(&self, storage: &mut CudaStorage, layout: &Layout) -> candle_core::Result<()> {
        let device = storage.device.clone();
        device.memcpy_htod(&vec![self.0; layout.shape().elem_count()], storage.as_cuda_slice_mut::<f32>()?)
    }
}

#[test]
fn weights_on_a_gpu_are_candle_s_where_they_lie() {
    on_simulated_gpu("weights_on_a_gpu_are_candle_s_where_they_lie", &[], || {
        for precision in [Precision::F32, Precision::Bf16Mixed] {
            let (session, twin) = (on_gpu(precision), on_processor(precision));
            let pool = session.executor().backend().pool().clone();
            let before = pool.now();
            let (first, numbers) = lend(&session, |tensors| (addresses(tensors), elements(tensors))).expect("lent");
            assert_eq!(numbers, lend(&twin, elements).expect("lent"), "{precision:?}: not the processor's");
            assert_eq!(lend(&session, addresses).expect("lent again"), first, "{precision:?}: they were copied");
            // What a borrower writes in place is the session's.
            lend(&session, |tensors| tensors.values().try_for_each(|tensor| tensor.inplace_op1(&Fill(0.5))))
                .expect("lent")
                .expect("filled");
            let halves = lend(&session, elements).expect("lent");
            assert!(halves.values().flatten().all(|x| *x == 0.5));
            // A borrower that panics has not taken them along.
            let panics = std::panic::AssertUnwindSafe(|| lend(&session, |_| panic!("the borrower")));
            assert!(std::panic::catch_unwind(panics).is_err());
            assert_eq!(lend(&session, elements).expect("lent"), halves);
            assert_eq!((pool.now().live, pool.now().reserved), (before.live, before.reserved), "{precision:?}");
        }
    });
}

#[test]
fn candle_s_tensors_are_taken_in() {
    on_simulated_gpu("candle_s_tensors_are_taken_in", &[], || {
        let mut session = on_gpu(Precision::Bf16Mixed);
        let before = lend(&session, elements).expect("lent");
        let shapes = lend(&session, |tensors| {
            tensors.iter().map(|(name, tensor)| (name.clone(), tensor.dims().to_vec())).collect::<BTreeMap<_, _>>()
        })
        .expect("lent");
        let here = session.executor().backend().candle();
        assert!(here.is_cuda());
        let other = Device::new_cuda_with_stream(0).expect("another of candle's");
        // From the session's own device, from another one of candle's on the card, and from the processor.
        for (place, factor) in [(&here, 2.0f32), (&other, 3.0), (&Device::Cpu, 4.0)] {
            let scaled = |name: &String| before[name].iter().map(|x| x * factor).collect::<Vec<f32>>();
            let tensors: CandleTensors = shapes
                .iter()
                .map(|(name, shape)| {
                    let tensor = Tensor::from_vec(scaled(name), shape.clone(), place).expect("uploaded");
                    (name.clone(), tensor)
                })
                .collect();
            take_in(&mut session, &tensors).expect("they fit");
            let after = lend(&session, elements).expect("lent");
            assert!(after.iter().all(|(name, elements)| *elements == scaled(name)), "{factor}");
        }
    });
}

#[test]
fn what_lies_on_the_card_in_order_is_copied_there() {
    on_simulated_gpu("what_lies_on_the_card_in_order_is_copied_there", &[], || {
        let session = on_gpu(Precision::F32);
        let (executor, here) = (session.executor(), session.executor().backend().candle());
        let own = executor.reserve([4, 8], DType::F32, "rows").expect("room");
        let numbers: Vec<f32> = (0..64u8).map(f32::from).collect();
        let all = Tensor::from_vec(numbers.clone(), (8, 8), &here).expect("uploaded");
        let copies = |from: candle_core::Result<Tensor>| executor.load_on_device(&own, &from.expect("a view"));
        assert_eq!(copies(all.narrow(0, 3, 4)), Ok(true));
        let rows: Vec<f64> = numbers[24..56].iter().map(|x| f64::from(*x)).collect();
        assert_eq!(executor.read(&own), Ok(Some(rows)));
        // Out of order, too many, of another type, of another device.
        let other = Device::new_cuda_with_stream(0).expect("another of candle's");
        assert_eq!(copies(all.narrow(1, 0, 4)), Ok(false));
        assert_eq!(copies(Ok(all.clone())), Ok(false));
        assert_eq!(copies(Tensor::from_vec(vec![1u32; 32], (4, 8), &here)), Ok(false));
        assert_eq!(copies(Tensor::from_vec(vec![1f32; 32], (4, 8), &other)), Ok(false));
        assert_eq!(copies(Tensor::from_vec(vec![1f32; 32], (4, 8), &Device::Cpu)), Ok(false));
    });
}

#[test]
fn a_tensor_that_outlives_its_loan_answers_with_an_error() {
    on_simulated_gpu("a_tensor_that_outlives_its_loan_answers_with_an_error", &[], || {
        let session = on_gpu(Precision::F32);
        let numbers = lend(&session, elements).expect("lent");
        let kept = lend(&session, CandleTensors::clone).expect("lent");
        for tensor in kept.values() {
            assert!(tensor.to_device(&Device::Cpu).is_err() && tensor.copy().is_err() && (tensor * 2.0).is_err());
        }
        drop(kept);
        assert_eq!(lend(&session, elements).expect("lent"), numbers);
    });
}

#[test]
fn candle_s_own_tensors_are_within_the_limit_of_the_pool() {
    on_simulated_gpu("candle_s_own_tensors_are_within_the_limit_of_the_pool", &[], || {
        let session = on_gpu(Precision::F32);
        let pool = session.executor().backend().pool().clone();
        let (device, before) = (session.executor().backend().candle(), pool.now());
        let made = |mib: usize| Tensor::from_vec(vec![1u8; mib << 20], mib << 20, &device);
        let one = made(64).expect("within it");
        assert!(pool.now().live >= before.live + Bytes::mib(64));
        assert!(made(256).is_err(), "past {LIMIT}");
        drop(one);
        let count = lend(&session, CandleTensors::len).expect("lent");
        assert!(count > 0 && pool.now().reserved == before.reserved, "what candle let go of is held");
    });
}
