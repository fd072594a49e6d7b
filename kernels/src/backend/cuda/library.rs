//! NVIDIA's libraries: which are installed, and how to get those that are missing.
//!
//! Each is opened when it is first needed, by its usual name; the system's search path comes first, then the folders of
//! toolkits and Python packages. A build with candle's CUDA device is linked to them instead. Always holds: once [`look`] has
//! succeeded, every function that the engine calls is there. Refuses, and says how to fix it: a machine without the driver,
//! without the libraries, with a driver that is too old, or with libraries that are too new for it.

mod version;

use std::{
    path::{Path, PathBuf},
    sync::{MutexGuard, OnceLock},
};

use crate::sync::Mutex;

pub use self::version::compiler;
pub(super) use self::version::driver_version;
use self::version::{Part, fits, version, words};
#[cfg(not(feature = "candle-cuda"))]
use cudarc::{
    cublas::sys::is_culib_present as has_cublas, cublaslt::sys::is_culib_present as has_epilogues,
    cudnn::sys::is_culib_present as has_cudnn, driver::sys::is_culib_present as has_driver,
    nvrtc::sys::is_culib_present as has_nvrtc,
};
use cudarc::{
    cudnn,
    driver::{self, sys::CUresult},
};
use libloading::Library;

#[cfg(feature = "candle-cuda")]
use self::{
    is_linked as has_cublas, is_linked as has_epilogues, is_linked as has_cudnn, is_linked as has_driver,
    is_linked as has_nvrtc,
};

/// The earliest CUDA version of the driver: memory pools have a maximum size from 12.2 on.
const DRIVER: i32 = 12_020;

/// Whether everything that training on a GPU needs is here.
///
/// # Errors
/// Says what is missing, and where to get it.
pub fn look() -> Result<(), String> {
    static LOOKED: OnceLock<Result<(), String>> = OnceLock::new();
    LOOKED.get_or_init(search).clone()
}

/// The version of cuDNN, where it is here and whole; without it, convolutions run by kernels of our own.
///
/// # Errors
/// Says why cuDNN is not used.
pub fn dnn() -> Result<String, String> {
    static FOUND: OnceLock<Result<String, String>> = OnceLock::new();
    let found = FOUND.get_or_init(|| look().and_then(|()| search_dnn())).clone();
    unfit_dnn().clone().map_or(found, Err)
}

/// Records that cuDNN is here and does not start, which only a start can show: it is not tried again.
pub(super) fn dnn_does_not_start(why: &str) {
    *unfit_dnn() = Some(why.to_owned());
}

fn unfit_dnn() -> MutexGuard<'static, Option<String>> {
    static WHY: Mutex<Option<String>> = Mutex::new(None);
    WHY.lock()
}

/// Whether cuBLASLt is here; without it, kernels of our own add the bias of a product. It lies next to cuBLAS.
///
/// # Errors
/// Says why it is not used.
pub(super) fn epilogues() -> Result<(), String> {
    look()?;
    if !bring("cublasLt", has_epilogues) {
        return Err("it was not found".to_owned());
    }
    let built_for = version(Part::Epilogues).unwrap_or(0);
    fits(driver_version().map_err(|error| does_not_start(error.0))?, "cuBLASLt", built_for)
}

/// The parts of cuDNN that a convolution needs. It ends the process where one of them is missing, so it is not asked before
/// they are seen.
const DNN_PARTS: [&str; 3] = ["cudnn_graph", "cudnn_ops", "cudnn_cnn"];

fn search_dnn() -> Result<String, String> {
    if !bring("cudnn", has_cudnn) {
        return Err("it was not found".to_owned());
    }
    for part in DNN_PARTS {
        let name = if cfg!(windows) { format!("{part}64_9.dll") } else { format!("lib{part}.so.9") };
        if !open(Path::new(&name)) {
            return Err(format!("it is incomplete, or not version 9: {name} was not found next to it"));
        }
    }
    let (version, built_for) = (cudnn::result::get_version(), cudnn::result::get_cudart_version());
    if version < 90_000 {
        return Err(format!("version 9 or later is needed, and {}.{} was found", version / 1000, version % 1000 / 100));
    }
    fits(driver_version().map_err(|error| does_not_start(error.0))?, "cuDNN", i32::try_from(built_for).unwrap_or(0))?;
    Ok(format!("{}.{}.{}", version / 10_000, version % 10_000 / 100, version % 100))
}

