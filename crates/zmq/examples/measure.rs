//! Round trips and rates of one thread, as libzmq's own harnesses count them:
//! `measure latency|throughput ENDPOINT BYTES COUNT`.

use std::time::Instant;

use tidewire_zmq::{Context, Error, Message, SendFlags, Socket, SocketType};

const LAST: SendFlags = SendFlags {
    dont_wait: false,
    more: false,
};
const MORE: SendFlags = SendFlags {
    dont_wait: false,
    more: true,
};
const LAST_ENDPOINT: i32 = 32;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let arguments: Vec<String> = std::env::args().collect();
    let [_, what, endpoint, bytes, count] = &arguments[..] else {
        return Err("usage: measure latency|throughput ENDPOINT BYTES COUNT".into());
    };
    let (bytes, count): (usize, u32) = (bytes.parse()?, count.parse()?);
    let context = Context::new();
    let router = context.socket(SocketType::Router)?;
    let dealer = context.socket(SocketType::Dealer)?;
    router.bind(endpoint)?;
    let mut name = [0; 256];
    let length = router.option(LAST_ENDPOINT, &mut name)?;
    dealer.connect(std::str::from_utf8(&name[..length - 1])?)?;
    round_trips(&dealer, &router, bytes, 1000)?;
    let begin = Instant::now();
    match what.as_str() {
        "latency" => {
            round_trips(&dealer, &router, bytes, count)?;
            let one_way_us = begin.elapsed().as_secs_f64() * 1e6 / f64::from(count) / 2.0;
            println!("{bytes} bytes: {one_way_us:.3} us one way");
        }
        _ => {
            let receiver = std::thread::spawn(move || -> Result<(), Error> {
                for _ in 0..count {
                    router.receive(false)?;
                    router.receive(false)?;
                }
                Ok(())
            });
            let body = vec![b'x'; bytes];
            for _ in 0..count {
                dealer.send_bytes(&body, LAST)?;
            }
            let _ = receiver.join();
            let rate = f64::from(count) / begin.elapsed().as_secs_f64();
            println!("{bytes} bytes: {rate:.0} messages/s");
        }
    }
    Ok(())
}

fn round_trips(dealer: &Socket, router: &Socket, bytes: usize, count: u32) -> Result<(), Error> {
    let body = vec![b'x'; bytes];
    for _ in 0..count {
        dealer.send_bytes(&body, LAST)?;
        let mut id: Message = router.receive(false)?;
        let mut message = router.receive(false)?;
        router.send(&mut id, MORE)?;
        router.send(&mut message, LAST)?;
        dealer.receive(false)?;
    }
    Ok(())
}
