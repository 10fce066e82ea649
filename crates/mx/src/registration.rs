//! Registration of references (add item) and, over TCP, of the client.

use crate::cursor::{Input, Output};
use crate::encode::Encode;
use crate::envelope::EngineAddress;
use crate::error::{DecodeError, EncodeError};
use crate::guid::Guid;
use crate::handle::ReferenceHandle;
use crate::profile;
use crate::status::PackedStatus;
use crate::value::{DataType, Text, text};

/// A request for a reference to an attribute: sent by AddItem.
///
/// ```text
///  0   1       3              19          23   25    27               31
///  │cmd│version│correlation_id│item_handle│ ?  │gap 2│definition bytes│gap 24│
///  55
///  │definition …│0 × 8│context bytes│context …│0 × 19│subscribe│
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReferenceRequest<'a> {
    /// Version: 1.
    pub version: u16,
    /// The client's id of the item.
    pub item_correlation_id: Guid,
    /// The client's number for the item.
    pub item_handle: i32,
    /// The referenced attribute, such as `Tank1.Level` or `Tank1.Trend[3]`.
    pub definition: Text<'a>,
    /// The base of a relative definition; usually empty.
    pub context: Text<'a>,
    /// If not 0, updates come without an Advise, as in buffered subscriptions.
    pub subscribe: u8,
    /// Bytes of unknown meaning.
    pub gaps: RequestGaps,
}

/// The bytes of unknown meaning in a [`ReferenceRequest`]; all 0 in a new one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RequestGaps {
    /// At offset 23.
    pub at_23: [u8; 2],
    /// At offset 25.
    pub at_25: [u8; 2],
    /// At offset 31.
    pub at_31: [u8; 24],
    /// Between the two texts.
    pub between: [u8; 8],
    /// At the end, before the flag.
    pub tail: [u8; 19],
}

impl<'a> ReferenceRequest<'a> {
    /// Creates a request without context.
    pub fn new(item_correlation_id: Guid, item_handle: i32, definition: Text<'a>) -> Self {
        Self {
            version: profile::REGISTRATION_VERSION,
            item_correlation_id,
            item_handle,
            definition,
            context: Text::new(""),
            subscribe: 0,
            gaps: RequestGaps::default(),
        }
    }

    /// Decodes a request that fills `body`.
    ///
    /// # Errors
    /// Another opcode, or lengths that do not fit.
    pub fn decode(body: &'a [u8]) -> Result<Self, DecodeError> {
        let mut input = Input::new(body);
        expect(&mut input, profile::OPCODE_REFERENCE_REQUEST)?;
        let version = input.u16("version")?;
        let item_correlation_id = input.guid("item_correlation_id")?;
        let item_handle = input.i32("item_handle")?;
        let at_23 = *input.chunk("field at 23")?;
        let at_25 = *input.chunk("gap at 25")?;
        let length = input.u32("definition length")?;
        let at_31 = *input.chunk("gap at 31")?;
        let definition = input.take(length as usize, "definition")?;
        let definition = Text::from_utf16_le(definition).ok_or(odd("definition", length))?;
        let between = *input.chunk("gap between the texts")?;
        let context = counted(&mut input, "context")?;
        let tail = *input.chunk("tail")?;
        let subscribe = input.u8("subscribe")?;
        input.end("reference request")?;
        Ok(Self {
            version,
            item_correlation_id,
            item_handle,
            definition,
            context,
            subscribe,
            gaps: RequestGaps {
                at_23,
                at_25,
                at_31,
                between,
                tail,
            },
        })
    }
}

impl Encode for ReferenceRequest<'_> {
    fn encoded_len(&self) -> Result<usize, EncodeError> {
        let (definition, context) = (self.definition.wire_len(), self.context.wire_len());
        text::check(definition)?;
        text::check(context)?;
        Ok(55 + definition + 8 + 4 + context + 20)
    }

    fn put(&self, out: &mut Output<'_>) {
        let definition = self.definition.wire_len();
        out.put([profile::OPCODE_REFERENCE_REQUEST]);
        out.put(self.version.to_le_bytes());
        out.put(self.item_correlation_id.to_bytes());
        out.put(self.item_handle.to_le_bytes());
        out.put(self.gaps.at_23);
        out.put(self.gaps.at_25);
        out.put((definition as u32).to_le_bytes());
        out.put(self.gaps.at_31);
        self.definition.put_units(out, definition);
        out.put(self.gaps.between);
        text::put_counted(&self.context, out);
        out.put(self.gaps.tail);
        out.put([self.subscribe]);
    }
}