/// Whether the compiler of kernels is here. It needs neither a driver nor a GPU.
pub fn has_compiler() -> bool {
    static FOUND: OnceLock<bool> = OnceLock::new();
    *FOUND.get_or_init(|| bring("nvrtc", has_nvrtc))
}

fn search() -> Result<(), String> {
    // The driver's library belongs to the system and is only looked for there.
    if !is_present(has_driver) {
        let from = if cfg!(windows) { "" } else { "your distribution or " };
        return Err(format!(
            "no NVIDIA driver ({} was not found); install the driver of your GPU from {from}nvidia.com/drivers",
            if cfg!(windows) { "nvcuda.dll" } else { "libcuda" }
        ));
    }
    driver::result::init().map_err(|error| does_not_start(error.0))?;
    let served = driver_version().map_err(|error| does_not_start(error.0))?;
    if served < DRIVER {
        return Err(format!(
            "the NVIDIA driver serves CUDA {}, and 12.2 or later is needed; update the driver",
            words(served)
        ));
    }
    let lacks = |what: &str, name: &str| {
        // On Windows the names of earlier ones are not known to cudarc.
        let (prefix, path, version) =
            if cfg!(windows) { ("", "PATH", ", version 13") } else { ("lib", "LD_LIBRARY_PATH", "") };
        format!(
            "{what} ({prefix}{name}) was not found; it comes with the CUDA toolkit (developer.nvidia.com/cuda-downloads{version}) \
             and with PyTorch; if it lies elsewhere, name its folder in {path}"
        )
    };
    if !has_compiler() {
        return Err(lacks("CUDA's compiler", "nvrtc"));
    }
    if !bring("cublas", has_cublas) {
        return Err(lacks("cuBLAS", "cublas"));
    }
    fits(served, "CUDA's compiler (NVRTC)", version(Part::Compiler).unwrap_or(0))?;
    fits(served, "cuBLAS", version(Part::Blas).unwrap_or(0))
}

/// Why a driver that is here does not start, and what to do about it.
fn does_not_start(error: CUresult) -> String {
    let mend = match error {
        CUresult::CUDA_ERROR_NO_DEVICE => {
            return "the NVIDIA driver is here and shows no GPU to this process; if there is one, see whether \
                    CUDA_VISIBLE_DEVICES hides it"
                .to_owned();
        }
        CUresult::CUDA_ERROR_STUB_LIBRARY => {
            "the libcuda that was found is a toolkit's stand-in for linking; take its folder (stubs) out of the search path"
        }
        CUresult::CUDA_ERROR_SYSTEM_NOT_READY => {
            "the system is not ready; machines with NVSwitch need their fabric manager running"
        }
        CUresult::CUDA_ERROR_SYSTEM_DRIVER_MISMATCH => {
            "its library and its kernel module are of different versions, as after an update; restart the machine"
        }
        CUresult::CUDA_ERROR_COMPAT_NOT_SUPPORTED_ON_DEVICE => {
            "a CUDA compatibility package was found that does not serve this GPU; take its folder (compat) out of the search \
             path"
        }
        CUresult::CUDA_ERROR_UNKNOWN => {
            "it does not say why; often its kernel module nvidia_uvm is not loaded, which a restart of the machine fixes"
        }
        other => return format!("the NVIDIA driver does not start: {}", text_of(other)),
    };
    format!("the NVIDIA driver does not start: {mend}")
}

/// What the driver calls an error.
fn text_of(error: CUresult) -> String {
    let text = driver::DriverError(error).error_string().ok().map(|text| text.to_string_lossy().into_owned());
    text.unwrap_or_else(|| format!("{error:?}"))
}

