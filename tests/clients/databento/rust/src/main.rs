//! Databento's own client in Rust, unmodified, against the hub's gateway: `PORT KEY CASE`. Exits
//! with 0 if the case holds, and says what does not otherwise. `test_databento.py` runs it.

use std::collections::{BTreeSet, HashMap};
use std::error::Error;
use std::time::Duration;

use databento::dbn::{
    Action, Compression, ErrorMsg, InstrumentDefMsg, Mbp1Msg, PitSymbolMap, RecordRef, Schema,
    SymbolIndex, SystemCode, SystemMsg, TradeMsg,
};
use databento::live::{SlowReaderBehavior, Subscription};
use databento::{LiveClient, Symbols};

type Outcome<T = ()> = Result<T, Box<dyn Error>>;

fn main() -> Outcome {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [port, key, case] = arguments.as_slice() else {
        return Err("usage: databento-client PORT KEY CASE".into());
    };
    let gateway = Gateway {
        port: port.parse()?,
        key: key.clone(),
    };
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?;
    runtime.block_on(async {
        let run = async {
            match case.as_str() {
                "records" => records(&gateway, Compression::None).await,
                "compressed" => records(&gateway, Compression::Zstd).await,
                "replay" => replay(&gateway).await,
                "snapshot" => snapshot(&gateway).await,
                "unsubscribe" => unsubscribe(&gateway).await,
                "reconnect" => reconnect(&gateway).await,
                "wrong-key" => wrong_key(&gateway).await,
                "not-served" => not_served(&gateway).await,
                _ => Err(format!("no such case: {case}").into()),
            }
        };
        tokio::time::timeout(PATIENCE, run).await?
    })
}

struct Gateway {
    port: u16,
    key: String,
}

impl Gateway {
    async fn connect(&self, key: &str, compression: Compression) -> Outcome<LiveClient> {
        let client = LiveClient::builder()
            .addr(("127.0.0.1", self.port))
            .await?
            .key(key)?
            .dataset("XNAS.ITCH")
            .compression(compression)
            .slow_reader_behavior(SlowReaderBehavior::Warn)
            .build()
            .await?;
        Ok(client)
    }

    async fn open(&self) -> Outcome<LiveClient> {
        self.connect(&self.key, Compression::None).await
    }
}

/// The next record; the end of the session is none.
async fn next(client: &mut LiveClient) -> Outcome<RecordRef<'_>> {
    match client.next_record().await? {
        Some(record) => Ok(record),
        None => Err("the gateway has ended the session".into()),
    }
}

fn all(schema: Schema) -> Subscription {
    Subscription::builder()
        .symbols(Symbols::All)
        .schema(schema)
        .build()
}

fn check(holds: bool, what: impl FnOnce() -> String) -> Outcome {
    match holds {
        true => Ok(()),
        false => Err(what().into()),
    }
}

/// Prices, trades and definitions, each with its symbol; then the client ends the session.
async fn records(gateway: &Gateway, compression: Compression) -> Outcome {
    let mut client = gateway.connect(&gateway.key, compression).await?;
    for schema in [Schema::Mbp1, Schema::Trades, Schema::Definition] {
        client.subscribe(all(schema)).await?;
    }
    let metadata = client.start().await?;
    check(metadata.dataset == "XNAS.ITCH", || metadata.dataset.clone())?;
    let mut symbols = PitSymbolMap::new();
    let mut defined = BTreeSet::new();
    let (mut quotes, mut trades) = (0, 0);
    while quotes < 200 || trades < 50 || defined.len() < SYMBOLS {
        let record = next(&mut client).await?;
        symbols.on_record(record)?;
        if let Some(error) = record.get::<ErrorMsg>() {
            return Err(error.err()?.to_owned().into());
        }
        if let Some(one) = record.get::<Mbp1Msg>() {
            let best = &one.levels[0];
            check(best.bid_px < best.ask_px, || format!("{one:?}"))?;
            check(symbols.get_for_rec(one).is_some(), || format!("{one:?}"))?;
            quotes += 1;
        } else if let Some(one) = record.get::<TradeMsg>() {
            let action = one.action()?;
            check(action == Action::Trade && one.price > 0, || {
                format!("{one:?}")
            })?;
            check(symbols.get_for_rec(one).is_some(), || format!("{one:?}"))?;
            trades += 1;
        } else if let Some(one) = record.get::<InstrumentDefMsg>() {
            let name = one.raw_symbol()?.to_owned();
            check(symbols.get_for_rec(one) == Some(&name), || name.clone())?;
            defined.insert(name);
        }
    }
    client.close().await?;
    while client.next_record().await?.is_some() {}
    Ok(())
}

