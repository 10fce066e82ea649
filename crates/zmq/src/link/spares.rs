//! Buffers for what is read, shared by the connections of a socket.

/// Buffers of connections that have nothing in them, kept for those that read next.
///
/// A connection has a buffer from a read until all that the read brought is decoded. So peers that
/// are silent hold none. Neither their number nor what they have sent before matters.
#[derive(Debug)]
pub(crate) struct Spares {
    buffers: Vec<Vec<u8>>,
    /// The lengths of all of them.
    bytes: usize,
    /// The rooms of a WebSocket's filter: for what is received, and for the ZMTP in it.
    pub(super) filter_rooms: [Vec<u8>; 2],
}

impl Spares {
    pub(crate) const fn new() -> Spares {
        Spares {
            buffers: Vec::new(),
            bytes: 0,
            filter_rooms: [Vec::new(), Vec::new()],
        }
    }

    /// Returns a buffer of [`FIRST_BYTES`] or more, with any bytes in it.
    #[inline]
    pub(super) fn take(&mut self) -> Vec<u8> {
        match self.buffers.pop() {
            Some(buffer) => {
                self.bytes -= buffer.len();
                buffer
            }
            None => vec![0; FIRST_BYTES],
        }
    }

    /// Keeps a buffer, or frees it if enough are kept.
    #[inline]
    pub(super) fn give(&mut self, buffer: Vec<u8>) {
        if buffer.len() >= FIRST_BYTES && self.bytes + buffer.len() <= KEPT_BYTES_MAX {
            self.bytes += buffer.len();
            self.buffers.push(buffer);
        }
    }

    /// Frees most of them: the program does not receive at the moment.
    pub(crate) fn shrink(&mut self) {
        while self.bytes > KEPT_IDLE_BYTES_MAX {
            drop(self.take());
        }
        debug_assert!(
            self.bytes > 0 || self.buffers.is_empty(),
            "no buffer is empty"
        );
    }
}

/// What a connection's buffer begins with.
pub(super) const FIRST_BYTES: usize = 8 << 10;
/// As much as one look at the network fills: 32 peers that send without a pause have 128 KiB each.
const KEPT_BYTES_MAX: usize = 4 << 20;
/// What stays while the program does not receive: for one peer.
const KEPT_IDLE_BYTES_MAX: usize = 128 << 10;

#[cfg(test)]
mod tests {
    use super::{FIRST_BYTES, KEPT_BYTES_MAX, KEPT_IDLE_BYTES_MAX, Spares};
    use crate::peer::Link;
    use crate::{Context, Error, SendFlags, Socket, SocketType};

    #[test]
    fn a_buffer_comes_back_and_too_many_are_freed() {
        let mut spares = Spares::new();
        let mut one = spares.take();
        assert_eq!(one.len(), FIRST_BYTES);
        one.resize(4 * FIRST_BYTES, 1);
        let at = one.as_ptr();
        spares.give(one);
        let again = spares.take();
        assert_eq!((again.len(), again.as_ptr()), (4 * FIRST_BYTES, at));
        assert_eq!(spares.bytes, 0);
        for _ in 0..1_000 {
            spares.give(vec![0; 4 * FIRST_BYTES]);
        }
        assert_eq!(spares.bytes, KEPT_BYTES_MAX);
        spares.shrink();
        assert_eq!(spares.bytes, KEPT_IDLE_BYTES_MAX);
        assert_eq!(spares.buffers.len(), 4);
    }

    fn sockets<const COUNT: usize>(context: &Context, kind: SocketType) -> [Socket; COUNT] {
        std::array::from_fn(|_| context.socket(kind).unwrap())
    }

    /// Each of 10,000 silent peers had a buffer of 8 KiB, or of what it had once filled.
    #[test]
    fn peers_that_are_silent_hold_no_buffers() {
        let context = Context::new();
        for endpoint in [
            "tcp://127.0.0.1:*",
            "ipc://*",
            "shm://*",
            "ws://127.0.0.1:*",
        ] {
            let [router] = sockets(&context, SocketType::Router);
            router.bind(endpoint).unwrap();
            let place = router.last_endpoint().unwrap();
            let dealers: [_; 8] = sockets(&context, SocketType::Dealer);
            for dealer in &dealers {
                dealer.connect(&place).unwrap();
            }
            for length in [1, 300, 20_000, 300_000] {
                let body = vec![7; length];
                for dealer in &dealers {
                    let last = SendFlags::default();
                    dealer.send_bytes(&body, last).unwrap();
                }
                for _ in &dealers {
                    assert!(router.receive(false).unwrap().more());
                    assert_eq!(router.receive(false).unwrap().as_slice(), body);
                }
            }
            assert_eq!(router.receive(true).err(), Some(Error::Again));
            let mut state = router.core().lock();
            let keys = state.peers.keys();
            assert_eq!(keys.len(), dealers.len());
            for key in keys {
                let Some(Link::Stream(link)) = state.peers.get_mut(key).map(|peer| &mut peer.link)
                else {
                    panic!("{endpoint}: a peer without a connection");
                };
                assert_eq!(link.buffer_bytes(), 0, "{endpoint}");
            }
            assert!(state.spares.bytes > 0 && state.spares.bytes <= KEPT_BYTES_MAX);
        }
    }
}
