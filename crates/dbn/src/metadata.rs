//! The metadata before the records: the query they answer, and its symbols.

use std::fmt;

use super::{SYMBOL_LENGTH_MAX, UNDEFINED_TIME};

/// The beginning of a DBN file or stream.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Metadata {
    /// DBN version of the records that follow: 1, 2 or 3; 0 for a legacy DBZ file.
    pub version: u8,
    /// Dataset code, such as `GLBX.MDP3`.
    pub dataset: String,
    /// Schema number; `None` if the stream may mix schemas. See [`Metadata::schema_name`].
    pub schema: Option<u16>,
    /// Start of the query, nanoseconds since the UNIX epoch.
    pub start_ns: u64,
    /// End of the query, nanoseconds since the UNIX epoch; `None` for an open end.
    pub end_ns: Option<u64>,
    /// Maximum number of records requested; `None` for all.
    pub limit: Option<u64>,
    /// Symbology of the query's symbols; `None` for a mix. See [`stype_name`].
    pub stype_in: Option<u8>,
    /// Symbology the symbols were mapped to; 0 is the instrument id.
    pub stype_out: u8,
    /// Whether each record has its send time in eight more bytes.
    pub ts_out: bool,
    /// Bytes of a fixed symbol string in the records: 22 or 71.
    pub symbol_length: u16,
    /// Symbols of the query.
    pub symbols: Vec<String>,
    /// Symbols that did not resolve for part of the time.
    pub partial: Vec<String>,
    /// Symbols that did not resolve at all.
    pub not_found: Vec<String>,
    /// The mappings of each symbol, by date.
    pub mappings: Vec<SymbolMapping>,
}

/// The mappings of one symbol.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SymbolMapping {
    /// The symbol, in the symbology `stype_in`.
    pub raw_symbol: String,
    /// The mapped symbols, by date.
    pub intervals: Vec<MappingInterval>,
}

/// The mapping of a symbol for a range of days.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MappingInterval {
    /// First UTC day, as the number `YYYYMMDD`.
    pub start_date: u32,
    /// First UTC day after the range, as the number `YYYYMMDD`.
    pub end_date: u32,
    /// The symbol in the symbology `stype_out`.
    pub symbol: String,
}

/// A fault in a stream's metadata.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum MetadataFault {
    /// A count or string reaches past the metadata's end.
    PastEnd,
    /// A string is not UTF-8.
    NotUtf8,
    /// A fixed symbol length below 22 or above [`SYMBOL_LENGTH_MAX`].
    SymbolLength,
    /// A schema definition: reserved by all versions, never used.
    SchemaDefinition,
}

impl Metadata {
    /// Returns Databento's name of the schema; `None` if the stream may mix schemas or the number
    /// is unknown.
    pub fn schema_name(&self) -> Option<&'static str> {
        SCHEMAS.get(usize::from(self.schema?)).copied()
    }
}

/// Returns Databento's name of a symbology number.
pub fn stype_name(stype: u8) -> Option<&'static str> {
    STYPES.get(usize::from(stype)).copied()
}

impl fmt::Display for MetadataFault {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(match self {
            Self::PastEnd => "a count or string reaches over the metadata's end",
            Self::NotUtf8 => "a string is not UTF-8",
            Self::SymbolLength => "symbol length outside 22 to 255",
            Self::SchemaDefinition => "schema definitions are not supported",
        })
    }
}

/// Decodes the metadata after the prelude. An error carries the offset in `body`.
pub(super) fn decode(version: u8, body: &[u8]) -> Result<Metadata, (usize, MetadataFault)> {
    let mut fields = Fields { body, offset: 0 };
    fields.read(version).map_err(|fault| (fields.offset, fault))
}

/// Decodes the variable part of a DBZ file's metadata into `metadata`.
pub(super) fn decode_symbology(
    body: &[u8],
    metadata: &mut Metadata,
) -> Result<(), (usize, MetadataFault)> {
    let mut fields = Fields { body, offset: 0 };
    fields
        .read_symbology(metadata)
        .map_err(|fault| (fields.offset, fault))
}

/// Decodes the fixed part of a DBZ file's metadata, after its magic number.
pub(super) fn decode_dbz_fixed(body: &[u8]) -> Result<Metadata, (usize, MetadataFault)> {
    let mut fields = Fields { body, offset: 0 };
    fields
        .read_dbz_fixed()
        .map_err(|fault| (fields.offset, fault))
}

/// Magic number, version and length.
pub(super) const PRELUDE_LENGTH: usize = 8;
/// Bytes before the symbol lists, the same in all three versions.
pub(super) const FIXED_LENGTH: u32 = 100;
/// Bytes of a fixed symbol string in version 1 and DBZ.
const SYMBOL_LENGTH_V1: u16 = 22;
const DATASET_LENGTH: usize = 16;
const NULL_SCHEMA: u16 = u16::MAX;
const NULL_STYPE: u8 = u8::MAX;

struct Fields<'a> {
    body: &'a [u8],
    /// Start of the current field; after an error, of the faulty field.
    offset: usize,
}

impl<'a> Fields<'a> {
    fn read(&mut self, version: u8) -> Result<Metadata, MetadataFault> {
        let mut metadata = self.read_query()?;
        metadata.version = version;
        if version == 1 {
            self.take(8)?; // record count, deprecated
        }
        metadata.stype_in = Some(self.u8()?).filter(|&stype| stype != NULL_STYPE);
        metadata.stype_out = self.u8()?;
        metadata.ts_out = self.u8()? != 0;
        if version > 1 {
            let length = self.u16()?;
            if !(SYMBOL_LENGTH_V1..=SYMBOL_LENGTH_MAX).contains(&length) {
                self.offset -= 2;
                return Err(MetadataFault::SymbolLength);
            }
            metadata.symbol_length = length;
        }
        self.offset = FIXED_LENGTH as usize; // the rest is reserved
        self.read_symbology(&mut metadata)?;
        Ok(metadata)
    }

