//! Compares the DBN reader with the `dbn` crate, over Databento's own golden files: every schema,
//! versions 1 to 3, plain, zstd, legacy DBZ and fragments.

use std::fs;
use std::path::{Path, PathBuf};

use dbn::VersionUpgradePolicy;
use dbn::decode::dbn::RecordDecoder;
use dbn::decode::{DbnMetadata, DecodeRecordRef, DynDecoder};
use tidewire_dbn::{
    BidAsk, Container, DecodeError, Decoder, Event, Kind, ReadError, Reader, Record, RecordRef,
    SymbolNames, carried_length, detect, stype_name, to_version_3,
};

#[test]
fn every_golden_file_reads_as_the_dbn_crate_reads_it() {
    let Some(files) = golden_files() else { return };
    let (mut records, mut kinds) = (0, Vec::new());
    for path in &files {
        let ours = fs::read(path).unwrap();
        let mut reader = Reader::open(&ours[..]).unwrap_or_else(|e| panic!("{path:?}: {e}"));
        let compare = |theirs: Option<dbn::RecordRef<'_>>, reader: &mut Reader<&[u8]>| {
            let ours = reader
                .next_record()
                .unwrap_or_else(|e| panic!("{path:?}: {e}"));
            match (ours, theirs) {
                (Some(ours), Some(theirs)) => {
                    compare_record(&ours, &theirs);
                    Some(ours.kind())
                }
                (None, None) => None,
                (ours, theirs) => panic!("{path:?}: {ours:?} {theirs:?}"),
            }
        };
        if is_fragment(path) {
            assert_eq!(reader.metadata(), None, "{path:?}");
            let mut theirs = fragment_oracle(path);
            while let Some(kind) = compare(theirs.decode_ref().unwrap(), &mut reader) {
                (records, kinds) = (records + 1, pushed(kinds, kind));
            }
        } else {
            let mut theirs = DynDecoder::from_file(path, VersionUpgradePolicy::AsIs).unwrap();
            compare_metadata(reader.metadata().unwrap(), theirs.metadata());
            while let Some(kind) = compare(theirs.decode_record_ref().unwrap(), &mut reader) {
                (records, kinds) = (records + 1, pushed(kinds, kind));
            }
        }
    }
    assert!(files.len() >= 81, "{} files", files.len());
    assert!(records >= 160, "{records} records");
    assert!(kinds.len() >= 14, "{kinds:?}");
}

#[test]
fn carried_records_of_every_version_become_the_dbn_crates_records_of_version_3() {
    let Some(files) = golden_files() else { return };
    let mut compared = 0;
    for path in files.iter().filter(|path| !is_fragment(path)) {
        let bytes = fs::read(path).unwrap();
        let mut ours = Reader::open(&bytes[..]).unwrap();
        let mut theirs = DynDecoder::from_file(path, VersionUpgradePolicy::UpgradeToV3).unwrap();
        let mut new = Vec::new();
        while let Some(record) = ours.next_record().unwrap() {
            let theirs = theirs.decode_record_ref().unwrap().unwrap();
            new.clear();
            let is_carried = to_version_3(&record, &mut new);
            assert_eq!(is_carried, carried_length(record.kind()).is_some());
            if is_carried {
                assert_eq!(new, theirs.as_ref(), "{path:?}");
                compared += 1;
            }
        }
    }
    assert!(compared >= 30, "{compared} records");
}