/// The result of a [`ReferenceRequest`].
///
/// ```text
///  0   1       3              19          23            27                 47
///  │cmd│version│correlation_id│item_handle│packed status│reference handle 20│
///  │definition bytes│definition …│mx_data_type│0 × 6│context bytes│context …│0 × 16│
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReferenceResult<'a> {
    /// Version: 1.
    pub version: u16,
    /// The client's id of the item.
    pub item_correlation_id: Guid,
    /// The client's number for the item.
    pub item_handle: i32,
    /// Whether the reference exists.
    pub status: PackedStatus,
    /// The handle of the attribute.
    pub handle: ReferenceHandle,
    /// The definition of the request.
    pub definition: Text<'a>,
    /// The attribute's type.
    pub data_type: DataType,
    /// The context of the request.
    pub context: Text<'a>,
    /// Bytes of unknown meaning; 0.
    pub gap: [u8; 6],
    /// The last bytes; 0.
    pub tail: [u8; 16],
}

impl<'a> ReferenceResult<'a> {
    /// Decodes a result that fills `body`.
    ///
    /// # Errors
    /// Another opcode, or lengths that do not fit.
    pub fn decode(body: &'a [u8]) -> Result<Self, DecodeError> {
        let mut input = Input::new(body);
        expect(&mut input, profile::OPCODE_REFERENCE_RESULT)?;
        let result = Self {
            version: input.u16("version")?,
            item_correlation_id: input.guid("item_correlation_id")?,
            item_handle: input.i32("item_handle")?,
            status: PackedStatus(input.u32("status")?),
            handle: ReferenceHandle::from_bytes(input.chunk("reference handle")?),
            definition: counted(&mut input, "definition")?,
            data_type: DataType::from_code(input.u16("mx_data_type")?),
            gap: *input.chunk("gap")?,
            context: counted(&mut input, "context")?,
            tail: *input.chunk("tail")?,
        };
        input.end("reference result")?;
        Ok(result)
    }
}

impl Encode for ReferenceResult<'_> {
    fn encoded_len(&self) -> Result<usize, EncodeError> {
        let (definition, context) = (self.definition.wire_len(), self.context.wire_len());
        text::check(definition)?;
        text::check(context)?;
        Ok(47 + 4 + definition + 2 + 6 + 4 + context + 16)
    }

    fn put(&self, out: &mut Output<'_>) {
        out.put([profile::OPCODE_REFERENCE_RESULT]);
        out.put(self.version.to_le_bytes());
        out.put(self.item_correlation_id.to_bytes());
        out.put(self.item_handle.to_le_bytes());
        out.put(self.status.0.to_le_bytes());
        out.put(self.handle.to_bytes());
        text::put_counted(&self.definition, out);
        out.put(self.data_type.code().to_le_bytes());
        out.put(self.gap);
        text::put_counted(&self.context, out);
        out.put(self.tail);
    }
}

/// Registers a client (Register). The platform has a service call instead of this message: these
/// bytes are Tidewire's own, on its TCP transport.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ClientRegister<'a> {
    /// Version: 1.
    pub version: u16,
    /// The client's name for itself.
    pub client_name: Text<'a>,
}

impl<'a> ClientRegister<'a> {
    /// Creates a registration with this name.
    pub const fn new(client_name: Text<'a>) -> Self {
        Self {
            version: profile::REGISTRATION_VERSION,
            client_name,
        }
    }

    /// Decodes a registration that fills `body`.
    ///
    /// # Errors
    /// Another opcode, or a length that does not fit.
    pub fn decode(body: &'a [u8]) -> Result<Self, DecodeError> {
        let mut input = Input::new(body);
        expect(&mut input, profile::OPCODE_CLIENT_REGISTER)?;
        let register = Self {
            version: input.u16("version")?,
            client_name: counted(&mut input, "client_name")?,
        };
        input.end("client register")?;
        Ok(register)
    }
}

