//! The clients that CLIENT LIST and CLIENT KILL name.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use tidewire_keyspace::DATABASES;
use tidewire_resp::number::parse_integer;

use super::Call;
use crate::access::User;
use crate::clients::Client;
use crate::other_clients::{OtherClient, PageClient};

/// A choice of clients. Valkey's may say what they are, and what they are not.
#[derive(Debug)]
pub(super) struct Filter {
    is: Traits,
    is_not: Traits,
    age_s_min: u64,
    idle_s_min: u64,
    pub(super) skips_me: bool,
}

/// What clients have in common. What is not named does not matter.
#[derive(Debug, Default)]
struct Traits {
    ids: Option<Vec<u64>>,
    address: Option<Vec<u8>>,
    local_address: Option<Vec<u8>>,
    user: Option<Arc<User>>,
    class: Option<Class>,
    ip: Option<Vec<u8>>,
    name: Option<Vec<u8>>,
    library: Option<Vec<u8>>,
    library_version: Option<Vec<u8>>,
    database: Option<u32>,
    flags: Option<Vec<u8>>,
    capabilities: Option<Vec<u8>>,
}

impl Filter {
    fn new(skips_me: bool) -> Self {
        Self {
            is: Traits::default(),
            is_not: Traits::default(),
            age_s_min: 0,
            idle_s_min: 0,
            skips_me,
        }
    }

    /// CLIENT KILL's old form.
    pub(super) fn of_address(address: &[u8]) -> Self {
        let mut filter = Self::new(false);
        filter.is.address = Some(address.to_vec());
        filter
    }

    /// The options of CLIENT KILL.
    pub(super) fn of_kill(call: &Call<'_>) -> Result<Self, String> {
        let mut filter = Self::new(true);
        match call.server.follows_valkey() {
            true => filter.read_all(call)?,
            false => filter.read_redis_kill(call)?,
        }
        Ok(filter)
    }

    /// The options of CLIENT LIST.
    pub(super) fn of_list(call: &Call<'_>) -> Result<Self, String> {
        let mut filter = Self::new(false);
        match call.arguments.get(2) {
            None => {}
            Some(_) if !call.server.follows_valkey() => filter.read_redis_list(call)?,
            Some(_) if call.arguments.len() == 3 => return Err(SYNTAX.to_owned()),
            Some(_) => filter.read_all(call)?,
        }
        Ok(filter)
    }

    /// Redis's CLIENT LIST has a type or ids.
    fn read_redis_list(&mut self, call: &Call<'_>) -> Result<(), String> {
        let arguments = call.arguments;
        let option = &arguments[2];
        if option.eq_ignore_ascii_case(b"TYPE") && arguments.len() == 4 {
            self.is.class = Some(Class::read(&arguments[3])?);
            return Ok(());
        }
        if !option.eq_ignore_ascii_case(b"ID") || arguments.len() < 4 {
            return Err(SYNTAX.to_owned());
        }
        let mut ids = Vec::new();
        for text in arguments.tail(3) {
            let id = parse_integer(text).ok_or("ERR Invalid client ID")?;
            ids.extend(u64::try_from(id).ok());
        }
        self.is.ids = Some(ids);
        Ok(())
    }

    /// Redis's CLIENT KILL knows some of the options. Of ids the last one counts.
    fn read_redis_kill(&mut self, call: &Call<'_>) -> Result<(), String> {
        let words: Vec<&[u8]> = call.arguments.tail(2).iter().collect();
        let (pairs, []) = words.as_chunks::<2>() else {
            return Err(SYNTAX.to_owned());
        };
        for [option, value] in pairs {
            let option = option.to_ascii_uppercase();
            match option.as_slice() {
                b"ID" => {
                    let id = parse_integer(value).ok_or(BAD_ID)?;
                    self.is.ids = Some(vec![read_id(id)?]);
                }
                b"ADDR" | b"LADDR" | b"USER" | b"TYPE" | b"MAXAGE" | b"SKIPME" => {
                    self.take(call, &option, value)?;
                }
                _ => return Err(SYNTAX.to_owned()),
            }
        }
        Ok(())
    }

