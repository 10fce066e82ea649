//! The side whose key the peer knows.

use subtle::ConstantTimeEq;
use zeroize::{Zeroize, Zeroizing};

use super::{
    COOKIE_BYTES, COOKIE_NONCE, HELLO_NONCE, HELLO_TEXT, INITIATE_NONCE, PADDING_BYTES,
    READY_NONCE, VERSION, VOUCH_NONCE, VOUCHED_BYTES, WELCOME_NONCE,
};
use crate::command::{Command, HELLO, INITIATE, READY, WELCOME, encode_command};
use crate::connection::Credentials;
use crate::curve::{
    BoxKey, Cipher, Keypair, PublicKey, Randomness, Role, SecretKey, TAG_BYTES, nonce,
    public_from_secret,
};
use crate::error::{CommandName, Error};
use crate::mechanism::{Progress, refused_or_unexpected};

/// The server's state machine of one connection.
#[derive(Debug)]
pub(crate) struct CurveServer {
    /// `s`.
    secret: SecretKey,
    randomness: Randomness,
    state: ServerState,
}

#[derive(Debug)]
enum ServerState {
    WantsHello,
    /// WELCOME was sent. The client's cookie holds everything about it, under this key.
    WantsInitiate(BoxKey),
    /// The client has proved its identity; the driver decides.
    Judged(Initiated),
    Ready(BoxKey, u64),
}

/// The content of INITIATE.
struct Initiated {
    /// The key of `C'` and `s'`.
    key: BoxKey,
    number: u64,
    metadata: Vec<u8>,
}

impl CurveServer {
    pub(crate) fn new(secret: SecretKey, randomness: Randomness) -> CurveServer {
        CurveServer {
            secret,
            randomness,
            state: ServerState::WantsHello,
        }
    }

