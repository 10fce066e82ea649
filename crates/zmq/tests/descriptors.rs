//! A process without free descriptors. Alone in its file, for the limit is the whole process's.

mod support;

use std::fs::File;
use std::io::Read;
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

use rustix::net::{AddressFamily, SocketType as Kind};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use rustix::time::{ClockId, clock_gettime};
use support::{last_endpoint, pair_at, receive, send, socket};
use tidewire_zmq::{Context, Error, SocketType};

#[test]
fn without_descriptors_sockets_fail_and_those_there_are_go_on() {
    let context = Context::new();
    let [pull, push] = pair_at(
        &context,
        "tcp://127.0.0.1:*",
        SocketType::Pull,
        SocketType::Push,
    );
    send(&push, &[b"before"]);
    assert_eq!(receive(&pull), [b"before"]);
    let place = last_endpoint(&pull);
    let address: SocketAddr = place.trim_start_matches("tcp://").parse().unwrap();
    let late = rustix::net::socket(AddressFamily::INET, Kind::STREAM, None).unwrap();
    // Looks for a peer that nobody is, with descriptors that are not there either.
    let lost = socket(&context, SocketType::Push);

    let whole = getrlimit(Resource::Nofile);
    let low = Rlimit {
        current: Some(128),
        maximum: whole.maximum,
    };
    setrlimit(Resource::Nofile, low).unwrap();
    let mut taken = Vec::new();
    while let Ok(file) = File::open("/dev/null") {
        taken.push(file);
        assert!(taken.len() < 1000, "there is no limit");
    }

    let refused = context.socket(SocketType::Pair).err();
    assert_eq!(refused, Some(Error::TooManyDescriptors));
    let refused = lost.bind("tcp://127.0.0.1:*").err();
    assert_eq!(refused, Some(Error::TooManyDescriptors));
    lost.connect(&place).unwrap();
    rustix::net::connect(&late, &address).unwrap();
    let begin = processor_time();
    std::thread::sleep(Duration::from_millis(400));
    let spent = processor_time() - begin;
    assert!(spent < Duration::from_millis(150), "{spent:?} of 400 ms");
    send(&push, &[b"meanwhile"]);
    assert_eq!(receive(&pull), [b"meanwhile"]);

    drop(taken);
    let mut late = TcpStream::from(late);
    late.set_read_timeout(Some(Duration::from_secs(5))).unwrap();
    let mut greeting = [0; 10];
    late.read_exact(&mut greeting).unwrap();
    assert_eq!((greeting[0], greeting[9]), (0xff, 0x7f));
    send(&lost, &[b"found"]);
    assert_eq!(receive(&pull), [b"found"]);
    setrlimit(Resource::Nofile, whole).unwrap();
}

fn processor_time() -> Duration {
    let spent = clock_gettime(ClockId::ProcessCPUTime);
    Duration::new(spent.tv_sec as u64, spent.tv_nsec as u32)
}
