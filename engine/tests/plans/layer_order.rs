//! The layers have a direction: no module of the engine, or of the kernels under it, uses one that stands above it.
//!
//! The order stands once, in the drawing on the architecture page (`engine/ARCHITECTURE.md`). Modules on one line of it
//! do not use each other. Tests inside a module may look upwards.

use std::{
    collections::BTreeMap,
    fs,
    path::{Path, PathBuf},
};

/// Each module's line in the drawing, counted from the top.
fn layers(page: &str) -> BTreeMap<String, usize> {
    let drawing =
        page.split("```layers").nth(1).and_then(|rest| rest.split("```").next()).expect("a drawing of layers");
    let lines = drawing.lines().map(str::trim).filter(|line| !line.is_empty());
    let names = |(at, line): (usize, &str)| line.split_whitespace().map(move |name| (name.to_owned(), at)).collect();
    lines.enumerate().flat_map(|at| -> Vec<_> { names(at) }).collect()
}

/// The code alone: no comments, and no item that only tests have.
fn code(text: &str) -> String {
    let indent = |line: &str| line.len() - line.trim_start().len();
    let mut lines = text.lines().map(|line| line.split("//").next().unwrap_or_default().trim_end());
    let mut kept = Vec::new();
    while let Some(line) = lines.next() {
        if !["#[cfg(test)]", "#[cfg(all(test"].iter().any(|attribute| line.trim_start().starts_with(attribute)) {
            kept.push(line);
            continue;
        }
        // Up to the end of the item, which is as far to the left as its attribute.
        let is_last = |next: &str| indent(next) == indent(line) && next.ends_with(['}', ';', ',']);
        let _ = lines.by_ref().find(|next| is_last(next));
    }
    kept.join("\n")
}

/// The modules of the crate's root that code at `depth` names: after `crate::`, or after enough of `super::`.
fn used(code: &str, depth: usize) -> Vec<String> {
    let climb = "super::".repeat(depth);
    if climb.is_empty() { named(code, &["crate::"]) } else { named(code, &["crate::", &climb]) }
}

/// What code names after one of `roots`, each the beginning of a path.
fn named(code: &str, roots: &[&str]) -> Vec<String> {
    let mut found = Vec::new();
    for root in roots {
        for (at, _) in code.match_indices(root) {
            if code[..at].ends_with(|before: char| before.is_alphanumeric() || before == ':' || before == '_') {
                continue;
            }
            let rest = &code[at + root.len()..];
            match rest.strip_prefix('{') {
                Some(group) => found.extend(heads(group)),
                None => found.push(word(rest)),
            }
        }
    }
    found
}

fn word(text: &str) -> String {
    text.trim_start().chars().take_while(|c| c.is_alphanumeric() || *c == '_').collect()
}

/// The first words of a group's members: of `a::{b, c}, d}` they are `a` and `d`.
fn heads(group: &str) -> Vec<String> {
    let (mut depth, mut found) = (0, vec![word(group)]);
    for (at, c) in group.char_indices() {
        match c {
            '{' => depth += 1,
            '}' if depth == 0 => break,
            '}' => depth -= 1,
            ',' if depth == 0 => found.push(word(&group[at + 1..])),
            _ => {}
        }
    }
    found.retain(|head| !head.is_empty());
    found
}

fn sources(folder: &Path, found: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(folder).expect("a folder").map(|entry| entry.expect("an entry").path()) {
        if entry.is_dir() {
            sources(&entry, found);
        } else if entry.extension().is_some_and(|kind| kind == "rs") && !entry.ends_with("tests.rs") {
            found.push(entry);
        }
    }
}

/// Every use of a module that does not stand below the user.
fn upward(root: &Path, layers: &BTreeMap<String, usize>) -> Vec<String> {
    let (mut files, mut found) = (Vec::new(), Vec::new());
    sources(root, &mut files);
    for file in files {
        let path = file.strip_prefix(root).expect("inside").with_extension("");
        let mut module: Vec<String> = path.iter().map(|part| part.to_string_lossy().into_owned()).collect();
        if module.last().is_some_and(|name| name == "mod") {
            module.pop();
        }
        let own = module[0].clone();
        let Some(line) = layers.get(&own) else {
            assert_eq!(own, "lib", "{own} is not in the drawing of layers");
            continue;
        };
        for other in used(&code(&fs::read_to_string(&file).expect("text")), module.len()) {
            if layers.get(&other).is_some_and(|below| other != own && below <= line) {
                found.push(format!("{} uses {other}", path.display()));
            }
        }
    }
    found
}

