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
        return Err(
            "no NVIDIA driver (libcuda was not found); install the driver of your GPU from your distribution or \
                    from nvidia.com/drivers"
                .to_owned(),
        );
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
    let lacks = |what: &str, file: &str| {
        format!(
            "{what} ({file}) was not found; it comes with the CUDA toolkit (developer.nvidia.com/cuda-downloads) and with \
             PyTorch; if it lies elsewhere, name its folder in LD_LIBRARY_PATH"
        )
    };
    if !has_compiler() {
        return Err(lacks("CUDA's compiler", "libnvrtc"));
    }
    // SAFETY: as above.
    if !bring("cublas", || unsafe { cublas::sys::is_culib_present() }) {
        return Err(lacks("cuBLAS", "libcublas"));
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
    let prefix = format!("{}{name}{}", std::env::consts::DLL_PREFIX, std::env::consts::DLL_SUFFIX);
    let Ok(entries) = std::fs::read_dir(folder) else { return Vec::new() };
    let mut files: Vec<PathBuf> = entries
        .filter_map(|entry| Some(entry.ok()?.path()))
        .filter(|path| path.file_name().is_some_and(|file| file.to_string_lossy().starts_with(&prefix)))
        .collect();
    files.sort();
    files.reverse();
    files
}

/// Where toolkits and Python packages put them.
fn folders() -> Vec<PathBuf> {
    let variable = |name: &str| std::env::var_os(name).map(PathBuf::from);
    let toolkits =
        ["CUDA_HOME", "CUDA_PATH"].into_iter().filter_map(variable).chain([PathBuf::from("/usr/local/cuda")]);
    let mut folders: Vec<PathBuf> =
        toolkits.flat_map(|root| ["lib64", "lib", "targets/x86_64-linux/lib"].map(|part| root.join(part))).collect();
    for root in ["VIRTUAL_ENV", "CONDA_PREFIX"].into_iter().filter_map(variable) {
        folders.push(root.join("lib"));
        for python in children(&root.join("lib")) {
            for package in children(&python.join("site-packages").join("nvidia")) {
                folders.push(package.join("lib"));
            }
        }
    }
    folders
}

fn children(folder: &Path) -> Vec<PathBuf> {
    std::fs::read_dir(folder).into_iter().flatten().filter_map(|entry| Some(entry.ok()?.path())).collect()
}
