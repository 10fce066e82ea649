//! `rival-zeromq SUBJECT TRANSPORT BYTES COUNT`: one round of `tidewire bench zmq` by the crate
//! `zeromq`, as fast as its own benchmarks use it: a runtime of one thread for each side.

use std::error::Error;
use std::future::Future;
use std::time::{Duration, Instant};

use bytes::Bytes;
use rustix::time::{ClockId, clock_gettime};
use zeromq::{
    DealerSocket, PullSocket, PushSocket, RepSocket, ReqSocket, RouterSocket, Socket, SocketRecv,
    SocketSend, ZmqMessage,
};

type Failure = Box<dyn Error + Send + Sync>;

fn main() -> Result<(), Failure> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [subject, transport, bytes, count] = arguments.as_slice() else {
        return Err("SUBJECT TRANSPORT BYTES COUNT".into());
    };
    let endpoint = match transport.as_str() {
        "tcp" => "tcp://127.0.0.1:0".to_owned(),
        "ipc" => format!("ipc:///tmp/rival-zeromq-{}", std::process::id()),
        _ => return Err("it has tcp and ipc".into()),
    };
    let (bytes, count): (usize, u64) = (bytes.parse()?, count.parse()?);
    match subject.as_str() {
        "latency" => latency(&endpoint, bytes, count),
        "request-reply" => request_reply(&endpoint, bytes, count),
        "push-pull" => {
            let sender = PushSocket::new();
            throughput(sender, PullSocket::new(), &endpoint, bytes, count)
        }
        "dealer-router" => {
            let sender = DealerSocket::new();
            throughput(sender, RouterSocket::new(), &endpoint, bytes, count)
        }
        _ => Err("it is not asked for that here".into()),
    }
}

/// One thread drives both sockets.
fn latency(endpoint: &str, bytes: usize, count: u64) -> Result<(), Failure> {
    run(async {
        let mut router = RouterSocket::new();
        let mut dealer = DealerSocket::new();
        let place = router.bind(endpoint).await?.to_string();
        dealer.connect(&place).await?;
        let body = Bytes::from(vec![b'x'; bytes]);
        let mut clock = Clock::start();
        for round in 0..WARM_UP + count {
            if round == WARM_UP {
                clock = Clock::start();
            }
            dealer.send(ZmqMessage::from(body.clone())).await?;
            let request = router.recv().await?;
            router.send(request).await?;
            dealer.recv().await?;
        }
        clock.tell_latency(count);
        Ok(())
    })
}

fn request_reply(endpoint: &str, bytes: usize, count: u64) -> Result<(), Failure> {
    let total = WARM_UP + count;
    let (tell, told) = std::sync::mpsc::channel();
    let endpoint = endpoint.to_owned();
    let echo = std::thread::spawn(move || {
        run(async {
            let mut reply = RepSocket::new();
            tell.send(reply.bind(&endpoint).await?.to_string())?;
            for _ in 0..total {
                let request = reply.recv().await?;
                reply.send(request).await?;
            }
            // Until the last reply has left.
            tokio::time::sleep(Duration::from_millis(100)).await;
            Ok(())
        })
    });
    let place = told.recv()?;
    run(async {
        let mut request = ReqSocket::new();
        request.connect(&place).await?;
        let body = Bytes::from(vec![b'x'; bytes]);
        let mut clock = Clock::start();
        for round in 0..total {
            if round == WARM_UP {
                clock = Clock::start();
            }
            request.send(ZmqMessage::from(body.clone())).await?;
            request.recv().await?;
        }
        clock.tell_latency(count);
        Ok(())
    })?;
    echo.join().map_err(|_| "the echo failed")?
}

/// One thread sends, another receives.
fn throughput<S, R>(
    mut sender: S,
    mut receiver: R,
    endpoint: &str,
    bytes: usize,
    count: u64,
) -> Result<(), Failure>
where
    S: Socket + SocketSend + Send,
    R: Socket + SocketRecv + Send + 'static,
{
    let (tell, told) = std::sync::mpsc::channel::<String>();
    let (end, ended) = tokio::sync::oneshot::channel();
    let sink = std::thread::spawn(move || {
        run(async {
            receiver.connect(&told.recv()?).await?;
            for _ in 0..=count {
                receiver.recv().await?;
            }
            end.send(()).map_err(|()| "nobody waits".into())
        })
    });
    run(async {
        tell.send(sender.bind(endpoint).await?.to_string())?;
        let body = Bytes::from(vec![b'x'; bytes]);
        while sender.send(ZmqMessage::from(body.clone())).await.is_err() {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        let clock = Clock::start();
        for _ in 0..count {
            sender.send(ZmqMessage::from(body.clone())).await?;
        }
        ended.await?;
        clock.tell_rate(count);
        Ok(())
    })?;
    sink.join().map_err(|_| "the sink failed")?
}

fn run<T>(work: impl Future<Output = Result<T, Failure>>) -> Result<T, Failure> {
    let runtime = tokio::runtime::Builder::new_current_thread();
    { runtime }.enable_all().build()?.block_on(work)
}

/// Time and processor time since a moment.
struct Clock {
    begin: Instant,
    processor: Duration,
}

impl Clock {
    fn start() -> Clock {
        Clock {
            begin: Instant::now(),
            processor: processor_time(),
        }
    }

    fn tell_latency(&self, round_trips: u64) {
        let ways = 2.0 * round_trips as f64;
        self.tell(self.begin.elapsed().as_secs_f64() * 1e6 / ways, ways);
    }

    fn tell_rate(&self, messages: u64) {
        let messages = messages as f64;
        self.tell(messages / self.begin.elapsed().as_secs_f64(), messages);
    }

    fn tell(&self, value: f64, messages: f64) {
        let processor = (processor_time() - self.processor).as_secs_f64();
        let processor_us = processor * 1e6 / messages;
        println!("{{\"value\":{value},\"processor_us\":{processor_us}}}");
    }
}

fn processor_time() -> Duration {
    let spent = clock_gettime(ClockId::ProcessCPUTime);
    Duration::new(spent.tv_sec as u64, spent.tv_nsec as u32)
}

/// As many round trips as `tidewire bench zmq` makes before those that count.
const WARM_UP: u64 = 1000;
