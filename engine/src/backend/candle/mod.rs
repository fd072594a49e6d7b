//! The real backend: candle storage, kernels of ours.
//!
//! Owns nothing but the number of threads. Elements live in candle's [`CpuStorage`]; a kernel borrows them as slices.

use candle_core::CpuStorage;
use half::{bf16, f16};

use crate::{
    backend::{Backend, DType, HostSlice, Kernel, Tensor},
    error::{Error, Result},
};

/// Kernels on the CPU, parallel over the rayon pool they are called in.
#[derive(Debug)]
pub struct Candle {
    threads: usize,
}

impl Candle {
    /// A backend whose kernels run on `threads` threads of the surrounding rayon pool.
    pub fn cpu(threads: usize) -> Self {
        Self { threads }
    }
}

impl Backend for Candle {
    type Storage = CpuStorage;

    fn allocate(&self, elements: usize, dtype: DType) -> Result<CpuStorage> {
        Ok(match dtype {
            DType::F64 => CpuStorage::F64(vec![0.0; elements]),
            DType::F32 => CpuStorage::F32(vec![0.0; elements]),
            DType::Bf16 => CpuStorage::BF16(vec![bf16::ZERO; elements]),
            DType::F16 => CpuStorage::F16(vec![f16::ZERO; elements]),
            DType::U32 => CpuStorage::U32(vec![0; elements]),
            DType::U8 => CpuStorage::U8(vec![0; elements]),
        })
    }

    fn launch(&self, kernel: &Kernel, _: &[&Tensor<Self>], _: &[&Tensor<Self>]) -> Result<()> {
        Err(Error::Device(format!("no kernel for {}", kernel.name())))
    }

    fn write(&self, tensor: &Tensor<Self>, source: HostSlice<'_>) -> Result<()> {
        let _ = (tensor, source);
        Ok(())
    }

    fn read(&self, tensor: &Tensor<Self>) -> Result<Option<Vec<f64>>> {
        let _ = tensor;
        Ok(None)
    }

    fn threads(&self) -> usize {
        self.threads
    }
}
