//! Requests that run on their key's entry alone, one after the other. What is the same for all of
//! them is checked once.

use tidewire_keyspace::Command;
use tidewire_lane::Context;
use tidewire_resp::Writer;

use super::pipeline::Request;
use super::top::note_key;
use super::{LONG_INPUT_BYTES, State};
use crate::attention::Obstacles;
use crate::parts::Room;
use crate::server::Server;
use crate::statistics::Slot;

impl State {
    /// Executes requests of `input` as long as each is [direct](Command::is_direct) and nothing
    /// needs more; returns how many that were. What it leaves is for [`execute`](Self::execute).
    #[inline]
    pub(super) fn execute_directly(
        &mut self,
        server: &Server,
        context: &mut Context,
        requests: &[Request],
        input: &[u8],
        pause_bytes: usize,
    ) -> usize {
        let first = requests.first().and_then(Request::direct);
        if first.is_none()
            || !self.is_plain(server, context.lane())
            || !has_room(server, context, input)
        {
            return 0;
        }
        let (lane, now_ns) = (context.lane(), context.now_ns());
        let now_ms = (context.unix_ns() / 1_000_000) as i64;
        let (database, protocol) = (self.database, self.protocol);
        let Some(out) = context.out(self.id) else {
            return 0;
        };
        let mut counted: Option<(&'static Command, &Slot)> = None;
        let mut done = 0;
        for request in requests {
            let Some(command) = request.direct() else {
                break;
            };
            let slot = match counted {
                Some((last, slot)) if std::ptr::eq(last, command) => slot,
                _ => server.statistics.of(lane, command),
            };
            counted = Some((command, slot));
            // One in a few is timed, which is done elsewhere.
            if slot.is_timed() || out.len() > pause_bytes {
                break;
            }
            let arguments = request.arguments(input);
            let before = match cfg!(debug_assertions) {
                true => out.buffer().len(),
                false => 0,
            };
            let mut reply = Writer::new(out.buffer(), protocol);
            let keyspace = &server.keyspace;
            let hash = request.first_key;
            if !keyspace.execute_directly(command, hash, arguments, database, now_ms, &mut reply) {
                debug_assert_eq!(
                    out.buffer().len(),
                    before,
                    "a request that is left to the ordinary path has no reply yet"
                );
                break;
            }
            debug_assert!(
                out.buffer().len() > before,
                "each direct request has its reply"
            );
            slot.called();
            if self.is_sampled() {
                note_key(server, lane, now_ns, database, command, arguments);
            }
            self.last_command = Some(command);
            done += 1;
        }
        self.asks_for_keys |= done > 0;
        done
    }

    /// Whether nothing stands between a request and its execution, memory apart. What other lanes
    /// change here is seen with the next few requests.
    #[inline]
    fn is_plain(&self, server: &Server, lane: usize) -> bool {
        let obstacles = self.obstacles(server);
        obstacles.without(Obstacles::MEMORY_LIMITED).is_none() && server.scripting.rights.has(lane)
    }
}

/// Whether `maxmemory` lets a few requests more be executed, which may store what is in `input`.
#[inline]
fn has_room(server: &Server, context: &mut Context, input: &[u8]) -> bool {
    !server.parameters.limits_memory()
        || (input.len() <= LONG_INPUT_BYTES && server.make_room(context) != Room::Full)
}
