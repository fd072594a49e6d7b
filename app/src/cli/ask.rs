//! A question before an action that cannot be undone.

use std::io::{self, BufRead, Write};

use crate::cli::Misuse;

/// Whether the user agrees: by `--yes`, or by an answer on standard input.
///
/// # Errors
/// Fails if there is no answer.
pub(super) fn agrees(question: &str, yes: bool) -> anyhow::Result<bool> {
    if yes {
        return Ok(true);
    }
    let mut stderr = io::stderr();
    // When stderr is closed, there is still the answer.
    let _ = write!(stderr, "{question} [y/N] ").and_then(|()| stderr.flush());
    let mut answer = String::new();
    if io::stdin().lock().read_line(&mut answer)? == 0 {
        let _ = writeln!(stderr);
        return Err(
            Misuse("there was no answer, and nothing was done; write --yes to agree beforehand".to_owned()).into()
        );
    }
    Ok(matches!(answer.trim().to_lowercase().as_str(), "y" | "yes"))
}
