//! One body, compiled for several instruction sets, chosen at run time.
//!
//! The program is built for the oldest processors of its target; plain loops that are passed through [`simd!`] are
//! also compiled for AVX2 and AVX-512, and the widest version that this processor supports runs. Never changes a result: no
//! contraction of products and sums is allowed, so every width rounds alike.

/// Which of a function's compilations to run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Level {
    /// The instructions that the target guarantees.
    Baseline,
    /// 256-bit registers.
    #[cfg(target_arch = "x86_64")]
    Avx2,
    /// 512-bit registers.
    #[cfg(target_arch = "x86_64")]
    Avx512,
}

/// The widest this processor has. A few loads: the standard library remembers the result.
#[inline]
pub(super) fn level() -> Level {
    #[cfg(target_arch = "x86_64")]
    {
        if is_x86_feature_detected!("avx512f")
            && is_x86_feature_detected!("avx512bw")
            && is_x86_feature_detected!("avx512dq")
            && is_x86_feature_detected!("avx512vl")
        {
            return Level::Avx512;
        }
        if is_x86_feature_detected!("avx2") {
            return Level::Avx2;
        }
    }
    Level::Baseline
}

/// Defines functions whose bodies are compiled for every [`Level`]. Generic parameters stand in square brackets.
macro_rules! simd {
    ($($(#[$meta:meta])* $vis:vis fn $name:ident [$($generics:tt)*] ($($arg:ident: $type:ty),* $(,)?) $(-> $return:ty)? $body:block)*) => {$(
        $(#[$meta])*
        #[allow(clippy::too_many_arguments, reason = "a kernel's operands")]
        $vis fn $name<$($generics)*>($($arg: $type),*) $(-> $return)? {
            #[inline(always)]
            #[allow(clippy::too_many_arguments, reason = "a kernel's operands")]
            fn body<$($generics)*>($($arg: $type),*) $(-> $return)? $body

            #[cfg(target_arch = "x86_64")]
            #[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx2")]
            #[allow(clippy::too_many_arguments, reason = "a kernel's operands")]
            fn avx512<$($generics)*>($($arg: $type),*) $(-> $return)? { body($($arg),*) }

            #[cfg(target_arch = "x86_64")]
            #[target_feature(enable = "avx2")]
            #[allow(clippy::too_many_arguments, reason = "a kernel's operands")]
            fn avx2<$($generics)*>($($arg: $type),*) $(-> $return)? { body($($arg),*) }

            #[cfg(target_arch = "x86_64")]
            // SAFETY: the level says that this processor has the instructions of the function that is called.
            unsafe {
                match $crate::backend::cpu::simd::level() {
                    $crate::backend::cpu::simd::Level::Avx512 => return avx512($($arg),*),
                    $crate::backend::cpu::simd::Level::Avx2 => return avx2($($arg),*),
                    $crate::backend::cpu::simd::Level::Baseline => {}
                }
            }
            body($($arg),*)
        }
    )*};
}
pub(super) use simd;
