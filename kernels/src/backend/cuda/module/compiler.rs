//! NVRTC: from a source and its options to machine code, or to text that the driver finishes.

use std::ffi::{CStr, CString};

use cudarc::nvrtc::{self, result::NvrtcError, sys::nvrtcProgram};

use super::Source;
use crate::{
    backend::{
        DType,
        cuda::{
            handle::{Handle, Owned},
            library::compiler,
        },
    },
    error::{Error, Result},
};

const PRELUDE: &str = include_str!("../prelude.cuh");

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
    let program = Owned::new([clean(text)?.as_c_str(), clean(&format!("{name}.cu"))?.as_c_str()])
        .map_err(|error| Error::Device(format!("NVRTC, {name}: {error:?}")))?;
    let program = Program(program);
    // SAFETY: the program is alive.
    if unsafe { nvrtc::result::compile_program(program.0.raw(), options) }.is_err() {
        return Err(Error::Device(format!("NVRTC rejects {name}.cu:\n{}", program.log())));
    }
    let is_machine_code = options.iter().any(|option| option.contains("=sm_"));
    program.get(if is_machine_code { Output::MachineCode } else { Output::Text })
}

/// A program of the compiler.
struct Program(Owned<nvrtcProgram>);

// SAFETY: the compiler makes a new program, and nothing runs when a call is over.
unsafe impl Handle for nvrtcProgram {
    /// The source, and the name of its file.
    type Asked<'a> = [&'a CStr; 2];
    type Error = NvrtcError;

    const TAKE_BACK: unsafe fn(Self) -> std::result::Result<(), NvrtcError> = nvrtc::result::destroy_program;

    fn make([source, name]: [&CStr; 2]) -> std::result::Result<Self, NvrtcError> {
        nvrtc::result::create_program(source, Some(name))
    }
}

/// What a program has to say.
#[derive(Debug, Clone, Copy)]
enum Output {
    Log,
    MachineCode,
    /// Code that the driver finishes.
    Text,
}

impl Program {
    fn log(&self) -> String {
        let log = self.get(Output::Log).unwrap_or_default();
        log.iter().map(|c| *c as char).take_while(|c| *c != '\0').collect()
    }

    fn get(&self, output: Output) -> Result<Vec<u8>> {
        use nvrtc::sys;
        let (program, mut size, mut bytes) = (self.0.raw(), 0, Vec::<u8>::new());
        // SAFETY: the program is alive, the place is, and there is room for as many bytes as the library just said.
        unsafe {
            let asked = match output {
                Output::Log => sys::nvrtcGetProgramLogSize(program, &mut size),
                Output::MachineCode => sys::nvrtcGetCUBINSize(program, &mut size),
                Output::Text => sys::nvrtcGetPTXSize(program, &mut size),
            };
            compiled("the size of the code", asked)?;
            bytes.resize(size, 0);
            let to = bytes.as_mut_ptr().cast();
            let given = match output {
                Output::Log => sys::nvrtcGetProgramLog(program, to),
                Output::MachineCode => sys::nvrtcGetCUBIN(program, to),
                Output::Text => sys::nvrtcGetPTX(program, to),
            };
            compiled("the code", given)?;
        }
        Ok(bytes)
    }
}