#[test]
fn no_module_uses_one_above_it() {
    let engine = Path::new(env!("CARGO_MANIFEST_DIR"));
    let layers = layers(include_str!("../../ARCHITECTURE.md"));
    let mut arrows = upward(&engine.join("src"), &layers);
    arrows.extend(upward(&engine.join("../kernels/src"), &layers));
    arrows.sort();
    arrows.dedup();
    assert!(arrows.is_empty(), "arrows upwards:\n{}", arrows.join("\n"));
}

#[test]
fn no_contract_of_a_family_names_a_device() {
    let mut files = Vec::new();
    sources(&Path::new(env!("CARGO_MANIFEST_DIR")).join("../kernels/src/backend/ops"), &mut files);
    assert!(files.len() > 20, "{files:?}");
    for file in files {
        let code = code(&fs::read_to_string(&file).expect("text"));
        let devices = ["cpu", "cuda"].map(str::to_owned);
        for name in named(&code, &["backend::", "crate::backend::", "super::", "super::super::"]) {
            assert!(!devices.contains(&name), "{} names {name}", file.display());
        }
    }
}

#[test]
fn the_app_names_public_modules_alone() {
    let engine = Path::new(env!("CARGO_MANIFEST_DIR"));
    let facade = fs::read_to_string(engine.join("src/lib.rs")).expect("text");
    let after = |item| facade.split(&format!("#[cfg_attr(doc, doc(hidden))]\npub {item}")).skip(1).collect::<Vec<_>>();
    let mut hidden: Vec<String> = after("mod ").into_iter().map(word).collect();
    hidden.extend(after("use plimsoll_kernels::{").into_iter().flat_map(heads));
    assert!(["backend", "nn"].map(str::to_owned).iter().all(|name| hidden.contains(name)), "{hidden:?}");
    let mut files = Vec::new();
    sources(&engine.join("../app/src"), &mut files);
    assert!(files.len() > 100, "{}", files.len());
    for file in files {
        for name in named(&code(&fs::read_to_string(&file).expect("text")), &["plimsoll_engine::"]) {
            assert!(!hidden.contains(&name), "{} names {name}, which is hidden", file.display());
        }
    }
}

#[test]
fn code_after_what_only_tests_have_is_read() {
    let text = "#[cfg(test)]\nuse a::b;\nuse crate::plan;\n#[cfg(test)]\nimpl A {\n    fn f() {\n    }\n}\nstruct B {\n    \
                #[cfg(test)]\n    c: crate::train::C,\n    d: crate::data::D, // crate::store\n}\n#[cfg(all(test, unix))]\n\
                mod tests {\n    use crate::report;\n}\n";
    assert_eq!(used(&code(text), 1), ["plan", "data"]);
    assert_eq!(named("use crate::{\n    backend::{A, cpu},\n};\nlet a = b.cpu;", &["backend::"]), ["A", "cpu"]);
}

#[test]
fn an_arrow_upwards_is_found() {
    let drawing = layers("//! ```layers\n//! plan\n//! data hardware\n//! bytes\n//! ```");
    assert_eq!(drawing.get("hardware"), Some(&1));
    let text = "use crate::{\n    bytes::Bytes,\n    plan::{self, Plan},\n};\n// crate::comment\nfn f() -> crate::data::Facts {}\n#[cfg(test)]\nmod tests { use crate::selftest; }";
    assert_eq!(used(&code(text), 2), ["bytes", "plan", "data"]);
    assert_eq!(used("use super::super::plan; use super::own;", 2), ["plan"]);
    let folder = tempfile::tempdir().expect("a folder");
    fs::create_dir(folder.path().join("data")).expect("a folder");
    fs::write(folder.path().join("data/mod.rs"), text).expect("a file");
    assert_eq!(upward(folder.path(), &drawing), ["data/mod uses plan"]);
}
