//! HTTP: the console's files, metrics, health, logins, and the upgrade to a stream.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use tidewire_redis::User;
use tidewire_rows::json::{Scanner, decode_base64, decode_text, text_of, write_text};
use tidewire_web::http::{Headers, Method, Reply, Request};
use tidewire_web::websocket::accept_upgrade;
use tracing::warn;

use super::logins::LOGIN_S;
use super::metrics::{MetricsPage, tell_logged_out};
use super::stream::{PROTOCOLS, Stream};
use super::{Around, Denied, Stage, Taken, WebSession, is_local_name, write_reply};

/// Answers a request.
pub(super) fn answer(
    session: &mut WebSession,
    around: &mut Around<'_>,
    request: &Request<'_>,
) -> Taken {
    let counters = &around.hub.web.counters;
    counters.requests.fetch_add(1, Ordering::Relaxed);
    if !is_host_allowed(session, around, request) {
        let text = "unknown host: open the page by the address of the hub, or list its name in \
                    --web-origins\n";
        return session.reply(around, request, &plain("421 Misdirected Request", text));
    }
    if request.path == "/stream" {
        return session.upgrade(around, request);
    }
    match (request.method, request.path) {
        (Method::Post, "/login") => session.answer_login(around, request),
        (Method::Post, "/logout") if !is_origin_allowed(session, around, request) => {
            session.answer_foreign(around, request)
        }
        (Method::Post, "/logout") => {
            let ended = cookie(request.headers).and_then(|one| around.hub.web.logins.end(one));
            if let Some(ended) = ended {
                tell_logged_out(around.hub, ended);
            }
            let headers = cookie_header("", 0, session.is_secure);
            session.reply(around, request, &empty("204 No Content", &headers))
        }
        (Method::Post, _) => {
            let mut reply = plain("405 Method Not Allowed", "only GET and HEAD are allowed\n");
            reply.headers = "Allow: GET, HEAD\r\n";
            session.reply(around, request, &reply)
        }
        (_, "/health") => session.reply(around, request, &plain("200 OK", "ok\n")),
        (_, "/ready") => {
            let missing = around.hub.missing();
            let lines: String = missing.iter().map(|line| format!("{line}\n")).collect();
            let reply = match missing.is_empty() {
                true => plain("200 OK", "ready\n"),
                false => plain("503 Service Unavailable", &lines),
            };
            session.reply(around, request, &reply)
        }
        (_, "/metrics") => session.answer_metrics(around, request),
        (_, "/api/session") => session.answer_session(around, request),
        (_, path) => session.answer_asset(around, request, path),
    }
}

impl WebSession {
    fn reply(
        &mut self,
        around: &mut Around<'_>,
        request: &Request<'_>,
        reply: &Reply<'_>,
    ) -> Taken {
        let has_body = request.method != Method::Head;
        if let Some(out) = around.context.out(self.id) {
            write_reply(reply, has_body, request.keeps_alive, out.buffer());
        }
        match request.keeps_alive {
            true => Taken::Used(request.size_bytes),
            false => Taken::Ends,
        }
    }

    fn answer_asset(
        &mut self,
        around: &mut Around<'_>,
        request: &Request<'_>,
        path: &str,
    ) -> Taken {
        let path = if path == "/" { "/index.html" } else { path };
        let web = around.hub.config.web.clone();
        let Some((asset, tag)) = web.find(path) else {
            return self.reply(around, request, &plain("404 Not Found", "not found\n"));
        };
        let mut codings = request.headers.elements("Accept-Encoding");
        let packed = asset.packed.filter(|_| takes_gzip(&mut codings));
        // The tag is of the bytes that are sent, so the two forms have two tags.
        let tag = match packed {
            Some(_) => format!("{}-gz\"", tag.trim_end_matches('"')),
            None => tag.to_owned(),
        };
        let encoding = packed.map_or("", |_| "Content-Encoding: gzip\r\n");
        let headers = format!(
            "ETag: {tag}\r\nCache-Control: no-cache\r\nVary: Accept-Encoding\r\n{encoding}"
        );
        let mut known = request.headers.elements("If-None-Match");
        // The comparison is weak, as the RFC has it.
        let is_known =
            known.any(|known| known == "*" || known.strip_prefix("W/").unwrap_or(known) == tag);
        let reply = match is_known {
            true => empty("304 Not Modified", &headers),
            false => Reply {
                status: "200 OK",
                content_type: asset.content_type,
                headers: &headers,
                body: packed.unwrap_or(asset.body),
            },
        };
        self.reply(around, request, &reply)
    }

