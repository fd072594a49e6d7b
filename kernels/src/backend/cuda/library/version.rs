//! Versions of CUDA: that which the driver serves, and those that the libraries here were built for.

use cudarc::{
    cublas, cublaslt,
    driver::{self, DriverError},
    nvrtc,
};

/// The version of CUDA that the driver serves, thousandfold: 12020 for 12.2.
pub(in crate::backend::cuda) fn driver_version() -> Result<i32, DriverError> {
    version(Part::Driver)
}

/// The version of NVRTC, major and minor, once it was found to be here.
pub fn compiler() -> (i32, i32) {
    let version = version(Part::Compiler).unwrap_or(0);
    (version / 1000, version % 1000 / 10)
}

/// What is of a version of CUDA.
#[derive(Debug, Clone, Copy)]
pub(super) enum Part {
    Driver,
    Compiler,
    Blas,
    Epilogues,
}

/// The version of CUDA that a part serves or was built for, thousandfold, once it was found to be here.
pub(super) fn version(of: Part) -> Result<i32, DriverError> {
    let (mut version, mut minor) = (0, 0);
    // SAFETY: the places are alive, and the calls need no GPU.
    unsafe {
        match of {
            Part::Driver => driver::sys::cuDriverGetVersion(&mut version).result()?,
            Part::Compiler => {
                nvrtc::sys::nvrtcVersion(&mut version, &mut minor);
                version = 1000 * version + 10 * minor;
            }
            Part::Blas => version = i32::try_from(cublas::sys::cublasGetCudartVersion()).unwrap_or(0),
            Part::Epilogues => version = i32::try_from(cublaslt::sys::cublasLtGetCudartVersion()).unwrap_or(0),
        }
    }
    Ok(version)
}

/// A version of CUDA as text.
pub(super) fn words(version: i32) -> String {
    format!("{}.{}", version / 1000, version % 1000 / 10)
}

/// Whether a driver serves a library that was built for a version of CUDA: any of its own major version, and earlier ones
/// (CUDA Compatibility, "Minor Version Compatibility").
pub(super) fn fits(driver: i32, what: &str, built_for: i32) -> Result<(), String> {
    if built_for / 1000 <= driver / 1000 {
        return Ok(());
    }
    Err(format!(
        "{what} here is of CUDA {}, and the driver serves CUDA {}; update the driver, or put {what} of CUDA {} first on the \
         search path",
        words(built_for),
        words(driver),
        driver / 1000
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_library_of_a_later_major_version_than_the_driver_serves_is_refused_with_a_mend() {
        for (driver, built_for) in [(12_020, 12_090), (13_000, 12_080), (13_000, 13_020), (13_010, 13_000)] {
            assert_eq!(fits(driver, "cuBLAS", built_for), Ok(()), "{driver}, {built_for}");
        }
        let why = fits(12_040, "cuBLAS", 13_000).expect_err("too new");
        for part in
            ["cuBLAS here is of CUDA 13.0", "the driver serves CUDA 12.4", "update the driver", "of CUDA 12 first"]
        {
            assert!(why.contains(part), "{part:?} is missing: {why}");
        }
    }
}
