//! Measured memory on the CPU: the program's allocator counts the allocations and frees of the engine's threads.
//!
//! Independent of the ledger: it sees every allocation of a metered thread, the engine's bookkeeping and the scratch of
//! libraries included. A thread is metered while it carries a [`Meter`]; each engine has its own, so that two engines in
//! one process (tests) never count each other. Memory that a metered thread hands to another thread is allocated inside
//! [`uncounted`], because its free would be counted nowhere.

use std::{
    alloc::{GlobalAlloc, Layout, System},
    cell::Cell,
    ptr,
    sync::atomic::{AtomicI64, AtomicU64, Ordering::Relaxed},
};

use crate::{
    bytes::Bytes,
    memory::{aligned, arena, ballast, lent, tally},
};

/// Counts of one engine's threads. Lives as long as the program (a few words).
#[derive(Debug, Default)]
pub struct Meter {
    live: AtomicI64,
    peak: AtomicI64,
    held: AtomicI64,
    held_peak: AtomicI64,
    read: AtomicU64,
}

/// A reading of a [`Meter`].
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Reading {
    /// Bytes asked for and not given back.
    pub live: Bytes,
    /// The bytes the C library holds for them, and the length of an arena's part that was used. Where the library is not
    /// GNU's, it does not tell, and the first are the bytes asked for.
    pub reserved: Bytes,
}

/// A counter of a device's memory that is independent of the ledger.
pub trait Measure {
    /// The bytes that are alive now.
    fn now(&self) -> Reading;

    /// The most that was alive since the last [`Measure::reset_peak`].
    fn peak(&self) -> Reading;

    /// The most that was alive since the last [`Measure::reset_live_peak`]. What did not come from the run's own blocks may be left
    /// for the next [`Measure::peak`].
    fn live_peak(&self) -> Bytes {
        self.peak().live
    }

    /// Starts the high-water marks again from what is alive now.
    fn reset_peak(&self);

    /// Starts the high-water mark of live bytes again, and leaves that of reserved bytes: for reading op by op within
    /// a step whose reserved peak is wanted as a whole.
    fn reset_live_peak(&self);
}

impl Measure for &'static Meter {
    fn now(&self) -> Reading {
        Meter::now(self)
    }

    fn peak(&self) -> Reading {
        Meter::peak(self)
    }

    fn reset_peak(&self) {
        Meter::reset_peak(self);
    }

    fn reset_live_peak(&self) {
        Meter::reset_live_peak(self);
    }
}

impl Meter {
    /// A new meter at zero.
    pub fn new() -> &'static Self {
        Box::leak(Box::default())
    }

    /// The bytes that are alive now.
    pub fn now(&self) -> Reading {
        reading(&self.live, &self.held)
    }

    /// The most that was alive since the last [`Meter::reset_peak`].
    pub fn peak(&self) -> Reading {
        reading(&self.peak, &self.held_peak)
    }

    /// Starts the high-water marks again from what is alive now.
    pub fn reset_peak(&self) {
        self.reset_live_peak();
        self.held_peak.store(self.held.load(Relaxed), Relaxed);
    }

    /// Starts the high-water mark of live bytes again, and leaves that of reserved bytes: for reading op by op within
    /// a step whose reserved peak is wanted as a whole.
    pub fn reset_live_peak(&self) {
        self.peak.store(self.live.load(Relaxed), Relaxed);
    }

    /// Bytes that its threads have read from files, as they noted them.
    pub fn bytes_read(&self) -> Bytes {
        Bytes(self.read.load(Relaxed))
    }

    fn add(&self, bytes: i64, held: i64) {
        self.peak.fetch_max(self.live.fetch_add(bytes, Relaxed) + bytes, Relaxed);
        self.held_peak.fetch_max(self.held.fetch_add(held, Relaxed) + held, Relaxed);
    }
}

fn reading(live: &AtomicI64, held: &AtomicI64) -> Reading {
    let clamp = |value: &AtomicI64| Bytes(value.load(Relaxed).max(0) as u64);
    Reading { live: clamp(live), reserved: clamp(held) }
}

thread_local! {
    static METER: Cell<Option<&'static Meter>> = const { Cell::new(None) };
}

/// Counts this thread's allocations on `meter` from now on; returns the meter before.
pub fn meter_this_thread(meter: Option<&'static Meter>) -> Option<&'static Meter> {
    METER.with(|cell| cell.replace(meter))
}

/// The meter that counts this thread.
pub fn meter_of_this_thread() -> Option<&'static Meter> {
    METER.with(Cell::get)
}

/// Notes that this thread read this many bytes of a file, from the disk or from the system's cache.
pub fn note_read(bytes: usize) {
    if let Some(meter) = meter_of_this_thread() {
        meter.read.fetch_add(bytes as u64, Relaxed);
    }
}

