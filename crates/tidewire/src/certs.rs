//! `certs`: makes an authority, and the certificates of a server and of clients, for a test or a
//! small installation.

mod files;
mod issuing;

use std::path::{Path, PathBuf};

use clap::Args;
use tidewire_tls::utc_text;

use crate::failure::Failure;
use crate::units::whole;
use files::Writing;
use issuing::{Authority, Issued, Kind};

/// Options of `certs`.
#[derive(Clone, Debug, Args)]
pub(crate) struct CertsOptions {
    /// Directory of the files; created if it is missing.
    #[arg(long, value_name = "DIR", default_value = "tls")]
    pub(crate) dir: PathBuf,
    /// A DNS name or IP address of the server, as clients write it; repeat it, or separate them by
    /// commas [default: localhost, 127.0.0.1, ::1].
    #[arg(long, value_name = "HOST", value_delimiter = ',')]
    pub(crate) host: Vec<String>,
    /// Name of a client, and of its files; with tls-auth-clients-user CN it is the name of a user;
    /// repeat it, or separate them by commas [default: client].
    #[arg(long, value_name = "NAME", value_delimiter = ',')]
    pub(crate) client: Vec<String>,
    /// Days for which the certificates of server and clients are valid. The authority's is valid
    /// for ten years, or as long.
    #[arg(long, value_name = "N", default_value_t = 365, value_parser = whole::<u32>(1, 36_500))]
    pub(crate) days: u32,
    /// Make certificates of clients only.
    #[arg(long)]
    pub(crate) no_server: bool,
    /// Replace certificates and keys that exist. The authority is kept.
    #[arg(long)]
    pub(crate) replace: bool,
}

/// Makes the files, and prints their names and how to use them.
pub(crate) fn run(options: &CertsOptions) -> Result<(), Failure> {
    let wanted = wanted(options)?;
    let folder = &options.dir;
    std::fs::create_dir_all(folder)
        .map_err(|error| Failure::usage(format!("--dir {}: {error}", folder.display())))?;
    let writing = Writing::begin(folder, options.replace)?;
    for completed in writing.recover()? {
        println!(
            "completed {}, which a run that was stopped had begun",
            completed.display()
        );
    }
    writing.check(wanted.iter().map(Kind::file_name))?;
    let now_s = i64::try_from(tidewire_lane::unix_ns() / 1_000_000_000).unwrap_or(i64::MAX);
    let authority = match Authority::read(folder, now_s)? {
        Some(authority) => {
            println!("using {}", place(folder, "ca.crt"));
            authority
        }
        None => {
            let (authority, issued) = Authority::new(now_s, options.days)?;
            writing.write("ca", &issued, false)?;
            tell(folder, "ca", "the authority: give it to all sides", &issued);
            authority
        }
    };
    for kind in &wanted {
        let issued = authority.issue(kind, now_s, options.days)?;
        writing.write(kind.file_name(), &issued, options.replace)?;
        tell(folder, kind.file_name(), &kind.told(), &issued);
    }
    tell_use(folder, &wanted);
    Ok(())
}

/// Returns what to make.
fn wanted(options: &CertsOptions) -> Result<Vec<Kind>, Failure> {
    let mut wanted = Vec::new();
    let or = |given: &[String], others: &[&str]| -> Vec<String> {
        match given.is_empty() {
            true => others.iter().map(ToString::to_string).collect(),
            false => given.to_vec(),
        }
    };
    if options.no_server && !options.host.is_empty() {
        return Err(Failure::usage(
            "--host names the server, and --no-server leaves it out",
        ));
    }
    if !options.no_server {
        let hosts = or(&options.host, &["localhost", "127.0.0.1", "::1"]);
        wanted.push(Kind::server(&hosts)?);
    }
    for name in or(&options.client, &["client"]) {
        let client = Kind::client(&name)?;
        if wanted
            .iter()
            .any(|one| one.file_name() == client.file_name())
        {
            return Err(Failure::usage(format!(
                "--client {name}: the name is used twice"
            )));
        }
        wanted.push(client);
    }
    Ok(wanted)
}

fn tell(folder: &Path, name: &str, what: &str, issued: &Issued) {
    let (file, ends) = (
        place(folder, &format!("{name}.crt")),
        utc_text(issued.ends_s),
    );
    println!("made {file} ({what}), valid until {ends}");
}

fn tell_use(folder: &Path, wanted: &[Kind]) {
    let file = |name: &str, end: &str| place(folder, &format!("{name}.{end}"));
    println!("\nKeep the *.key files secret; with ca.key anyone can issue certificates.");
    if let Some(server) = wanted.iter().find(|kind| matches!(kind, Kind::Server(_))) {
        let (name, ca) = (server.file_name(), file("ca", "crt"));
        println!(
            "server: tidewire serve --resp-tls 127.0.0.1:6380 --tls-cert {} --tls-key {} --tls-ca {ca}",
            file(name, "crt"),
            file(name, "key")
        );
    }
    if let Some(client) = wanted.iter().find(|kind| matches!(kind, Kind::Client(_))) {
        let (name, ca) = (client.file_name(), file("ca", "crt"));
        println!(
            "client: redis-cli -p 6380 --tls --cacert {ca} --cert {} --key {}",
            file(name, "crt"),
            file(name, "key")
        );
    }
}

fn place(folder: &Path, name: &str) -> String {
    folder.join(name).display().to_string()
}