    /// The metrics are for users that may run INFO.
    fn answer_metrics(&mut self, around: &mut Around<'_>, request: &Request<'_>) -> Taken {
        let user = match self.user_of(around, request.headers) {
            Ok(Some(user)) => user,
            Ok(None) => return self.answer_denied(around, request, Denied::Wrong),
            Err(denied) => return self.answer_denied(around, request, denied),
        };
        self.identity.become_user(&around.hub.server.access, user);
        if let Err(text) = self.identity.check(&around.hub.server, &[b"info"]) {
            return self.reply(
                around,
                request,
                &plain("403 Forbidden", &format!("{text}\n")),
            );
        }
        let Some(body) = self.metrics.take() else {
            // The request is read again when the page is made.
            MetricsPage::ask(around.hub, (around.context.lane(), self.id));
            around.context.hold(self.id);
            return Taken::Waits;
        };
        let reply = Reply {
            content_type: "text/plain; version=0.0.4; charset=utf-8",
            ..plain("200 OK", &body)
        };
        self.reply(around, request, &reply)
    }

    fn answer_session(&mut self, around: &mut Around<'_>, request: &Request<'_>) -> Taken {
        let user = match self.user_of(around, request.headers) {
            Ok(user) => user,
            Err(denied) => return self.answer_denied(around, request, denied),
        };
        let mut body = b"{\"user\":".to_vec();
        match &user {
            Some(user) => write_text(&mut body, user.name_bytes()),
            None => body.extend_from_slice(b"null"),
        }
        let needs = user.is_none();
        body.extend_from_slice(format!(",\"needs_login\":{needs}}}").as_bytes());
        let reply = json("200 OK", &body, "");
        self.reply(around, request, &reply)
    }

    fn answer_login(&mut self, around: &mut Around<'_>, request: &Request<'_>) -> Taken {
        if !is_origin_allowed(self, around, request) {
            return self.answer_foreign(around, request);
        }
        let Some((name, password)) = login_of(request.body) else {
            let reply = plain("400 Bad Request", "a JSON object with user and password\n");
            return self.reply(around, request, &reply);
        };
        let user = match self.log_in(around, (&name, &password)) {
            Ok(user) => user,
            Err(denied) => return self.answer_denied(around, request, denied),
        };
        let (now_ns, logins) = (around.context.now_ns(), &around.hub.web.logins);
        // The browser forgets the login that it had, and no page could end that any more.
        let older = cookie(request.headers).and_then(|one| logins.end(one));
        if let Some(older) = older {
            tell_logged_out(around.hub, older);
        }
        let Some((token, ended)) = logins.begin(user, now_ns) else {
            let reply = plain("503 Service Unavailable", "no randomness\n");
            return self.reply(around, request, &reply);
        };
        if let Some(ended) = ended {
            tell_logged_out(around.hub, ended);
        }
        let headers = cookie_header(&token, LOGIN_S, self.is_secure);
        self.reply(around, request, &empty("204 No Content", &headers))
    }

    fn answer_denied(
        &mut self,
        around: &mut Around<'_>,
        request: &Request<'_>,
        denied: Denied,
    ) -> Taken {
        match denied {
            Denied::Wrong => {
                let body = br#"{"code":"WRONGPASS","message":"invalid username-password pair or user is disabled"}"#;
                self.reply(around, request, &json("401 Unauthorized", body, ""))
            }
            Denied::Later(seconds) => {
                let body = br#"{"code":"LIMIT","message":"too many failed logins"}"#;
                let headers = format!("Retry-After: {seconds}\r\n");
                let reply = json("429 Too Many Requests", body, &headers);
                self.reply(around, request, &reply)
            }
        }
    }

    fn answer_foreign(&mut self, around: &mut Around<'_>, request: &Request<'_>) -> Taken {
        if let Some(left_out) = FOREIGN_PAGE.note_now() {
            let peer = self.address();
            let text = "a web page of another host was refused: its origin is not in --web-origins";
            warn!(left_out, peer, "{text}");
        }
        let text = "the page's origin is not in --web-origins\n";
        self.reply(around, request, &plain("403 Forbidden", text))
    }