    /// Valkey's options: each stands before one value, ID and NOT-ID before any number of them.
    fn read_all(&mut self, call: &Call<'_>) -> Result<(), String> {
        let words: Vec<&[u8]> = call.arguments.tail(2).iter().collect();
        let mut rest = &words[..];
        while let [option, behind @ ..] = rest {
            let option = option.to_ascii_uppercase();
            let ids = match option.as_slice() {
                b"ID" => Some(&mut self.is.ids),
                b"NOT-ID" => Some(&mut self.is_not.ids),
                _ => None,
            };
            if let Some(ids) = ids {
                let ids = ids.get_or_insert_default();
                rest = behind;
                while let [word, behind @ ..] = rest
                    && let Some(id) = parse_integer(word)
                {
                    ids.push(read_id(id)?);
                    rest = behind;
                }
                continue;
            }
            let [value, behind @ ..] = behind else {
                return Err(SYNTAX.to_owned());
            };
            self.take(call, &option, value)?;
            rest = behind;
        }
        Ok(())
    }

    /// Takes one option with its value.
    fn take(&mut self, call: &Call<'_>, option: &[u8], value: &[u8]) -> Result<(), String> {
        match option {
            b"MAXAGE" => self.age_s_min = read_seconds("maxage", value)?,
            b"IDLE" => self.idle_s_min = read_seconds("idle", value)?,
            b"SKIPME" if value.eq_ignore_ascii_case(b"yes") => self.skips_me = true,
            b"SKIPME" if value.eq_ignore_ascii_case(b"no") => self.skips_me = false,
            _ => {
                let (traits, word, is_not) = match option.strip_prefix(b"NOT-") {
                    Some(word) => (&mut self.is_not, word, true),
                    None => (&mut self.is, option, false),
                };
                traits.take(call, word, value, is_not)?;
            }
        }
        Ok(())
    }

    /// The clients to look at, in the order of their ids. Redis's CLIENT LIST shows them in the
    /// order of the ids that are given, each as often as its id is.
    pub(super) fn candidates(&self, call: &Call<'_>) -> Vec<Listed> {
        let clients = call.server.clients.list().into_iter().map(Listed::Client);
        let pages = call.server.other_clients.pages();
        let mut all: Vec<Listed> = clients.chain(pages.into_iter().map(Listed::Page)).collect();
        all.sort_by_key(Listed::id);
        match &self.is.ids {
            Some(ids) if !call.server.follows_valkey() => {
                let find = |id: &u64| all.iter().find(|one| one.id() == *id).cloned();
                ids.iter().filter_map(find).collect()
            }
            _ => all,
        }
    }

    /// Whether it is about the connection to this server's master, which is none of the clients.
    pub(super) fn names_master(&self, address: &str) -> bool {
        let wanted = self.is.address.as_deref();
        let is_address = wanted.is_none_or(|wanted| wanted == address.as_bytes());
        let is_class = self.is.class.is_none_or(|class| class == Class::Master);
        let names_it = self.is.address.is_some() || self.is.class.is_some();
        names_it && is_address && is_class && !self.is.names_clients() && !self.is_not.names_any()
    }

    /// Whether a client is among them.
    pub(super) fn accepts(&self, client: &Client, is_blocked: bool, now_unix_ns: u64) -> bool {
        let seconds = |since_ns: u64| now_unix_ns.saturating_sub(since_ns) / 1_000_000_000;
        let idle_s = seconds(client.active_unix_ns.load(Ordering::Relaxed));
        seconds(client.connected_unix_ns) >= self.age_s_min
            && idle_s >= self.idle_s_min
            && self.is.of(client, is_blocked).all(|is| is)
            && self.is_not.of(client, is_blocked).all(|is| !is)
    }

    /// Whether it may be about clients of other protocols: it names an address or a user, and
    /// nothing that they do not have.
    pub(super) fn names_others(&self) -> bool {
        let is = &self.is;
        let names_any = is.address.is_some() || is.local_address.is_some() || is.user.is_some();
        let needs_redis = is.ids.is_some() || is.class.is_some() || is.names_session();
        names_any && !needs_redis && !self.is_not.names_any() && self.idle_s_min == 0
    }

    /// Whether a client of another protocol is among them. A page has a number and a class, as a
    /// Redis client does.
    pub(super) fn accepts_other(&self, client: &OtherClient, now_unix_ns: u64) -> bool {
        let is_meant = match client.page() {
            Some(_) => !self.is.names_session() && self.idle_s_min == 0,
            None => self.names_others(),
        };
        let age_s = now_unix_ns.saturating_sub(client.connected_unix_ns) / 1_000_000_000;
        is_meant
            && age_s >= self.age_s_min
            && self.is.of_other(client).all(|is| is)
            && self.is_not.of_other(client).all(|is| !is)
    }
}

