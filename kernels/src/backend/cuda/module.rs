//! Modules of kernels: compiled by NVRTC when they are first needed, and kept on disk.
//!
//! Always holds: a module from disk was written for the same source, compiler and device; otherwise it is compiled again.
//! Without a folder to write to, modules are compiled at every start. Where compiling takes its time, others that a run of the
//! same types may need are compiled on other threads meanwhile; the listener is told of the wait.

mod ahead;
mod compiler;
mod recipe;

use std::{
    cell::{Cell, RefCell},
    collections::HashMap,
    ffi::CStr,
    path::PathBuf,
    rc::Rc,
    time::{Duration, Instant},
};

use cudarc::driver::{
    DriverError, result,
    sys::{CUfunction, CUmodule},
};

use self::{
    ahead::{Ahead, Image},
    recipe::Recipe,
};
use super::{
    SOURCES,
    device::Device,
    fault::refused,
    handle::{Handle, Owned},
};
use crate::{backend::DType, cache, device::cpu_threads, error::Result};

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
        let name = name.to_string_lossy();
        let (list, _) = self.text.split("__global__ void ").skip(1).find_map(|kernel| {
            let (own, rest) = kernel.split_once('(')?;
            self.is_named(own, &name).then(|| rest.split_once(')'))?
        })?;
        let count = |list: &str| list.split(',').filter(|parameter| !parameter.trim().is_empty()).count();
        // A name in capitals stands for the parameters that its definition lists.
        let defined = |parameter: &str| {
            let name = parameter.trim();
            if name.contains(' ') {
                return None;
            }
            let (_, rest) = self.text.split_once(&format!("#define {name} "))?;
            Some(count(rest.lines().next()?))
        };
        Some(list.split(',').map(|parameter| defined(parameter).unwrap_or_else(|| count(parameter))).sum())
    }

    /// Whether a kernel `own` of the text has this name. One that a macro makes is called after the macro's parameter `name`,
    /// as `bias_##name`, and the macro is used with the name as its first argument.
    fn is_named(&self, own: &str, name: &str) -> bool {
        const PARAMETER: &str = "name";
        let given = own.split_once(PARAMETER).and_then(|(before, after)| {
            let before = before.strip_suffix("##").or(before.is_empty().then_some(before))?;
            let after = after.strip_prefix("##").or(after.is_empty().then_some(after))?;
            name.strip_prefix(before)?.strip_suffix(after)
        });
        let is_made_of = |given: &str| given != PARAMETER && self.text.contains(&format!("({given},"));
        own == name && own != PARAMETER || given.is_some_and(is_made_of)
    }
}

/// The types that a source is compiled for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Types {
    /// Compiled once: it has no floating-point type.
    One,
    /// For each type of elements, `T`.
    Element,
    /// For each type of 16 bits, `T`.
    Half,
    /// For each type of elements, `T`, with weights, `W`, of the same type or f32.
    ElementAndWeight,
    /// For each type of elements, `T`, with weights, `W`, of the same type or f32, and for f32 with weights of 16 bits.
    Gradient,
    /// For each two types, `T` and `W`.
    Pair,
}

const FLOATS: [DType; 4] = [DType::F64, DType::F32, DType::Bf16, DType::F16];

impl Types {
    /// All combinations, as (`T`, `W`).
    pub(super) fn all(self) -> Vec<[DType; 2]> {
        let floats = || FLOATS.into_iter().map(|t| [t, t]);
        match self {
            Self::One => vec![[DType::F32; 2]],
            Self::Element => floats().collect(),
            Self::Half => vec![[DType::Bf16; 2], [DType::F16; 2]],
            Self::ElementAndWeight => floats().chain([[DType::Bf16, DType::F32], [DType::F16, DType::F32]]).collect(),
            Self::Gradient => {
                let narrower = [[DType::F32, DType::Bf16], [DType::F32, DType::F16]];
                Self::ElementAndWeight.all().into_iter().chain(narrower).collect()
            }
            Self::Pair => FLOATS.into_iter().flat_map(|t| FLOATS.map(|w| [t, w])).collect(),
        }
    }
}