    fn upgrade(&mut self, around: &mut Around<'_>, request: &Request<'_>) -> Taken {
        if !is_origin_allowed(self, around, request) {
            return self.answer_foreign(around, request);
        }
        let Some((response, protocol)) = accept_upgrade(request.head, &PROTOCOLS) else {
            let mut reply = plain("426 Upgrade Required", "a WebSocket is expected\n");
            reply.headers = "Upgrade: websocket\r\n";
            return self.reply(around, request, &reply);
        };
        let user = match self.user_of(around, request.headers) {
            Ok(user) => user,
            Err(denied) => return self.answer_denied(around, request, denied),
        };
        if let Some(out) = around.context.out(self.id) {
            out.buffer().extend_from_slice(response.as_bytes());
        }
        let now_ns = around.context.now_ns();
        let cookie = cookie(request.headers);
        self.login = cookie.and_then(|one| around.hub.web.logins.mark(one, now_ns));
        self.begin_stream(around, user, protocol == Some(1));
        let mut members = request.query.split('&');
        let name = members.find_map(|member| member.strip_prefix("name="));
        let name = decode_query(name.unwrap_or_default());
        self.identity.show_page(&around.hub.server, &name);
        Taken::Used(request.size_bytes)
    }

    fn begin_stream(&mut self, around: &mut Around<'_>, user: Option<Arc<User>>, is_packed: bool) {
        if let Some(user) = user {
            self.identity.become_user(&around.hub.server.access, user);
        }
        let stream = Stream::begin(self.id, &self.identity, around, is_packed);
        self.stage = Stage::Stream(Box::new(stream));
    }
}

/// Returns whether the request's `Host` is a name of this hub. A page of another host can give its
/// own name the address of this machine (DNS rebinding), and would then be of the same origin.
fn is_host_allowed(session: &WebSession, around: &Around<'_>, request: &Request<'_>) -> bool {
    let host = request.host;
    if session.is_secure || host.is_empty() || is_local_name(host) {
        // With TLS the certificate is for the name.
        return true;
    }
    let is_address = host.parse::<std::net::SocketAddr>().is_ok()
        || host
            .trim_matches(['[', ']'])
            .parse::<std::net::IpAddr>()
            .is_ok();
    let is_listed = || {
        let head = format!("GET / HTTP/1.1\r\nOrigin: http://{host}\r\n\r\n");
        around.hub.config.web.origins.accept(head.as_bytes())
    };
    is_address || is_listed()
}

/// Returns whether a page with this origin may act: it has the same host, or is listed. Programs
/// have no origin.
fn is_origin_allowed(session: &WebSession, around: &Around<'_>, request: &Request<'_>) -> bool {
    let scheme = if session.is_secure { "https" } else { "http" };
    let own = format!("{scheme}://{}", request.host);
    let mut origins = request.headers.values("Origin");
    origins.all(|origin| origin.eq_ignore_ascii_case(&own))
        || around.hub.config.web.origins.accept(request.head)
}

/// Returns the value of the login's cookie.
pub(super) fn cookie(headers: Headers<'_>) -> Option<&str> {
    let mut cookies = headers.values("Cookie").flat_map(|list| list.split(';'));
    cookies.find_map(|cookie| cookie.trim().strip_prefix("tidewire="))
}

/// Returns user and password of `Authorization: Basic`.
pub(super) fn credentials(headers: Headers<'_>) -> Option<(Vec<u8>, Vec<u8>)> {
    let value = headers.values("Authorization").next()?;
    let (scheme, encoded) = value.split_once(' ')?;
    if !scheme.eq_ignore_ascii_case("basic") {
        return None;
    }
    let text = decode_base64(encoded.trim().as_bytes())?;
    let colon = text.iter().position(|byte| *byte == b':')?;
    Some((text[..colon].to_vec(), text[colon + 1..].to_vec()))
}