#[test]
fn each_truncation_of_a_golden_file_is_told_with_its_position() {
    let Some(files) = golden_files() else { return };
    for path in files.iter().filter(|path| !is_packed(path)) {
        let bytes = fs::read(path).unwrap();
        let new = || match detect(&bytes) {
            Container::Dbn { .. } => Decoder::new(),
            Container::Fragment => Decoder::fragment(),
            other => panic!("{path:?}: {other:?}"),
        };
        // Ends of events: the stream may end there as well.
        let mut ends = vec![0];
        let (mut decoder, mut rest) = (new(), &bytes[..]);
        while !rest.is_empty() {
            let event = decoder.decode(&mut rest).unwrap();
            assert!(!matches!(event, Event::NeedMore(_)));
            ends.push(decoder.position());
        }
        let whole = usize::from(!is_fragment(path));
        for length in 0..bytes.len() {
            let (mut decoder, mut rest) = (new(), &bytes[..length]);
            while !matches!(decoder.decode(&mut rest).unwrap(), Event::NeedMore(_)) {}
            let begun = ends.partition_point(|&end| end <= length as u64) - 1;
            match decoder.finish(rest) {
                Ok(()) => assert!(begun >= whole && ends[begun] == length as u64),
                Err(DecodeError::Truncated { position, missing }) => {
                    assert!(ends[begun] != length as u64 || begun < whole);
                    assert_eq!(position, ends[begun]);
                    let end = ends[begun + 1] as usize;
                    assert!(
                        (1..=end - length).contains(&missing),
                        "{path:?} at {length}"
                    );
                }
                Err(error) => panic!("{path:?} at {length}: {error}"),
            }
        }
    }
}

#[test]
fn a_truncated_zstd_file_is_an_error_not_a_short_day() {
    let Some(files) = golden_files() else { return };
    for path in files.iter().filter(|path| is_packed(path)) {
        let bytes = fs::read(path).unwrap();
        let result = Reader::open(&bytes[..bytes.len() - 3]).and_then(|mut reader| {
            while reader.next_record()?.is_some() {}
            Ok(())
        });
        assert!(result.is_err(), "{path:?}");
    }
}

#[test]
fn symbols_come_from_metadata_mappings_and_definitions() {
    let Some(files) = golden_files() else { return };
    let names = |name: &str| {
        let path = files.iter().find(|path| path.ends_with(name)).unwrap();
        let bytes = fs::read(path).unwrap();
        let mut reader = Reader::open(&bytes[..]).unwrap();
        let mut names = SymbolNames::new();
        if let Some(metadata) = reader.metadata() {
            names.add_metadata(metadata).unwrap();
        }
        while let Some(record) = reader.next_record().unwrap() {
            names.add_record(&record.decode(), 0).unwrap();
        }
        names
    };
    assert_eq!(names("test_data.mbo.v1.dbn.zst").name(5482), Some("ESH1"));
    assert_eq!(names("test_data.mbo.v3.dbn").name(5482), Some("ESH1"));
    assert_eq!(names("test_data.mbo.dbz").name(5482), Some("ESH1"));
    assert_eq!(names("test_data.definition.dbn").name(6819), Some("MSFT"));
    let fragment = names("test_data.definition.v1.dbn.frag");
    assert_eq!(fragment.name(0x7c22), Some("GEM3 P9812"));
}

#[test]
fn unreadable_inputs_say_what_they_are() {
    let error = |bytes: &[u8]| Reader::open(bytes).map(|_| ()).unwrap_err();
    assert_eq!(error(b"GET / HTTP/1.1\r\n"), ReadError::UnknownContainer);
    assert_eq!(error(b""), ReadError::Empty);
    let no_zstd = [&[0x28, 0xb5, 0x2f, 0xfd][..], &[0xff; 40]].concat();
    assert_eq!(error(&no_zstd), ReadError::Zstd);
    let mut version_4 = *b"DBN\x04............";
    assert_eq!(
        error(&version_4),
        ReadError::Decode(DecodeError::UnsupportedVersion(4))
    );
    version_4[3] = 3;
    version_4[4..8].copy_from_slice(&u32::MAX.to_le_bytes());
    assert_eq!(
        error(&version_4),
        ReadError::Decode(DecodeError::MetadataLength(u32::MAX))
    );
}

#[test]
fn every_file_of_the_corpus_is_survived_truncated_and_flipped() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/corpus/dbn_decoder");
    let mut count = 0;
    for entry in fs::read_dir(&folder).unwrap() {
        let mut bytes = fs::read(entry.unwrap().path()).unwrap();
        count += 1;
        for length in 0..=bytes.len() {
            tidewire_dbn::fuzzing::fuzz_dbn_decoder(&bytes[..length]);
        }
        for place in 0..bytes.len() {
            for flip in [0x01, 0x80, 0xff] {
                bytes[place] ^= flip;
                tidewire_dbn::fuzzing::fuzz_dbn_decoder(&bytes);
                bytes[place] ^= flip;
            }
        }
    }
    assert!(count >= 12, "{count} files in {folder:?}");
}

