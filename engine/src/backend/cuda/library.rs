//! NVIDIA's libraries: which are here, and what to do about those that are not.
//!
//! Each is opened when it is first needed, by the name its maker gives it; the system's search path comes first, then the
//! folders that toolkits and Python packages use. Holds: once [`look`] has agreed, every function the engine calls is
//! there. Refuses, with a mend: a machine without the driver, without the libraries, or with a driver that is too old.

use std::{
    path::{Path, PathBuf},
    sync::OnceLock,
};

use cudarc::{cublas, cudnn, driver, nvrtc};
use libloading::Library;

/// The earliest CUDA version of the driver: memory pools have a maximum size from 12.2 on.
const DRIVER: i32 = 12_020;

/// Whether everything that training on a GPU needs is here.
///
/// # Errors
/// What is missing, and where to get it.
pub fn look() -> Result<(), String> {
    static LOOKED: OnceLock<Result<(), String>> = OnceLock::new();
    LOOKED.get_or_init(search).clone()
}

/// Whether cuDNN is here; without it, convolutions run by kernels of our own.
pub fn has_cudnn() -> bool {
    static FOUND: OnceLock<bool> = OnceLock::new();
    *FOUND.get_or_init(|| {
        // SAFETY: opening NVIDIA's library runs its initialisers, which have no demands.
        look().is_ok() && bring("cudnn", || unsafe { cudnn::sys::is_culib_present() })
    })
}

/// Whether the compiler of kernels is here. It needs neither a driver nor a GPU.
pub fn has_compiler() -> bool {
    static FOUND: OnceLock<bool> = OnceLock::new();
    // SAFETY: as above.
    *FOUND.get_or_init(|| bring("nvrtc", || unsafe { nvrtc::sys::is_culib_present() }))
}

fn search() -> Result<(), String> {
    // SAFETY: as above; the driver's library belongs to the system and is only looked for there.
    if !unsafe { driver::sys::is_culib_present() } {
        let from = if cfg!(windows) { "" } else { "your distribution or " };
        return Err(format!(
            "no NVIDIA driver ({} was not found); install the driver of your GPU from {from}nvidia.com/drivers",
            if cfg!(windows) { "nvcuda.dll" } else { "libcuda" }
        ));
    }
    let missing_in_driver = |error: driver::DriverError| format!("the NVIDIA driver does not start: {error:?}");
    driver::result::init().map_err(missing_in_driver)?;
    let mut version = 0;
    // SAFETY: the place is alive.
    unsafe { driver::sys::cuDriverGetVersion(&mut version) }.result().map_err(missing_in_driver)?;
    if version < DRIVER {
        return Err(format!(
            "the NVIDIA driver serves CUDA {}.{}, and 12.2 or later is needed; update the driver",
            version / 1000,
            version % 1000 / 10
        ));
    }
    let lacks = |what: &str, name: &str| {
        let (prefix, path) = if cfg!(windows) { ("", "PATH") } else { ("lib", "LD_LIBRARY_PATH") };
        format!(
            "{what} ({prefix}{name}) was not found; it comes with the CUDA toolkit (developer.nvidia.com/cuda-downloads) \
             and with PyTorch; if it lies elsewhere, name its folder in {path}"
        )
    };
    if !has_compiler() {
        return Err(lacks("CUDA's compiler", "nvrtc"));
    }
    // SAFETY: as above.
    if !bring("cublas", || unsafe { cublas::sys::is_culib_present() }) {
        return Err(lacks("cuBLAS", "cublas"));
    }
    Ok(())
}

/// Whether a library can be opened; if the system does not find it, from the folders where it usually lies. What is open
/// once is found by its name from then on.
fn bring(name: &str, is_present: impl Fn() -> bool) -> bool {
    if is_present() {
        return true;
    }
    // What it opens itself, by name alone, comes first.
    let parts: &[&str] = match name {
        "nvrtc" => &["nvrtc-builtins"],
        "cublas" => &["cublasLt"],
        _ => &["cudnn_graph", "cudnn_ops", "cudnn_cnn", "cudnn_engines_precompiled", "cudnn_heuristic"],
    };
    folders().into_iter().any(|folder| {
        let open = |name: &str| files(&folder, name).iter().any(|file| open(file));
        let is_here = !files(&folder, name).is_empty();
        if is_here {
            for part in parts {
                open(part);
            }
        }
        is_here && open(name) && is_present()
    })
}

