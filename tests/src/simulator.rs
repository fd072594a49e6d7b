//! Builds the simulated GPU of `tests/simulator/` and hands out its folder.
//!
//! Holds: it is built once for one state of its sources, no matter which test comes first, and is whole when its folder has its
//! name. Refuses to go on without g++.

use std::{
    env,
    ffi::{CString, OsString, c_char, c_int, c_ulonglong, c_void},
    fs,
    hash::{DefaultHasher, Hash, Hasher},
    io,
    mem::transmute,
    os::unix::fs::symlink,
    path::{Path, PathBuf},
    process::Command,
    sync::OnceLock,
};

use crate::manners::manner_settings;

const SOURCES: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/simulator");
const LIBRARY: &str = "libsimulator.so";
/// What programs open.
const NAMES: [&str; 15] = [
    "libcuda.so",
    "libcuda.so.1",
    "libnvrtc.so",
    "libnvrtc.so.13",
    "libcublas.so",
    "libcublas.so.13",
    "libcublasLt.so",
    "libcublasLt.so.13",
    "libcudnn.so",
    "libcudnn.so.9",
    "libcudnn_graph.so.9",
    "libcudnn_ops.so.9",
    "libcudnn_cnn.so.9",
    "libnvidia-ml.so",
    "libnvidia-ml.so.1",
];
/// Set in a process that `on_simulated_gpu` started, to the name of its test.
const INSIDE: &str = "PLIMSOLL_TEST_ON_SIMULATED_GPU";

/// The folder to start a program with, as `LD_LIBRARY_PATH`, so that it finds the simulated GPU in place of NVIDIA's
/// libraries. `tests/simulator/sim.h` lists the variables that shape the card.
///
/// # Panics
/// g++ is missing, or does not build it.
pub fn simulated_gpu() -> PathBuf {
    static FOLDER: OnceLock<PathBuf> = OnceLock::new();
    FOLDER.get_or_init(|| built().unwrap_or_else(|error| panic!("the simulated GPU: {error}"))).clone()
}

/// Runs `body` in a process that sees the simulated GPU: the test `name` of this binary, started again with `settings` in
/// its environment, on top of those of the [manner](crate::MANNER) that is chosen. To be called first and alone in a test of that
/// name.
///
/// # Panics
/// The body panics.
pub fn on_simulated_gpu(name: &str, settings: &[(&str, &str)], body: impl FnOnce()) {
    heard_on_simulated_gpu(name, settings, body);
}

/// [`on_simulated_gpu`], and what that process wrote to its standard error; `None` in that process.
///
/// # Panics
/// The body panics.
pub fn heard_on_simulated_gpu(name: &str, settings: &[(&str, &str)], body: impl FnOnce()) -> Option<String> {
    if env::var(INSIDE).is_ok_and(|inside| inside == name) {
        body();
        return None;
    }
    let program = env::current_exe().expect("a test knows its program");
    let output = Command::new(program)
        .args([name, "--exact", "--nocapture", "--test-threads=1"])
        .env("LD_LIBRARY_PATH", search_path())
        .env(INSIDE, name)
        .envs(manner_settings().iter().copied())
        .envs(settings.iter().copied())
        .output()
        .expect("a test can start its program");
    let said = [output.stdout, output.stderr].map(|bytes| String::from_utf8_lossy(&bytes).into_owned());
    assert!(output.status.success(), "on the simulated GPU, {}:\n{}{}", output.status, said[0], said[1]);
    assert!(said[0].contains("1 passed"), "there is no test {name}:\n{}", said[0]);
    let [_, heard] = said;
    Some(heard)
}