fn pushed(mut kinds: Vec<Kind>, kind: Kind) -> Vec<Kind> {
    if !kinds.contains(&kind) {
        kinds.push(kind);
    }
    kinds
}

fn fragment_oracle(path: &Path) -> RecordDecoder<Box<dyn std::io::Read>> {
    let name = path.to_string_lossy();
    let version = ["v1", "v2", "v3"]
        .iter()
        .position(|v| name.contains(v))
        .map_or(2, |v| v + 1);
    let file = fs::File::open(path).unwrap();
    let input: Box<dyn std::io::Read> = match is_packed(path) {
        true => Box::new(zstd::Decoder::new(file).unwrap()),
        false => Box::new(file),
    };
    // The oracle needs the version only for upgrades; each record states its length.
    RecordDecoder::with_version(input, version as u8, VersionUpgradePolicy::AsIs, false).unwrap()
}

fn compare_metadata(ours: &tidewire_dbn::Metadata, theirs: &dbn::Metadata) {
    assert_eq!(ours.version, theirs.version);
    assert_eq!(ours.dataset, theirs.dataset);
    assert_eq!(ours.schema, theirs.schema.map(|schema| schema as u16));
    assert_eq!(
        ours.schema_name(),
        theirs.schema.map(|schema| schema.as_str())
    );
    assert_eq!(ours.start_ns, theirs.start);
    assert_eq!(ours.end_ns, theirs.end.map(|end| end.get()));
    assert_eq!(ours.limit, theirs.limit.map(|limit| limit.get()));
    assert_eq!(ours.stype_in, theirs.stype_in.map(|stype| stype as u8));
    assert_eq!(ours.stype_out, theirs.stype_out as u8);
    assert_eq!(stype_name(ours.stype_out), Some(theirs.stype_out.as_str()));
    assert_eq!(ours.ts_out, theirs.ts_out);
    assert_eq!(usize::from(ours.symbol_length), theirs.symbol_cstr_len);
    assert_eq!(ours.symbols, theirs.symbols);
    assert_eq!(ours.partial, theirs.partial);
    assert_eq!(ours.not_found, theirs.not_found);
    assert_eq!(ours.mappings.len(), theirs.mappings.len());
    for (ours, theirs) in ours.mappings.iter().zip(&theirs.mappings) {
        assert_eq!(ours.raw_symbol, theirs.raw_symbol);
        assert_eq!(ours.intervals.len(), theirs.intervals.len());
        for (ours, theirs) in ours.intervals.iter().zip(&theirs.intervals) {
            let date = |date: &str| date.replace('-', "").parse::<u32>().unwrap();
            assert_eq!(ours.start_date, date(&theirs.start_date.to_string()));
            assert_eq!(ours.end_date, date(&theirs.end_date.to_string()));
            assert_eq!(ours.symbol, theirs.symbol);
        }
    }
}

/// Asserts that fields are equal: `ours.field == theirs.field`, or `theirs.their` if named.
macro_rules! same {
    ($ours:expr, $theirs:expr; $($field:ident $(: $their:ident)?),* $(,)?) => {
        $( assert_eq!($ours.$field, same!(@name $theirs, $field $(, $their)?)); )*
    };
    (@name $theirs:expr, $field:ident) => { $theirs.$field };
    (@name $theirs:expr, $field:ident, $their:ident) => { $theirs.$their };
}

