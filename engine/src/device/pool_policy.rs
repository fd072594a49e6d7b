//! What a GPU's memory pool does with empty memory.

use crate::words::words;

words! {
    /// What the pool that all tensors come from does with memory that nothing lies in.
    pub enum PoolPolicy {
        /// It grows as it must and keeps what it has, for the next step takes the same again. Frameworks' default ("caching
        /// allocator", "allow growth").
        Grow = "grow",
        /// What is empty goes back to the driver after each step, so that other programs have it meanwhile.
        Release = "release",
        /// The whole budget is taken at the start ("pre-allocation"): nobody else can take it, and nothing has to grow.
        Reserve = "reserve",
        /// It takes at the start what the run comes to, and every block has its place in it: the dry run tells when each
        /// comes and goes, so places are found before the first step ("static memory planning"). Never more than `Grow`.
        Planned = "planned",
    }
}
