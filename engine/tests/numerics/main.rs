//! What is computed, and what it takes while it is computed: kernels, layers, models, and the bytes of each op.

mod architectures;
mod chunks;
mod gradients;
mod hidden_matrices;
mod kernels;
mod layers;
mod op_by_op;
mod saving;
mod transformers;
