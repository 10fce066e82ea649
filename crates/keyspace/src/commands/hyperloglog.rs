//! HyperLogLog commands.

use super::Call;
use super::options::is;
use crate::encoding::Kind;
use crate::entry::{Entry, NewValue};
use crate::error::{CommandError, Result};
use crate::hyperloglog::{self, EMPTY, Encoding, Fault, HyperLogLog, Registers};
use crate::key::Key;
use crate::observer::Event;
use crate::table::Place;
use crate::view::Expiry;

pub(super) fn pfadd(call: &mut Call<'_, '_, '_>) -> Result {
    let key = call.key(1);
    let bytes_max = call.view.keyspace.hyperloglog_sparse_bytes_max();
    let elements = call.arguments.tail(2);
    let (place, mut changed) = match find(call, key)? {
        Some(place) => (place, false),
        None => (
            call.view.insert(key, NewValue::Bytes(EMPTY), Expiry::Clear),
            true,
        ),
    };
    let entry = call.view.entry_mut(key, place);
    if elements.len() > 1 && !changed {
        // A single element is added or fails. With several, a failure must come before any is
        // added.
        HyperLogLog::new(entry.bytes())?.check()?;
    }
    for element in elements {
        changed |= hyperloglog::add(entry, element, bytes_max)?;
    }
    entry.set_raw();
    if changed {
        hyperloglog::outdate(entry.bytes_mut());
        call.view.changed(key, place, Event::HyperLogLogAdd);
    }
    call.reply.integer(i64::from(changed));
    Ok(())
}

pub(super) fn pfcount(call: &mut Call<'_, '_, '_>) -> Result {
    if call.arguments.len() > 2 {
        let mut union = Registers::new();
        for at in call.rest(1) {
            if let Some(text) = call.view.read_text(call.view.key(call.argument(at)))? {
                union.merge(HyperLogLog::new(text.as_bytes())?)?;
            }
        }
        call.reply.integer(union.estimate() as i64);
        return Ok(());
    }
    let key = call.key(1);
    let Some(text) = call.view.read_text(key)? else {
        call.reply.integer(0);
        return Ok(());
    };
    let hyperloglog = HyperLogLog::new(text.as_bytes())?;
    let cached = hyperloglog.cached_estimate();
    let estimate = match cached {
        Some(estimate) => estimate,
        None => hyperloglog.estimate()?,
    };
    if cached.is_none()
        && let Some(place) = call.view.find(key)
    {
        let entry = call.view.entry_mut(key, place);
        hyperloglog::cache_estimate(entry.bytes_mut(), estimate);
        entry.set_raw();
        call.view.changed(key, place, Event::HyperLogLogCount);
    }
    call.reply.integer(estimate as i64);
    Ok(())
}

pub(super) fn pfmerge(call: &mut Call<'_, '_, '_>) -> Result {
    let mut union = Registers::new();
    let mut encoding = Encoding::Sparse;
    let mut header = None;
    call.view.counts_reads = true;
    for at in call.rest(1) {
        if let Some(text) = call.view.read_text(call.view.key(call.argument(at)))? {
            let source = HyperLogLog::new(text.as_bytes())?;
            if at == 1 {
                header = Some(source.header());
            }
            union.merge(source)?;
            if source.encoding() == Encoding::Dense {
                encoding = Encoding::Dense;
            }
        }
    }
    let bytes_max = call.view.keyspace.hyperloglog_sparse_bytes_max();
    let mut bytes = union.to_bytes(encoding, bytes_max);
    if let Some(header) = header {
        hyperloglog::keep_header(&mut bytes, header);
    }
    let key = call.key(1);
    let place = call.view.set(key, NewValue::Bytes(&bytes), Expiry::Keep);
    call.view.entry_mut(key, place).set_raw();
    call.view.changed(key, place, Event::HyperLogLogAdd);
    call.reply.ok();
    Ok(())
}