/// Returns whether a browser that lists these codings takes gzip. What it says of gzip counts more
/// than what it says of all codings.
fn takes_gzip<'h>(codings: impl Iterator<Item = &'h str>) -> bool {
    let (mut own, mut any) = (None, None);
    for coding in codings {
        let (name, parameters) = coding.split_once(';').unwrap_or((coding, ""));
        let mut parameters = parameters.split(';').filter_map(|one| one.split_once('='));
        let weight = parameters.find(|(name, _)| name.trim().eq_ignore_ascii_case("q"));
        let weight = weight.map_or(1.0, |(_, weight)| weight.trim().parse().unwrap_or(0.0));
        match name.trim() {
            "*" => any = Some(weight),
            name if is_gzip(name) => own = Some(weight),
            _ => {}
        }
    }
    own.or(any).is_some_and(|weight: f32| weight > 0.0)
}

fn is_gzip(coding: &str) -> bool {
    ["gzip", "x-gzip"]
        .iter()
        .any(|name| name.eq_ignore_ascii_case(coding))
}

/// Decodes a value of a query: `+`, and octets as `%` and two digits.
fn decode_query(text: &str) -> Vec<u8> {
    let (mut rest, mut out) = (text.as_bytes(), Vec::with_capacity(text.len()));
    while let Some((first, behind)) = rest.split_first() {
        let digits = behind
            .get(..2)
            .and_then(|two| std::str::from_utf8(two).ok());
        let octet = digits.and_then(|digits| u8::from_str_radix(digits, 16).ok());
        (rest, _) = match (*first, octet) {
            (b'%', Some(octet)) => (&behind[2..], out.push(octet)),
            (b'+', _) => (behind, out.push(b' ')),
            (other, _) => (behind, out.push(other)),
        };
    }
    out
}

/// Returns user and password of a login's body.
fn login_of(body: &[u8]) -> Option<(Vec<u8>, Vec<u8>)> {
    let (mut user, mut password) = (None, None);
    let mut scanner = Scanner::new(body);
    scanner.expect(b'{').ok()?;
    let read = scanner.members(|scanner, name| {
        let value = match scanner.peek() {
            Some(b'"') => Some(decode_text(text_of(scanner.string()?))?),
            _ => {
                scanner.value()?;
                None
            }
        };
        match name {
            b"\"user\"" => user = value,
            b"\"password\"" => password = value,
            _ => {}
        }
        Ok(())
    });
    read.and_then(|()| scanner.end()).ok()?;
    Some((user.unwrap_or_else(|| b"default".to_vec()), password?))
}

fn cookie_header(token: &str, seconds: u64, is_secure: bool) -> String {
    let secure = if is_secure { "; Secure" } else { "" };
    format!(
        "Set-Cookie: tidewire={token}; HttpOnly; SameSite=Strict; Path=/; \
         Max-Age={seconds}{secure}\r\nCache-Control: no-store\r\n"
    )
}

fn plain<'r>(status: &'r str, body: &'r str) -> Reply<'r> {
    Reply {
        status,
        content_type: "text/plain; charset=utf-8",
        headers: "Cache-Control: no-store\r\n",
        body: body.as_bytes(),
    }
}

fn json<'r>(status: &'r str, body: &'r [u8], headers: &'r str) -> Reply<'r> {
    Reply {
        status,
        content_type: "application/json",
        headers,
        body,
    }
}

fn empty<'r>(status: &'r str, headers: &'r str) -> Reply<'r> {
    Reply {
        status,
        content_type: "",
        headers,
        body: b"",
    }
}

/// Limits the log lines about web pages.
static FOREIGN_PAGE: tidewire_retry::Seldom = tidewire_retry::Seldom::new(3, 10);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn gzip_is_taken_in_any_case_and_not_with_weight_0() {
        for (list, is_taken) in [
            ("gzip", true),
            ("GZIP", true),
            ("X-GZip", true),
            ("br, Gzip;q=0.1", true),
            ("*", true),
            ("*;q=0, gzip", true),
            ("gzip ; Q=1.000", true),
            ("gzip;q=0", false),
            ("GZIP; q=0.000", false),
            ("gzip;q=0, *", false),
            ("*, gzip; Q=0", false),
            ("gzip;q=nonsense", false),
            ("br, deflate", false),
            ("", false),
        ] {
            assert_eq!(
                takes_gzip(list.split(',').map(str::trim)),
                is_taken,
                "{list}"
            );
        }
    }
}
