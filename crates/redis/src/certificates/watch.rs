//! Files of certificates that change while the server runs, and certificates that expire.

use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use parking_lot::{Condvar, Mutex};
use tidewire_lane::unix_ns;
use tidewire_tls::utc_text;
use tracing::{info, warn};

use super::Dated;
use crate::parameters::{
    Parameters, TLS_CA_CERT_DIR, TLS_CA_CERT_FILE, TLS_CERT_FILE, TLS_CLIENT_CERT_FILE,
    TLS_CLIENT_KEY_FILE, TLS_KEY_FILE,
};
use crate::server::Server;

/// The state of the files: a file that is replaced, written or renamed has another one.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Stamps(Vec<(String, Option<Stamp>)>);

/// Device, inode, size, and the times of change of content and of the inode.
type Stamp = (u64, u64, u64, [i64; 4]);

impl Stamps {
    /// Reads the state of the files that the parameters name.
    pub(super) fn read(parameters: &Parameters) -> Self {
        let named = [
            TLS_CERT_FILE,
            TLS_KEY_FILE,
            TLS_CLIENT_CERT_FILE,
            TLS_CLIENT_KEY_FILE,
            TLS_CA_CERT_FILE,
            TLS_CA_CERT_DIR,
        ];
        let mut paths: Vec<String> = named.map(|id| parameters.read(id)).into();
        let directory = paths.last().cloned().unwrap_or_default();
        if let Ok(entries) = fs::read_dir(&directory) {
            let entries = entries.flatten().take(ENTRIES_MAX);
            paths.extend(entries.map(|entry| entry.path().display().to_string()));
        }
        paths.retain(|path| !path.is_empty());
        paths.sort();
        paths.dedup();
        let stamps = paths.into_iter().map(|path| {
            let stamp = stamp(&path);
            (path, stamp)
        });
        Self(stamps.collect())
    }
}

fn stamp(path: &str) -> Option<Stamp> {
    let found = fs::metadata(path).ok()?;
    let times = [
        found.mtime(),
        found.mtime_nsec(),
        found.ctime(),
        found.ctime_nsec(),
    ];
    Some((found.dev(), found.ino(), found.size(), times))
}

/// Watches the files of certificates, and warns before they expire: on a thread of its own, as the
/// files may be in a network file system that does not answer. No other thread waits for it.
#[derive(Debug)]
pub struct CertificateWatch(Arc<Watched>);

#[derive(Debug, Default)]
struct Watched {
    wishes: Mutex<Wishes>,
    changed: Condvar,
}

/// What the thread is to do.
#[derive(Debug, Default)]
struct Wishes {
    /// How often the user has asked for a reading of the files, and how many of these are done.
    asked: u64,
    done: u64,
    ends: bool,
}

impl CertificateWatch {
    /// Starts the thread.
    ///
    /// # Errors
    /// The system has no thread for it.
    pub fn start(server: &Arc<Server>) -> io::Result<Self> {
        let (server, mut look) = (Arc::downgrade(server), Look::default());
        Self::start_with(move |is_asked| {
            let server = server.upgrade();
            server.is_some_and(|server| {
                if is_asked {
                    look.reload(&server, "SIGHUP");
                }
                look.take(&server);
                true
            })
        })
    }

    /// Calls `look` at the start, every few seconds, and at once, with true, if it is asked for.
    /// False ends it.
    fn start_with(mut look: impl FnMut(bool) -> bool + Send + 'static) -> io::Result<Self> {
        let own = Arc::new(Watched::default());
        let watched = own.clone();
        let run = move || {
            if !look(false) {
                return;
            }
            while let Some(asked) = watched.next_look() {
                if !look(asked.is_some()) {
                    return;
                }
                if let Some(asked) = asked {
                    watched.wishes.lock().done = asked;
                }
            }
        };
        let thread = thread::Builder::new().name("certificates".to_owned());
        thread.spawn(run)?;
        Ok(Self(own))
    }

    /// Asks for a reading of the files now.
    pub fn ask(&self) {
        self.0.wishes.lock().asked += 1;
        self.0.changed.notify_one();
    }

    /// Returns whether all readings that were asked for are done.
    pub fn is_done(&self) -> bool {
        let wishes = self.0.wishes.lock();
        wishes.done == wishes.asked
    }
}

impl Drop for CertificateWatch {
    fn drop(&mut self) {
        self.0.wishes.lock().ends = true;
        self.0.changed.notify_one();
    }
}