fn compare_record(ours: &RecordRef<'_>, theirs: &dbn::RecordRef<'_>) {
    assert_eq!(ours.bytes(), theirs.as_ref());
    let (header, their) = (ours.header(), theirs.header());
    same!(header, their; rtype, publisher_id, instrument_id, ts_event);
    assert_eq!(ours.kind().name(), their.rtype().unwrap().as_str());
    assert_eq!(ours.ts_out(), None);
    match ours.decode() {
        Record::Mbo(ours) => {
            assert_eq!(ours.header, header);
            let theirs = theirs.get::<dbn::MboMsg>().unwrap();
            same!(ours, theirs; order_id, price, size, channel_id, ts_recv, ts_in_delta, sequence);
            assert_eq!(ours.flags, theirs.flags.raw());
            letters([ours.action, ours.side], [theirs.action, theirs.side]);
        }
        Record::Trade(ours) => compare_trade(&ours, theirs.get::<dbn::TradeMsg>().unwrap()),
        Record::Mbp1(ours) => {
            let theirs = theirs.get::<dbn::Mbp1Msg>().unwrap();
            compare_event(&ours.event, theirs);
            compare_level(&ours.top, &theirs.levels[0]);
            assert_eq!(ours.levels().collect::<Vec<_>>(), [ours.top]);
        }
        Record::Mbp10(ours) => {
            let theirs = theirs.get::<dbn::Mbp10Msg>().unwrap();
            same!(ours.event, theirs; price, size, depth, ts_recv, ts_in_delta, sequence);
            letters(
                [ours.event.action, ours.event.side],
                [theirs.action, theirs.side],
            );
            compare_level(&ours.top, &theirs.levels[0]);
            assert_eq!(ours.levels().len(), 10);
            for (ours, theirs) in ours.levels().zip(&theirs.levels) {
                compare_level(&ours, theirs);
            }
        }
        Record::Bbo(ours) => {
            let theirs = theirs.get::<dbn::BboMsg>().unwrap();
            same!(ours, theirs; price, size, ts_recv, sequence);
            assert_eq!(ours.flags, theirs.flags.raw());
            letters([ours.side], [theirs.side]);
            compare_level(&ours.top, &theirs.levels[0]);
        }
        Record::Consolidated(ours) => compare_consolidated(&ours, theirs),
        other => compare_reference(&other, theirs),
    }
}

fn compare_consolidated(ours: &tidewire_dbn::ConsolidatedRecord, theirs: &dbn::RecordRef<'_>) {
    let level = if let Some(theirs) = theirs.get::<dbn::Cmbp1Msg>() {
        same!(ours, theirs; price, size, ts_recv, ts_in_delta);
        letters([ours.action, ours.side], [theirs.action, theirs.side]);
        &theirs.levels[0]
    } else {
        let theirs = theirs.get::<dbn::CbboMsg>().unwrap();
        same!(ours, theirs; price, size, ts_recv);
        letters([ours.side], [theirs.side]);
        &theirs.levels[0]
    };
    same!(ours.top, level; bid: bid_px, ask: ask_px, bid_size: bid_sz, ask_size: ask_sz,
        bid_publisher: bid_pb, ask_publisher: ask_pb);
}

/// Compares records that are not prices of a book.
fn compare_reference(ours: &Record<'_>, theirs: &dbn::RecordRef<'_>) {
    match ours {
        Record::Ohlcv(ours) => {
            let theirs = theirs.get::<dbn::OhlcvMsg>().unwrap();
            same!(ours, theirs; open, high, low, close, volume);
        }
        Record::Status(ours) => {
            let theirs = theirs.get::<dbn::StatusMsg>().unwrap();
            same!(ours, theirs; ts_recv, action, reason, trading_event);
            letters(
                [
                    ours.is_trading,
                    ours.is_quoting,
                    ours.is_short_sell_restricted,
                ],
                [
                    theirs.is_trading,
                    theirs.is_quoting,
                    theirs.is_short_sell_restricted,
                ],
            );
        }
        Record::Imbalance(ours) => {
            let theirs = theirs.get::<dbn::ImbalanceMsg>().unwrap();
            same!(ours, theirs; ts_recv, reference_price: ref_price,
                indicative_match_price: ind_match_price, paired_size: paired_qty,
                imbalance_size: total_imbalance_qty);
            letters(
                [ours.auction_type, ours.side],
                [theirs.auction_type, theirs.side],
            );
        }
        Record::Statistics(ours) => {
            if let Ok(theirs) = theirs.try_get::<dbn::StatMsg>() {
                same!(ours, theirs; ts_recv, ts_reference: ts_ref, price, quantity, sequence,
                    statistic: stat_type, update_action, flags: stat_flags);
            } else {
                let theirs = dbn::v3::StatMsg::from(theirs.get::<dbn::v1::StatMsg>().unwrap());
                same!(ours, theirs; ts_recv, ts_reference: ts_ref, price, quantity, sequence,
                    statistic: stat_type, update_action, flags: stat_flags);
            }
        }
        Record::Definition(ours) => compare_definition(ours, theirs),
        other => panic!("no golden file has {other:?}"),
    }
}