/// Opens a library for as long as the program runs.
fn open(file: &Path) -> bool {
    // SAFETY: NVIDIA's libraries run initialisers that have no demands.
    unsafe { Library::new(file) }.map(std::mem::forget).is_ok()
}

/// Files of a library in a folder, the latest version first.
fn files(folder: &Path, name: &str) -> Vec<PathBuf> {
    let Ok(entries) = std::fs::read_dir(folder) else { return Vec::new() };
    let mut files: Vec<PathBuf> = entries
        .filter_map(|entry| Some(entry.ok()?.path()))
        .filter(|path| path.file_name().is_some_and(|file| is_version_of(&file.to_string_lossy(), name)))
        .collect();
    files.sort();
    files.reverse();
    files
}

/// Whether a file is some version of a library: `libcublas.so.13`, on Windows `cublas64_13.dll`.
fn is_version_of(file: &str, name: &str) -> bool {
    if cfg!(windows) {
        file.strip_prefix(name).is_some_and(|rest| rest.starts_with("64") && rest.ends_with(".dll"))
    } else {
        file.strip_prefix("lib").and_then(|rest| rest.strip_prefix(name)).is_some_and(|rest| rest.starts_with(".so"))
    }
}

/// Where toolkits and Python packages put them.
fn folders() -> Vec<PathBuf> {
    let variable = |name: &str| std::env::var_os(name).map(PathBuf::from);
    let toolkits =
        ["CUDA_HOME", "CUDA_PATH"].into_iter().filter_map(variable).chain([PathBuf::from("/usr/local/cuda")]);
    let parts: &[&str] =
        if cfg!(windows) { &["bin", "bin/x64"] } else { &["lib64", "lib", "targets/x86_64-linux/lib"] };
    let mut folders: Vec<PathBuf> = toolkits.flat_map(|root| parts.iter().map(move |part| root.join(part))).collect();
    for root in ["VIRTUAL_ENV", "CONDA_PREFIX"].into_iter().filter_map(variable) {
        let library = root.join("lib");
        // Windows has one Python an environment, others a folder for each.
        let pythons = children(&library).into_iter().chain([library.clone()]);
        let packages: Vec<PathBuf> = pythons.map(|python| python.join("site-packages")).collect();
        folders.extend([library, root.join("bin")]);
        for packages in packages {
            folders.push(packages.join("torch/lib"));
            let nvidia = children(&packages.join("nvidia"));
            folders.extend(nvidia.into_iter().flat_map(|package| ["lib", "bin"].map(|part| package.join(part))));
        }
    }
    folders
}

fn children(folder: &Path) -> Vec<PathBuf> {
    std::fs::read_dir(folder).into_iter().flatten().filter_map(|entry| Some(entry.ok()?.path())).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_version_of_a_library_is_told_from_another_library() {
        let (ours, others) = if cfg!(windows) {
            (["cublas64_13.dll", "cublas64_12.dll"], ["cublasLt64_13.dll", "cublas.lib"])
        } else {
            (["libcublas.so", "libcublas.so.13.0.2"], ["libcublasLt.so.13", "cublas64_13.dll"])
        };
        assert!(ours.iter().all(|file| is_version_of(file, "cublas")));
        assert!(!others.iter().any(|file| is_version_of(file, "cublas")));
    }

    #[test]
    fn the_latest_version_comes_first() {
        let folder = tempfile::tempdir().expect("a folder");
        let named = |version: &str| {
            let file =
                if cfg!(windows) { format!("nvrtc64_{version}0_0.dll") } else { format!("libnvrtc.so.{version}") };
            folder.path().join(file)
        };
        for version in ["12", "13"] {
            std::fs::write(named(version), "").expect("written");
        }
        assert_eq!(files(folder.path(), "nvrtc"), [named("13"), named("12")]);
    }
}
