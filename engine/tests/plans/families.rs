//! A family of ops has one name on every level: its contract, its kernels, its layers and its checks.
//!
//! What differs stands once, in the list on the architecture page (`engine/ARCHITECTURE.md`).

use std::{collections::BTreeMap, fs, path::Path};

/// The names of the files of a folder, without those that are of no family on that level.
fn names(folder: &Path, others: &[&str]) -> Vec<String> {
    let entries = fs::read_dir(folder).expect("a folder").map(|entry| entry.expect("an entry").path());
    let files = entries.filter(|path| path.extension().is_some_and(|kind| kind == "rs"));
    let mut names: Vec<String> = files.map(|path| path.file_stem().expect("a name").display().to_string()).collect();
    names.retain(|name| !others.contains(&name.as_str()));
    names.sort();
    names
}

/// The list on the page: where each family without a layer is used, and the files of `nn` that are of no family.
fn exceptions(page: &str) -> (BTreeMap<&str, &str>, Vec<&str>) {
    let list = page.split("```families").nth(1).and_then(|rest| rest.split("```").next()).expect("a list of families");
    let (mut used, mut others) = (BTreeMap::new(), Vec::new());
    for line in list.lines().map(str::trim).filter(|line| !line.is_empty()) {
        match line.strip_prefix("no family") {
            Some(names) => others.extend(names.split_whitespace()),
            None => drop(line.split_once(' ').map(|(family, place)| used.insert(family, place.trim()))),
        }
    }
    (used, others)
}

#[test]
fn a_family_of_ops_has_one_name_on_every_level() {
    let engine = Path::new(env!("CARGO_MANIFEST_DIR"));
    let page = fs::read_to_string(engine.join("ARCHITECTURE.md")).expect("the page");
    let (used, others) = exceptions(&page);
    let (source, kernels) = (engine.join("src"), engine.join("../kernels/src"));
    let families = names(&kernels.join("backend/ops"), &["mod", "kernel", "window"]);
    assert!(families.len() > 15, "{families:?}");
    for family in &families {
        let levels = [(&kernels, "backend/cpu"), (&kernels, "backend/cuda"), (&source, "selftest/cases")];
        for (package, level) in levels {
            let file = package.join(level).join(family).with_extension("rs");
            assert!(file.is_file(), "{} is not there", file.display());
        }
        let layers = used.get(family.as_str()).map_or_else(|| format!("nn/{family}"), |place| (*place).to_owned());
        assert!(source.join(format!("{layers}.rs")).is_file(), "{family}: {layers}.rs is not there");
    }
    for family in used.keys() {
        assert!(families.iter().any(|known| known == family), "{family} on the page is no family");
        assert!(
            !source.join(format!("nn/{family}.rs")).exists(),
            "{family} has a layer, and the page says it has none"
        );
    }
    let layers = names(&source.join("nn"), &["mod"]);
    for name in &layers {
        let is_known = families.contains(name) != others.contains(&name.as_str());
        assert!(is_known, "nn/{name}.rs is of no family that has this name, and the page does not list it");
    }
    assert!(others.iter().all(|name| layers.iter().any(|layer| layer == name)), "{others:?} and {layers:?}");
}
