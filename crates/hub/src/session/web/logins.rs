//! Logins of web pages: cookies, and limits on failed attempts.

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::Arc;

use parking_lot::Mutex;
use tidewire_redis::User;

/// The logins of a hub. A login ends with its user, at its time, or by the page.
#[derive(Debug)]
pub(crate) struct Logins {
    state: Mutex<State>,
    /// Another for each start of the hub.
    pub(crate) run: String,
}

#[derive(Debug, Default)]
struct State {
    open: HashMap<Token, Login>,
    failed: HashMap<IpAddr, Failed>,
}

#[derive(Debug)]
struct Login {
    user: Arc<User>,
    /// Monotonic ns.
    until_ns: u64,
}

/// Failed attempts of an address.
#[derive(Clone, Copy, Debug)]
struct Failed {
    count: u32,
    since_ns: u64,
}

/// A cookie's value.
pub(crate) type Token = [u8; 16];

/// The login of a stream.
#[derive(Clone, Copy, Debug)]
pub(super) struct LoginMark {
    pub(super) token: Token,
    /// Monotonic ns.
    pub(super) until_ns: u64,
}

impl Default for Logins {
    fn default() -> Self {
        let mut run = [0; 8];
        // Without randomness pages do not see a restart by this text; they see that they reconnect.
        let _ = getrandom::fill(&mut run);
        Self {
            state: Mutex::default(),
            run: hexadecimal(&run),
        }
    }
}

impl Logins {
    /// Begins a login. Returns the value of its cookie, and the login that has ended for it;
    /// `None` if the system has no randomness.
    pub(crate) fn begin(&self, user: Arc<User>, now_ns: u64) -> Option<(String, Option<Token>)> {
        let mut token = Token::default();
        getrandom::fill(&mut token).ok()?;
        let mut state = self.state.lock();
        if state.open.len() >= LOGINS_MAX {
            state.open.retain(|_, login| login.is_open(now_ns));
        }
        let mut ended = None;
        if state.open.len() >= LOGINS_MAX {
            let oldest = state.open.iter().min_by_key(|(_, login)| login.until_ns);
            ended = oldest.map(|(token, _)| *token);
            ended.map(|oldest| state.open.remove(&oldest));
        }
        let until_ns = now_ns.saturating_add(LOGIN_S * 1_000_000_000);
        state.open.insert(token, Login { user, until_ns });
        Some((hexadecimal(&token), ended))
    }

    /// Returns the user of a cookie's value.
    pub(crate) fn find(&self, text: &str, now_ns: u64) -> Option<Arc<User>> {
        let token = token_of(text)?;
        let state = self.state.lock();
        let login = state.open.get(&token)?;
        login.is_open(now_ns).then(|| login.user.clone())
    }

    /// Returns the login of a cookie's value, by which what it has opened is found.
    pub(super) fn mark(&self, text: &str, now_ns: u64) -> Option<LoginMark> {
        let token = token_of(text)?;
        let state = self.state.lock();
        let login = state.open.get(&token)?;
        let until_ns = login.until_ns;
        login
            .is_open(now_ns)
            .then_some(LoginMark { token, until_ns })
    }

    /// Ends a login. Returns it if it was open.
    pub(crate) fn end(&self, text: &str) -> Option<Token> {
        let token = token_of(text)?;
        let login = self.state.lock().open.remove(&token);
        login.map(|_| token)
    }

    /// Returns in how many seconds an address may try again, if it has failed too often.
    pub(crate) fn refuses(&self, address: IpAddr, now_ns: u64) -> Option<u64> {
        let state = self.state.lock();
        let failed = state.failed.get(&address)?;
        let end_ns = failed.since_ns.saturating_add(WINDOW_S * 1_000_000_000);
        let is_refused = failed.count >= FAILED_MAX && now_ns < end_ns;
        is_refused.then(|| (end_ns - now_ns).div_ceil(1_000_000_000))
    }

