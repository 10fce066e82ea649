//! The side that knows the server's key.

use zeroize::Zeroize;

use super::{
    COOKIE_BYTES, HELLO_NONCE, HELLO_TEXT, INITIATE_NONCE, PADDING_BYTES, READY_NONCE, VERSION,
    VOUCH_NONCE, WELCOME_NONCE,
};
use crate::command::{Command, HELLO, INITIATE, READY, WELCOME, encode_command};
use crate::curve::{BoxKey, Cipher, Keypair, PublicKey, Randomness, Role, TAG_BYTES, nonce};
use crate::error::{CommandName, Error};
use crate::mechanism::{Progress, refused_or_unexpected};

/// The client's state machine of one connection.
#[derive(Debug)]
pub(crate) struct CurveClient {
    /// `C` and `c`.
    keys: Keypair,
    /// `S`.
    server_key: PublicKey,
    randomness: Randomness,
    state: ClientState,
}

#[derive(Debug)]
enum ClientState {
    Begun,
    /// HELLO was sent, with `C'`.
    WantsWelcome(Keypair),
    /// INITIATE was sent; the key is that of `S'` and `c'`.
    WantsReady(BoxKey),
    Ready(BoxKey, u64),
}

impl CurveClient {
    pub(crate) fn new(keys: Keypair, server_key: PublicKey, randomness: Randomness) -> Self {
        CurveClient {
            keys,
            server_key,
            randomness,
            state: ClientState::Begun,
        }
    }

    /// Sends HELLO.
    pub(crate) fn start(&mut self, out: &mut Vec<u8>) -> Result<(), Error> {
        let short_term = Keypair::generate_with(self.randomness)?;
        let key = BoxKey::agree(&self.server_key, &short_term.secret);
        let key = key.ok_or(Error::Cryptographic)?;
        let number = HELLO_NUMBER.to_be_bytes();
        let mut signature = Vec::with_capacity(TAG_BYTES + HELLO_TEXT.len());
        key.seal(&nonce(HELLO_NONCE, &number), &HELLO_TEXT, &mut signature);
        let padding = [0; PADDING_BYTES];
        let parts: [&[u8]; 5] = [&VERSION, &padding, &short_term.public, &number, &signature];
        encode_command(out, HELLO, &parts);
        self.state = ClientState::WantsWelcome(short_term);
        Ok(())
    }

    pub(crate) fn receive<'b>(
        &mut self,
        command: Command<'b>,
        own: &[u8],
        out: &mut Vec<u8>,
    ) -> Result<Progress<'b>, Error> {
        match (&self.state, command.name) {
            (ClientState::WantsWelcome(short_term), WELCOME) => {
                let key = self.welcomed(short_term, command.data, own, out)?;
                self.state = ClientState::WantsReady(key);
                Ok(Progress::Continue)
            }
            (ClientState::WantsReady(key), READY) => {
                let malformed = Error::MalformedCommand(CommandName::Ready);
                let (number, sealed) = command.data.split_first_chunk::<8>().ok_or(malformed)?;
                if sealed.len() < TAG_BYTES {
                    return Err(malformed);
                }
                let metadata = key.open(&nonce(READY_NONCE, number), sealed);
                let metadata = metadata.ok_or(Error::Cryptographic)?;
                self.state = ClientState::Ready(key.clone(), u64::from_be_bytes(*number));
                Ok(Progress::Metadata(metadata.to_vec().into()))
            }
            _ => refused_or_unexpected(command),
        }
    }

    /// Returns the key of the connection, once it is ready.
    pub(crate) fn cipher(&self) -> Option<Cipher> {
        match &self.state {
            ClientState::Ready(key, received) => {
                Some(Cipher::new(key, Role::Client, INITIATE_NUMBER, *received))
            }
            _ => None,
        }
    }

    /// Answers WELCOME by INITIATE. Returns the resulting key.
    fn welcomed(
        &self,
        short_term: &Keypair,
        welcome: &[u8],
        own: &[u8],
        out: &mut Vec<u8>,
    ) -> Result<BoxKey, Error> {
        let malformed = Error::MalformedCommand(CommandName::Welcome);
        let (random, sealed) = welcome.split_first_chunk::<16>().ok_or(malformed)?;
        if sealed.len() != TAG_BYTES + 32 + COOKIE_BYTES {
            return Err(malformed);
        }
        let key = BoxKey::agree(&self.server_key, &short_term.secret);
        let text = key.and_then(|key| key.open(&nonce(WELCOME_NONCE, random), sealed));
        let text = text.ok_or(Error::Cryptographic)?;
        let (server_short_term, cookie) = text.split_first_chunk::<32>().ok_or(malformed)?;
        let key = BoxKey::agree(server_short_term, &short_term.secret);
        let key = key.ok_or(Error::Cryptographic)?;

        let mut initiated = self.vouch(short_term, server_short_term)?;
        initiated.extend_from_slice(own);
        let number = INITIATE_NUMBER.to_be_bytes();
        let mut sealed = Vec::with_capacity(TAG_BYTES + initiated.len());
        key.seal(&nonce(INITIATE_NONCE, &number), &initiated, &mut sealed);
        initiated.zeroize();
        encode_command(out, INITIATE, &[cookie, &number, &sealed]);
        Ok(key)
    }

    /// Returns `C`, and a box that vouches for `C'`.
    fn vouch(&self, short_term: &Keypair, server: &PublicKey) -> Result<Vec<u8>, Error> {
        let mut random = [0; 16];
        (self.randomness)(&mut random)?;
        let key = BoxKey::agree(server, &self.keys.secret).ok_or(Error::Cryptographic)?;
        let mut text = [0; 64];
        text[..32].copy_from_slice(&short_term.public);
        text[32..].copy_from_slice(&self.server_key);
        let mut vouch = Vec::with_capacity(super::VOUCHED_BYTES);
        vouch.extend_from_slice(&self.keys.public);
        vouch.extend_from_slice(&random);
        key.seal(&nonce(VOUCH_NONCE, &random), &text, &mut vouch);
        Ok(vouch)
    }
}

// The numbers of our commands. MESSAGEs continue from there.
const HELLO_NUMBER: u64 = 1;
const INITIATE_NUMBER: u64 = 2;
