//! Modules of kernels: compiled by NVRTC when they are first needed, and kept on disk.
//!
//! Always holds: a module from disk was written for the same source, compiler and device; otherwise it is compiled again.
//! Without a folder to write to, modules are compiled at every start.

use std::{
    cell::RefCell,
    collections::HashMap,
    ffi::{CStr, CString},
    fs,
    hash::{DefaultHasher, Hash, Hasher},
    path::{Path, PathBuf},
    rc::Rc,
};

use cudarc::{driver, nvrtc};

use super::{
    device::Device,
    fault::refused,
    launch::{Arg, Grid},
    library::compiler,
};
use crate::{
    backend::DType,
    cache,
    error::{Error, Result},
};

const PRELUDE: &str = include_str!("prelude.cuh");

/// The source of a family's kernels.
#[derive(Debug)]
pub(super) struct Source {
    /// The file's name, without its ending.
    pub(super) name: &'static str,
    /// The text after the prelude.
    pub(super) text: &'static str,
    /// The types it is compiled for.
    pub(super) types: Types,
}

impl Source {
    /// The number of parameters of a kernel; `None` for an unknown kernel.
    pub(super) fn parameters(&self, name: &CStr) -> Option<usize> {
        let entry = format!("__global__ void {}(", name.to_string_lossy());
        let (_, rest) = self.text.split_once(&entry)?;
        let (list, _) = rest.split_once(')')?;
        let count = |list: &str| list.split(',').filter(|parameter| !parameter.trim().is_empty()).count();
        // A name in capitals stands for the parameters that its definition lists.
        let defined = |name: &str| {
            let (_, rest) = self.text.split_once(&format!("#define {} ", name.trim()))?;
            Some(count(rest.lines().next()?))
        };
        Some(list.split(',').map(|parameter| defined(parameter).unwrap_or_else(|| count(parameter))).sum())
    }
}

/// The types that a source is compiled for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Types {
    /// Once: it knows no floating-point type.
    One,
    /// For each type of elements, `T`.
    Element,
    /// For each type of 16 bits, `T`.
    Half,
    /// For each type of elements, `T`, with weights, `W`, of the same type or f32.
    ElementAndWeight,
    /// For each two types, `T` and `W`.
    Pair,
}

const FLOATS: [DType; 4] = [DType::F64, DType::F32, DType::Bf16, DType::F16];

impl Types {
    /// All of them, as (`T`, `W`).
    pub(super) fn all(self) -> Vec<[DType; 2]> {
        let floats = || FLOATS.into_iter().map(|t| [t, t]);
        match self {
            Self::One => vec![[DType::F32; 2]],
            Self::Element => floats().collect(),
            Self::Half => vec![[DType::Bf16; 2], [DType::F16; 2]],
            Self::ElementAndWeight => floats().chain([[DType::Bf16, DType::F32], [DType::F16, DType::F32]]).collect(),
            Self::Pair => FLOATS.into_iter().flat_map(|t| FLOATS.map(|w| [t, w])).collect(),
        }
    }
}