pub(super) fn pfdebug(call: &mut Call<'_, '_, '_>) -> Result {
    let subcommand = call.argument(1);
    if is(subcommand, "simd") {
        let switch = call.argument(2);
        if !is(switch, "on") && !is(switch, "off") {
            return Err(CommandError::Refused(NEITHER_ON_NOR_OFF));
        }
        // There is only one implementation; the compiler chose its instructions.
        call.reply.simple("disabled");
        return Ok(());
    }
    let key = call.key(2);
    let place = find(call, key)?.ok_or(CommandError::Refused(NO_SUCH_KEY))?;
    let entry = call.view.entry_mut(key, place);
    if is(subcommand, "getreg") {
        let was_sparse = hyperloglog::make_dense(entry)?;
        let registers = Registers::of(HyperLogLog::new(entry.bytes())?)?;
        if was_sparse {
            call.view.changed(key, place, Event::HyperLogLogCount);
        }
        call.reply.array(registers.as_bytes().len());
        let ranks = registers.as_bytes().iter();
        ranks.for_each(|&rank| call.reply.integer(i64::from(rank)));
    } else if is(subcommand, "decode") {
        let hyperloglog = HyperLogLog::new(entry.bytes())?;
        if hyperloglog.encoding() != Encoding::Sparse {
            return Err(CommandError::Refused(NOT_SPARSE));
        }
        let text = decoded(hyperloglog.body());
        call.reply.bulk(text.as_bytes());
    } else if is(subcommand, "encoding") {
        call.reply
            .simple(match HyperLogLog::new(entry.bytes())?.encoding() {
                Encoding::Dense => "dense",
                Encoding::Sparse => "sparse",
            });
    } else if is(subcommand, "todense") {
        let was_sparse = hyperloglog::make_dense(entry)?;
        if was_sparse {
            call.view.changed(key, place, Event::HyperLogLogCount);
        }
        call.reply.integer(i64::from(was_sparse));
    } else {
        let name = String::from_utf8_lossy(subcommand);
        let text = format!("ERR Unknown PFDEBUG subcommand '{name}'");
        return Err(CommandError::RefusedWith(
            text.replace(['\r', '\n'], " ").into(),
        ));
    }
    Ok(())
}

pub(super) fn pfselftest(call: &mut Call<'_, '_, '_>) -> Result {
    let keyspace = call.view.keyspace;
    let bytes_max = keyspace.hyperloglog_sparse_bytes_max();
    let mut sparse = Entry::new(0, b"", NewValue::Bytes(EMPTY), false);
    let mut dense = Entry::new(0, b"", NewValue::Bytes(EMPTY), false);
    hyperloglog::make_dense(&mut dense)?;
    let seed = keyspace.random();
    let mut checkpoint = 1;
    for number in 1..=SELF_TEST_ELEMENTS {
        let element = (number ^ seed).to_le_bytes();
        hyperloglog::add(&mut dense, &element, bytes_max)?;
        hyperloglog::add(&mut sparse, &element, bytes_max)?;
        if number != checkpoint {
            continue;
        }
        let estimate = HyperLogLog::new(dense.bytes())?.estimate()?;
        let sparse = HyperLogLog::new(sparse.bytes())?;
        if sparse.encoding() != Encoding::Sparse && number < bytes_max as u64 / 2 {
            return Err(CommandError::Refused(SELF_TEST_NOT_SPARSE));
        }
        if sparse.estimate()? != estimate {
            return Err(CommandError::Refused(SELF_TEST_DISAGREES));
        }
        // Six times the standard error, for one key in ten: both rare enough.
        let error_max = (1.04 / 128.0 * 6.0 * number as f64).ceil() as u64;
        let error = estimate.abs_diff(number);
        if error > error_max {
            let text = format!("ERR TESTFAILED Too big error. card:{number} abserr:{error}");
            return Err(CommandError::RefusedWith(text.into()));
        }
        checkpoint *= 10;
    }
    call.reply.ok();
    Ok(())
}

impl From<Fault> for CommandError {
    fn from(fault: Fault) -> Self {
        CommandError::Refused(match fault {
            Fault::Header => NOT_A_HYPERLOGLOG,
            Fault::Runs => CORRUPTED,
        })
    }
}

/// Returns the HyperLogLog to write to; an error for any other value.
fn find(call: &mut Call<'_, '_, '_>, key: Key<'_>) -> Result<Option<Place>> {
    let Some(place) = call.view.find(key) else {
        return Ok(None);
    };
    let entry = call.view.entry(key, place);
    match entry.kind() {
        Kind::Bytes => HyperLogLog::new(entry.bytes())?,
        Kind::Integer => return Err(Fault::Header.into()),
        _ => return Err(CommandError::WrongType),
    };
    Ok(Some(place))
}

/// Formats the runs: `Z:16384`, or `z:10 v:3,1 …`.
fn decoded(body: &[u8]) -> String {
    let runs = hyperloglog::operations(body).map(|run| match (run.rank, run.bytes) {
        (0, 1) => format!("z:{}", run.registers),
        (0, _) => format!("Z:{}", run.registers),
        (rank, _) => format!("v:{rank},{}", run.registers),
    });
    runs.collect::<Vec<_>>().join(" ")
}

const SELF_TEST_ELEMENTS: u64 = 1_000_000;

const NOT_A_HYPERLOGLOG: &str = "WRONGTYPE Key is not a valid HyperLogLog string value.";
const CORRUPTED: &str = "INVALIDOBJ Corrupted HLL object detected";
const NO_SUCH_KEY: &str = "ERR The specified key does not exist";
const NOT_SPARSE: &str = "ERR HLL encoding is not sparse";
const NEITHER_ON_NOR_OFF: &str = "ERR Argument must be ON or OFF";
const SELF_TEST_NOT_SPARSE: &str = "ERR TESTFAILED sparse encoding not used";
const SELF_TEST_DISAGREES: &str = "ERR TESTFAILED dense/sparse disagree";
