//! The data that a step learns from, on the host.

use crate::backend::HostSlice;

/// One micro-batch on the host.
pub trait MicroBatch {
    /// The number of samples.
    fn samples(&self) -> usize;
    /// Images `[samples, height, width, channels]` or tokens `[samples, length]`; of a training set that lies on the device,
    /// the places of the samples in it.
    fn inputs(&self) -> HostSlice<'_>;
    /// The labels `[samples * labels of a sample]`, values by their bits in f32; empty for a training set on the device.
    fn labels(&self) -> &[u32];
    /// The earlier answers of a teacher to each label, in bytes of the type that is computed in:
    /// `[samples * labels of a sample, classes]`. Empty if no teacher was asked before.
    fn answers(&self) -> &[u8] {
        &[]
    }
}

/// A micro-batch of a dry run: a number of samples and nothing else.
#[derive(Debug, Clone, Copy)]
pub struct Blank(pub usize);

impl MicroBatch for Blank {
    fn samples(&self) -> usize {
        self.0
    }
    fn inputs(&self) -> HostSlice<'_> {
        HostSlice::F32(&[])
    }
    fn labels(&self) -> &[u32] {
        &[]
    }
}
