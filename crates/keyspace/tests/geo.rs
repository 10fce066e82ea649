//! Geospatial commands through the public interface.

mod common;

use common::Server;
use tidewire_resp::Protocol;

fn sicily() -> Server {
    let server = Server::new();
    let line = "GEOADD s 13.361389 38.115556 Palermo 15.087269 37.502669 Catania \
                12.758489 38.788135 edge1 17.241510 38.788135 edge2";
    assert_eq!(server.line(line), ":4\r\n");
    server
}

/// Returns the members of a flat reply.
fn members(server: &Server, line: &str) -> Vec<String> {
    let reply = server.line(line);
    let lines = reply.split("\r\n");
    let texts = lines.filter(|text| !text.is_empty() && !text.starts_with(['*', '$', ':']));
    texts.map(str::to_owned).collect()
}

#[test]
fn positions_have_the_same_scores_as_in_redis() {
    let mut server = sicily();
    assert_eq!(
        server.line("ZSCORE s Palermo"),
        "$16\r\n3479099956230698\r\n"
    );
    assert_eq!(
        server.line("GEOPOS s Palermo none"),
        "*2\r\n*2\r\n$18\r\n13.361389338970184\r\n$16\r\n38.1155563954963\r\n*-1\r\n"
    );
    assert_eq!(
        server.line("GEOHASH s Palermo none"),
        "*2\r\n$11\r\nsqc8b49rny0\r\n$-1\r\n"
    );
    assert_eq!(
        server.line("GEODIST s Palermo Catania"),
        "$11\r\n166274.1516\r\n"
    );
    assert_eq!(
        server.line("GEODIST s Palermo Catania km"),
        "$8\r\n166.2742\r\n"
    );
    assert_eq!(server.line("GEODIST s Palermo Palermo"), "$6\r\n0.0000\r\n");
    assert_eq!(server.line("GEODIST s Palermo none"), "$-1\r\n");
    server.protocol = Protocol::Resp3;
    assert_eq!(
        server.line("GEOPOS s Palermo none"),
        "*2\r\n*2\r\n,13.361389338970184\r\n,38.1155563954963\r\n_\r\n"
    );
    assert_eq!(
        server.line("GEODIST s Palermo Catania"),
        "$11\r\n166274.1516\r\n"
    );
}

#[test]
fn geoadd_counts_as_its_options_say() {
    let server = sicily();
    assert_eq!(server.line("GEOADD s NX 1 1 Palermo 2 2 new"), ":1\r\n");
    assert_eq!(
        server.line("GEOADD s XX CH 1 1 Palermo 2 2 other"),
        ":1\r\n"
    );
    assert_eq!(server.line("GEOADD s 1 1 Palermo"), ":0\r\n");
    assert_eq!(server.line("GEOADD none XX 1 1 a"), ":0\r\n");
    assert_eq!(server.line("EXISTS none"), ":0\r\n");
    assert_eq!(server.line("ZCARD s"), ":5\r\n");
    for line in [
        "GEOADD s NX XX 1 1 a",
        "GEOADD s 1 1 a 2",
        "GEOADD s ch nx xx",
    ] {
        assert_eq!(server.line(line), "-ERR syntax error\r\n", "{line}");
    }
    assert_eq!(
        server.line("GEOADD s 1 1 a 200 100 b"),
        "-ERR invalid longitude,latitude pair 200.000000,100.000000\r\n"
    );
    assert_eq!(server.line("ZSCORE s a"), "$-1\r\n");
}

#[test]
fn a_search_finds_the_members_inside_the_shape_in_order() {
    let server = sicily();
    let circle = "GEOSEARCH s FROMLONLAT 15 37 BYRADIUS 200 km";
    assert_eq!(
        members(&server, &format!("{circle} ASC")),
        ["Catania", "Palermo"]
    );
    assert_eq!(
        members(&server, &format!("{circle} DESC")),
        ["Palermo", "Catania"]
    );
    assert_eq!(members(&server, &format!("{circle} COUNT 1")), ["Catania"]);
    assert_eq!(members(&server, &format!("{circle} COUNT 1 ANY")).len(), 1);
    assert_eq!(
        members(&server, "GEOSEARCH s FROMLONLAT 15 37 BYBOX 400 400 km ASC"),
        ["Catania", "Palermo", "edge2", "edge1"]
    );
    assert_eq!(
        server.line("GEORADIUS s 15 37 100 km WITHDIST WITHHASH WITHCOORD"),
        "*1\r\n*4\r\n$7\r\nCatania\r\n$7\r\n56.4413\r\n:3479447370796909\r\n\
         *2\r\n$18\r\n15.087267458438873\r\n$17\r\n37.50266842333162\r\n"
    );
    assert_eq!(
        members(&server, "GEORADIUSBYMEMBER_RO s Catania 1 m"),
        ["Catania"]
    );
    // A search across the date line.
    server.line("GEOADD date 179.9 0 east -179.9 0 west");
    assert_eq!(
        members(&server, "GEOSEARCH date FROMMEMBER east BYRADIUS 50 km ASC"),
        ["east", "west"]
    );
}