/// From the oldest message on, in order, each once, over into the live stream.
async fn replay(gateway: &Gateway) -> Outcome {
    let mut client = gateway.open().await?;
    let subscription = Subscription::builder()
        .symbols(Symbols::All)
        .schema(Schema::Trades)
        .start(time::OffsetDateTime::UNIX_EPOCH)
        .build();
    client.subscribe(subscription).await?;
    client.start().await?;
    let (mut last, mut replayed, mut live, mut is_live) = (0, 0, 0, false);
    while live < 20 {
        let record = next(&mut client).await?;
        if let Some(trade) = record.get::<TradeMsg>() {
            check(trade.sequence > last, || format!("{last}, then {trade:?}"))?;
            last = trade.sequence;
            *(if is_live { &mut live } else { &mut replayed }) += 1;
        } else if let Some(system) = record.get::<SystemMsg>() {
            is_live |= system.code()? == SystemCode::ReplayCompleted;
        }
    }
    check(replayed > 0, || "nothing was played again".to_owned())
}

/// The current value of each symbol comes first, and says that it is one.
async fn snapshot(gateway: &Gateway) -> Outcome {
    let mut client = gateway.open().await?;
    let subscription = Subscription::builder()
        .symbols(Symbols::All)
        .schema(Schema::Mbp1)
        .use_snapshot(true)
        .build();
    client.subscribe(subscription).await?;
    client.start().await?;
    let mut seen = HashMap::new();
    for number in 0..10 * SYMBOLS {
        let one = loop {
            if let Some(one) = next(&mut client).await?.get::<Mbp1Msg>() {
                break one.clone();
            }
        };
        let is_snapshot = one.flags.is_snapshot();
        check(is_snapshot == (number < SYMBOLS), || {
            format!("{number}: {one:?}")
        })?;
        *seen.entry(one.hd.instrument_id).or_insert(0) += 1;
    }
    check(seen.len() == SYMBOLS, || format!("{seen:?}"))
}

/// What was taken back does not come any more.
async fn unsubscribe(gateway: &Gateway) -> Outcome {
    let mut client = gateway.open().await?;
    let trades = all(Schema::Trades);
    client.subscribe(trades.clone()).await?;
    client.start().await?;
    while next(&mut client).await?.get::<TradeMsg>().is_none() {}
    client.unsubscribe(trades.to_unsubscription()).await?;
    loop {
        if let Some(system) = next(&mut client).await?.get::<SystemMsg>()
            && system.code()? == SystemCode::UnsubscribeAck
        {
            break;
        }
    }
    client.subscribe(all(Schema::Mbp1)).await?;
    let mut quotes = 0;
    while quotes < 100 {
        let record = next(&mut client).await?;
        check(record.get::<TradeMsg>().is_none(), || format!("{record:?}"))?;
        quotes += u32::from(record.get::<Mbp1Msg>().is_some());
    }
    Ok(())
}

/// A second connection with the subscriptions of the first.
async fn reconnect(gateway: &Gateway) -> Outcome {
    let mut client = gateway.open().await?;
    client.subscribe(all(Schema::Trades)).await?;
    client.start().await?;
    while next(&mut client).await?.get::<TradeMsg>().is_none() {}
    let first = client.session_id().to_owned();
    client.reconnect().await?;
    check(client.session_id() != first, || first.clone())?;
    client.resubscribe().await?;
    client.start().await?;
    while next(&mut client).await?.get::<TradeMsg>().is_none() {}
    Ok(())
}

async fn wrong_key(gateway: &Gateway) -> Outcome {
    let other = "db-another-key-of-somebody-elses";
    match gateway.connect(other, Compression::None).await {
        Err(error) => check(error.to_string().contains("uthentication"), || {
            error.to_string()
        }),
        Ok(_) => Err("somebody else's key was taken".into()),
    }
}

/// A schema that the hub does not have is an error record that names it, and nothing more.
async fn not_served(gateway: &Gateway) -> Outcome {
    let mut client = gateway.open().await?;
    client.subscribe(all(Schema::Cmbp1)).await?;
    client.subscribe(all(Schema::Trades)).await?;
    client.start().await?;
    let mut words = String::new();
    loop {
        let record = next(&mut client).await?;
        if let Some(error) = record.get::<ErrorMsg>() {
            words = error.err()?.to_owned();
        }
        if record.get::<TradeMsg>().is_some() {
            return check(words.contains("'cmbp-1'"), || words.clone());
        }
    }
}

/// Of the exchange that the hub reads.
const SYMBOLS: usize = 6;
const PATIENCE: Duration = Duration::from_secs(30);
