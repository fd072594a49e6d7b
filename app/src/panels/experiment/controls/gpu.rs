//! The controls of a GPU's memory and arithmetic.

use plimsoll_engine::experiment::PoolPolicy;

use super::{Numeric, Row};
use crate::widgets::control::{Choice, Number, Place, Spec};

pub(in crate::panels::experiment) const POOL: (Spec, Choice<PoolPolicy>) = (
    Spec {
        key: "gpu.pool",
        name: "Memory pool",
        help: "All tensors lie in one pool, whose size is the memory of the run that others see. It takes exactly the planned \
                memory, because the dry run has seen every allocation and free: each tensor gets its address before the \
                first step (static memory planning, as in compilers for phones), so that few gaps are left between them. \
                Or it grows as needed and keeps its memory (frameworks call it growth, or a caching allocator), it gives \
                empty memory back after each step, or it takes the whole budget at the start (pre-allocation), so that no \
                other program can. A pool that does not look ahead leaves holes that no later tensor fits into. Growing and \
                giving back cost calls to the driver in the middle of a step; the others pay once.",
    },
    Choice {
        options: &[
            (PoolPolicy::Planned, "plan every address"),
            (PoolPolicy::Release, "give back each step"),
            (PoolPolicy::Grow, "grow and keep"),
            (PoolPolicy::Reserve, "reserve all at once"),
        ],
        place: Place::Setting,
    },
);

pub(in crate::panels::experiment) const WORKSPACE: Numeric = (
    Spec {
        key: "gpu.workspace",
        name: "Workspace, MiB",
        help: "One buffer for the whole run that matrix products (cuBLAS) and convolutions (cuDNN) work in. With more room they \
                may choose faster algorithms; with none they take those that need none.",
    },
    Number {
        stops: &[0., 4., 8., 16., 32., 64., 128., 256., 512., 1024., 2048.],
        zero: Some("none"),
        place: Place::Setting,
    },
);

pub(in crate::panels::experiment) const TF32: (Spec, Choice<bool>) = (
    Spec {
        key: "gpu.tf32",
        name: "f32 products",
        help: "Products of f32 with all their bits, or by tensor cores that first round both sides to 10 bits (TF32). It changes \
                no memory; the rounded ones are faster on cards that have them, and training seldom notices.",
    },
    Choice { options: &[(false, "exact"), (true, "TF32")], place: Place::Setting },
);

pub(in crate::panels::experiment) const DETERMINISTIC: (Spec, Choice<bool>) = (
    Spec {
        key: "gpu.deterministic",
        name: "Repeatable",
        help: "The same run gives the same bits: only algorithms that add in a fixed order are used. Some of the others are \
                faster; memory is the same except for what an algorithm works in.",
    },
    Choice { options: &[(true, "same bits every time"), (false, "whatever is fastest")], place: Place::Setting },
);

/// The rows of the group.
pub(in crate::panels::experiment) const GPU: &[Row] =
    &[Row::of(&POOL), Row::of(&WORKSPACE).alone("workspace"), Row::of(&TF32), Row::of(&DETERMINISTIC)];
