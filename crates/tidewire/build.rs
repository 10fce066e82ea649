//! Passes the commit of the sources to the program as `TIDEWIRE_COMMIT`, and lists the files of the
//! console.

use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::Command;

fn main() {
    println!("cargo:rerun-if-env-changed=TIDEWIRE_COMMIT");
    println!("cargo:rerun-if-changed=build.rs");
    // Only in release builds: a development build would be rebuilt after every commit.
    let is_release = std::env::var("PROFILE").is_ok_and(|profile| profile == "release");
    let given = std::env::var("TIDEWIRE_COMMIT").ok();
    let found = || is_release.then(commit).flatten();
    let commit = given.or_else(found).unwrap_or_else(|| "unknown".to_owned());
    println!("cargo:rustc-env=TIDEWIRE_COMMIT={commit}");
    list_web_files();
}

/// Writes the files of assets/web as `FILES`: path, content, and the content in gzip.
fn list_web_files() {
    let variable = |name| std::env::var(name).map(PathBuf::from).unwrap_or_default();
    let folder = variable("CARGO_MANIFEST_DIR").join("assets/web");
    println!("cargo:rerun-if-changed=assets/web");
    let entries = std::fs::read_dir(&folder).into_iter().flatten().flatten();
    let mut names: Vec<String> = entries
        .filter(|entry| entry.path().is_file())
        .filter_map(|entry| entry.file_name().into_string().ok())
        .collect();
    names.sort();
    let mut text = "const FILES: &[(&str, &[u8], &[u8])] = &[\n".to_owned();
    for name in names {
        let path = folder.join(&name);
        let packed = variable("OUT_DIR").join(format!("{name}.gz"));
        let body = std::fs::read(&path).expect("the file can be read");
        let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::best());
        encoder.write_all(&body).expect("memory takes all");
        let bytes = encoder.finish().expect("memory takes all");
        std::fs::write(&packed, bytes).expect("the output directory can be written");
        text += &format!(
            "    ({:?}, include_bytes!({path:?}), include_bytes!({packed:?})),\n",
            format!("/{name}")
        );
    }
    text += "];\n";
    let list = variable("OUT_DIR").join("web_files.rs");
    std::fs::write(list, text).expect("the output directory can be written");
}

/// Returns the commit of the sources, if they are in a git tree and git is installed.
fn commit() -> Option<String> {
    // The log of HEAD grows with every commit, merge and checkout.
    let log = git(&["rev-parse", "--git-path", "logs/HEAD"])?;
    if Path::new(&log).exists() {
        println!("cargo:rerun-if-changed={log}");
    }
    git(&["rev-parse", "--short=12", "HEAD"])
}

fn git(arguments: &[&str]) -> Option<String> {
    let output = Command::new("git").args(arguments).output().ok()?;
    let text = String::from_utf8(output.stdout).ok()?;
    let text = text.trim();
    (output.status.success() && !text.is_empty()).then(|| text.to_owned())
}
