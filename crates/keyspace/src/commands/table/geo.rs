//! Geospatial commands.

use super::super::finding::geo_store;
use super::super::geo::{self, SearchCommand};
use super::super::{Command, Group, Run};
use super::{command, key_spec, keyword_keys};

#[rustfmt::skip]
pub(super) const GEO: &[Command] = &[
    command("geoadd", -5, "write denyoom", Group::Geo, "3.2.0", Run::Data(geo::geoadd))
        .keys(&[key_spec(1, 0, 1, "RW update")]).categories("geo")
        .syntax("key:k [condition(NX | XX)] [CH!change] data(longitude:d latitude:d member)+")
        .docs("Adds members with positions, or changes positions.", "O(log(N)) for each place."),
    command("geodist", -4, "readonly", Group::Geo, "3.2.0", Run::Data(geo::geodist))
        .keys(&[key_spec(1, 0, 1, "RO access")]).categories("geo")
        .syntax("key:k member1 member2 [unit(M | KM | FT | MI)]")
        .docs("Returns the distance of two members.", "O(1)"),
    command("geohash", -2, "readonly", Group::Geo, "3.2.0", Run::Data(geo::geohash))
        .keys(&[key_spec(1, 0, 1, "RO access")]).categories("geo").syntax("key:k [member+]")
        .docs("Returns the geohashes of members.", "O(1) for each place."),
    command("geopos", -2, "readonly", Group::Geo, "3.2.0", Run::Data(geo::geopos))
        .keys(&[key_spec(1, 0, 1, "RO access")]).categories("geo").syntax("key:k [member+]")
        .docs("Returns the longitudes and latitudes of members.", "O(1) for each place."),
    command("georadius", -6, "write denyoom movablekeys", Group::Geo, "3.2.0",
        Run::Data(|call| geo::search(call, SearchCommand::Radius { stores: true })))
        .keys(&[key_spec(1, 0, 1, "RO access"),
            keyword_keys("STORE", 6, "OW update", |words| geo_store(words, 6, "store")),
            keyword_keys("STOREDIST", 6, "OW update", |words| geo_store(words, 6, "storedist"))])
        .categories("geo")
        .syntax("key:k longitude:d latitude:d radius:d unit(M | KM | FT | MI) [WITHCOORD] \
            [WITHDIST] [WITHHASH] [count-block(COUNT=count:i [ANY])] [order(ASC | DESC)] \
            [store(STORE=storekey<key>:k1 | STOREDIST=storedistkey<key>:k2)]")
        .docs("Finds members around a position.", NEAR),
    command("georadius_ro", -6, "readonly", Group::Geo, "3.2.10",
        Run::Data(|call| geo::search(call, SearchCommand::Radius { stores: false })))
        .keys(&[key_spec(1, 0, 1, "RO access")]).categories("geo")
        .syntax("key:k longitude:d latitude:d radius:d unit(M | KM | FT | MI) [WITHCOORD] \
            [WITHDIST] [WITHHASH] [count-block(COUNT=count:i [ANY])] [order(ASC | DESC)]")
        .docs("Finds members around a position, without storing.", NEAR),
    command("georadiusbymember", -5, "write denyoom movablekeys", Group::Geo, "3.2.0",
        Run::Data(|call| geo::search(call, SearchCommand::RadiusByMember { stores: true })))
        .keys(&[key_spec(1, 0, 1, "RO access"),
            keyword_keys("STORE", 5, "OW update", |words| geo_store(words, 5, "store")),
            keyword_keys("STOREDIST", 5, "OW update", |words| geo_store(words, 5, "storedist"))])
        .categories("geo")
        .syntax("key:k member radius:d unit(M | KM | FT | MI) [WITHCOORD] [WITHDIST] [WITHHASH] \
            [count-block(COUNT=count:i [ANY])] [order(ASC | DESC)] [store(STORE=storekey<key>:k1 | \
            STOREDIST=storedistkey<key>:k2)]")
        .docs("Finds members around a member.", NEAR),
    command("georadiusbymember_ro", -5, "readonly", Group::Geo, "3.2.10",
        Run::Data(|call| geo::search(call, SearchCommand::RadiusByMember { stores: false })))
        .keys(&[key_spec(1, 0, 1, "RO access")]).categories("geo")
        .syntax("key:k member radius:d unit(M | KM | FT | MI) [WITHCOORD] [WITHDIST] [WITHHASH] \
            [count-block(COUNT=count:i [ANY])] [order(ASC | DESC)]")
        .docs("Finds members around a member, without storing.", NEAR),
    command("geosearch", -7, "readonly", Group::Geo, "6.2.0",
        Run::Data(|call| geo::search(call, SearchCommand::Search)))
        .keys(&[key_spec(1, 0, 1, "RO access")]).categories("geo")
        .syntax("key:k from(FROMMEMBER=member | FROMLONLAT=fromlonlat(longitude:d latitude:d)) \
            by(circle(BYRADIUS=radius:d unit(M | KM | FT | MI)) | box(BYBOX=width:d height:d \
            unit(M | KM | FT | MI))) [order(ASC | DESC)] [count-block(COUNT=count:i [ANY])] \
            [WITHCOORD] [WITHDIST] [WITHHASH]")
        .docs("Finds members in a circle or a box.", NEAR),
    command("geosearchstore", -8, "write denyoom", Group::Geo, "6.2.0",
        Run::Data(|call| geo::search(call, SearchCommand::SearchStore)))
        .keys(&[key_spec(1, 0, 1, "OW update"), key_spec(2, 0, 1, "RO access")]).categories("geo")
        .syntax("destination:k source:k1 from(FROMMEMBER=member | \
            FROMLONLAT=fromlonlat(longitude:d latitude:d)) by(circle(BYRADIUS=radius:d unit(M | KM \
            | FT | MI)) | box(BYBOX=width:d height:d unit(M | KM | FT | MI))) [order(ASC | DESC)] \
            [count-block(COUNT=count:i [ANY])] [STOREDIST]")
        .docs("Stores members in a circle or a box.", NEAR),
];

const NEAR: &str = "O(N+log(M)) for N places of M that are in the boxes around the shape.";