/// Whether a library can be opened; if the system does not find it, from the folders where it usually lies. What is open
/// once is found by its name from then on.
fn bring(name: &str, is_culib_present: unsafe fn() -> bool) -> bool {
    if is_present(is_culib_present) {
        return true;
    }
    // What it opens itself, by name alone, comes first.
    let parts: &[&str] = match name {
        "nvrtc" => &["nvrtc-builtins"],
        "cublas" => &["cublasLt"],
        "cublasLt" => &[],
        _ => &[
            "cudnn_graph",
            "cudnn_ops",
            "cudnn_cnn",
            "cudnn_adv",
            "cudnn_engines_precompiled",
            "cudnn_engines_runtime_compiled",
            "cudnn_heuristic",
        ],
    };
    folders().into_iter().any(|folder| {
        let open = |name: &str| files(&folder, name).iter().any(|file| open(file));
        let is_here = !files(&folder, name).is_empty();
        if is_here {
            for part in parts {
                open(part);
            }
        }
        is_here && open(name) && is_present(is_culib_present)
    })
}

/// What cudarc's question for a library answers.
fn is_present(is_culib_present: unsafe fn() -> bool) -> bool {
    // SAFETY: opening NVIDIA's library runs its initialisers, which have no demands.
    unsafe { is_culib_present() }
}

/// A build with candle's CUDA device is linked to NVIDIA's libraries, as candle is: a program that runs has them.
#[cfg(feature = "candle-cuda")]
unsafe fn is_linked() -> bool {
    true
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
    let environments: Vec<PathBuf> = ["VIRTUAL_ENV", "CONDA_PREFIX"].into_iter().filter_map(variable).collect();
    folders.extend(environments.iter().flat_map(|root| [root.join("lib"), root.join("bin")]));
    // A user's packages and the system's come after those of an environment that was chosen.
    let user = variable("HOME").map(|home| home.join(".local"));
    let system = ["/usr/local", "/usr"].map(PathBuf::from);
    for root in environments.into_iter().chain(user).chain(system) {
        folders.extend(python_folders(&root));
    }
    folders
}

/// The folders of NVIDIA's libraries among the packages of each Python in `root`.
fn python_folders(root: &Path) -> Vec<PathBuf> {
    let library = root.join("lib");
    // Windows has one Python an environment, others a folder for each. Debian keeps what pip installs for the whole system
    // in a folder of another name.
    let pythons = children(&library)
        .into_iter()
        .filter(|folder| folder.file_name().is_some_and(|name| name.to_string_lossy().starts_with("python")));
    let packages = pythons.chain([library.clone()]);
    let packages = packages.flat_map(|python| ["site-packages", "dist-packages"].map(|name| python.join(name)));
    packages
        .flat_map(|packages| {
            let nvidia = children(&packages.join("nvidia")).into_iter();
            let parts = nvidia.flat_map(|package| ["lib", "bin", "bin/x86_64"].map(|part| package.join(part)));
            [packages.join("torch/lib")].into_iter().chain(parts).collect::<Vec<_>>()
        })
        .collect()
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
    fn a_driver_that_does_not_start_is_told_of_in_words() {
        for (error, word) in [
            (CUresult::CUDA_ERROR_NO_DEVICE, "CUDA_VISIBLE_DEVICES"),
            (CUresult::CUDA_ERROR_STUB_LIBRARY, "stubs"),
            (CUresult::CUDA_ERROR_SYSTEM_DRIVER_MISMATCH, "restart"),
            (CUresult::CUDA_ERROR_UNKNOWN, "nvidia_uvm"),
        ] {
            let why = does_not_start(error);
            assert!(why.contains(word) && !why.contains("CUDA_ERROR"), "{why}");
        }
    }

    #[test]
    fn the_packages_of_an_environment_and_of_the_system_are_searched() {
        let root = tempfile::tempdir().expect("a folder");
        let places = ["python3.12/site-packages/nvidia/cublas/lib", "python3/dist-packages/nvidia/cuda_nvrtc/lib"];
        for place in places {
            std::fs::create_dir_all(root.path().join("lib").join(place)).expect("made");
        }
        std::fs::create_dir_all(root.path().join("lib/firmware/dist-packages/nvidia/cublas/lib")).expect("made");
        let found = python_folders(root.path());
        for place in places {
            assert!(found.contains(&root.path().join("lib").join(place)), "{place} is not among {found:?}");
        }
        assert!(found.iter().all(|folder| !folder.to_string_lossy().contains("firmware")), "{found:?}");
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