impl Watched {
    /// Waits for the next look. Returns which reading is asked for, if one is; `None` at the end.
    fn next_look(&self) -> Option<Option<u64>> {
        let mut wishes = self.wishes.lock();
        if wishes.asked == wishes.done && !wishes.ends {
            self.changed.wait_for(&mut wishes, LOOK_INTERVAL);
        }
        let asked = (wishes.asked > wishes.done).then_some(wishes.asked);
        (!wishes.ends).then_some(asked)
    }
}

/// What was seen of the files.
#[derive(Debug, Default)]
struct Look {
    /// A state of the files that is not that of the certificates in use. They are read once it has
    /// not changed for one interval: a file and its key are rarely written in the same moment.
    pending: Option<Stamps>,
    /// What was warned of last, of the server's certificate and of that for links.
    warned: [Warned; 2],
}

/// What was warned of last, of one certificate.
#[derive(Debug, Default)]
struct Warned {
    /// Days before its end.
    end: Option<i64>,
    /// When a certificate begins that is of no use now, and whether it is so for its side.
    uses: Option<(i64, bool)>,
}

impl Look {
    /// Looks at the files. If they have changed, and no longer change, it reads them; if they are
    /// wrong, the certificates in use stay, and one warning is logged.
    fn take(&mut self, server: &Server) {
        self.follow_files(server);
        let now_s = i64::try_from(unix_ns() / 1_000_000_000).unwrap_or(i64::MAX);
        let certificates = &server.certificates;
        let dates = [certificates.server_dates(), certificates.client_dates()];
        for (dated, warned) in dates.iter().zip(&mut self.warned) {
            match dated {
                Some(dated) => {
                    warn_of_end(dated, now_s, &mut warned.end);
                    warn_of_use(dated, now_s, &mut warned.uses);
                }
                None => *warned = Warned::default(),
            }
        }
    }

    fn follow_files(&mut self, server: &Server) {
        let in_use = server.certificates.in_use.lock().stamps.clone();
        let Some(in_use) = in_use else {
            self.pending = None;
            return;
        };
        let found = Stamps::read(&server.parameters);
        if found == in_use {
            self.pending = None;
        } else if self.pending.as_ref() == Some(&found) {
            self.pending = None;
            reload(server, "files have changed");
        } else {
            self.pending = Some(found);
        }
    }

    /// Reads the files now, because the user has asked for it.
    fn reload(&mut self, server: &Server, why: &str) {
        self.pending = None;
        reload(server, why);
    }
}

fn reload(server: &Server, why: &str) {
    match server.reload_certificates() {
        Ok(true) => {
            let ends = server.certificates.server_dates();
            let ends = ends.map_or_else(String::new, |dated| utc_text(dated.ends_s));
            info!(why, ends, "the TLS certificates were read again");
        }
        Ok(false) => {}
        Err(reason) => {
            warn!(
                why,
                reason, "the TLS certificates on disk are refused, and those in use stay"
            );
        }
    }
}

/// Warns of a certificate that expires soon, unless that was done today.
fn warn_of_end(dated: &Dated, now_s: i64, warned: &mut Option<i64>) {
    let days = dated.days_left(now_s);
    let level = level(days);
    if level == *warned {
        return;
    }
    *warned = level;
    if level.is_none() {
        return;
    }
    let (file, ends) = (&dated.file, utc_text(dated.ends_s));
    match now_s > dated.ends_s {
        true => warn!(file, ends, "the TLS certificate has expired"),
        false => warn!(file, ends, days, "the TLS certificate expires soon"),
    }
}

/// Warns of a certificate that peers refuse though it has not ended, once for each.
fn warn_of_use(dated: &Dated, now_s: i64, warned: &mut Option<(i64, bool)>) {
    let is_early = now_s < dated.begins_s;
    let is_of_other_side = dated.is_of_other_side;
    let found = (is_early || is_of_other_side).then_some((dated.begins_s, is_of_other_side));
    if found == std::mem::replace(warned, found) || found.is_none() {
        return;
    }
    let file = &dated.file;
    if is_early {
        let begins = utc_text(dated.begins_s);
        warn!(file, begins, "the TLS certificate is not valid yet");
    }
    if is_of_other_side {
        warn!(
            file,
            "the TLS certificate is not for this side of a connection (extended key usage): peers \
             refuse it"
        );
    }
}

