//! `cargo xtask libzmq`: installs the drop-in `libzmq.so.5` where programs and compilers look for
//! it.

use crate::arguments::Arguments;
use crate::shell::{Failure, Shell};
use std::fs;
use std::io;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};

/// Installs with the options of the command line.
pub(crate) fn run(root: &Path, arguments: &[&str]) -> Result<(), Failure> {
    let mut arguments = Arguments::new(arguments);
    let prefix = arguments.value("--prefix")?;
    let prefix = prefix
        .ok_or_else(|| Failure::new("--prefix FOLDER is needed: lib and include come under it"))?;
    let profile = profile(&mut arguments)?;
    arguments.end()?;
    let shell = Shell::new(root);
    let prefix = absolute(Path::new(&prefix))?;
    install(&shell, &prefix, &profile)?;
    println!("{}", prefix.join("lib/libzmq.so.5").display());
    Ok(())
}

/// Returns the profile to build with.
pub(crate) fn profile(arguments: &mut Arguments) -> Result<String, Failure> {
    let profile = arguments.value("--profile")?;
    Ok(profile.unwrap_or_else(|| "release".into()))
}

/// Builds the library and installs it under `prefix`, an absolute path.
pub(crate) fn install(shell: &Shell, prefix: &Path, profile: &str) -> Result<(), Failure> {
    shell
        .cargo(["build", "-p", "tidewire-libzmq", "--profile"])
        .argument(profile)
        .run()?;
    install_built(shell, prefix, profile)
}

/// Installs the library that is there under `prefix`, an absolute path.
pub(crate) fn install_built(shell: &Shell, prefix: &Path, profile: &str) -> Result<(), Failure> {
    let folder = if profile == "dev" { "debug" } else { profile };
    let built = shell.target().join(folder).join("libzmq.so");
    let headers = shell.root().join("crates/libzmq/include");
    place(&built, &headers, prefix).map_err(Failure::at(prefix))
}

/// Copies every file to its place.
fn place(built: &Path, headers: &Path, prefix: &Path) -> io::Result<()> {
    let (library, include) = (prefix.join("lib"), prefix.join("include"));
    let description = library.join("pkgconfig");
    fs::create_dir_all(&description)?;
    fs::create_dir_all(&include)?;
    // A running program may use the old library; it keeps that file.
    let new = library.join("libzmq.so.5.new");
    fs::copy(built, &new)?;
    fs::rename(&new, library.join("libzmq.so.5"))?;
    let link = library.join("libzmq.so");
    match fs::remove_file(&link) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        _ => symlink("libzmq.so.5", &link)?,
    }
    for header in HEADERS {
        fs::copy(headers.join(header), include.join(header))?;
    }
    fs::write(description.join("libzmq.pc"), package(prefix))
}

/// Returns the file for `pkg-config`.
fn package(prefix: &Path) -> String {
    format!(
        "prefix={}\n\
         libdir=${{prefix}}/lib\n\
         includedir=${{prefix}}/include\n\n\
         Name: libzmq\n\
         Description: ZeroMQ sockets, by Tidewire\n\
         Version: {VERSION}\n\
         Libs: -L${{libdir}} -lzmq\n\
         Cflags: -I${{includedir}}\n",
        prefix.display()
    )
}

/// Checks that a folder has `libzmq.so.5`. Without it a program would load another one, and its
/// outcome would say nothing of the library that was meant.
pub(crate) fn has_library(option: &str, folder: &Path) -> Result<(), Failure> {
    if folder.join("libzmq.so.5").is_file() {
        return Ok(());
    }
    Err(Failure::new(format!(
        "{option}: no libzmq.so.5 in {}; name an installed libzmq",
        folder.display()
    )))
}

/// Checks that a folder has libzmq for programs that are built with it: the library, `pkgconfig`,
/// and the header in `../include`.
pub(crate) fn has_development_files(option: &str, folder: &Path) -> Result<(), Failure> {
    has_library(option, folder)?;
    let header = folder.with_file_name("include").join("zmq.h");
    for file in [folder.join("pkgconfig/libzmq.pc"), header] {
        if !file.is_file() {
            return Err(Failure::new(format!(
                "{option}: {} is missing, and the suites are built with it; name the folder `lib` of an installed \
                 libzmq (`cmake --install`), not of its build",
                file.display()
            )));
        }
    }
    Ok(())
}

/// Returns the absolute path.
pub(crate) fn absolute(path: &Path) -> Result<PathBuf, Failure> {
    std::path::absolute(path).map_err(Failure::at(path))
}

const HEADERS: [&str; 2] = ["zmq.h", "zmq_utils.h"];
/// The version of the interface.
const VERSION: &str = "4.3.6";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_second_installation_replaces_the_first() {
        let folder = std::env::temp_dir().join(format!("libzmq-{}", std::process::id()));
        let built = folder.join("built");
        let prefix = folder.join("prefix");
        fs::create_dir_all(&folder).unwrap();
        for content in ["first", "second"] {
            fs::write(&built, content).unwrap();
            for header in HEADERS {
                fs::write(folder.join(header), content).unwrap();
            }
            place(&built, &folder, &prefix).unwrap();
            let placed = ["lib/libzmq.so.5", "lib/libzmq.so"].map(str::to_owned);
            let headers = HEADERS.map(|header| format!("include/{header}"));
            for name in placed.into_iter().chain(headers) {
                let there = fs::read_to_string(prefix.join(&name)).unwrap();
                assert_eq!(there, content, "{name}");
            }
        }
        let package = fs::read_to_string(prefix.join("lib/pkgconfig/libzmq.pc")).unwrap();
        assert!(package.starts_with(&format!("prefix={}\n", prefix.display())));
        fs::remove_dir_all(&folder).unwrap();
    }

    #[test]
    fn a_library_that_nothing_can_be_built_with_is_refused_by_name() {
        let prefix = std::env::temp_dir().join(format!("libzmq-bare-{}", std::process::id()));
        let folder = prefix.join("lib");
        fs::create_dir_all(folder.join("pkgconfig")).unwrap();
        fs::create_dir_all(prefix.join("include")).unwrap();
        let refusal = || {
            let checked = has_development_files("--stock", &folder);
            checked.map_err(|failure| failure.to_string())
        };
        for file in [
            "lib/libzmq.so.5",
            "lib/pkgconfig/libzmq.pc",
            "include/zmq.h",
        ] {
            let refused = refusal().unwrap_err();
            let name = file.rsplit('/').next().unwrap();
            assert!(refused.contains(name) && refused.starts_with("--stock: "));
            fs::write(prefix.join(file), "").unwrap();
        }
        assert_eq!(refusal(), Ok(()));
        fs::remove_dir_all(&prefix).unwrap();
    }
}