macro_rules! same_definition {
    ($ours:expr, $theirs:expr) => {
        same!($ours, $theirs; ts_recv, min_price_increment, display_factor, expiration,
            activation, high_limit_price, low_limit_price, strike_price, min_lot_size,
            min_trade_volume: min_trade_vol, contract_multiplier, underlying_id);
        #[allow(clippy::unnecessary_cast, reason = "32 bits before version 3")]
        let raw_instrument_id = $theirs.raw_instrument_id as u64;
        assert_eq!($ours.raw_instrument_id, raw_instrument_id);
        assert_eq!($ours.currency, $theirs.currency().unwrap());
        assert_eq!($ours.raw_symbol, $theirs.raw_symbol().unwrap());
        assert_eq!($ours.group, $theirs.group().unwrap());
        assert_eq!($ours.exchange, $theirs.exchange().unwrap());
        assert_eq!($ours.asset, $theirs.asset().unwrap());
        assert_eq!($ours.security_type, $theirs.security_type().unwrap());
        assert_eq!($ours.underlying, $theirs.underlying().unwrap());
        assert_eq!($ours.instrument_class, $theirs.instrument_class as u8);
        assert_eq!($ours.security_update_action, $theirs.security_update_action as u8);
    };
}

fn compare_definition(ours: &tidewire_dbn::DefinitionRecord<'_>, theirs: &dbn::RecordRef<'_>) {
    if let Ok(theirs) = theirs.try_get::<dbn::v3::InstrumentDefMsg>() {
        same_definition!(ours, theirs);
    } else if let Ok(theirs) = theirs.try_get::<dbn::v2::InstrumentDefMsg>() {
        same_definition!(ours, theirs);
    } else {
        let theirs = theirs.get::<dbn::v1::InstrumentDefMsg>().unwrap();
        same_definition!(ours, theirs);
    }
}

fn compare_trade(ours: &tidewire_dbn::TradeRecord, theirs: &dbn::TradeMsg) {
    same!(ours, theirs; price, size, depth, ts_recv, ts_in_delta, sequence);
    assert_eq!(ours.flags, theirs.flags.raw());
    letters([ours.action, ours.side], [theirs.action, theirs.side]);
}

fn compare_event(ours: &tidewire_dbn::TradeRecord, theirs: &dbn::Mbp1Msg) {
    same!(ours, theirs; price, size, depth, ts_recv, ts_in_delta, sequence);
    assert_eq!(ours.flags, theirs.flags.raw());
    letters([ours.action, ours.side], [theirs.action, theirs.side]);
}

fn compare_level(ours: &BidAsk, theirs: &dbn::BidAskPair) {
    same!(ours, theirs; bid: bid_px, ask: ask_px, bid_size: bid_sz, ask_size: ask_sz,
        bid_orders: bid_ct, ask_orders: ask_ct);
}

fn letters<const N: usize>(ours: [u8; N], theirs: [std::ffi::c_char; N]) {
    assert_eq!(ours, theirs.map(|letter| letter as u8));
}

fn is_packed(path: &Path) -> bool {
    path.extension()
        .is_some_and(|extension| extension == "zst" || extension == "dbz")
}

fn is_fragment(path: &Path) -> bool {
    path.to_string_lossy().contains(".frag")
}

/// Returns Databento's test files; `None`, and prints a line, if they are missing.
fn golden_files() -> Option<Vec<PathBuf>> {
    let folder = std::env::var_os("TIDEWIRE_DATA").map_or_else(
        || PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/../../../shared/data")),
        PathBuf::from,
    );
    match fs::read_dir(folder.join("dbn")) {
        Ok(entries) => {
            let mut files: Vec<_> = entries.map(|entry| entry.unwrap().path()).collect();
            files.sort();
            Some(files)
        }
        Err(error) => {
            eprintln!("skipped: no golden files in {}: {error}", folder.display());
            None
        }
    }
}
