//! A real Redis on this machine, on the loopback interface, without files.

#![allow(dead_code, reason = "each test binary uses a part")]

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use tidewire_resp::{decode, write_request};

pub(crate) struct Redis {
    process: Child,
    stream: TcpStream,
}

impl Redis {
    /// Starts the program in REDIS_SERVER, or `redis-server`. Returns `None` if there is none.
    pub(crate) fn start() -> Option<Redis> {
        Redis::start_with(&[])
    }

    /// Does the same with additional arguments.
    pub(crate) fn start_with(arguments: &[&str]) -> Option<Redis> {
        let free = TcpListener::bind("127.0.0.1:0").and_then(|listener| listener.local_addr());
        let port = free.expect("a free loopback port").port();
        let program = std::env::var("REDIS_SERVER").unwrap_or("redis-server".to_owned());
        let started = Command::new(program)
            .args(["--bind", "127.0.0.1", "--save", "", "--appendonly", "no"])
            .args(["--port", &port.to_string()])
            .args(arguments)
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn();
        let Ok(process) = started else {
            eprintln!("skipped: there is no redis-server on PATH");
            return None;
        };
        for _ in 0..200 {
            if let Ok(stream) = TcpStream::connect(("127.0.0.1", port)) {
                stream.set_nodelay(true).expect("a TCP socket");
                return Some(Redis { process, stream });
            }
            std::thread::sleep(Duration::from_millis(20));
        }
        panic!("redis-server does not listen");
    }

    /// Returns whether the installed `redis-server` is version 8 or later: older ones cannot read
    /// files of Redis 8.
    #[allow(dead_code, reason = "not every test program asks")]
    pub(crate) fn is_at_hand_since_8() -> bool {
        let program = std::env::var("REDIS_SERVER").unwrap_or("redis-server".to_owned());
        let Ok(output) = Command::new(program).arg("--version").output() else {
            return false;
        };
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        let major = text
            .split_once("v=")
            .and_then(|(_, version)| version.split('.').next()?.parse().ok());
        major.is_some_and(|major: u32| major >= 8)
    }

    /// Executes a command; returns its reply.
    pub(crate) fn run<A: AsRef<[u8]>>(&mut self, words: &[A]) -> Vec<u8> {
        let mut request = Vec::new();
        write_request(&mut request, words);
        self.stream.write_all(&request).expect("Redis reads");
        let mut reply = Vec::new();
        let mut chunk = [0; 65_536];
        loop {
            let count = self.stream.read(&mut chunk).expect("Redis replies");
            assert!(count > 0, "Redis hung up");
            reply.extend_from_slice(&chunk[..count]);
            if decode(&reply).expect("Redis speaks RESP").is_some() {
                return reply;
            }
        }
    }
}

impl Drop for Redis {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}
