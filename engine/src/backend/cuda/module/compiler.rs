//! NVRTC: from a source and its options to machine code, or to text that the driver finishes.

use std::ffi::CString;

use cudarc::nvrtc;

use super::Source;
use crate::{
    backend::{DType, cuda::library::compiler},
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
        // SAFETY: nothing else has the program. A program that cannot be destroyed costs its memory.
        let _ = unsafe { nvrtc::result::destroy_program(self.0) };
    }
}
