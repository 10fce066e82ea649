//! WebSocket (RFC 6455): the upgrade of an HTTP connection, and the headers of its frames.

mod accept;
pub use accept::{accept_of, base64};

mod frame;
pub use frame::{CONTROL_BYTES_MAX, FrameHead, MalformedFrame, Opcode, mask};

mod origin;
pub use origin::{InvalidOrigin, Origins};

mod receiver;
pub use receiver::{CloseCode, Message, Receiver, write_close, write_message};

mod upgrade;
pub use upgrade::{
    accept_upgrade, is_response, may_become_request, may_become_response, request, response_to,
};
