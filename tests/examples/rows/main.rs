//! The sequences that a preset's texts become, as the loader gives them: one JSON object a line, for `tests/peers/texts.py`.
//!
//!     cargo run -p plimsoll-tests --example rows -- PRESET

use std::sync::Arc;

use plimsoll_engine::{
    data::{Dataset, Inputs, Loader, Split},
    error::Result,
    experiment::preset,
};

fn main() -> Result<()> {
    let path = std::env::args().nth(1).unwrap_or_default();
    let experiment = preset::read(path)?;
    let set = Arc::new(Dataset::open(&experiment.whole_data(), &experiment.run)?);
    let loaders = [
        ("train", Loader::train(Arc::clone(&set), experiment.run.seed, 1, 1)?, set.count(Split::Train)),
        ("test", Loader::test(Arc::clone(&set), 1)?, set.count(Split::Test)),
    ];
    for (part, mut loader, count) in loaders {
        for _ in 0..count {
            let Some(batch) = loader.recv()? else { break };
            let Inputs::Tokens(tokens) = &batch.inputs else { break };
            println!("{}", serde_json::json!({"part": part, "tokens": tokens, "labels": batch.labels}));
        }
    }
    Ok(())
}