#[test]
fn search_results_can_be_stored() {
    let server = sicily();
    let search = "s FROMLONLAT 15 37 BYRADIUS 200 km";
    assert_eq!(
        server.line(&format!("GEOSEARCHSTORE to {search}")),
        ":2\r\n"
    );
    assert_eq!(
        server.line("ZSCORE to Palermo"),
        server.line("ZSCORE s Palermo")
    );
    assert_eq!(
        server.line(&format!("GEOSEARCHSTORE to {search} STOREDIST")),
        ":2\r\n"
    );
    assert!(server.line("ZSCORE to Catania").contains("\r\n56.441"));
    assert_eq!(
        server.line("GEORADIUS s 15 37 200 km STORE a STOREDIST b COUNT 1"),
        ":1\r\n"
    );
    assert_eq!(server.line("EXISTS a b"), ":1\r\n");
    assert!(server.line("ZSCORE b Catania").contains("\r\n56.441"));
    assert_eq!(
        server
            .line("GEORADIUSBYMEMBER s none 1 m STORE to")
            .get(..4),
        Some("-ERR")
    );
    assert_eq!(
        server.line("GEORADIUSBYMEMBER none x 1 m STORE to"),
        ":0\r\n"
    );
    assert_eq!(server.line("EXISTS to"), ":0\r\n");
    assert_eq!(
        server.line("GEOSEARCHSTORE b s FROMLONLAT 0 0 BYRADIUS 1 m"),
        ":0\r\n"
    );
    assert_eq!(server.line("EXISTS b"), ":0\r\n");
}

#[test]
fn invalid_arguments_get_the_errors_of_redis() {
    let server = sicily();
    for (line, text) in [
        (
            "GEOSEARCH s FROMLONLAT 0 0 ASC WITHDIST",
            "exactly one of BYRADIUS and BYBOX can be specified for GEOSEARCH",
        ),
        (
            "geosearch s BYRADIUS 1 m ASC WITHDIST",
            "exactly one of FROMMEMBER or FROMLONLAT can be specified for geosearch",
        ),
        (
            "GEOSEARCH s FROMLONLAT 0 0 BYRADIUS 1 m BYBOX 1 1 m",
            "syntax error",
        ),
        (
            "GEOSEARCH s FROMLONLAT 0 0 BYRADIUS 1 m STOREDIST",
            "syntax error",
        ),
        (
            "GEOSEARCH s FROMLONLAT 0 0 BYRADIUS 1 m ANY",
            "the ANY argument requires COUNT argument",
        ),
        (
            "GEOSEARCH s FROMLONLAT 0 0 BYRADIUS 1 m COUNT 0",
            "COUNT must be > 0",
        ),
        (
            "GEOSEARCH s FROMLONLAT 0 0 BYRADIUS x m",
            "need numeric radius",
        ),
        (
            "GEOSEARCH s FROMLONLAT 0 0 BYBOX -1 1 m",
            "height or width cannot be negative",
        ),
        (
            "GEOSEARCH s FROMMEMBER none BYBOX 1 1 m",
            "could not decode requested zset member",
        ),
        (
            "GEORADIUS s 0 0 1 lightyears",
            "unsupported unit provided. please use M, KM, FT, MI",
        ),
        ("GEORADIUS s 0 0 -1 m", "radius cannot be negative"),
        ("GEORADIUS_RO s 0 0 1 m STORE to", "syntax error"),
        (
            "GEORADIUS s 0 0 1 m STORE to WITHDIST",
            "STORE option in GEORADIUS is not compatible with WITHDIST, WITHHASH and WITHCOORD \
             options",
        ),
        (
            "GEOSEARCHSTORE to s FROMLONLAT 0 0 BYRADIUS 1 m WITHHASH",
            "GEOSEARCHSTORE is not compatible with WITHDIST, WITHHASH and WITHCOORD options",
        ),
    ] {
        assert_eq!(server.line(line), format!("-ERR {text}\r\n"), "{line}");
    }
    server.line("SET text x");
    for line in [
        "GEOADD text 1 1 a",
        "GEOPOS text a",
        "GEOSEARCH text nonsense of many kinds it is",
    ] {
        assert!(server.line(line).starts_with("-WRONGTYPE"), "{line}");
    }
}
