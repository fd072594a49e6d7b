//! The properties of a processor that the memory of a run depends on: how many threads kernels run on, and by which
//! instructions they divide their work.

/// A processor to plan for.
///
/// # Examples
///
/// ```
/// use plimsoll_kernels::device::{Instructions, Processor};
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
    /// Instructions that every processor has. Also stands for a processor that is not known.
    Basic,
    /// Multiplication and addition in one, in registers of 32 bytes (FMA).
    Fma,
    /// Registers of 64 bytes (AVX-512).
    Avx512,
    /// AVX-512, and instructions that multiply pairs of bf16 (AVX-512 BF16).
    Avx512Bf16,
    /// Those, and instructions that multiply blocks of bf16 (AMX).
    Amx,
}

impl Instructions {
    /// The instructions of this machine. A few loads, because the result of the detection is remembered.
    pub fn detect() -> Self {
        #[cfg(target_arch = "x86_64")]
        {
            if is_x86_feature_detected!("avx512f") {
                return match is_x86_feature_detected!("avx512bf16") {
                    true if amx::is_allowed() => Self::Amx,
                    true => Self::Avx512Bf16,
                    false => Self::Avx512,
                };
            }
            if is_x86_feature_detected!("fma") {
                return Self::Fma;
            }
        }
        Self::Basic
    }
}

/// Whether the processor multiplies blocks of bf16 (AMX), and the system lets this process.
#[cfg(target_arch = "x86_64")]
mod amx {
    use std::{arch::x86_64::__cpuid_count, sync::LazyLock};

    /// Registers of blocks, and products of bf16 in them: bits of `edx` in leaf 7 (Intel's manual, volume 2, CPUID).
    const NEEDED: u32 = 1 << 24 | 1 << 22;

    pub(super) fn is_allowed() -> bool {
        static IS_ALLOWED: LazyLock<bool> = LazyLock::new(|| __cpuid_count(7, 0).edx & NEEDED == NEEDED && ask());
        *IS_ALLOWED
    }

    /// Asks Linux for the registers, which it saves only for a process that asked ("Using XSTATE features in user space
    /// applications", its documentation). All threads have them then.
    #[cfg(all(target_os = "linux", not(miri)))]
    fn ask() -> bool {
        const ARCH_REQ_XCOMP_PERM: libc::c_long = 0x1023;
        const XFEATURE_XTILEDATA: libc::c_long = 18;
        // SAFETY: the call takes two numbers, and reads and writes no memory of this process.
        let answer = unsafe { libc::syscall(libc::SYS_arch_prctl, ARCH_REQ_XCOMP_PERM, XFEATURE_XTILEDATA) };
        answer == 0
    }

    /// Other systems are not asked.
    #[cfg(not(all(target_os = "linux", not(miri))))]
    fn ask() -> bool {
        false
    }
}

/// How many threads the processor's kernels run on.
pub fn cpu_threads() -> usize {
    std::thread::available_parallelism().map_or(1, std::num::NonZero::get)
}