/// What CLIENT LIST shows: a Redis client, or a web page.
#[derive(Clone, Debug)]
pub(super) enum Listed {
    Client(Arc<Client>),
    Page(Arc<OtherClient>),
}

impl Listed {
    fn id(&self) -> u64 {
        match self {
            Listed::Client(client) => client.id,
            Listed::Page(client) => client.page().map_or(0, |page| page.id),
        }
    }
}

impl Traits {
    fn take(
        &mut self,
        call: &Call<'_>,
        option: &[u8],
        value: &[u8],
        is_not: bool,
    ) -> Result<(), String> {
        let (kept, text) = (value.to_vec(), || {
            String::from_utf8_lossy(value).replace(['\r', '\n'], " ")
        });
        let place = |word: &str| match is_not {
            true => format!("the NOT-{} filter", word.to_uppercase()),
            false => "the provided filter".to_owned(),
        };
        match option {
            b"ADDR" => self.address = Some(kept),
            b"LADDR" => self.local_address = Some(kept),
            b"USER" => {
                let user = call.server.access.find(value);
                let user = user.ok_or_else(|| format!("ERR No such user '{}'", text()))?;
                self.user = Some(user);
            }
            b"TYPE" => self.class = Some(Class::read(value)?),
            b"IP" => self.ip = Some(kept),
            b"NAME" => self.name = Some(kept),
            b"LIB-NAME" => self.library = Some(kept),
            b"LIB-VER" => self.library_version = Some(kept),
            b"DB" => self.database = Some(read_database(value, is_not)?),
            b"FLAGS" if value.iter().all(|flag| FLAGS.contains(flag)) => self.flags = Some(kept),
            b"FLAGS" => {
                let (place, text) = (place("flags"), text());
                return Err(format!("ERR Unknown flags found in {place}: {text}"));
            }
            b"CAPA" if value.iter().all(|flag| *flag == b'r') => self.capabilities = Some(kept),
            b"CAPA" => {
                let (place, text) = (place("capa"), text());
                return Err(format!("ERR Unknown capa found in {place}: {text}"));
            }
            _ => return Err(SYNTAX.to_owned()),
        }
        Ok(())
    }

    /// Whether each trait that is named is one of a client.
    fn of(&self, client: &Client, is_blocked: bool) -> impl Iterator<Item = bool> {
        let labels = client.labels.lock().clone();
        let text = |wanted: &Option<Vec<u8>>, own: &str| {
            let wanted = wanted.as_ref()?;
            Some(wanted == own.as_bytes())
        };
        let flags = || client.flags(is_blocked);
        [
            self.ids.as_ref().map(|ids| ids.contains(&client.id)),
            text(&self.address, &client.address),
            text(&self.local_address, &client.local_address),
            self.user
                .as_ref()
                .map(|user| Arc::ptr_eq(user, &client.user.lock())),
            self.class.map(|class| class.accepts(client)),
            self.ip.as_ref().map(|ip| is_of_ip(&client.address, ip)),
            text(&self.name, &labels.name),
            text(&self.library, &labels.library),
            text(&self.library_version, &labels.library_version),
            self.database
                .map(|number| client.database.load(Ordering::Relaxed) == number),
            self.flags.as_ref().map(|wanted| {
                let own = flags();
                wanted.iter().all(|flag| own.as_bytes().contains(flag))
            }),
            self.capabilities
                .as_ref()
                .map(|wanted| wanted.is_empty() || client.redirects.load(Ordering::Relaxed)),
        ]
        .into_iter()
        .flatten()
    }