    pub(crate) fn receive<'b>(
        &mut self,
        command: Command<'b>,
        out: &mut Vec<u8>,
    ) -> Result<Progress<'b>, Error> {
        match (&self.state, command.name) {
            (ServerState::WantsHello, HELLO) => {
                let cookie_key = self.greeted(command.data, out)?;
                self.state = ServerState::WantsInitiate(cookie_key);
                Ok(Progress::Continue)
            }
            (ServerState::WantsInitiate(cookie_key), INITIATE) => {
                let (initiated, public_key) = self.initiated(cookie_key, command.data)?;
                self.state = ServerState::Judged(initiated);
                Ok(Progress::Authenticate(Credentials::Curve { public_key }))
            }
            _ => refused_or_unexpected(command),
        }
    }

    /// Returns the metadata of a client that the driver has accepted, once.
    pub(crate) fn take_metadata(&mut self) -> Option<Vec<u8>> {
        match &mut self.state {
            ServerState::Judged(initiated) => Some(std::mem::take(&mut initiated.metadata)),
            _ => None,
        }
    }

    /// Sends READY.
    pub(crate) fn confirm(&mut self, own: &[u8], out: &mut Vec<u8>) {
        if let ServerState::Judged(initiated) = &self.state {
            let number = READY_NUMBER.to_be_bytes();
            let mut sealed = Vec::with_capacity(TAG_BYTES + own.len());
            let key = &initiated.key;
            key.seal(&nonce(READY_NONCE, &number), own, &mut sealed);
            encode_command(out, READY, &[&number, &sealed]);
            self.state = ServerState::Ready(key.clone(), initiated.number);
        }
    }

    /// Returns the key of the connection, once it is ready.
    pub(crate) fn cipher(&self) -> Option<Cipher> {
        match &self.state {
            ServerState::Ready(key, received) => {
                Some(Cipher::new(key, Role::Server, READY_NUMBER, *received))
            }
            _ => None,
        }
    }

    /// Answers HELLO by WELCOME. Returns the key of the cookie in it.
    fn greeted(&self, hello: &[u8], out: &mut Vec<u8>) -> Result<BoxKey, Error> {
        let malformed = Error::MalformedCommand(CommandName::Hello);
        let (version, rest) = hello.split_first_chunk::<2>().ok_or(malformed)?;
        let (_, rest) = rest.split_at_checked(PADDING_BYTES).ok_or(malformed)?;
        let (client, rest) = rest.split_first_chunk::<32>().ok_or(malformed)?;
        let (number, signature) = rest.split_first_chunk::<8>().ok_or(malformed)?;
        if *version != VERSION || signature.len() != TAG_BYTES + HELLO_TEXT.len() {
            return Err(malformed);
        }
        let key = BoxKey::agree(client, &self.secret).ok_or(Error::Cryptographic)?;
        key.open(&nonce(HELLO_NONCE, number), signature)
            .ok_or(Error::Cryptographic)?;

        let short_term = Keypair::generate_with(self.randomness)?;
        let mut random = [[0; 16]; 2];
        let mut cookie_key = Zeroizing::new([0; 32]);
        (self.randomness)(random.as_flattened_mut())?;
        (self.randomness)(&mut *cookie_key)?;
        let cookie_key = BoxKey::new(*cookie_key);
        let [cookie_random, welcome_random] = random;

        let mut remembered = Zeroizing::new([0; 64]);
        remembered[..32].copy_from_slice(client);
        remembered[32..].copy_from_slice(short_term.secret.as_bytes());
        let mut text = Vec::with_capacity(32 + COOKIE_BYTES);
        text.extend_from_slice(&short_term.public);
        text.extend_from_slice(&cookie_random);
        let cookie_nonce = nonce(COOKIE_NONCE, &cookie_random);
        cookie_key.seal(&cookie_nonce, &*remembered, &mut text);
        let mut sealed = Vec::with_capacity(TAG_BYTES + text.len());
        key.seal(&nonce(WELCOME_NONCE, &welcome_random), &text, &mut sealed);
        encode_command(out, WELCOME, &[&welcome_random, &sealed]);
        Ok(cookie_key)
    }

    /// Checks cookie and vouch of INITIATE. Returns `C` and the content.
    fn initiated(
        &self,
        cookie_key: &BoxKey,
        initiate: &[u8],
    ) -> Result<(Initiated, PublicKey), Error> {
        let malformed = Error::MalformedCommand(CommandName::Initiate);
        let (cookie_random, rest) = initiate.split_first_chunk::<16>().ok_or(malformed)?;
        let cookie_bytes = COOKIE_BYTES - cookie_random.len();
        let (cookie, rest) = rest.split_at_checked(cookie_bytes).ok_or(malformed)?;
        let (number, sealed) = rest.split_first_chunk::<8>().ok_or(malformed)?;
        if sealed.len() < TAG_BYTES + VOUCHED_BYTES {
            return Err(malformed);
        }
        let cookie = cookie_key.open(&nonce(COOKIE_NONCE, cookie_random), cookie);
        let cookie = cookie.ok_or(Error::Cryptographic)?;
        let (client_short_term, secret) = cookie.split_first_chunk::<32>().ok_or(malformed)?;
        let secret = SecretKey::new(*secret.first_chunk().ok_or(malformed)?);

        let key = BoxKey::agree(client_short_term, &secret).ok_or(Error::Cryptographic)?;
        let text = key.open(&nonce(INITIATE_NONCE, number), sealed);
        let mut text = text.ok_or(Error::Cryptographic)?;
        let (client, rest) = text.split_first_chunk::<32>().ok_or(malformed)?;
        let (random, rest) = rest.split_first_chunk::<16>().ok_or(malformed)?;
        let vouch_bytes = VOUCHED_BYTES - client.len() - random.len();
        let (vouch, metadata) = rest.split_at_checked(vouch_bytes).ok_or(malformed)?;
        let vouched = BoxKey::agree(client, &secret)
            .and_then(|key| key.open(&nonce(VOUCH_NONCE, random), vouch))
            .ok_or(Error::Cryptographic)?;
        let ours = public_from_secret(&self.secret);
        let is_meant = vouched[..32].ct_eq(client_short_term) & vouched[32..].ct_eq(&ours);
        if !bool::from(is_meant) {
            return Err(Error::KeyExchange);
        }
        let initiated = Initiated {
            key,
            number: u64::from_be_bytes(*number),
            metadata: metadata.to_vec(),
        };
        let client = *client;
        text.zeroize();
        Ok((initiated, client))
    }
}

impl std::fmt::Debug for Initiated {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.write_str("Initiated(..)")
    }
}

/// The number of our READY. MESSAGEs continue from there.
const READY_NUMBER: u64 = 1;
