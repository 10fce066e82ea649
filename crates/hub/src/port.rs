//! Tags of the hub's listeners and outgoing connections.

use tidewire_redis::RESP_PORT;

/// Redis clients.
pub const RESP: u16 = RESP_PORT;
/// ZeroMQ subscribers.
pub const ZMQ_PUBLISH: u16 = 2;
/// ZeroMQ pushers.
pub const ZMQ_PULL: u16 = 3;
/// Native feed clients and publishers.
pub const FEED: u16 = 4;
/// Outgoing connections to native feeds.
pub(crate) const SOURCE: u16 = 5;
/// ZeroMQ peers that request values.
pub const ZMQ_ROUTER: u16 = 6;
/// Clients of the Databento gateway.
pub const DATABENTO: u16 = 7;
/// The outgoing connection to a plant.
pub(crate) const PLANT: u16 = 8;
/// Web pages, and programs that speak their protocol.
pub const WEB: u16 = 10;
/// Our end of the connection from a page's session to its Redis session.
pub(crate) const WEB_CALLS: u16 = 11;
/// HTTP clients of the admin port, which is not served by the lanes.
pub const ADMIN: u16 = 9;
