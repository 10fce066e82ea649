//! Commands about persistence.

use super::scripting::forget_functions;
use super::{Call, State};
use crate::durability::{Requested, SaveJob};
use crate::lane_waits::{LaneWait, WaitReason};
use crate::parts::StopOrder;
use crate::quorum::NO_RELOAD;
use crate::stopping::{NOT_STOPPED, StopOutcome};

impl State {
    pub(super) fn last_save(&self, call: &mut Call<'_>) {
        let seconds = call.server.durability.saving.last_save_s();
        self.reply(call.context, |reply| reply.integer(seconds));
    }

    pub(super) fn save(&self, call: &mut Call<'_>) {
        let _permit = LaneWait::permit(WaitReason::Save);
        match call.server.durability.save(call.server) {
            Ok(()) => self.reply(call.context, |reply| reply.ok()),
            Err(text) => self.refuse(call, text),
        }
    }

    pub(super) fn background_save(&self, call: &mut Call<'_>) {
        let schedules = match call.arguments.get(1) {
            None => false,
            Some(word) if call.arguments.len() == 2 && word.eq_ignore_ascii_case(b"SCHEDULE") => {
                true
            }
            Some(_) => return self.refuse(call, "ERR syntax error"),
        };
        let schedules = schedules || self.is_executing;
        let text = match call
            .server
            .durability
            .request(call.server, SaveJob::Snapshot, schedules)
        {
            // It begins behind a transaction.
            Requested::Started if !self.is_executing => "Background saving started",
            Requested::Started | Requested::Scheduled => "Background saving scheduled",
            Requested::Running => {
                return self.refuse(call, "ERR Background save already in progress");
            }
            Requested::Other => return self.refuse(call, OTHER_JOB),
        };
        self.reply(call.context, |reply| reply.simple(text));
    }

    pub(super) fn background_rewrite(&self, call: &mut Call<'_>) {
        let text = match call
            .server
            .durability
            .request(call.server, SaveJob::Rewrite, true)
        {
            Requested::Started if !self.is_executing => {
                "Background append only file rewriting started"
            }
            Requested::Started | Requested::Scheduled => {
                "Background append only file rewriting scheduled"
            }
            Requested::Running | Requested::Other => {
                let text = "ERR Background append only file rewriting already in progress";
                return self.refuse(call, text);
            }
        };
        self.reply(call.context, |reply| reply.simple(text));
    }

    pub(super) fn shutdown(&mut self, call: &mut Call<'_>) {
        let mut order = StopOrder::default();
        let saves = &mut order.saves;
        for option in call.arguments.tail(1) {
            match option.to_ascii_uppercase().as_slice() {
                b"NOSAVE" if *saves != Some(true) => *saves = Some(false),
                b"SAVE" if *saves != Some(false) => *saves = Some(true),
                b"NOW" => order.is_immediate = true,
                b"FORCE" => order.is_forced = true,
                b"ABORT" if call.arguments.len() == 2 => return self.abort_shutdown(call),
                _ => return self.refuse(call, "ERR syntax error"),
            }
        }
        let permit = LaneWait::permit(WaitReason::Shutdown);
        let stop = call.server.stop(order);
        drop(permit);
        match stop {
            // The connection ends with the server, and tells the client of that.
            StopOutcome::Ends => self.set_closing(),
            StopOutcome::Waits => self.wait_for_end(call),
            StopOutcome::Failed => self.refuse(call, NOT_STOPPED),
        }
    }

    fn abort_shutdown(&self, call: &mut Call<'_>) {
        match call.server.abort_stop() {
            true => self.reply(call.context, |reply| reply.ok()),
            false => self.refuse(call, "ERR No shutdown in progress."),
        }
    }

    pub(super) fn debug_reload(&self, call: &mut Call<'_>) {
        if call.server.quorum.is_on() {
            return self.refuse(call, NO_RELOAD);
        }
        let (mut saves, mut flushes, mut replaces) = (true, true, false);
        for option in call.arguments.tail(2) {
            match option.to_ascii_uppercase().as_slice() {
                b"MERGE" => replaces = true,
                b"NOFLUSH" => flushes = false,
                b"NOSAVE" => saves = false,
                _ => {
                    let text =
                        "ERR DEBUG RELOAD only supports the MERGE, NOFLUSH and NOSAVE options.";
                    return self.refuse(call, text);
                }
            }
        }
        let server = call.server;
        let _permit = LaneWait::permit(WaitReason::Reload);
        let reloaded = server.durability.reload(server, saves, flushes, replaces);
        self.after_loading(call, reloaded);
    }

    pub(super) fn debug_load_log(&self, call: &mut Call<'_>) {
        if call.server.quorum.is_on() {
            return self.refuse(call, NO_RELOAD);
        }
        let _permit = LaneWait::permit(WaitReason::Reload);
        let reloaded = call.server.durability.reload_log(call.server);
        self.after_loading(call, reloaded);
    }

    fn after_loading(&self, call: &mut Call<'_>, reloaded: Result<(), &'static str>) {
        forget_functions(call.server, call.context.lane());
        match reloaded {
            Ok(()) => self.debug_done(call),
            Err(text) => self.refuse(call, text),
        }
    }
}

const OTHER_JOB: &str = "ERR Another child process is active (AOF?): can't BGSAVE right now. Use \
                         BGSAVE SCHEDULE in order to schedule a BGSAVE whenever possible.";