/// A source compiled for a pair of types.
type Key = (&'static str, [DType; 2]);

/// The modules of one device.
pub(super) struct Modules {
    folder: Option<PathBuf>,
    loaded: RefCell<HashMap<Key, Rc<Module>>>,
}

impl Modules {
    /// None yet.
    pub(super) fn new() -> Self {
        Self { folder: cache::folder("kernels"), loaded: RefCell::default() }
    }

    /// The module of a source for `types`.
    ///
    /// # Errors
    /// Fails when NVRTC is missing, or when it rejects the source, which is a bug.
    pub(super) fn get(&self, device: &Device, source: &Source, types: [DType; 2]) -> Result<Rc<Module>> {
        let key = (source.name, types);
        if let Some(module) = self.loaded.borrow().get(&key) {
            return Ok(Rc::clone(module));
        }
        let image = self.image(device, source, types)?;
        let module = Rc::new(Module::load(&image)?);
        self.loaded.borrow_mut().insert(key, Rc::clone(&module));
        Ok(module)
    }

    /// Unloads all of them.
    pub(super) fn unload(&self) {
        self.loaded.borrow_mut().clear();
    }

    fn image(&self, device: &Device, source: &Source, types: [DType; 2]) -> Result<Vec<u8>> {
        let text = text(source);
        let options = options(device.capability(), types)?;
        let mut hasher = DefaultHasher::new();
        (&text, &options, device.name(), compiler()).hash(&mut hasher);
        let [t, w] = types;
        let name = format!("{}-{}-{}-{:016x}", source.name, t.name(), w.name(), hasher.finish());
        let place = self.folder.as_ref().map(|folder| folder.join(name));
        if let Some(image) = place.as_ref().and_then(|place| read(place)) {
            return Ok(image);
        }
        let image = compile(source.name, &text, &options)?;
        if let Some(place) = place {
            write(&place, &image);
        }
        Ok(image)
    }
}

/// The image after its hash, so that a truncated or damaged file is detected.
fn read(place: &Path) -> Option<Vec<u8>> {
    let bytes = fs::read(place).ok()?;
    let (hash, image) = bytes.split_first_chunk()?;
    (u64::from_le_bytes(*hash) == hash_of(image)).then(|| image.to_vec())
}

fn write(place: &Path, image: &[u8]) {
    cache::write(place, &[&hash_of(image).to_le_bytes(), image].concat());
}

fn hash_of(image: &[u8]) -> u64 {
    let mut hasher = DefaultHasher::new();
    image.hash(&mut hasher);
    hasher.finish()
}

/// The whole text of a module.
pub(super) fn text(source: &Source) -> String {
    format!("{PRELUDE}\n#line 1 \"{}.cu\"\n{}", source.name, source.text)
}

/// The compiler's options for a compute capability: machine code where the compiler knows the device, otherwise code for the
/// nearest earlier one that the driver finishes.
pub(super) fn options(capability: (i32, i32), [t, w]: [DType; 2]) -> Result<Vec<String>> {
    let wanted = capability.0 * 10 + capability.1;
    let known = architectures()?;
    let arch = match known.iter().copied().filter(|arch| *arch <= wanted).max() {
        Some(arch) if arch == wanted => format!("sm_{arch}"),
        Some(arch) => format!("compute_{arch}"),
        None => {
            let first = known.iter().min().copied().unwrap_or_default();
            return Err(Error::Device(format!(
                "this GPU has compute capability {}.{}, and the CUDA compiler here (NVRTC {}.{}) knows {}.{} and later; \
                 an earlier CUDA toolkit serves it",
                capability.0,
                capability.1,
                compiler().0,
                compiler().1,
                first / 10,
                first % 10
            )));
        }
    };
    Ok(vec![
        format!("--gpu-architecture={arch}"),
        "--std=c++17".to_owned(),
        // Functions that are passed to a kernel, such as lambdas, are device functions.
        "-default-device".to_owned(),
        format!("-DT={}", t.name()),
        format!("-DW={}", w.name()),
    ])
}

fn architectures() -> Result<Vec<i32>> {
    let (mut count, mut archs) = (0, Vec::new());
    // SAFETY: the place is alive, and there is room for as many as the library just said.
    unsafe {
        compiled("the list of devices", nvrtc::sys::nvrtcGetNumSupportedArchs(&mut count))?;
        archs.resize(usize::try_from(count).unwrap_or(0), 0);
        compiled("the list of devices", nvrtc::sys::nvrtcGetSupportedArchs(archs.as_mut_ptr()))?;
    }
    Ok(archs)
}

fn compiled(what: &str, result: nvrtc::sys::nvrtcResult) -> Result<()> {
    result.result().map_err(|error| Error::Device(format!("NVRTC, {what}: {error:?}")))
}

/// Compiles a text.
///
/// # Errors
/// Carries the log of the compiler.
pub(super) fn compile(name: &str, text: &str, options: &[String]) -> Result<Vec<u8>> {
    let clean = |text: &str| CString::new(text).map_err(|_| Error::Device(format!("{name}: a zero in the source")));
    let program = Program(
        nvrtc::result::create_program(&clean(text)?, Some(&clean(&format!("{name}.cu"))?))
            .map_err(|error| Error::Device(format!("NVRTC, {name}: {error:?}")))?,
    );
    // SAFETY: the program is alive.
    if unsafe { nvrtc::result::compile_program(program.0, options) }.is_err() {
        return Err(Error::Device(format!("NVRTC rejects {name}.cu:\n{}", program.log())));
    }
    let is_machine_code = options.iter().any(|option| option.contains("=sm_"));
    program.image(is_machine_code)
}

/// A program of the compiler.
struct Program(nvrtc::sys::nvrtcProgram);

impl Program {
    fn log(&self) -> String {
        // SAFETY: the program is alive.
        let log = unsafe { nvrtc::result::get_program_log(self.0) }.unwrap_or_default();
        log.iter().map(|c| *c as u8 as char).take_while(|c| *c != '\0').collect()
    }

    fn image(&self, is_machine_code: bool) -> Result<Vec<u8>> {
        let (mut size, mut image) = (0, Vec::<u8>::new());
        // SAFETY: the program is compiled, the place is alive, and there is room for as many bytes as the library just said.
        unsafe {
            if is_machine_code {
                compiled("the size of the code", nvrtc::sys::nvrtcGetCUBINSize(self.0, &mut size))?;
                image.resize(size, 0);
                compiled("the code", nvrtc::sys::nvrtcGetCUBIN(self.0, image.as_mut_ptr().cast()))?;
            } else {
                compiled("the size of the code", nvrtc::sys::nvrtcGetPTXSize(self.0, &mut size))?;
                image.resize(size, 0);
                compiled("the code", nvrtc::sys::nvrtcGetPTX(self.0, image.as_mut_ptr().cast()))?;
            }
        }
        Ok(image)
    }
}

impl Drop for Program {
    fn drop(&mut self) {
        // SAFETY: nobody else has the program. A program that cannot be destroyed costs its memory.
        let _ = unsafe { nvrtc::result::destroy_program(self.0) };
    }
}

/// Kernels on the device.
pub(super) struct Module {
    handle: driver::sys::CUmodule,
    functions: RefCell<HashMap<&'static CStr, driver::sys::CUfunction>>,
}

impl Module {
    fn load(image: &[u8]) -> Result<Self> {
        // SAFETY: the image came from the compiler whole: machine code, or text that ends with a zero.
        let handle = unsafe { driver::result::module::load_data(image.as_ptr().cast()) }
            .map_err(|error| refused("kernels", "loading kernels", error))?;
        Ok(Self { handle, functions: RefCell::default() })
    }

    /// Queues a kernel on the device's stream.
    ///
    /// # Errors
    /// Fails when the driver refuses the launch.
    ///
    /// # Safety
    /// `args` are those of the kernel, pointers among them to memory as large as it indexes.
    pub(super) unsafe fn launch(&self, device: &Device, name: &'static CStr, grid: Grid, args: &[Arg]) -> Result<()> {
        let function = self.function(name)?;
        // SAFETY: as the caller promises.
        unsafe { grid.launch(device, function, args) }
            .map_err(|error| refused("kernels", &format!("launching {}", name.to_string_lossy()), error))
    }

    fn function(&self, name: &'static CStr) -> Result<driver::sys::CUfunction> {
        if let Some(function) = self.functions.borrow().get(name) {
            return Ok(*function);
        }
        // SAFETY: the module is alive.
        let function = unsafe { driver::result::module::get_function(self.handle, name.to_owned()) }
            // The driver may load it only now.
            .map_err(|error| refused("kernels", &format!("finding the kernel {}", name.to_string_lossy()), error))?;
        self.functions.borrow_mut().insert(name, function);
        Ok(function)
    }
}

impl Drop for Module {
    fn drop(&mut self) {
        // SAFETY: the device outlives its modules, and has finished what was queued before they go.
        let _ = unsafe { driver::result::module::unload(self.handle) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::backend::cuda::{SOURCES, library, optimizer::gradient_norm};

    /// From Turing to Blackwell.
    const CAPABILITIES: [(i32, i32); 5] = [(7, 5), (8, 0), (8, 9), (9, 0), (12, 0)];

    fn takes(source: &Source, types: [DType; 2], capability: (i32, i32), more: &[String]) {
        let options = options(capability, types).expect("the compiler knows these devices");
        let image =
            compile(source.name, &text(source), &[&options, more].concat()).unwrap_or_else(|error| panic!("{error}"));
        assert!(!image.is_empty(), "{} for {types:?} and {capability:?}", source.name);
    }

    /// Every source for each of its types, for one of the architectures, or for all of them where the source asks which it
    /// is. The compiler is told not to look for the fastest code, which is most of its time and nothing that it refuses.
    #[test]
    fn the_compiler_takes_every_kernel_for_every_type() {
        if !library::has_compiler() {
            // The whole check of a change sets this, and brings the compiler.
            assert!(std::env::var_os("PLIMSOLL_NEEDS_NVRTC").is_none(), "NVRTC was not found");
            eprintln!("skipped: NVRTC (libnvrtc) is not on this machine");
            return;
        }
        // An earlier compiler does not know how to hurry.
        let hurry = if compiler() >= (13, 0) { &["--Ofast-compile=mid".to_owned()][..] } else { &[] };
        for (source, one) in SOURCES.iter().zip(CAPABILITIES.chunks(1).cycle()) {
            let capabilities = if source.text.contains("__CUDA_ARCH__") { &CAPABILITIES } else { one };
            for types in source.types.all() {
                capabilities.iter().for_each(|capability| takes(source, types, *capability, hurry));
            }
        }
    }

    #[test]
    fn the_compiler_takes_the_options_of_a_run_on_every_architecture() {
        if library::has_compiler() {
            CAPABILITIES.iter().for_each(|capability| takes(&gradient_norm::SOURCE, [DType::F32; 2], *capability, &[]));
        }
    }

    #[test]
    fn a_spoilt_image_is_not_used() {
        let folder = tempfile::tempdir().expect("a folder");
        let place = folder.path().join("kernels");
        write(&place, b"image");
        assert_eq!(read(&place).as_deref(), Some(&b"image"[..]));
        for spoilt in [&b""[..], b"short", b"12345678image"] {
            fs::write(&place, spoilt).expect("written");
            assert_eq!(read(&place), None);
        }
    }
}
