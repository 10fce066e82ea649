//! Checks that `zmq.h` declares what the library has, in C and in C++.

use std::collections::BTreeSet;
use std::io::Write;
use std::path::Path;
use std::process::{Command, Stdio};

/// A program that uses a part of each interface, including the drafts.
const PROGRAM: &str = r#"
#include <zmq_utils.h>
#include <zmq.h>
#ifndef ZMQ_HAVE_POLLER
#error "no drafts"
#endif
int main(void)
{
    void *context = zmq_ctx_new();
    void *socket = zmq_socket(context, ZMQ_DEALER);
    int64_t longest = 1000;
    zmq_msg_t message;
    zmq_pollitem_t items[1];
    items[0].socket = socket;
    items[0].events = ZMQ_POLLIN | ZMQ_POLLOUT;
    if (zmq_setsockopt(socket, ZMQ_MAXMSGSIZE, &longest, sizeof longest) != 0)
        return zmq_errno() == EFSM;
    zmq_msg_init_data(&message, context, 0, NULL, NULL);
    zmq_msg_send(&message, socket, ZMQ_DONTWAIT | ZMQ_SNDMORE);
    zmq_poll(items, 1, 0);
    zmq_close(socket);
    zmq_ctx_term(context);
    return ZMQ_VERSION < ZMQ_MAKE_VERSION(4, 3, 6);
}
"#;

#[test]
fn programs_compile_without_a_warning() {
    for (compiler, language, standards) in [
        ("cc", "c", &["c99", "gnu99", "c11", "gnu17"][..]),
        ("c++", "c++", &["c++11", "gnu++17", "c++20"]),
    ] {
        if Command::new(compiler).arg("--version").output().is_err() {
            println!("there is no {compiler} here");
            continue;
        }
        for standard in standards {
            compile(compiler, language, standard);
        }
    }
}

fn compile(compiler: &str, language: &str, standard: &str) {
    let include = Path::new(env!("CARGO_MANIFEST_DIR")).join("include");
    let mut child = Command::new(compiler)
        .args(["-Wall", "-Wextra", "-Wpedantic", "-Werror", "-fsyntax-only"])
        .args([&format!("-std={standard}"), "-x", language, "-"])
        .arg("-DZMQ_BUILD_DRAFT_API")
        .arg("-I")
        .arg(include)
        .stdin(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut input = child.stdin.take().unwrap();
    input.write_all(PROGRAM.as_bytes()).unwrap();
    drop(input);
    let output = child.wait_with_output().unwrap();
    let told = String::from_utf8_lossy(&output.stderr);
    assert!(
        output.status.success(),
        "{compiler} -std={standard}\n{told}"
    );
}

/// Returns the names before a parenthesis that begin like the library's functions.
fn functions(text: &str) -> BTreeSet<String> {
    let is_part = |letter: char| matches!(letter, 'a'..='z' | '0'..='9' | '_');
    let before = text.match_indices('(').map(|(end, _)| &text[..end]);
    before
        .map(|text| &text[text.trim_end_matches(is_part).len()..])
        .filter(|name| name.starts_with("zmq_"))
        .map(str::to_owned)
        .collect()
}

#[test]
fn the_header_declares_what_the_library_has() {
    let package = Path::new(env!("CARGO_MANIFEST_DIR"));
    let header = std::fs::read_to_string(package.join("include/zmq.h")).unwrap();
    // Comments mention functions too.
    let declarations: String = header
        .split("/*")
        .map(|part| part.split_once("*/").map_or(part, |(_, code)| code))
        .collect();
    let mut exported = BTreeSet::new();
    for file in std::fs::read_dir(package.join("src")).unwrap() {
        let path = file.unwrap().path();
        if path.is_dir() {
            // Tests, which export nothing.
            continue;
        }
        let source = std::fs::read_to_string(path).unwrap();
        for part in source.split("#[unsafe(no_mangle)]").skip(1) {
            // Those that a thread may be cancelled in are of C's other ABI.
            let (before, signature) = part.split_once(" fn ").unwrap();
            assert!(
                ["\"C\"", "\"C-unwind\""]
                    .iter()
                    .any(|abi| before.ends_with(abi))
            );
            exported.insert(signature.split('(').next().unwrap().to_owned());
        }
    }
    assert!(exported.len() >= 70, "{}", exported.len());
    let declared = functions(&declarations);
    let missing: Vec<_> = exported.symmetric_difference(&declared).collect();
    assert!(missing.is_empty(), "on one side alone: {missing:?}");
}
