//! The top-level modules of each crate do not depend on each other in cycles.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    path::{Path, PathBuf},
};

const CRATES: [&str; 22] = [
    "crates/certificates",
    "crates/ensemblectl",
    "crates/lease",
    "crates/manager",
    "crates/memcached",
    "crates/namespaceplus",
    "crates/operator-core",
    "crates/operator-runtime",
    "crates/podset",
    "crates/postgres",
    "crates/postgres-archive",
    "crates/postgres-instance",
    "crates/postgres-model",
    "crates/tenant",
    "tests/bench",
    "tests/cluster",
    "tests/faults",
    "tests/images",
    "tests/local-manager",
    "tests/network-policies",
    "tests/postgres",
    "xtask",
];

type Dependencies = BTreeMap<String, BTreeSet<String>>;

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// Returns the Rust files of a folder, except tests.
fn files(folder: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap());
    let entries = entries.filter(|entry| !entry.file_name().to_string_lossy().starts_with("tests"));
    let paths = entries.map(|entry| entry.path());
    let files = paths.flat_map(|path| if path.is_dir() { files(&path) } else { vec![path] });
    files.filter(|path| path.extension().is_some_and(|extension| extension == "rs")).collect()
}

/// Returns code without line comments and without a trailing test module.
fn code(path: &Path) -> String {
    let text = fs::read_to_string(path).unwrap();
    let text = text.split("#[cfg(test)]\nmod ").next().unwrap();
    let lines = text.lines().map(|line| line.split("//").next().unwrap());
    lines.collect::<Vec<_>>().join("\n")
}

/// Returns the first segments of the paths after `crate::`, in groups too.
fn imports(code: &str) -> BTreeSet<String> {
    let paths = code.split("crate::").skip(1);
    paths.flat_map(|path| path.strip_prefix('{').map_or_else(|| vec![segment(path)], group)).collect()
}

/// Returns the first segment of each path in a group, up to the brace that closes it.
fn group(paths: &str) -> Vec<String> {
    let mut depth = 0_usize;
    let mut segments = Vec::new();
    let mut start = 0;
    for (index, letter) in paths.char_indices() {
        match letter {
            '{' => depth += 1,
            '}' if depth == 0 => {
                segments.push(segment(&paths[start..index]));
                break;
            }
            '}' => depth -= 1,
            ',' if depth == 0 => {
                segments.push(segment(&paths[start..index]));
                start = index + 1;
            }
            _ => {}
        }
    }
    segments
}

fn segment(path: &str) -> String {
    path.trim_start().chars().take_while(|letter| letter.is_alphanumeric() || *letter == '_').collect()
}

/// Returns the top-level modules of a crate with those that each imports.
fn dependencies(source: &Path) -> Dependencies {
    let module = |path: &Path| {
        let first = path.strip_prefix(source).unwrap().components().next().unwrap();
        first.as_os_str().to_string_lossy().trim_end_matches(".rs").to_owned()
    };
    let mut dependencies = Dependencies::new();
    for file in files(source) {
        let imported = imports(&code(&file));
        dependencies.entry(module(&file)).or_default().extend(imported);
    }
    dependencies.retain(|module, _| module != "lib" && module != "main");
    let modules: BTreeSet<_> = dependencies.keys().cloned().collect();
    for (module, imported) in &mut dependencies {
        imported.retain(|other| modules.contains(other) && other != module);
    }
    dependencies
}

/// Returns the modules of which each depends on another one, directly or not, that depends on it.
fn cyclic(mut dependencies: Dependencies) -> Vec<String> {
    loop {
        let leaves: BTreeSet<_> = dependencies
            .iter()
            .filter(|(_, imported)| imported.is_empty())
            .map(|(module, _)| module.clone())
            .collect();
        if leaves.is_empty() {
            return dependencies.into_keys().collect();
        }
        dependencies.retain(|module, _| !leaves.contains(module));
        for imported in dependencies.values_mut() {
            imported.retain(|module| !leaves.contains(module));
        }
    }
}

#[test]
fn modules_have_no_import_cycles() {
    for name in CRATES {
        let dependencies = dependencies(&root().join(name).join("src"));
        assert!(
            dependencies.len() > 2 && dependencies.values().any(|imported| !imported.is_empty()),
            "{name}"
        );
        assert_eq!(
            cyclic(dependencies),
            [""; 0],
            "{name}: these modules import each other, or one that does"
        );
    }
}

/// Returns the folders below `folder`.
fn folders(folder: &Path) -> Vec<PathBuf> {
    let paths = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    let subfolders = paths.filter(|path| path.is_dir() && !path.ends_with("target"));
    subfolders.flat_map(|path| [vec![path.clone()], folders(&path)].concat()).collect()
}

#[test]
fn modules_with_files_of_their_own_are_folders_with_mod_rs() {
    let parents = ["crates", "tests", "xtask/src", "xtask/tests"];
    let all: Vec<_> = parents.iter().flat_map(|parent| folders(&root().join(parent))).collect();
    assert!(all.len() > 100, "{} folders", all.len());
    let outside: Vec<_> = all.into_iter().filter(|folder| folder.with_extension("rs").exists()).collect();
    assert!(outside.is_empty(), "move each module into its folder, as mod.rs: {outside:?}");
}

#[test]
fn finds_imports_and_cycles() {
    let code = "use crate::{a::{b, c}, d};\nuse crate::e::f;\nfn g() { crate::h() }";
    let names = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect::<BTreeSet<_>>();
    assert_eq!(imports(code), names(&["a", "d", "e", "h"]));
    let graph = |edges: &[(&str, &[&str])]| {
        edges
            .iter()
            .map(|(module, imported)| ((*module).to_owned(), names(imported)))
            .collect::<Dependencies>()
    };
    assert_eq!(cyclic(graph(&[("a", &["b"]), ("b", &["c"]), ("c", &[])])), [""; 0]);
    assert_eq!(cyclic(graph(&[("a", &["b"]), ("b", &["a"]), ("c", &[])])), ["a", "b"]);
}
