//! `serve`: runs a hub from start to stop.

use std::path::PathBuf;
use std::sync::atomic::Ordering;
use std::time::Instant;

use tidewire_memory::HugePages;
use tidewire_redis::CertificateWatch;
use tidewire_redis::ids::{LOGFILE, LOGLEVEL, SYSLOG_ENABLED, SYSLOG_FACILITY, SYSLOG_IDENT};
use tracing::{error, info, warn};

use crate::config::Config;
use crate::descriptors::Descriptors;
use crate::directory;
use crate::environment;
use crate::failure::Failure;
use crate::log::{self, LogFormat, LogOptions, LogPlan, Syslog};
use crate::notify::Supervisor;
use crate::options::ServeOptions;
use crate::process::{self, PidFile};
use crate::server::{Listeners, POLL_INTERVAL, Server};
use crate::startup::Startup;
use crate::stop::{Answer, Ending, Reload, Stop};

/// Runs a hub until it is told to stop.
pub(crate) fn run(options: &ServeOptions, logging: &LogOptions) -> Result<(), Failure> {
    let began = Instant::now();
    let stop = Stop::on_signals()?;
    let reload = Reload::on_signal()?;
    let mut config = Config::new(options)?;
    let check = || {
        directory::check(&config.hub)?;
        Descriptors::fit(&config)?;
        Listeners::bind(&config).map(drop)
    };
    if process::daemonize(&config.hub, check)? {
        return Ok(());
    }
    // Relative to the directory in which the program was started, not to `dir`.
    config.record = config.record.map(absolute);
    if let Some(directory) = &config.directory {
        std::env::set_current_dir(directory)
            .map_err(|error| Failure::usage(format!("dir '{}': {error}", directory.display())))?;
    }
    start_log(&mut config, logging)?;
    environment::warn_of_unknown_variables();
    warn_of_short_key(&config);
    let result = serve(&mut config, logging.format, began, &stop, &reload);
    if let Err(failure) = &result
        && log::is_in_file()
    {
        error!("{failure}");
    }
    result
}

fn serve(
    config: &mut Config,
    format: LogFormat,
    began: Instant,
    stop: &Stop,
    reload: &Reload,
) -> Result<(), Failure> {
    directory::check(&config.hub)?;
    let supervisor = Supervisor::of(&config.hub);
    let descriptors = Descriptors::fit(config)?;
    let mut startup = Startup::begin(config, format, began);
    let server = Server::start(config, Listeners::bind(config)?)?;
    server.hub.server.follow_log_level(log::set_level);
    descriptors.tell();
    server.hub.server.limit_clients(descriptors.clients);
    let pid_file = PidFile::write(&config.hub);
    let mut pages = None;
    let mut ending = Ending::default();
    let certificates = CertificateWatch::start(&server.hub.server);
    let certificates = certificates.map_err(|error| Failure::running(error.to_string()))?;
    let mut is_reloading = false;
    while !server.hub.server.stop_asked.load(Ordering::Acquire) {
        let is_loading = server.hub.server.durability.is_loading();
        // Page clearing starts after the load, when clients wait for replies.
        if !is_loading && let Some(pages) = pages.get_or_insert_with(HugePages::later) {
            pages.tick();
        }
        if startup.follow(&server, is_loading) {
            supervisor.ready(server.hub.server.is_replica());
        }
        if reload.take() {
            supervisor.reloading();
            log::reopen();
            info!("SIGHUP: reopening the log file");
            certificates.ask();
            is_reloading = true;
        }
        if is_reloading && certificates.is_done() {
            is_reloading = false;
            supervisor.reloaded();
        }
        if stop.is_asked() {
            answer(stop, &mut ending, &server);
            if server.hub.server.stop_asked.load(Ordering::Acquire) {
                break;
            }
        }
        std::thread::sleep(POLL_INTERVAL);
        server.check()?;
    }
    supervisor.stopping();
    server.finish()?;
    drop(pid_file);
    info!("Tidewire is now ready to exit, bye bye...");
    Ok(())
}

/// Warns of a key that can be guessed. Databento's own have 32 characters.
fn warn_of_short_key(config: &Config) {
    let key = config.hub.market.databento_key.as_ref();
    if let Some(count) = key.map(|key| key.chars().count())
        && count < KEY_LENGTH_MIN
    {
        warn!(
            "--databento-key has {count} characters and can be guessed; use 32, as Databento's keys \
             have (db-...)"
        );
    }
}

/// Handles SIGINT or SIGTERM. A second signal that arrives meanwhile ends the process in its signal
/// handler.
fn answer(stop: &Stop, ending: &mut Ending, server: &Server) {
    let now = Instant::now();
    if ending.answer(now) == Answer::End {
        warn!("second signal: stopping, saved or not");
        server.hub.server.stop_asked.store(true, Ordering::Release);
        return;
    }
    let is_ending = server.hub.server.stop_by_signal(stop.is_interrupt());
    ending.asked(is_ending, now);
    if !is_ending {
        warn!("the signal did not stop the server; a second one stops it, saved or not");
        stop.forget();
    }
}

/// Starts the log as the command line and the parameters say.
fn start_log(config: &mut Config, logging: &LogOptions) -> Result<(), Failure> {
    let hub = &mut config.hub;
    let level = hub.redis.value(LOGLEVEL).to_lowercase();
    let mut plan = LogPlan::new(logging, log::level_of_redis(&level));
    let file = hub.redis.value(LOGFILE);
    plan.file = (!file.is_empty()).then(|| PathBuf::from(file));
    if hub.redis.value(SYSLOG_ENABLED).eq_ignore_ascii_case("yes") {
        let facility = hub.redis.value(SYSLOG_FACILITY).to_lowercase();
        let syslog = Syslog::new(&facility, hub.redis.value(SYSLOG_IDENT));
        let failed = |error| Failure::running(format!("syslog-enabled: {error}"));
        plan.syslog = Some(syslog.map_err(failed)?);
    }
    if let Some(filter) = &plan.filter {
        // CONFIG GET shows the level of the command line.
        let level = log::level_for_redis(filter).to_owned();
        hub.redis
            .parameters
            .push((LOGLEVEL.name().to_owned(), level));
    }
    log::start(plan)
}

/// Returns the absolute path, which is valid from every directory.
fn absolute(path: PathBuf) -> PathBuf {
    std::path::absolute(&path).unwrap_or(path)
}

/// Characters of a key below which a warning is given.
const KEY_LENGTH_MIN: usize = 16;
