//! The examples of tasks, under the runtimes that they are written for.
#![cfg(not(loom))]

#[path = "../examples/smol.rs"]
#[allow(dead_code)]
mod smol_example;
#[path = "../examples/tokio.rs"]
#[allow(dead_code)]
mod tokio_example;

use std::time::Duration;

use futures_util::StreamExt;
use futures_util::stream::FuturesUnordered;
use tidewire_zmq::{Context, Pull, Push, Req, Router};

#[test]
fn the_example_of_tokio_runs_in_one_thread_and_in_several() {
    for mut builder in [
        tokio::runtime::Builder::new_current_thread(),
        tokio::runtime::Builder::new_multi_thread(),
    ] {
        let runtime = builder.enable_time().build().expect("a runtime");
        runtime.block_on(tokio_example::run()).expect("the example");
    }
}

#[test]
fn the_example_of_smol_runs() {
    smol::block_on(smol_example::run()).expect("the example");
}

#[test]
fn a_receiver_that_select_cancels_again_and_again_loses_nothing() {
    const MESSAGES: u32 = 2_000;
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_time()
        .build()
        .expect("a runtime");
    runtime.block_on(async {
        let context = Context::new();
        let mut pull = Pull::bind(&context, "tcp://127.0.0.1:*").expect("a port");
        let endpoint = pull.socket().last_endpoint().expect("its name");
        let mut push = Push::connect(&context, &endpoint).expect("the other");
        let sender = tokio::spawn(async move {
            for number in 0..MESSAGES {
                let message = number.to_string();
                push.send_async(message).await.expect("sent");
                if number % 7 == 0 {
                    tokio::task::yield_now().await;
                }
            }
            push
        });
        let mut next = 0;
        while next < MESSAGES {
            tokio::select! {
                biased;
                () = tokio::task::yield_now(), if next % 2 == 0 => {}
                message = pull.receive_async() => {
                    let message = message.expect("a message");
                    assert_eq!(&*message[0], next.to_string().as_bytes());
                    next += 1;
                    continue;
                }
            }
            // The receiver's turn, with a future that may be cancelled by the clock.
            let waited = tokio::time::timeout(Duration::from_micros(50), pull.receive_async());
            if let Ok(message) = waited.await {
                let message = message.expect("a message");
                assert_eq!(&*message[0], next.to_string().as_bytes());
                next += 1;
            }
        }
        drop(sender.await.expect("the sender"));
    });
}

#[test]
fn a_hundred_tasks_ask_one_router() {
    const CLIENTS: usize = 100;
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .build()
        .expect("a runtime");
    runtime.block_on(async {
        let context = Context::new();
        let router = Router::bind(&context, "ipc://*")
            .expect("a name")
            .into_socket();
        let endpoint = router.last_endpoint().expect("its name");
        let server = tokio::spawn(async move {
            for _ in 0..CLIENTS {
                let request = router.receive_async().await.expect("a request");
                router.send_async(request).await.expect("sent back");
            }
            router
        });
        let clients = (0..CLIENTS).map(|number| {
            let mut client = Req::connect(&context, &endpoint).expect("the router");
            async move {
                client.send_async(number.to_string()).await.expect("sent");
                let reply = client.receive_async().await.expect("a reply");
                assert_eq!(&*reply[0], number.to_string().as_bytes());
            }
        });
        let mut clients: FuturesUnordered<_> = clients.collect();
        while clients.next().await.is_some() {}
        drop(server.await.expect("the server"));
    });
}
