//! The simulated card as these tests use it: a context, streams, a pool, kernels, by the plain calls of the driver.

use std::ffi::{CStr, CString, c_void};

use cudarc::{
    driver::{
        result::{self, DriverError},
        sys::{self, CUmemPool_attribute, CUresult},
    },
    nvrtc,
};

pub(crate) type Stream = sys::CUstream;
pub(crate) type Ptr = sys::CUdeviceptr;

/// The first card, its context current on this thread.
pub(crate) struct Gpu;

impl Gpu {
    pub(crate) fn new() -> Self {
        result::init().expect("the simulated driver starts");
        let device = result::device::get(0).expect("a card");
        // SAFETY: the device exists; its context lives as long as the process.
        unsafe { result::primary_ctx::retain(device).and_then(|context| result::ctx::set_current(context)) }
            .expect("a context");
        Self
    }

    /// Not ordered against the null stream.
    pub(crate) fn stream(&self) -> Stream {
        result::stream::create(result::stream::StreamKind::NonBlocking).expect("a stream")
    }

    pub(crate) fn finish(&self, stream: Stream) -> Result<(), DriverError> {
        // SAFETY: the stream is one of this card's and is never destroyed.
        unsafe { result::stream::synchronize(stream) }
    }

    /// Memory of the default pool.
    pub(crate) fn alloc(&self, bytes: usize, stream: Stream) -> Ptr {
        // SAFETY: what reads it has written it, or looks for what unwritten memory holds.
        unsafe { result::malloc_async(stream, bytes) }.expect("room on the card")
    }

    pub(crate) fn upload<T>(&self, values: &[T], stream: Stream) -> Ptr {
        let ptr = self.alloc(size_of_val(values), stream);
        // SAFETY: there is room for the values.
        unsafe { result::memcpy_htod_async(ptr, values, stream) }.expect("a copy");
        ptr
    }

    /// Waits for the stream.
    pub(crate) fn download<T: Copy + Default>(&self, ptr: Ptr, count: usize, stream: Stream) -> Vec<T> {
        let mut values = vec![T::default(); count];
        // SAFETY: the tests ask for no more than they allocated.
        unsafe { result::memcpy_dtoh_async(&mut values, ptr, stream) }.expect("a copy");
        self.finish(stream).expect("the stream's work");
        values
    }

    pub(crate) fn record(&self, stream: Stream) -> sys::CUevent {
        let event = result::event::create(sys::CUevent_flags::CU_EVENT_DISABLE_TIMING).expect("an event");
        // SAFETY: both are alive.
        unsafe { result::event::record(event, stream) }.expect("recorded");
        event
    }

    pub(crate) fn wait(&self, stream: Stream, event: sys::CUevent) {
        // SAFETY: both are alive.
        unsafe { result::stream::wait_event(stream, event, sys::CUevent_wait_flags::CU_EVENT_WAIT_DEFAULT) }
            .expect("a wait");
    }

    /// Queues a kernel; `args` point to its arguments.
    pub(crate) fn launch(
        &self,
        kernel: sys::CUfunction,
        blocks: u32,
        threads: u32,
        stream: Stream,
        args: &mut [*mut c_void],
    ) -> Result<(), DriverError> {
        // SAFETY: the tests give each kernel the arguments it takes.
        unsafe { result::launch_kernel(kernel, (blocks, 1, 1), (threads, 1, 1), 0, stream, args) }
    }
}

/// The address of an argument.
pub(crate) fn arg<T>(value: &T) -> *mut c_void {
    std::ptr::from_ref(value).cast_mut().cast()
}

pub(crate) fn code(result: Result<(), DriverError>) -> CUresult {
    result.map_or_else(|error| error.0, |()| CUresult::CUDA_SUCCESS)
}

/// What the compiler makes of a text, or its log.
pub(crate) fn compile(source: &str, options: &[&str]) -> Result<Vec<u8>, String> {
    let text = CString::new(source).expect("no zero in a test's source");
    let program = nvrtc::result::create_program(&text, Some(c"test.cu")).expect("a program");
    // SAFETY: the program is alive until it is destroyed at the end.
    unsafe {
        let image =
            match nvrtc::result::compile_program(program, options) {
                Ok(()) => Ok(bytes(nvrtc::result::get_ptx(program).expect("an image"))),
                Err(_) => Err(String::from_utf8_lossy(&bytes(nvrtc::result::get_program_log(program).expect("a log")))
                    .into_owned()),
            };
        nvrtc::result::destroy_program(program).expect("destroyed");
        image
    }
}

fn bytes(text: Vec<std::ffi::c_char>) -> Vec<u8> {
    text.into_iter().map(|c| c as u8).collect()
}

pub(crate) fn load(image: &[u8]) -> Result<sys::CUmodule, DriverError> {
    // SAFETY: an image is text that ends with a zero.
    unsafe { result::module::load_data(image.as_ptr().cast()) }
}

pub(crate) fn kernel(module: sys::CUmodule, name: &CStr) -> sys::CUfunction {
    // SAFETY: the module is never unloaded.
    unsafe { result::module::get_function(module, name.to_owned()) }.expect("the kernel is in the module")
}

pub(crate) fn kernels(source: &str) -> sys::CUmodule {
    load(&compile(source, &["--gpu-architecture=sm_90"]).unwrap_or_else(|log| panic!("{log}"))).expect("it loads")
}

/// A pool with a limit; 0: none.
pub(crate) struct Pool(pub(crate) sys::CUmemoryPool);

impl Pool {
    pub(crate) fn new(max_bytes: usize) -> Self {
        // SAFETY: numbers and a pointer, for which zero is a value; the enumerations have it too.
        let mut props: sys::CUmemPoolProps = unsafe { std::mem::zeroed() };
        props.allocType = sys::CUmemAllocationType::CU_MEM_ALLOCATION_TYPE_PINNED;
        props.location.type_ = sys::CUmemLocationType::CU_MEM_LOCATION_TYPE_DEVICE;
        props.maxSize = max_bytes;
        // SAFETY: the properties are whole and outlive the call.
        Self(unsafe { result::mem_pool::create(&props) }.expect("a pool"))
    }

    pub(crate) fn alloc(&self, bytes: usize, stream: Stream) -> Result<Ptr, DriverError> {
        // SAFETY: pool and stream are alive.
        unsafe { result::mem_pool::alloc_async(self.0, bytes, stream) }
    }

    pub(crate) fn get(&self, attribute: CUmemPool_attribute) -> u64 {
        let mut value = 0u64;
        // SAFETY: the attributes asked for are 64 bits wide.
        unsafe { result::mem_pool::get_attribute(self.0, attribute, std::ptr::from_mut(&mut value).cast()) }
            .expect("the attribute");
        value
    }

    pub(crate) fn set(&self, attribute: CUmemPool_attribute, value: u64) -> Result<(), DriverError> {
        // SAFETY: the attributes set are 64 bits wide.
        unsafe { result::mem_pool::set_attribute(self.0, attribute, arg(&value)) }
    }
}

pub(crate) fn free(ptr: Ptr, stream: Stream) {
    // SAFETY: the tests free what they allocated, once.
    unsafe { result::free_async(ptr, stream) }.expect("freed");
}
