//! Subscription status and data updates: the messages that carry values.

use core::fmt;

use crate::cursor::{Input, Output};
use crate::encode::Encode;
use crate::error::{DecodeError, EncodeError};
use crate::guid::Guid;
use crate::profile;
use crate::status::{PackedStatus, Quality};
use crate::time::FileTime;
use crate::value::Value;

/// Values of one subscription.
///
/// ```text
///  0   1       3                7            23
///  │cmd│version│record_count i32│operation_id│ records …                        DataUpdate
///  │cmd│version│record_count i32│operation_id│item_correlation_id│ records …    SubscriptionStatus
/// ```
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct SubscriptionMessage<'a> {
    /// Status or update.
    pub kind: SubscriptionKind,
    /// Version: 1.
    pub version: u16,
    /// The platform's id of the subscription.
    pub operation_id: Guid,
    /// The values.
    pub records: Records<'a>,
}

/// The kind of a subscription message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SubscriptionKind {
    /// The status of a subscription, with the item of its updates.
    Status {
        /// The client's id of the item.
        item_correlation_id: Guid,
    },
    /// New values.
    Update,
}

/// One value with its quality, time and status.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Record<'a> {
    /// The status, in a status message.
    pub status: Option<RecordStatus>,
    /// The reliability of the value.
    pub quality: Quality,
    /// The time of measurement.
    pub time: FileTime,
    /// The value.
    pub value: Value<'a>,
}

/// The status of a subscription.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RecordStatus {
    /// The status, decoded as a packed MxStatus.
    pub status: PackedStatus,
    /// A second word of unknown meaning; a DataUpdate has none.
    pub detail_status: i32,
}

impl<'a> SubscriptionMessage<'a> {
    /// Decodes a message. Its records are decoded one by one, on demand.
    ///
    /// # Errors
    /// Another opcode, too few bytes for the fields before the records, or more records than the
    /// bytes can hold.
    #[inline]
    pub fn decode(body: &'a [u8]) -> Result<Self, DecodeError> {
        let mut input = Input::new(body);
        let opcode = input.u8("opcode")?;
        let version = input.u16("version")?;
        let count = input.i32("record_count")?;
        let operation_id = input.guid("operation_id")?;
        let kind = match opcode {
            profile::OPCODE_DATA_UPDATE => SubscriptionKind::Update,
            profile::OPCODE_SUBSCRIPTION_STATUS => SubscriptionKind::Status {
                item_correlation_id: input.guid("item_correlation_id")?,
            },
            opcode => return Err(DecodeError::Opcode { opcode }),
        };
        let layout = Layout::of(&kind);
        let bytes = input.rest();
        let records = match usize::try_from(count) {
            Ok(records) if records <= bytes.len() / layout.record_bytes_min() => records as u32,
            _ => {
                return Err(DecodeError::RecordCount {
                    count,
                    bytes: bytes.len(),
                });
            }
        };
        Ok(Self {
            kind,
            version,
            operation_id,
            records: Records(Repr::Wire {
                count: records,
                bytes,
                layout,
            }),
        })
    }

    /// Creates a message with the caller's records; those of a status message should have a
    /// status.
    pub const fn new(
        kind: SubscriptionKind,
        operation_id: Guid,
        records: &'a [Record<'a>],
    ) -> Self {
        Self {
            kind,
            version: profile::SUBSCRIPTION_VERSION,
            operation_id,
            records: Records(Repr::Slice(records)),
        }
    }

    /// Returns the first byte of the encoded message.
    pub const fn opcode(&self) -> u8 {
        match self.kind {
            SubscriptionKind::Status { .. } => profile::OPCODE_SUBSCRIPTION_STATUS,
            SubscriptionKind::Update => profile::OPCODE_DATA_UPDATE,
        }
    }
}

impl Encode for SubscriptionMessage<'_> {
    #[inline]
    fn encoded_len(&self) -> Result<usize, EncodeError> {
        let header = match self.kind {
            SubscriptionKind::Status { .. } => 39,
            SubscriptionKind::Update => 23,
        };
        Ok(header + self.records.encoded_len(Layout::of(&self.kind))?)
    }

    #[inline]
    fn put(&self, out: &mut Output<'_>) {
        let mut preamble = [0; 23];
        preamble[0] = self.opcode();
        preamble[1..3].copy_from_slice(&self.version.to_le_bytes());
        preamble[3..7].copy_from_slice(&(self.records.len() as i32).to_le_bytes());
        preamble[7..].copy_from_slice(&self.operation_id.to_bytes());
        out.put(preamble);
        if let SubscriptionKind::Status {
            item_correlation_id,
        } = self.kind
        {
            out.put(item_correlation_id.to_bytes());
        }
        self.records.put(out, Layout::of(&self.kind));
    }
}

/// The records of a message: from the caller, or still encoded in a received message.
#[derive(Clone, Copy)]
pub struct Records<'a>(Repr<'a>);

#[derive(Clone, Copy)]
enum Repr<'a> {
    Slice(&'a [Record<'a>]),
    Wire {
        count: u32,
        bytes: &'a [u8],
        layout: Layout,
    },
}