impl Encode for ClientRegister<'_> {
    fn encoded_len(&self) -> Result<usize, EncodeError> {
        let name = self.client_name.wire_len();
        text::check(name)?;
        Ok(3 + 4 + name)
    }

    fn put(&self, out: &mut Output<'_>) {
        out.put([profile::OPCODE_CLIENT_REGISTER]);
        out.put(self.version.to_le_bytes());
        text::put_counted(&self.client_name, out);
    }
}

/// The answer to [`ClientRegister`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ClientRegistered {
    /// Version: 1.
    pub version: u16,
    /// Whether the registration is accepted.
    pub status: PackedStatus,
    /// The client's own engine address from now on.
    pub engine: EngineAddress,
}

impl ClientRegistered {
    /// Decodes an answer that fills `body`.
    ///
    /// # Errors
    /// Another opcode, or another length.
    pub fn decode(body: &[u8]) -> Result<Self, DecodeError> {
        let mut input = Input::new(body);
        expect(&mut input, profile::OPCODE_CLIENT_REGISTERED)?;
        let registered = Self {
            version: input.u16("version")?,
            status: PackedStatus(input.u32("status")?),
            engine: EngineAddress {
                galaxy_id: input.i32("galaxy_id")?,
                platform_id: input.i32("platform_id")?,
                engine_id: input.i32("engine_id")?,
            },
        };
        input.end("client registered")?;
        Ok(registered)
    }
}

impl Encode for ClientRegistered {
    fn encoded_len(&self) -> Result<usize, EncodeError> {
        Ok(19)
    }

    fn put(&self, out: &mut Output<'_>) {
        out.put([profile::OPCODE_CLIENT_REGISTERED]);
        out.put(self.version.to_le_bytes());
        out.put(self.status.0.to_le_bytes());
        out.put(self.engine.galaxy_id.to_le_bytes());
        out.put(self.engine.platform_id.to_le_bytes());
        out.put(self.engine.engine_id.to_le_bytes());
    }
}

/// Ends a registration (Unregister) and everything the client advised. Tidewire's own, like
/// [`ClientRegister`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ClientUnregister {
    /// Version: 1.
    pub version: u16,
}

impl ClientUnregister {
    /// Decodes an unregistration that fills `body`.
    ///
    /// # Errors
    /// Another opcode, or another length.
    pub fn decode(body: &[u8]) -> Result<Self, DecodeError> {
        let mut input = Input::new(body);
        expect(&mut input, profile::OPCODE_CLIENT_UNREGISTER)?;
        let version = input.u16("version")?;
        input.end("client unregister")?;
        Ok(Self { version })
    }
}

impl Encode for ClientUnregister {
    fn encoded_len(&self) -> Result<usize, EncodeError> {
        Ok(3)
    }

    fn put(&self, out: &mut Output<'_>) {
        out.put([profile::OPCODE_CLIENT_UNREGISTER]);
        out.put(self.version.to_le_bytes());
    }
}

/// Returns the definition of a buffered reference, whose changes arrive in batches.
#[cfg(feature = "alloc")]
pub fn buffered_definition(definition: &str) -> alloc::string::String {
    alloc::format!("{definition}{}", profile::BUFFER_PROPERTY)
}

/// Returns the interval that the platform uses for a requested one: rounded up to a multiple of
/// 100 ms, at least 100 ms.
pub const fn buffer_interval_ms(asked_ms: u32) -> u32 {
    let steps = asked_ms.div_ceil(profile::BUFFER_INTERVAL_MS);
    let steps = if steps == 0 { 1 } else { steps };
    steps.saturating_mul(profile::BUFFER_INTERVAL_MS)
}

fn expect(input: &mut Input<'_>, wanted: u8) -> Result<(), DecodeError> {
    match input.u8("opcode")? {
        opcode if opcode == wanted => Ok(()),
        opcode => Err(DecodeError::Opcode { opcode }),
    }
}

fn counted<'a>(input: &mut Input<'a>, field: &'static str) -> Result<Text<'a>, DecodeError> {
    let length = input.u32(field)?;
    let bytes = input.take(length as usize, field)?;
    Text::from_utf16_le(bytes).ok_or(odd(field, length))
}

fn odd(field: &'static str, length: u32) -> DecodeError {
    DecodeError::Length {
        field,
        length: i64::from(length),
    }
}