/// Runs `f` without counting: for memory that another thread will free, or that another thread allocated.
pub fn uncounted<T>(f: impl FnOnce() -> T) -> T {
    counted_on(None, f)
}

/// Runs `f`, whose memory is counted on `meter` and not where this thread's is.
pub fn counted_on<T>(meter: Option<&'static Meter>, f: impl FnOnce() -> T) -> T {
    struct Restore(Option<&'static Meter>);
    impl Drop for Restore {
        fn drop(&mut self) {
            meter_this_thread(self.0);
        }
    }
    let _restore = Restore(meter_this_thread(meter));
    f()
}

/// The program's allocator: the C library's, with counting for metered threads.
#[derive(Debug)]
pub struct CountingAllocator;

#[global_allocator]
static ALLOCATOR: CountingAllocator = CountingAllocator;

/// Bytes the C library holds for a block.
#[cfg(all(target_os = "linux", target_env = "gnu"))]
fn held(pointer: *mut u8, layout: Layout) -> i64 {
    // SAFETY: the pointer came from the C library's malloc family, through `System`, or lies in a block that did, and is alive.
    let usable = unsafe {
        let start = if aligned::is_here(layout) { aligned::note(pointer).read() } else { pointer };
        libc::malloc_usable_size(start.cast())
    };
    (usable + size_of::<usize>()) as i64
}

#[cfg(not(all(target_os = "linux", target_env = "gnu")))]
fn held(_: *mut u8, layout: Layout) -> i64 {
    layout.size() as i64
}

fn count(sign: i64, pointer: *mut u8, layout: Layout) {
    if pointer.is_null() {
        return;
    }
    if let Ok(Some(meter)) = METER.try_with(Cell::get) {
        meter.add(sign * layout.size() as i64, sign * held(pointer, layout));
    }
    tally::note(sign, layout.size());
}

/// A new block, counted; null for one that the system refuses, or that is empty.
fn block(layout: Layout, is_zeroed: bool) -> *mut u8 {
    if let Some(block) = lent::take(layout, is_zeroed) {
        return block;
    }
    if layout.size() == 0 {
        return ptr::null_mut();
    }
    let ask = |layout: Layout| {
        asked(layout.size(), || {
            // SAFETY: the layout is not empty: it is the one that was asked for, or longer.
            unsafe { if is_zeroed { System.alloc_zeroed(layout) } else { System.alloc(layout) } }
        })
    };
    let pointer = if aligned::is_here(layout) { aligned::alloc(layout, ask) } else { ask(layout) };
    count(1, pointer, layout);
    pointer
}

/// Counts `live` more bytes of blocks at places of their own, for which `held` more bytes are held.
pub(super) fn count_placed(live: i64, held: i64) {
    if let Ok(Some(meter)) = METER.try_with(Cell::get) {
        meter.add(live, held);
    }
}

/// The result of `ask` for a block of `size` bytes. Where that is null, frees the ballast and asks again.
fn asked(size: usize, ask: impl Fn() -> *mut u8) -> *mut u8 {
    let pointer = ask();
    if pointer.is_null() && ballast::is_released_for(size) { ask() } else { pointer }
}

// SAFETY: every call is passed on to `System` unchanged, except for three kinds of blocks. Those in the range of an arena come from
// there and go back there, and so do those of memory that is lent, which are counted with that. Those of `aligned` lie in a longer block of `System`, and are told apart by their layout. Counting
// touches only atomics and a const thread-local without a destructor, so it neither allocates nor unwinds.
unsafe impl GlobalAlloc for CountingAllocator {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        block(layout, false)
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        block(layout, true)
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        if lent::has(pointer) {
            return lent::give_back();
        }
        if arena::has(pointer) {
            arena::give(pointer, layout.size());
            return count_placed(-(layout.size() as i64), 0);
        }
        count(-1, pointer, layout);
        let whole = if aligned::is_here(layout) { aligned::whole(layout) } else { None };
        // SAFETY: the caller's promises are `System`'s. A block of this layout came from where it goes: a whole was
        // allocated with its layout, and its start is noted before a living block.
        unsafe {
            match whole {
                Some(whole) => System.dealloc(aligned::note(pointer).read(), whole),
                None => System.dealloc(pointer, layout),
            }
        }
    }

    unsafe fn realloc(&self, pointer: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        // SAFETY: the size, rounded up to the alignment, is one by the caller's promise, and the other promises are
        // `System`'s. Both blocks are as long as the copied bytes, and a new block overlaps with no other.
        unsafe {
            let longer = Layout::from_size_align_unchecked(size, layout.align());
            if lent::has(pointer) || arena::has(pointer) || aligned::is_here(layout) {
                // Elsewhere, because no block grows there.
                let moved = block(longer, false);
                if !moved.is_null() {
                    moved.copy_from_nonoverlapping(pointer, size.min(layout.size()));
                    self.dealloc(pointer, layout);
                }
                return moved;
            }
            count(-1, pointer, layout);
            let moved = asked(size, || System.realloc(pointer, layout, size));
            if moved.is_null() {
                count(1, pointer, layout)
            } else {
                count(1, moved, longer)
            }
            moved
        }
    }
}