impl<'a> Records<'a> {
    /// Returns the announced number of records.
    pub const fn len(&self) -> usize {
        match self.0 {
            Repr::Slice(records) => records.len(),
            Repr::Wire { count, .. } => count as usize,
        }
    }

    /// Returns whether there is no record.
    pub const fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Iterates over the records in order. Ends after an error, or after a raw value, whose end
    /// is unknown.
    #[inline]
    pub fn iter(&self) -> RecordsIter<'a> {
        match self.0 {
            Repr::Slice(records) => RecordsIter {
                slice: records.iter(),
                left: 0,
                input: Input::new(&[]),
                layout: Layout::Update,
            },
            Repr::Wire {
                count,
                bytes,
                layout,
            } => RecordsIter {
                slice: [].iter(),
                left: count,
                input: Input::new(bytes),
                layout,
            },
        }
    }

    fn encoded_len(&self, layout: Layout) -> Result<usize, EncodeError> {
        match self.0 {
            Repr::Wire { bytes, .. } => Ok(bytes.len()),
            Repr::Slice(records) => {
                if i32::try_from(records.len()).is_err() {
                    return Err(EncodeError::TooManyElements {
                        count: records.len(),
                    });
                }
                records.iter().try_fold(0, |sum: usize, record| {
                    let value = record.value.encoded_len()?;
                    Ok(sum.saturating_add(layout.record_bytes_min() + value))
                })
            }
        }
    }

    #[inline]
    fn put(&self, out: &mut Output<'_>, layout: Layout) {
        match self.0 {
            Repr::Wire { bytes, .. } => out.put_slice(bytes),
            Repr::Slice(records) => records.iter().for_each(|record| record.put(out, layout)),
        }
    }
}

impl PartialEq for Records<'_> {
    fn eq(&self, other: &Self) -> bool {
        self.len() == other.len() && self.iter().eq(other.iter())
    }
}

impl fmt::Debug for Records<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.iter()).finish()
    }
}

/// Iterator of [`Records::iter`].
#[derive(Clone, Debug)]
pub struct RecordsIter<'a> {
    slice: core::slice::Iter<'a, Record<'a>>,
    left: u32,
    input: Input<'a>,
    layout: Layout,
}

impl RecordsIter<'_> {
    /// Returns the number of announced records not returned yet. At the end these are the records
    /// that could not be found after a raw value or an error.
    pub fn left(&self) -> usize {
        self.left as usize + self.slice.len()
    }
}

impl<'a> Iterator for RecordsIter<'a> {
    type Item = Result<Record<'a>, DecodeError>;

    #[inline]
    fn next(&mut self) -> Option<Self::Item> {
        if let Some(record) = self.slice.next() {
            return Some(Ok(*record));
        }
        if self.left == 0 || self.input.len() == 0 {
            return None;
        }
        self.left -= 1;
        let record = Record::decode(&mut self.input, self.layout);
        if record.is_err() {
            self.input.rest();
        }
        Some(record)
    }
}

impl<'a> Record<'a> {
    #[inline]
    fn decode(input: &mut Input<'a>, layout: Layout) -> Result<Self, DecodeError> {
        let status = match layout {
            Layout::Update if !profile::DATA_UPDATE_HAS_STATUS => None,
            Layout::Update => Some(RecordStatus {
                status: PackedStatus(input.u32("status")?),
                detail_status: 0,
            }),
            Layout::Status => Some(RecordStatus {
                status: PackedStatus(input.u32("status")?),
                detail_status: input.i32("detail_status")?,
            }),
        };
        let quality = Quality(input.u16("quality")?);
        let time = FileTime(input.i64("time")?);
        let kind = input.u8("wire_kind")?;
        Ok(Self {
            status,
            quality,
            time,
            value: Value::decode(kind, input),
        })
    }

    #[inline]
    fn put(&self, out: &mut Output<'_>, layout: Layout) {
        let status = self.status.unwrap_or_default();
        match layout {
            Layout::Update if !profile::DATA_UPDATE_HAS_STATUS => {}
            Layout::Update => out.put(status.status.0.to_le_bytes()),
            Layout::Status => {
                out.put(status.status.0.to_le_bytes());
                out.put(status.detail_status.to_le_bytes());
            }
        }
        let mut head = [0; 11];
        head[..2].copy_from_slice(&self.quality.0.to_le_bytes());
        head[2..10].copy_from_slice(&self.time.0.to_le_bytes());
        head[10] = self.value.wire_kind();
        out.put(head);
        self.value.put(out);
    }
}

/// The fields before a record's quality.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Layout {
    Status,
    Update,
}

impl Layout {
    #[inline]
    const fn of(kind: &SubscriptionKind) -> Self {
        match kind {
            SubscriptionKind::Status { .. } => Self::Status,
            SubscriptionKind::Update => Self::Update,
        }
    }

    /// Returns the bytes of a record without a value.
    #[inline]
    const fn record_bytes_min(self) -> usize {
        let status = match self {
            Self::Status => 8,
            Self::Update if profile::DATA_UPDATE_HAS_STATUS => 4,
            Self::Update => 0,
        };
        status + 2 + 8 + 1
    }
}
