//! Tasks of Tokio: a worker that answers requests, a client with a timeout, and a subscriber that
//! is a `Stream`. No runtime is named in the library: the same code runs under any.
//!
//! ```text
//! cargo run -p tidewire-zmq --example tokio
//! ```

use std::error::Error;
use std::time::Duration;

use futures_util::{SinkExt, StreamExt, stream};
use tidewire_zmq::{Context, Multipart, Rep, Req, Socket, Sub, Xpub};

type Done = Result<(), Box<dyn Error + Send + Sync>>;

#[tokio::main]
async fn main() -> Done {
    run().await
}

/// What the example does; a test runs it too.
pub(crate) async fn run() -> Done {
    let context = Context::new();
    requests(&context).await?;
    subscriptions(&context).await
}

/// Asks a worker in another task.
async fn requests(context: &Context) -> Done {
    let mut server = Rep::bind(context, "tcp://127.0.0.1:*")?;
    let endpoint = server.socket().last_endpoint()?;
    let worker = tokio::spawn(async move {
        while let Ok(request) = server.receive_async().await {
            let reply = Multipart::from([&*request[0], b"done"]);
            if server.send_async(reply).await.is_err() {
                break;
            }
        }
    });
    let mut client = Req::connect(context, &endpoint)?;
    for job in ["first", "second"] {
        client.send_async(job).await?;
        // A future that the timeout drops has taken no message.
        let reply = tokio::time::timeout(Duration::from_secs(10), client.receive_async()).await??;
        println!("{}: {}", text(&reply[0]), text(&reply[1]));
    }
    worker.abort();
    Ok(())
}

/// Sends and receives by the adapters of `futures-util`.
async fn subscriptions(context: &Context) -> Done {
    let mut publisher = Xpub::bind(context, "tcp://127.0.0.1:*")?;
    let mut subscriber = Sub::connect(context, &publisher.socket().last_endpoint()?)?;
    subscriber.subscribe("price.")?;
    // An XPUB receives the subscription, so that no message is sent before it.
    let _subscription = publisher.receive_async().await?;
    let messages = [
        ["price.gold", "2400"],
        ["news", "none"],
        ["price.tin", "31"],
    ];
    let mut messages = stream::iter(messages.map(Multipart::from).map(Ok));
    publisher.into_socket().send_all(&mut messages).await?;
    let mut subscriber = subscriber.into_socket();
    for _ in 0..2 {
        let message = next(&mut subscriber).await?;
        println!("{} {}", text(&message[0]), text(&message[1]));
    }
    Ok(())
}

async fn next(stream: &mut Socket) -> Result<Multipart, Box<dyn Error + Send + Sync>> {
    let item = stream.next().await;
    Ok(item.ok_or("the context has ended")??)
}

fn text(frame: &[u8]) -> String {
    String::from_utf8_lossy(frame).into_owned()
}
