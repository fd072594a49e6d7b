//! Images of modules that are compiled on a few threads at once.
//!
//! Always holds: each image is compiled once, no matter which thread asks for it first; a thread ends after its present image
//! once this is dropped. Refuses nothing: the caller that needs an image compiles it if no thread has come to it.

use std::{
    collections::{HashMap, VecDeque},
    hash::Hash,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    thread::JoinHandle,
};

use crate::{
    error::Result,
    sync::{Condvar, Mutex},
};

/// Machine code, or text for the driver.
pub(super) type Image = Arc<[u8]>;

/// The images, by keys.
pub(super) struct Ahead<K> {
    shared: Arc<Shared<K>>,
    threads: Mutex<Vec<JoinHandle<()>>>,
}

struct Shared<K> {
    images: Mutex<HashMap<K, State>>,
    changed: Condvar,
    is_over: AtomicBool,
}

#[derive(Clone)]
enum State {
    Compiling,
    Done(Result<Image>),
}

impl<K: Eq + Hash + Clone + Send + 'static> Ahead<K> {
    /// No images yet.
    pub(super) fn new() -> Self {
        let shared = Shared { images: Mutex::default(), changed: Condvar::default(), is_over: AtomicBool::new(false) };
        Self { shared: Arc::new(shared), threads: Mutex::default() }
    }

    /// The image of a key: by `compile`, unless a thread has it or is at it.
    pub(super) fn get(&self, key: &K, compile: impl FnOnce() -> Result<Image>) -> Result<Image> {
        self.shared.get(key, compile)
    }

    /// Lets this many threads go through `jobs`.
    pub(super) fn start<J: FnOnce() -> Result<Image> + Send + 'static>(&self, jobs: Vec<(K, J)>, threads: usize) {
        let jobs = Arc::new(Mutex::new(VecDeque::from(jobs)));
        for _ in 0..threads {
            let (jobs, shared) = (Arc::clone(&jobs), Arc::clone(&self.shared));
            let work = move || {
                while !shared.is_over.load(Ordering::Relaxed) {
                    let Some((key, job)) = jobs.lock().pop_front() else { break };
                    // The caller that needs the image is told why there is none.
                    let _ = shared.get(&key, job);
                }
            };
            // Where the system gives no thread, images are compiled as they are needed.
            let thread = std::thread::Builder::new().name("kernel compiler".to_owned()).spawn(work);
            self.threads.lock().extend(thread);
        }
    }
}

impl<K: Eq + Hash + Clone> Shared<K> {
    fn get(&self, key: &K, compile: impl FnOnce() -> Result<Image>) -> Result<Image> {
        let mut images = self.images.lock();
        loop {
            match images.get(key) {
                None => break,
                Some(State::Done(done)) => return done.clone(),
                Some(State::Compiling) => {
                    images = self.changed.wait(images);
                }
            }
        }
        images.insert(key.clone(), State::Compiling);
        drop(images);
        let claim = Claim { shared: self, key };
        let done = compile();
        claim.shared.images.lock().insert(key.clone(), State::Done(done.clone()));
        done
    }
}

/// The right to compile an image. Where that ends without one, another may try.
struct Claim<'a, K: Eq + Hash> {
    shared: &'a Shared<K>,
    key: &'a K,
}

impl<K: Eq + Hash> Drop for Claim<'_, K> {
    fn drop(&mut self) {
        let mut images = self.shared.images.lock();
        if matches!(images.get(self.key), Some(State::Compiling)) {
            images.remove(self.key);
        }
        drop(images);
        self.shared.changed.notify_all();
    }
}

impl<K> Drop for Ahead<K> {
    fn drop(&mut self) {
        self.shared.is_over.store(true, Ordering::Relaxed);
        for thread in std::mem::take(&mut *self.threads.lock()) {
            // One that failed has let go of its image.
            let _ = thread.join();
        }
    }
}

#[cfg(test)]
mod tests {
    use std::{sync::atomic::AtomicUsize, time::Duration};

    use super::*;
    use crate::error::Error;

    #[test]
    fn every_image_is_compiled_once_by_whoever_comes_first() {
        let (ahead, count) = (Ahead::new(), Arc::new(AtomicUsize::new(0)));
        let job = |key: u8| {
            let count = Arc::clone(&count);
            move || {
                count.fetch_add(1, Ordering::Relaxed);
                std::thread::sleep(Duration::from_millis(5));
                Ok(Image::from([key]))
            }
        };
        ahead.start((0..20).map(|key| (key, job(key))).collect(), 3);
        for key in (0..25).rev() {
            assert_eq!(ahead.get(&key, job(key)).expect("compiled")[..], [key]);
        }
        assert_eq!(count.load(Ordering::Relaxed), 25);
    }

    #[test]
    fn a_failure_is_told_to_all_and_a_panic_leaves_the_image_to_others() {
        let ahead = Ahead::new();
        let failed = ahead.get(&1, || Err(Error::Device("no".to_owned())));
        assert_eq!(failed, ahead.get(&1, || Ok(Image::from([1]))), "it is not tried again");
        let panics = || ahead.get(&2, || panic!("a fault"));
        assert!(std::panic::catch_unwind(std::panic::AssertUnwindSafe(panics)).is_err());
        assert_eq!(ahead.get(&2, || Ok(Image::from([2]))).expect("compiled")[..], [2]);
    }
}
