//! `cargo xtask wheel`: builds the Python package `tidewire-libzmq`, with which pyzmq uses our
//! `libzmq.so.5`. Its Python files are in `crates/libzmq/wheel`.

use crate::arguments::Arguments;
use crate::libzmq;
use crate::shell::{Failure, Shell};
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

/// Builds with the options of the command line.
pub(crate) fn run(root: &Path, arguments: &[&str]) -> Result<(), Failure> {
    let mut arguments = Arguments::new(arguments);
    let output = arguments.value("--output")?;
    let prefix = arguments.value("--prefix")?;
    let profile = libzmq::profile(&mut arguments)?;
    arguments.end()?;
    let shell = Shell::new(root);
    let output = output.map_or_else(|| shell.target().join("wheel"), PathBuf::from);
    let library = match prefix {
        Some(prefix) => libzmq::absolute(Path::new(&prefix))?.join("lib"),
        None => {
            let prefix = libzmq::absolute(&shell.target().join("wheel-prefix"))?;
            libzmq::install(&shell, &prefix, &profile)?;
            prefix.join("lib")
        }
    };
    println!("{}", pack(&shell, &library, &output)?.display());
    Ok(())
}

/// Packs the `libzmq.so.5` of a folder. Returns the wheel, in the folder `output`.
pub(crate) fn pack(shell: &Shell, library: &Path, output: &Path) -> Result<PathBuf, Failure> {
    let output = libzmq::absolute(output)?;
    fs::create_dir_all(&output).map_err(Failure::at(&output))?;
    let path = shell.target().join("THIRD-PARTY.txt");
    fs::write(&path, notices(shell)?).map_err(Failure::at(&path))?;
    let said = shell
        .program("python3", [BUILD, "--version", env!("CARGO_PKG_VERSION")])
        .argument("--library")
        .argument(library.join("libzmq.so.5"))
        .argument("--license")
        .argument(shell.root().join("LICENSE"))
        .argument("--notices")
        .argument(path)
        .argument("--output")
        .argument(output)
        .read()?;
    Ok(PathBuf::from(said.trim_end()))
}

/// Returns the licences of all crates whose code is in the library, which their authors want to be
/// passed on with it.
fn notices(shell: &Shell) -> Result<String, Failure> {
    let tree = [
        "tree",
        "-p",
        "tidewire-libzmq",
        "--locked",
        "--edges=normal",
    ];
    let tree = shell.cargo(tree).argument("--prefix=none");
    let tree = tree.argument("--format={p}").read()?;
    let metadata = ["metadata", "--format-version=1", "--locked"];
    let folders = folders(&shell.cargo(metadata).read()?)?;
    let mut text = String::from(
        "The library contains Rust's standard library (MIT OR Apache-2.0, \
         https://www.rust-lang.org) and these crates:\n",
    );
    for (name, version) in shipped(&tree) {
        let key = format!("{name} {version}");
        let (licence, folder) = folders
            .get(&key)
            .ok_or_else(|| Failure::new(format!("cargo metadata does not know {key}")))?;
        text.push_str(&format!("\n=== {key}: {licence}\n"));
        for licence in licence_files(folder)? {
            text.push('\n');
            text.push_str(licence.trim_end());
            text.push('\n');
        }
    }
    Ok(text)
}

/// Parses `name v1.0.0`, one crate per line. Leaves out macros, which run while the library is
/// built, and the project's own crates.
fn shipped(tree: &str) -> BTreeSet<(&str, &str)> {
    let foreign = tree.lines().filter(|line| !line.contains("(/"));
    let foreign = foreign.filter(|line| !line.contains("(proc-macro)"));
    foreign
        .filter_map(|line| line.trim_end_matches(" (*)").split_once(" v"))
        .collect()
}

/// Returns the licence and the folder of each package, by its name and version.
fn folders(metadata: &str) -> Result<BTreeMap<String, (String, PathBuf)>, Failure> {
    let metadata: Value = serde_json::from_str(metadata)
        .map_err(|error| Failure::new(format!("cargo metadata: {error}")))?;
    let packages = metadata["packages"].as_array();
    let folder = |package: &Value| {
        let text = |name: &str| package[name].as_str().unwrap_or_default().to_owned();
        let manifest = PathBuf::from(text("manifest_path"));
        let folder = manifest.parent().unwrap_or(&manifest).to_owned();
        let key = format!("{} {}", text("name"), text("version"));
        (key, (text("license"), folder))
    };
    Ok(packages.into_iter().flatten().map(folder).collect())
}

/// Returns the texts of the licence files in a crate's folder, in the order of their names.
fn licence_files(folder: &Path) -> Result<Vec<String>, Failure> {
    let entries = fs::read_dir(folder).map_err(Failure::at(folder))?;
    let mut paths: Vec<PathBuf> = entries.flatten().map(|entry| entry.path()).collect();
    paths.sort();
    let is_licence = |path: &&PathBuf| {
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        let name = name.to_ascii_uppercase();
        path.is_file() && LICENCE_NAMES.iter().any(|start| name.starts_with(start))
    };
    let licences = paths.iter().filter(is_licence);
    licences
        .map(|path| fs::read_to_string(path).map_err(Failure::at(path)))
        .collect()
}

const BUILD: &str = "crates/libzmq/wheel/build.py";
const LICENCE_NAMES: [&str; 5] = ["LICENSE", "LICENCE", "COPYING", "COPYRIGHT", "NOTICE"];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn macros_and_our_own_crates_need_no_notice() {
        let tree = "tidewire-libzmq v0.1.0 (/x/libzmq)\nsubtle v2.6.1\nsyn v2.0.1 (proc-macro)\n\
                    subtle v2.6.1 (*)\n\nzeroize v1.9.0\n";
        let crates: Vec<_> = shipped(tree).into_iter().collect();
        assert_eq!(crates, [("subtle", "2.6.1"), ("zeroize", "1.9.0")]);
    }

    #[test]
    fn a_package_is_found_by_its_name_and_version() {
        let metadata = r#"{"packages": [{"name": "a", "version": "1.0.0", "license": "MIT",
            "manifest_path": "/x/a/Cargo.toml"}]}"#;
        let folders = folders(metadata).unwrap();
        assert_eq!(folders["a 1.0.0"], ("MIT".into(), PathBuf::from("/x/a")));
    }
}