    /// Counts a failed attempt.
    pub(crate) fn note_failed(&self, address: IpAddr, now_ns: u64) {
        let mut state = self.state.lock();
        let is_recent =
            |failed: &Failed| now_ns < failed.since_ns.saturating_add(WINDOW_S * 1_000_000_000);
        if state.failed.len() >= ADDRESSES_MAX {
            state.failed.retain(|_, failed| is_recent(failed));
        }
        if state.failed.len() >= ADDRESSES_MAX {
            state.failed.clear();
        }
        let fresh = Failed {
            count: 0,
            since_ns: now_ns,
        };
        let failed = state.failed.entry(address).or_insert(fresh);
        if !is_recent(failed) {
            *failed = fresh;
        }
        failed.count += 1;
    }
}

impl Login {
    fn is_open(&self, now_ns: u64) -> bool {
        now_ns < self.until_ns && self.user.is_enabled()
    }
}

fn hexadecimal(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn token_of(text: &str) -> Option<Token> {
    let mut token = Token::default();
    if text.len() != 2 * token.len() || !text.bytes().all(|byte| byte.is_ascii_hexdigit()) {
        return None;
    }
    for (at, byte) in token.iter_mut().enumerate() {
        *byte = u8::from_str_radix(&text[2 * at..2 * at + 2], 16).ok()?;
    }
    Some(token)
}

/// How long a login lasts.
pub(super) const LOGIN_S: u64 = 12 * 3_600;
/// Logins of all pages; the oldest ends for another.
const LOGINS_MAX: usize = 1_024;
/// Failed attempts of one address in [`WINDOW_S`].
const FAILED_MAX: u32 = 10;
const WINDOW_S: u64 = 60;
/// Addresses whose failed attempts are counted.
const ADDRESSES_MAX: usize = 4_096;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::hub::{Hub, HubConfig};
    use tidewire_lane::Lanes;

    const SECOND_NS: u64 = 1_000_000_000;

    fn user() -> Arc<User> {
        let hub = Hub::new(
            HubConfig::default(),
            Lanes::mailboxes(1).expect("a mailbox"),
        );
        hub.server.access.default_user().clone()
    }

    #[test]
    fn a_login_ends_at_its_time_or_when_it_is_ended() {
        let (logins, user) = (Logins::default(), user());
        let (one, _) = logins.begin(user.clone(), 0).expect("randomness");
        let (other, _) = logins.begin(user, 0).expect("randomness");
        assert!(one.len() == 32 && one != other);
        assert!(logins.find(&one, LOGIN_S * SECOND_NS - 1).is_some());
        assert!(logins.find(&one, LOGIN_S * SECOND_NS).is_none());
        logins.end(&other);
        assert!(logins.find(&other, 1).is_none() && logins.find(&one, 1).is_some());
        for text in ["", "0", &one[1..], "g0000000000000000000000000000000"] {
            assert!(logins.find(text, 1).is_none(), "{text}");
        }
    }

    #[test]
    fn logins_have_a_maximum() {
        let (logins, user) = (Logins::default(), user());
        let (first, _) = logins.begin(user.clone(), 0).expect("randomness");
        let mark = logins.mark(&first, 0).expect("an open login");
        for now_ns in 1..=LOGINS_MAX as u64 {
            let (_, ended) = logins.begin(user.clone(), now_ns).expect("randomness");
            let is_last = now_ns == LOGINS_MAX as u64;
            assert_eq!(ended, is_last.then_some(mark.token));
        }
        assert!(logins.find(&first, 5_000).is_none());
        assert_eq!(logins.state.lock().open.len(), LOGINS_MAX);
    }

    #[test]
    fn an_address_that_fails_too_often_waits() {
        let logins = Logins::default();
        let address = IpAddr::from([10, 0, 0, 1]);
        for _ in 0..FAILED_MAX {
            assert_eq!(logins.refuses(address, 5 * SECOND_NS), None);
            logins.note_failed(address, 5 * SECOND_NS);
        }
        assert_eq!(logins.refuses(address, 6 * SECOND_NS), Some(59));
        assert_eq!(
            logins.refuses(IpAddr::from([10, 0, 0, 2]), 6 * SECOND_NS),
            None
        );
        assert_eq!(logins.refuses(address, 65 * SECOND_NS), None);
        logins.note_failed(address, 65 * SECOND_NS);
        assert_eq!(logins.refuses(address, 65 * SECOND_NS), None);
    }
}
