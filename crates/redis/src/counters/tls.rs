//! Certificates in use: when they expire, and how often their files were read again.

use super::{Row, ServerLook};
use crate::certificates::Dated;

pub(super) const TLS: &[Row] = &[
    Row::signed("tls_certificate_days", |look| days(look, server(look)))
        .when(|look| server(look).is_some()),
    Row::signed("tls_certificate_ends", |look| ends_s(server(look)))
        .when(|look| server(look).is_some()),
    Row::signed("tls_client_certificate_days", |look| {
        days(look, client(look))
    })
    .when(|look| client(look).is_some()),
    Row::signed("tls_client_certificate_ends", |look| ends_s(client(look)))
        .when(|look| client(look).is_some()),
    Row::count("tls_reloads", |look| look.certificates.reloads()[0])
        .counter(680, "tls_reloads_total")
        .help("Readings of the TLS certificates after the start, by whether they were used.")
        .label("used", "yes"),
    Row::count("tls_reloads_refused", |look| look.certificates.reloads()[1])
        .counter(681, "tls_reloads_total")
        .label("used", "no"),
    Row::series(|look, name, page| {
        let of = [("server", server(look)), ("links", client(look))];
        for (label, dated) in of {
            if let Some(dated) = dated {
                page.value(name, &[("of", label)], dated.ends_s);
            }
        }
    })
    .gauge(670, "tls_certificate_ends_seconds")
    .help("When the TLS certificate expires, in seconds since the UNIX epoch."),
];

fn server(look: &ServerLook<'_>) -> Option<Dated> {
    look.certificates.server_dates()
}

fn client(look: &ServerLook<'_>) -> Option<Dated> {
    look.certificates.client_dates()
}

fn days(look: &ServerLook<'_>, dated: Option<Dated>) -> i64 {
    let now_s = i64::try_from(look.unix_ns / 1_000_000_000).unwrap_or(i64::MAX);
    dated.map_or(0, |dated| dated.days_left(now_s))
}

fn ends_s(dated: Option<Dated>) -> i64 {
    dated.map_or(0, |dated| dated.ends_s)
}