    /// Whether each trait that is named, of those that clients of all protocols have, is one of a
    /// client of another protocol.
    fn of_other(&self, client: &OtherClient) -> impl Iterator<Item = bool> {
        let text = |wanted: &Option<Vec<u8>>, own: &str| {
            let wanted = wanted.as_ref()?;
            Some(wanted == own.as_bytes())
        };
        let user = client.user.lock();
        let is_user =
            |wanted: &Arc<User>| user.as_ref().is_some_and(|own| Arc::ptr_eq(wanted, own));
        let page = client.page();
        let is_class = |class: Class| page.is_some_and(|page| class.accepts_page(page));
        let has_id = |ids: &Vec<u64>| page.is_some_and(|page| ids.contains(&page.id));
        [
            self.ids.as_ref().map(has_id),
            text(&self.address, &client.address),
            text(&self.local_address, &client.local_address),
            self.user.as_ref().map(is_user),
            self.class.map(is_class),
        ]
        .into_iter()
        .flatten()
    }

    /// Whether it names what the connection to a master does not have.
    fn names_clients(&self) -> bool {
        let names_one = self.ids.is_some() || self.local_address.is_some() || self.user.is_some();
        names_one || self.names_session()
    }

    /// Whether it names what only Redis sessions have.
    fn names_session(&self) -> bool {
        self.ip.is_some()
            || self.name.is_some()
            || self.library.is_some()
            || self.library_version.is_some()
            || self.database.is_some()
            || self.flags.is_some()
            || self.capabilities.is_some()
    }

    fn names_any(&self) -> bool {
        self.address.is_some() || self.class.is_some() || self.names_clients()
    }
}

/// Whether an address is of this IP address, and has a port.
fn is_of_ip(address: &str, ip: &[u8]) -> bool {
    let address = address.strip_prefix('[').unwrap_or(address).as_bytes();
    let Some(rest) = address.strip_prefix(ip) else {
        return false;
    };
    let rest = rest.strip_prefix(b"]").unwrap_or(rest);
    rest.strip_prefix(b":")
        .is_some_and(|port| !port.starts_with(b"0"))
}

/// A class of clients.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Class {
    Normal,
    Pubsub,
    Replica,
    /// The connection to a master is none of the clients.
    Master,
}

impl Class {
    fn read(text: &[u8]) -> Result<Self, String> {
        match text.to_ascii_lowercase().as_slice() {
            b"normal" => Ok(Class::Normal),
            b"pubsub" => Ok(Class::Pubsub),
            b"replica" | b"slave" => Ok(Class::Replica),
            b"master" | b"primary" => Ok(Class::Master),
            _ => {
                let text = String::from_utf8_lossy(text).replace(['\r', '\n'], " ");
                Err(format!("ERR Unknown client type '{text}'"))
            }
        }
    }

    fn accepts_page(self, page: &PageClient) -> bool {
        match self {
            Class::Normal => !page.is_subscriber(),
            Class::Pubsub => page.is_subscriber(),
            Class::Replica | Class::Master => false,
        }
    }

    fn accepts(self, client: &Client) -> bool {
        let is_replica = client.is_replica.load(Ordering::Relaxed);
        match self {
            Class::Normal => !is_replica && !client.is_subscriber(),
            Class::Pubsub => !is_replica && client.is_subscriber(),
            Class::Replica => is_replica,
            Class::Master => false,
        }
    }
}

fn read_id(id: i64) -> Result<u64, String> {
    let id = u64::try_from(id).ok().filter(|&id| id > 0);
    id.ok_or_else(|| BAD_ID.to_owned())
}

fn read_seconds(name: &str, value: &[u8]) -> Result<u64, String> {
    match parse_integer(value) {
        Some(seconds @ 1..) => Ok(seconds as u64),
        Some(_) => Err(format!("ERR {name} should be greater than 0")),
        None => Err(format!("ERR {name} is not an integer or out of range")),
    }
}

fn read_database(value: &[u8], is_not: bool) -> Result<u32, String> {
    let name = if is_not { "NOT-DB" } else { "DB" };
    let number = parse_integer(value).and_then(|number| i32::try_from(number).ok());
    let number = number.ok_or_else(|| format!("ERR {name} is not an integer or out of range"))?;
    match u32::try_from(number) {
        Ok(number) if (number as usize) < DATABASES => Ok(number),
        _ => {
            let most = DATABASES - 1;
            Err(format!("ERR {name} number should be between 0 and {most}"))
        }
    }
}

pub(super) const SYNTAX: &str = "ERR syntax error";
/// The letters of CLIENT LIST's field `flags` in Valkey.
const FLAGS: &[u8] = b"OSMPxbtRBdcuAUreTIiEN";
const BAD_ID: &str = "ERR client-id should be greater than 0";