/// Starts the high-water mark of this process's resident memory again from the present bytes. False if the system does
/// not allow it (outside Linux, and in some containers): the mark is then that since the process began.
pub fn reset_peak_resident() -> bool {
    // "5" resets the mark and nothing else: proc(5), since Linux 4.0.
    cfg!(target_os = "linux") && uncounted(|| std::fs::write("/proc/self/clear_refs", "5")).is_ok()
}

/// Memory of this process as the operating system sees it.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Process {
    /// Resident bytes now.
    pub resident: Bytes,
    /// The most that was resident; outside Linux the same as now.
    pub peak_resident: Bytes,
}

/// Bytes of the program's own code; 0 if the system does not report it (outside Linux).
pub fn code() -> Bytes {
    #[cfg(target_os = "linux")]
    {
        // The pages of the code come fourth: proc(5).
        let sizes = uncounted(|| std::fs::read_to_string("/proc/self/statm")).unwrap_or_default();
        let pages = sizes.split_whitespace().nth(3).and_then(|pages| pages.parse::<u64>().ok()).unwrap_or_default();
        uncounted(|| drop(sizes));
        Bytes(pages * super::host::page_size() as u64)
    }
    #[cfg(not(target_os = "linux"))]
    Bytes::ZERO
}

/// Reads this process's resident memory; `None` if the system does not report it.
#[cfg(target_os = "linux")]
pub fn process() -> Option<Process> {
    let status = uncounted(|| std::fs::read_to_string("/proc/self/status")).ok()?;
    let field = |name: &str| {
        let line = status.lines().find_map(|line| line.strip_prefix(name))?;
        Some(Bytes::kib(line.trim().trim_end_matches(" kB").parse().ok()?))
    };
    let process = Process { resident: field("VmRSS:")?, peak_resident: field("VmHWM:")? };
    uncounted(|| drop(status));
    Some(process)
}

/// Reads this process's resident memory; `None` if the system does not report it.
#[cfg(not(target_os = "linux"))]
pub fn process() -> Option<Process> {
    use sysinfo::{ProcessRefreshKind, ProcessesToUpdate, System, get_current_pid};

    uncounted(|| {
        let (own, mut system) = (get_current_pid().ok()?, System::new().ok()?);
        let memory = ProcessRefreshKind::nothing().with_memory().without_tasks();
        system.refresh_processes_specifics(ProcessesToUpdate::Some(&[own]), true, memory);
        let resident = Bytes(system.process(own)?.memory());
        (resident > Bytes::ZERO).then_some(Process { resident, peak_resident: resident })
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_this_thread_and_no_other() {
        let meter = Meter::new();
        meter_this_thread(Some(meter));
        let before = meter.now().live;
        let block = vec![1u8; 10_000];
        let other = std::thread::spawn(|| vec![1u8; 50_000]).join().expect("a thread that allocates");
        let ours = uncounted(|| vec![1u8; 70_000]);
        let after = meter.now();
        uncounted(|| drop((other, ours)));
        let grown = after.live.0 - before.0;
        // The join handle and its name are ours as well: some hundreds of bytes.
        assert!((10_000..20_000).contains(&grown), "{grown}");
        assert!(after.reserved.0 >= after.live.0);
        drop(block);
        meter_this_thread(None);
        assert!(meter.now().live.0 < before.0 + 5_000);
        assert!(meter.peak().live.0 >= before.0 + 10_000);
    }

    #[test]
    fn the_process_is_at_least_as_large_as_what_it_touched() {
        let block = vec![1u8; 8 << 20];
        let process = process().expect("Linux tells");
        assert!(process.resident.0 >= block.len() as u64 && process.peak_resident >= process.resident);
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn the_code_of_a_program_is_longer_than_one_of_its_functions() {
        assert!(code() > Bytes::kib(100), "{}", code());
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn the_high_water_mark_of_the_process_starts_again() {
        const LARGE: usize = 256 << 20;
        drop(std::hint::black_box(vec![1u8; LARGE]));
        let before = process().expect("Linux reports it");
        assert!(before.peak_resident.0 >= LARGE as u64);
        if reset_peak_resident() {
            let after = process().expect("Linux reports it");
            assert!(after.peak_resident < before.peak_resident, "{before:?} {after:?}");
        }
    }
}
