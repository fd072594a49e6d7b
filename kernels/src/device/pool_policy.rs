//! The treatment of empty memory in a GPU's memory pool.

use crate::words;

words! {
    /// The treatment of memory without tensors in the pool that all tensors come from.
    pub enum PoolPolicy {
        /// The pool grows as needed and keeps its memory, because the next step takes the same again. Frameworks' default
        /// ("caching allocator", "allow growth").
        Grow = "grow",
        /// Empty memory goes back to the driver after each step, so that other programs have it meanwhile.
        Release = "release",
        /// The pool takes the whole budget at the start ("pre-allocation"): no other program can take it, and nothing has to
        /// grow.
        Reserve = "reserve",
        /// The pool takes the run's memory at the start, and every block has its place in it: the dry run knows when each
        /// block comes and goes, so places are found before the first step ("static memory planning"). Never more than
        /// `Grow`, and the default.
        Planned = "planned",
    }
}