/// How often this process, which sees the simulated GPU, has called these functions of the driver so far.
///
/// # Panics
/// The process does not see it.
pub fn calls_of(functions: &[&str]) -> u64 {
    type Calls = unsafe extern "C" fn(*const c_char) -> c_ulonglong;
    unsafe extern "C" {
        fn dlopen(name: *const c_char, flags: c_int) -> *mut c_void;
        fn dlsym(library: *mut c_void, name: *const c_char) -> *mut c_void;
    }
    /// Symbols are bound at once.
    const RTLD_NOW: c_int = 2;
    // SAFETY: the names are strings of C; the library stays open.
    let found = unsafe {
        let library = dlopen(c"libcuda.so.1".as_ptr(), RTLD_NOW);
        assert!(!library.is_null(), "there is no driver");
        dlsym(library, c"plimsoll_sim_calls".as_ptr())
    };
    assert!(!found.is_null(), "the driver is not the simulated one");
    // SAFETY: the simulator has this function, of this type.
    let calls = unsafe { transmute::<*mut c_void, Calls>(found) };
    let name = |function: &&str| CString::new(*function).expect("no zero in a name");
    // SAFETY: it reads a string of C and keeps nothing of it.
    functions.iter().map(|function| unsafe { calls(name(function).as_ptr()) }).sum()
}

/// The simulated GPU's folder, and behind it the folders that this process was started with.
fn search_path() -> OsString {
    let before = env::var_os("LD_LIBRARY_PATH").unwrap_or_default();
    let folders =
        std::iter::once(simulated_gpu()).chain(env::split_paths(&before).filter(|path| !path.as_os_str().is_empty()));
    env::join_paths(folders).expect("folders of a search path")
}

/// By the contents of its sources, so that another state of them is another folder.
fn built() -> io::Result<PathBuf> {
    let target = target_folder()?;
    fs::create_dir_all(&target)?;
    let folder = target.join(format!("simulated-gpu-{:016x}", state_of_sources()?));
    // Several test programs may come here at once.
    let lock = fs::File::create(target.join("simulated-gpu.lock"))?;
    lock.lock()?;
    if !folder.exists() {
        let aside = target.join("simulated-gpu-unfinished");
        if aside.exists() {
            fs::remove_dir_all(&aside)?;
        }
        fs::create_dir(&aside)?;
        compile(&aside)?;
        for name in NAMES {
            symlink(LIBRARY, aside.join(name))?;
        }
        fs::rename(&aside, &folder)?;
    }
    Ok(folder)
}

/// Cargo's folder for products, `tmp` in it: a test's program lies at `<products>/<profile>/deps/<program>`.
pub(crate) fn target_folder() -> io::Result<PathBuf> {
    let program = env::current_exe()?;
    let products = program.ancestors().nth(3).map_or_else(env::temp_dir, Path::to_path_buf);
    Ok(products.join("tmp"))
}

fn sources() -> io::Result<Vec<PathBuf>> {
    let mut paths = fs::read_dir(SOURCES)?.map(|entry| Ok(entry?.path())).collect::<io::Result<Vec<_>>>()?;
    paths.sort();
    Ok(paths)
}

fn state_of_sources() -> io::Result<u64> {
    let mut hasher = DefaultHasher::new();
    for path in sources()? {
        (&path, fs::read(&path)?).hash(&mut hasher);
    }
    Ok(hasher.finish())
}

/// The command at the head of `sim.h`.
fn compile(folder: &Path) -> io::Result<()> {
    let output = Command::new("g++")
        .args(["-std=c++17", "-O2", "-w", "-shared", "-fPIC", "-fvisibility=hidden", "-pthread", "-I", SOURCES])
        .args(sources()?.iter().filter(|path| path.extension().is_some_and(|ending| ending == "cpp")))
        .args(["-Wl,-z,nodelete", "-ldl", "-o"])
        .arg(folder.join(LIBRARY))
        .output()
        .map_err(|error| {
            io::Error::new(
                error.kind(),
                format!("g++ does not start ({error}): install it, the simulated GPU needs it"),
            )
        })?;
    if output.status.success() {
        return Ok(());
    }
    Err(io::Error::other(format!("g++ does not take it:\n{}", String::from_utf8_lossy(&output.stderr))))
}
