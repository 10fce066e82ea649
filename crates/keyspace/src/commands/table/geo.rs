//! Commands on places.

use super::super::{Command, Group, Run, finding, geo};
use super::{command, key_spec, keyword_keys};

pub(super) const GEO: &[Command] = &[
    command(
        "geoadd",
        -5,
        "write denyoom",
        Group::Geo,
        "3.2.0",
        Run::Data(geo::geoadd),
    )
    .keys(&[key_spec(1, 0, 1, "RW update")])
    .categories("geo")
    .docs("Adds places or moves them.", "O(log(N)) for each place."),
    command(
        "geodist",
        -4,
        "readonly",
        Group::Geo,
        "3.2.0",
        Run::Data(geo::geodist),
    )
    .keys(&[key_spec(1, 0, 1, "RO access")])
    .categories("geo")
    .docs("Tells how far two places are apart.", "O(1)"),
    command(
        "geohash",
        -2,
        "readonly",
        Group::Geo,
        "3.2.0",
        Run::Data(geo::geohash),
    )
    .keys(&[key_spec(1, 0, 1, "RO access")])
    .categories("geo")
    .docs("Returns the geohashes of places.", "O(1) for each place."),
    command(
        "geopos",
        -2,
        "readonly",
        Group::Geo,
        "3.2.0",
        Run::Data(geo::geopos),
    )
    .keys(&[key_spec(1, 0, 1, "RO access")])
    .categories("geo")
    .docs(
        "Returns longitudes and latitudes of places.",
        "O(1) for each place.",
    ),
    command(
        "georadius",
        -6,
        "write denyoom movablekeys",
        Group::Geo,
        "3.2.0",
        Run::Data(geo::georadius),
    )
    .keys(&[
        key_spec(1, 0, 1, "RO access"),
        keyword_keys("STORE", 6, "OW update", finding::radius_store),
        keyword_keys("STOREDIST", 6, "OW update", finding::radius_store_distance),
    ])
    .categories("geo")
    .docs("Finds the places around a position.", NEAR),
    command(
        "georadius_ro",
        -6,
        "readonly",
        Group::Geo,
        "3.2.10",
        Run::Data(geo::georadius_ro),
    )
    .keys(&[key_spec(1, 0, 1, "RO access")])
    .categories("geo")
    .docs(
        "Finds the places around a position, and stores nothing.",
        NEAR,
    ),
    command(
        "georadiusbymember",
        -5,
        "write denyoom movablekeys",
        Group::Geo,
        "3.2.0",
        Run::Data(geo::georadiusbymember),
    )
    .keys(&[
        key_spec(1, 0, 1, "RO access"),
        keyword_keys("STORE", 5, "OW update", finding::radius_by_member_store),
        keyword_keys(
            "STOREDIST",
            5,
            "OW update",
            finding::radius_by_member_store_distance,
        ),
    ])
    .categories("geo")
    .docs("Finds the places around a place.", NEAR),
    command(
        "georadiusbymember_ro",
        -5,
        "readonly",
        Group::Geo,
        "3.2.10",
        Run::Data(geo::georadiusbymember_ro),
    )
    .keys(&[key_spec(1, 0, 1, "RO access")])
    .categories("geo")
    .docs("Finds the places around a place, and stores nothing.", NEAR),
    command(
        "geosearch",
        -7,
        "readonly",
        Group::Geo,
        "6.2.0",
        Run::Data(geo::geosearch),
    )
    .keys(&[key_spec(1, 0, 1, "RO access")])
    .categories("geo")
    .docs("Finds the places in a circle or a box.", NEAR),
    command(
        "geosearchstore",
        -8,
        "write denyoom",
        Group::Geo,
        "6.2.0",
        Run::Data(geo::geosearchstore),
    )
    .keys(&[
        key_spec(1, 0, 1, "OW update"),
        key_spec(2, 0, 1, "RO access"),
    ])
    .categories("geo")
    .docs("Stores the places in a circle or a box.", NEAR),
];

const NEAR: &str = "O(N+log(M)) for N places of M that are in the boxes around the shape.";
