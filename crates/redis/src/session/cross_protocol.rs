//! Cross-protocol scripting: a browser that is made to send HTTP here, with commands in its body.

use tidewire_lane::CloseReason;

use super::{Call, State};
use tidewire_retry::Seldom;

/// Whether a word that is no command is how a line of HTTP begins that a browser cannot leave out.
fn is_http(word: &[u8]) -> bool {
    word.eq_ignore_ascii_case(b"post") || word.eq_ignore_ascii_case(b"host:")
}

impl State {
    /// Whether a word that is no command is how a line of HTTP begins.
    pub(super) fn is_cross_protocol(word: &[u8]) -> bool {
        is_http(word)
    }

    /// Ends the connection: nothing behind the line is executed, and there is no reply.
    #[cold]
    pub(super) fn end_cross_protocol(&mut self, call: &mut Call<'_>) {
        if let Some(left_out) = TOLD.note(call.context.unix_ns() / 1_000_000_000) {
            tracing::warn!(
                left_out,
                "Possible SECURITY ATTACK detected. It looks like somebody is sending POST or \
                 Host: commands to Redis. This is likely due to an attacker attempting to use \
                 Cross Protocol Scripting to compromise your Redis instance. Connection from {} \
                 aborted.",
                self.client.address
            );
        }
        call.context.close(self.id, CloseReason::Requested);
        self.set_closing();
    }
}

/// Redis logs it as seldom.
static TOLD: Seldom = Seldom::new(1, 60);