    fn read_dbz_fixed(&mut self) -> Result<Metadata, MetadataFault> {
        let mut metadata = self.read_query()?;
        metadata.end_ns = metadata.end_ns.filter(|&end_ns| end_ns != 0);
        self.take(8 + 1)?; // record count, compression
        metadata.stype_in = Some(self.u8()?);
        metadata.stype_out = self.u8()?;
        Ok(metadata)
    }

    /// Reads the fields from dataset to limit, the same in every version.
    fn read_query(&mut self) -> Result<Metadata, MetadataFault> {
        Ok(Metadata {
            version: 0,
            dataset: self.string(DATASET_LENGTH)?,
            schema: Some(self.u16()?).filter(|&schema| schema != NULL_SCHEMA),
            start_ns: self.u64()?,
            end_ns: Some(self.u64()?).filter(|&end| end != UNDEFINED_TIME && end != 0),
            limit: Some(self.u64()?).filter(|&limit| limit != 0),
            stype_in: None,
            stype_out: 0,
            ts_out: false,
            symbol_length: SYMBOL_LENGTH_V1,
            symbols: Vec::new(),
            partial: Vec::new(),
            not_found: Vec::new(),
            mappings: Vec::new(),
        })
    }

    fn read_symbology(&mut self, metadata: &mut Metadata) -> Result<(), MetadataFault> {
        let length = usize::from(metadata.symbol_length);
        if self.u32()? != 0 {
            self.offset -= 4;
            return Err(MetadataFault::SchemaDefinition);
        }
        metadata.symbols = self.list(length, |fields| fields.string(length))?;
        metadata.partial = self.list(length, |fields| fields.string(length))?;
        metadata.not_found = self.list(length, |fields| fields.string(length))?;
        metadata.mappings = self.list(length + 4, |fields| {
            Ok(SymbolMapping {
                raw_symbol: fields.string(length)?,
                intervals: fields.list(length + 8, |fields| {
                    Ok(MappingInterval {
                        start_date: fields.u32()?,
                        end_date: fields.u32()?,
                        symbol: fields.string(length)?,
                    })
                })?,
            })
        })?;
        Ok(())
    }

    /// Reads a counted list. Allocates room for no more items than the remaining bytes can hold.
    fn list<T>(
        &mut self,
        item_length_min: usize,
        mut item: impl FnMut(&mut Self) -> Result<T, MetadataFault>,
    ) -> Result<Vec<T>, MetadataFault> {
        let count = self.u32()? as usize;
        if count > (self.body.len() - self.offset) / item_length_min {
            self.offset -= 4;
            return Err(MetadataFault::PastEnd);
        }
        let mut items = Vec::with_capacity(count);
        for _ in 0..count {
            items.push(item(self)?);
        }
        Ok(items)
    }

    fn string(&mut self, length: usize) -> Result<String, MetadataFault> {
        let start = self.offset;
        let bytes = self.take(length)?;
        let end = bytes.iter().position(|&byte| byte == 0).unwrap_or(length);
        match str::from_utf8(&bytes[..end]) {
            Ok(text) => Ok(text.to_owned()),
            Err(_) => {
                self.offset = start;
                Err(MetadataFault::NotUtf8)
            }
        }
    }

    fn u8(&mut self) -> Result<u8, MetadataFault> {
        Ok(u8::from_le_bytes(self.array()?))
    }

    fn u16(&mut self) -> Result<u16, MetadataFault> {
        Ok(u16::from_le_bytes(self.array()?))
    }

    fn u32(&mut self) -> Result<u32, MetadataFault> {
        Ok(u32::from_le_bytes(self.array()?))
    }

    fn u64(&mut self) -> Result<u64, MetadataFault> {
        Ok(u64::from_le_bytes(self.array()?))
    }

    fn array<const N: usize>(&mut self) -> Result<[u8; N], MetadataFault> {
        let rest = self.body.get(self.offset..).unwrap_or_default();
        let array = rest.first_chunk::<N>().ok_or(MetadataFault::PastEnd)?;
        self.offset += N;
        Ok(*array)
    }

    fn take(&mut self, length: usize) -> Result<&'a [u8], MetadataFault> {
        let rest = self.body.get(self.offset..).unwrap_or_default();
        let bytes = rest.get(..length).ok_or(MetadataFault::PastEnd)?;
        self.offset += length;
        Ok(bytes)
    }
}

const SCHEMAS: [&str; 20] = [
    "mbo",
    "mbp-1",
    "mbp-10",
    "tbbo",
    "trades",
    "ohlcv-1s",
    "ohlcv-1m",
    "ohlcv-1h",
    "ohlcv-1d",
    "definition",
    "statistics",
    "status",
    "imbalance",
    "ohlcv-eod",
    "cmbp-1",
    "cbbo-1s",
    "cbbo-1m",
    "tcbbo",
    "bbo-1s",
    "bbo-1m",
];

const STYPES: [&str; 16] = [
    "instrument_id",
    "raw_symbol",
    "smart",
    "continuous",
    "parent",
    "nasdaq_symbol",
    "cms_symbol",
    "isin",
    "us_code",
    "bbg_comp_id",
    "bbg_comp_ticker",
    "figi",
    "figi_ticker",
    "listing_id",
    "issuer_id",
    "security_id",
];
