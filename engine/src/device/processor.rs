//! What the memory of a run depends on in a processor: how many threads kernels run on, and by which instructions they divide
//! their work.

/// A processor to plan for.
///
/// # Examples
///
/// ```
/// use plimsoll_engine::device::{Instructions, Processor};
///
/// let here = Processor::detect();
/// let older = Processor { instructions: Instructions::Basic, ..here };
/// assert_eq!(here.threads, older.threads);
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Processor {
    /// Threads that a kernel runs on.
    pub threads: usize,
    /// The widest instructions that kernels use.
    pub instructions: Instructions,
}

impl Processor {
    /// The processor of this machine, with all of its threads.
    pub fn detect() -> Self {
        Self::with_threads(cpu_threads())
    }

    /// The processor of this machine, with another number of threads.
    pub fn with_threads(threads: usize) -> Self {
        Self { threads, instructions: Instructions::detect() }
    }
}

/// The instructions by which products divide their work. Each processor has those of the ones before it as well.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Instructions {
    /// What every processor has. Also stands for a processor that is not known.
    Basic,
    /// Multiplication and addition in one, in registers of 32 bytes (FMA).
    Fma,
    /// Registers of 64 bytes (AVX-512).
    Avx512,
    /// AVX-512, and instructions that multiply pairs of bf16 (AVX-512 BF16).
    Avx512Bf16,
}

impl Instructions {
    /// The instructions of this machine. A few loads: the standard library remembers what it detected.
    pub fn detect() -> Self {
        #[cfg(target_arch = "x86_64")]
        {
            if is_x86_feature_detected!("avx512f") {
                let pairs = is_x86_feature_detected!("avx512bf16");
                return if pairs { Self::Avx512Bf16 } else { Self::Avx512 };
            }
            if is_x86_feature_detected!("fma") {
                return Self::Fma;
            }
        }
        Self::Basic
    }
}

/// How many threads the processor's kernels run on.
pub fn cpu_threads() -> usize {
    std::thread::available_parallelism().map_or(1, std::num::NonZero::get)
}
