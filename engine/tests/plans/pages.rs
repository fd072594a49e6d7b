//! The pages for those who change the code name files that are there.

use std::{fs, path::Path};

/// Where the paths on a page begin, from the root of the workspace.
const ROOTS: [&str; 5] = ["", "engine/src", "kernels/src", "app/src", "engine/src/experiment"];
/// Files that a page names.
const KINDS: [&str; 7] = ["rs", "cu", "md", "py", "sh", "toml", "yml"];

/// The paths of files between the backticks of a line, without those in which a name stands for any.
fn paths(line: &str) -> impl Iterator<Item = &str> {
    let words = line.split('`').skip(1).step_by(2).flat_map(str::split_whitespace);
    let is_any = |word: &str| word.split(['/', '.']).any(|part| part.len() > 1 && part.chars().all(char::is_uppercase));
    words.filter(move |word| {
        let kind = Path::new(word).extension().and_then(|kind| kind.to_str());
        word.contains('/') && kind.is_some_and(|kind| KINDS.contains(&kind)) && !word.contains('{') && !is_any(word)
    })
}

#[test]
fn every_file_that_a_page_names_is_there() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("the workspace");
    let mut found = 0;
    for page in ["engine/ARCHITECTURE.md", ".github/CONTRIBUTING.md"] {
        let text = fs::read_to_string(root.join(page)).expect("the page");
        for (i, line) in text.lines().enumerate() {
            for path in paths(line) {
                found += 1;
                let is_there = ROOTS.iter().any(|begin| root.join(begin).join(path).is_file());
                assert!(is_there, "{page}, line {}: {path} is not there", i + 1);
            }
        }
    }
    assert!(found > 40, "{found} paths");
}

#[test]
fn a_path_is_told_from_what_stands_for_any() {
    let line =
        "Run `tests/a.py --all`: `data/NAME.rs`, `ops/FAMILY.{rs,cu}`, `step/load.rs`, `step/`, and `vision.rs`.";
    assert_eq!(paths(line).collect::<Vec<_>>(), ["tests/a.py", "step/load.rs"]);
}