/// Returns what is warned of with so many days left: 30 days, then each of the last 7 days and
/// each day after the end.
fn level(days: i64) -> Option<i64> {
    match days {
        ..=7 => Some(days),
        8..=30 => Some(30),
        _ => None,
    }
}

const LOOK_INTERVAL: Duration = Duration::from_secs(2);
/// Files of a directory of authorities that are looked at.
const ENTRIES_MAX: usize = 4_096;

#[cfg(test)]
mod tests {
    use std::sync::mpsc;

    use super::*;

    #[test]
    fn an_end_is_warned_of_at_30_days_and_daily_from_7_days_on() {
        let ends_s = 1_000 * 86_400;
        let dated = Dated {
            file: "hub.crt".to_owned(),
            begins_s: 0,
            ends_s,
            is_of_other_side: false,
        };
        let mut warned = None;
        let mut seen = Vec::new();
        for hour in (-40 * 24)..48 {
            let before = warned;
            warn_of_end(&dated, ends_s + hour * 3_600, &mut warned);
            if warned != before {
                seen.push(warned.unwrap());
            }
        }
        assert_eq!(seen, [30, 7, 6, 5, 4, 3, 2, 1, 0, -1, -2]);
        assert_eq!(dated.days_left(ends_s), 0);
        assert_eq!(dated.days_left(ends_s + 1), -1);
        // Another certificate ends the warnings.
        warn_of_end(
            &Dated {
                ends_s: ends_s * 2,
                ..dated
            },
            ends_s,
            &mut warned,
        );
        assert_eq!(warned, None);
    }

    /// The log had no word of a certificate that was not valid yet, or only for clients, while
    /// every client refused it.
    #[test]
    fn a_certificate_that_peers_refuse_is_warned_of_once() {
        let begins_s = 1_000;
        let one = |is_of_other_side| Dated {
            file: "hub.crt".to_owned(),
            begins_s,
            ends_s: 2_000,
            is_of_other_side,
        };
        let mut warned = None;
        for (dated, now_s, found) in [
            (one(false), begins_s, None),
            (one(false), begins_s - 1, Some((begins_s, false))),
            (one(true), begins_s - 1, Some((begins_s, true))),
            (one(true), begins_s, Some((begins_s, true))),
            (one(false), begins_s, None),
        ] {
            warn_of_use(&dated, now_s, &mut warned);
            assert_eq!(warned, found);
        }
    }

    /// The files of a network file system that does not answer.
    #[test]
    fn a_look_that_hangs_holds_neither_who_asks_nor_the_end() {
        let (begins, begun) = mpsc::channel();
        let (answer, answered) = mpsc::channel::<()>();
        let watch = CertificateWatch::start_with(move |is_asked| {
            let _ = begins.send(is_asked);
            answered.recv().is_ok()
        });
        let watch = watch.unwrap();
        watch.ask();
        while !begun.recv().unwrap() {
            answer.send(()).unwrap();
        }
        watch.ask();
        assert!(!watch.is_done(), "the look hangs");
        answer.send(()).unwrap();
        assert!(
            begun.recv().unwrap(),
            "what is asked meanwhile is not forgotten"
        );
        answer.send(()).unwrap();
        while !watch.is_done() {
            thread::yield_now();
        }
        watch.ask();
        while !begun.recv().unwrap() {
            answer.send(()).unwrap();
        }
        // It hangs, and the end does not wait for it.
        drop(watch);
        answer.send(()).unwrap();
        assert!(begun.recv().is_err(), "the thread has ended");
    }

    #[test]
    fn each_way_to_change_a_file_changes_its_stamp() {
        let folder = std::env::temp_dir().join(format!("tidewire-stamps-{}", std::process::id()));
        fs::create_dir_all(&folder).unwrap();
        let (file, other) = (folder.join("a"), folder.join("b"));
        let path = file.display().to_string();
        assert_eq!(stamp(&path), None);
        fs::write(&file, "one").unwrap();
        let first = stamp(&path);
        assert!(first.is_some() && first == stamp(&path));
        fs::write(&other, "two").unwrap();
        fs::rename(&other, &file).unwrap();
        let renamed = stamp(&path);
        assert_ne!(first, renamed);
        fs::write(&file, "longer").unwrap();
        assert_ne!(stamp(&path), renamed);
        fs::remove_dir_all(&folder).unwrap();
    }
}