/// A source compiled for a pair of types.
type Key = (&'static str, [DType; 2]);

/// A module takes longer than this where it is worth while to compile others at once.
const SLOW: Duration = Duration::from_millis(200);
/// Threads that compile, at the most.
const THREADS: usize = 8;

/// The listener that is told of every module to be compiled, with how many were compiled before it.
pub(super) type Listener = Box<dyn Fn(usize)>;

/// The modules of one device.
pub(super) struct Modules {
    folder: Option<PathBuf>,
    loaded: RefCell<HashMap<Key, Rc<Module>>>,
    ahead: Ahead<Key>,
    is_ahead: Cell<bool>,
    compiled: Cell<usize>,
    listener: RefCell<Option<Listener>>,
}

impl Modules {
    /// No modules yet.
    pub(super) fn new() -> Self {
        Self {
            folder: cache::folder("kernels"),
            loaded: RefCell::default(),
            ahead: Ahead::new(),
            is_ahead: Cell::new(false),
            compiled: Cell::new(0),
            listener: RefCell::default(),
        }
    }

    /// Reports to `listener` from now on; without a listener, reports nothing.
    pub(super) fn tell(&self, listener: Option<Listener>) {
        *self.listener.borrow_mut() = listener;
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

    fn image(&self, device: &Device, source: &Source, types: [DType; 2]) -> Result<Image> {
        let recipe = Recipe::new(device, self.folder.as_deref(), source, types)?;
        if let Some(image) = recipe.kept() {
            return Ok(image.into());
        }
        if let Some(listener) = &*self.listener.borrow() {
            listener(self.compiled.get());
        }
        self.compiled.set(self.compiled.get() + 1);
        let start = Instant::now();
        let image = self.ahead.get(&(source.name, types), || recipe.make())?;
        if start.elapsed() > SLOW && !self.is_ahead.replace(true) {
            self.go_ahead(device, types);
        }
        Ok(image)
    }

    /// Compiles what else a run with these types may need, if there are processors for it.
    fn go_ahead(&self, device: &Device, [t, w]: [DType; 2]) {
        let free = cpu_threads() / 2;
        if free < 2 {
            return;
        }
        let pairs = [[t, t], [t, w], [w, t], [w, w], [DType::F32; 2]];
        let wanted = SOURCES.iter().flat_map(|source| {
            let mut all = source.types.all();
            all.retain(|types| pairs.contains(types));
            all.into_iter().map(move |types| (*source, types))
        });
        let recipes = wanted.filter_map(|(source, types)| {
            let recipe = Recipe::new(device, self.folder.as_deref(), source, types).ok()?;
            recipe.kept().is_none().then_some(((source.name, types), move || recipe.make()))
        });
        self.ahead.start(recipes.collect(), free.min(THREADS));
    }
}

// SAFETY: the driver loads a new module. The device outlives its modules, and has finished what was queued before they go.
unsafe impl Handle for CUmodule {
    type Asked<'a> = &'a Image;
    type Error = DriverError;

    const TAKE_BACK: unsafe fn(Self) -> Result<(), DriverError> = result::module::unload;

    fn make(image: &Image) -> Result<Self, DriverError> {
        // SAFETY: the image came from the compiler whole: machine code, or text that ends with a zero.
        unsafe { result::module::load_data(image.as_ptr().cast()) }
    }
}

/// Kernels on the device.
pub(super) struct Module {
    handle: Owned<CUmodule>,
    functions: RefCell<HashMap<&'static CStr, CUfunction>>,
}

impl Module {
    fn load(image: &Image) -> Result<Self> {
        let handle = Owned::new(image).map_err(|error| refused("kernels", "loading kernels", error))?;
        Ok(Self { handle, functions: RefCell::default() })
    }

    /// A kernel, which lives as long as the module.
    ///
    /// # Errors
    /// Fails when the driver does, which may load it only now.
    pub(super) fn function(&self, name: &'static CStr) -> Result<CUfunction> {
        if let Some(function) = self.functions.borrow().get(name) {
            return Ok(*function);
        }
        // SAFETY: the module is alive.
        let function = unsafe { result::module::get_function(self.handle.raw(), name.to_owned()) }
            .map_err(|error| refused("kernels", &format!("finding the kernel {}", name.to_string_lossy()), error))?;
        self.functions.borrow_mut().insert(name, function);
        Ok(function)
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::{
        compiler::{compile, options, text},
        recipe::{read, write},
        *,
    };
    use crate::backend::cuda::{
        activation, elementwise,
        library::{self, compiler},
        optimizer::gradient_norm,
    };

    /// Compute capabilities from Turing to Blackwell.
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

    /// The text for the driver says it; machine code does not.
    #[test]
    fn numbers_are_rounded_to_bf16_by_the_instruction_where_there_is_one() {
        if !library::has_compiler() {
            return;
        }
        for (arch, has_instruction) in [(75, false), (80, true), (89, true), (90, true)] {
            let mut options = options((7, 5), [DType::Bf16; 2]).expect("the compiler knows this device");
            options[0] = format!("--gpu-architecture=compute_{arch}");
            let source = &elementwise::SOURCE;
            let image = compile(source.name, &text(source), &options).unwrap_or_else(|error| panic!("{error}"));
            let image = String::from_utf8_lossy(&image);
            assert!(image.contains(&format!(".target sm_{arch}")), "the text of a device of its own");
            assert_eq!(image.contains("cvt.rn.bf16.f32"), has_instruction, "compute_{arch}");
        }
    }

    #[test]
    fn kernels_that_a_macro_makes_are_found_by_their_names() {
        let parameters = |name| activation::SOURCE.parameters(name);
        assert_eq!(
            [c"relu", c"mish", c"mish_gradient", c"gelu_tanh"].map(parameters),
            [Some(3), Some(4), Some(4), Some(4)]
        );
        assert_eq!([c"name", c"mish_", c"gradient", c"relu_gradient_gradient"].map(parameters), [None; 4]);
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
