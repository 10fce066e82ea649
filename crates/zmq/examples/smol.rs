//! Tasks of smol: three workers share one pipeline, and a sink collects their results.
//!
//! ```text
//! cargo run -p tidewire-zmq --example smol
//! ```

use std::error::Error;

use tidewire_zmq::{Context, Multipart, Pull, Push};

const JOBS: u32 = 30;

type Done = Result<(), Box<dyn Error + Send + Sync>>;

fn main() -> Done {
    smol::block_on(run())
}

/// What the example does; a test runs it too.
pub(crate) async fn run() -> Done {
    let context = Context::new();
    let mut ventilator = Push::bind(&context, "inproc://jobs")?;
    let mut sink = Pull::bind(&context, "inproc://results")?;
    let executor = smol::Executor::new();
    for worker in 0..3 {
        let mut from = Pull::connect(&context, "inproc://jobs")?;
        let mut to = Push::connect(&context, "inproc://results")?;
        let work = async move {
            while let Ok(job) = from.receive_async().await {
                let result = Multipart::from([&*job[0], format!("worker {worker}").as_bytes()]);
                if to.send_async(result).await.is_err() {
                    break;
                }
            }
        };
        executor.spawn(work).detach();
    }
    let all = async {
        for job in 0..JOBS {
            ventilator.send_async(job.to_string()).await?;
        }
        for _ in 0..JOBS {
            let result = sink.receive_async().await?;
            let [job, worker] =
                [&result[0], &result[1]].map(|frame| String::from_utf8_lossy(frame));
            println!("job {job} by {worker}");
        }
        Ok(())
    };
    executor.run(all).await
}
