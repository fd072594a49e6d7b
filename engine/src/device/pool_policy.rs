//! What a GPU's memory pool does with empty memory.

use crate::words::words;

words! {
    /// What the pool that all tensors come from does with memory that nothing lies in.
    pub enum PoolPolicy {
        /// The pool grows as needed and keeps what it has, because the next step takes the same again. Frameworks' default
        /// ("caching allocator", "allow growth").
        Grow = "grow",
        /// What is empty goes back to the driver after each step, so that other programs have it meanwhile.
        Release = "release",
        /// The pool takes the whole budget at the start ("pre-allocation"): no other program can take it, and nothing has to
        /// grow.
        Reserve = "reserve",
        /// The pool takes at the start what the run needs, and every block has its place in it: the dry run knows when each
        /// block comes and goes, so places are found before the first step ("static memory planning"). Never more than `Grow`.
        Planned = "planned",
    }
}
