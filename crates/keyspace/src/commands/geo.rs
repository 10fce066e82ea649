//! Geospatial commands. Positions are members of sorted sets; the score encodes the position.

use std::ops::Bound;

use tidewire_resp::number::parse_integer;
use tidewire_resp::{ArgumentList, Writer};

use super::Call;
use super::options::is;
use super::sorted_sets::{parse_score, reply_scores};
use crate::error::{CommandError, ECHOED_BYTES_MAX, Result, printable};
use crate::geohash::{Area, AreaShape, Position, middle_of};
use crate::observer::Event;
use crate::sorted_set::{self, Builder, Scored};
use crate::text::Text;
use crate::view::Expiry;

pub(super) fn geoadd(call: &mut Call<'_, '_, '_>) -> Result {
    let (mut new_only, mut old_only, mut count_changed) = (false, false, false);
    let mut first = 2;
    while let Some(option) = call.arguments.get(first) {
        match option {
            option if is(option, "nx") => new_only = true,
            option if is(option, "xx") => old_only = true,
            option if is(option, "ch") => count_changed = true,
            _ => break,
        }
        first += 1;
    }
    let places = call.rest(first).step_by(3);
    if !call.rest(first).len().is_multiple_of(3) || new_only && old_only {
        return Err(CommandError::Syntax);
    }
    let scores: Vec<f64> = places
        .clone()
        .map(|at| Ok(position(call, at)?.score()))
        .collect::<Result<_>>()?;
    if scores.is_empty() {
        return Err(CommandError::Syntax);
    }
    let key = call.key(1);
    call.view.read_sorted_set(key)?;
    let limits = call.view.keyspace.sorted_set_limits();
    let place = match call.view.find(key) {
        Some(place) => {
            sorted_set::expect(call.view.entry_mut(key, place), scores.len(), limits);
            place
        }
        None if old_only => {
            call.reply.integer(0);
            return Ok(());
        }
        None => {
            let bytes = call.argument(first + 2).len();
            let empty = sorted_set::empty(scores.len(), bytes, limits);
            call.view.insert(key, empty, Expiry::Clear)
        }
    };
    let entry = call.view.entry_mut(key, place);
    let (mut added, mut changed) = (0, 0);
    for (at, &score) in places.clone().zip(&scores) {
        let member = call.arguments.get(at + 2).unwrap_or_default();
        if new_only || old_only {
            let there = Scored::of(entry).is_some_and(|scored| scored.score(member).is_some());
            if there == new_only {
                continue;
            }
        }
        match sorted_set::insert(entry, member, score, limits) {
            None => added += 1,
            Some(old) => changed += i64::from(old != score),
        }
    }
    if added + changed > 0 {
        call.view.changed(key, place, Event::SortedSetAdd);
        propagate_added(call, first, &scores);
    }
    call.reply.integer(if count_changed {
        added + changed
    } else {
        added
    });
    Ok(())
}

/// Propagates GEOADD as the ZADD that it is. The positions begin at argument `first`.
fn propagate_added(call: &mut Call<'_, '_, '_>, first: usize, scores: &[f64]) {
    if !call.is_propagated() {
        return;
    }
    let mut words = ArgumentList::new();
    words.push(b"ZADD");
    words.extend(call.arguments.iter().take(first).skip(1));
    for (at, &score) in call.rest(first).step_by(3).zip(scores) {
        // An integer of 52 bits.
        words.push(itoa::Buffer::new().format(score as i64).as_bytes());
        words.push(call.argument(at + 2));
    }
    call.propagate(words.as_arguments());
}

pub(super) fn geodist(call: &mut Call<'_, '_, '_>) -> Result {
    let unit_m = match call.arguments.len() {
        4 => 1.0,
        5 => unit_m(call.argument(4))?,
        _ => return Err(CommandError::Syntax),
    };
    let key = call.key(1);
    let (from, to) = (call.argument(2), call.argument(3));
    let positions = call.view.read_sorted_set(key)?.and_then(|places| {
        let position = |member| places.score(member).map(Position::of_score);
        Some((position(from)?, position(to)?))
    });
    match positions {
        Some((from, to)) => {
            let text = distance_text(from.distance_m(to) / unit_m);
            call.reply.bulk(&text);
        }
        None => call.reply.null(),
    }
    Ok(())
}

pub(super) fn geohash(call: &mut Call<'_, '_, '_>) -> Result {
    reply_scores(call, |reply, score| match score {
        Some(score) => reply.bulk(&Position::of_score(score).geohash()),
        None => reply.null(),
    })
}

pub(super) fn geopos(call: &mut Call<'_, '_, '_>) -> Result {
    reply_scores(call, |reply, score| match score {
        Some(score) => reply_position(reply, Position::of_score(score)),
        None => reply.null_array(),
    })
}

fn reply_position(reply: &mut Writer<'_>, position: Position) {
    reply.array(2);
    reply.double(position.longitude);
    reply.double(position.latitude);
}

#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum SearchCommand {
    Radius { stores: bool },
    RadiusByMember { stores: bool },
    Search,
    SearchStore,
}

impl SearchCommand {
    fn is_search(self) -> bool {
        matches!(self, SearchCommand::Search | SearchCommand::SearchStore)
    }

    /// Returns whether STORE and STOREDIST are allowed.
    fn takes_store(self) -> bool {
        let (SearchCommand::Radius { stores } | SearchCommand::RadiusByMember { stores }) = self
        else {
            return false;
        };
        stores
    }
}

/// The options of a search.
#[derive(Default)]
struct GeoQuery {
    from: Origin,
    /// `None` for a member of a missing key.
    center: Option<Position>,
    shape: Option<AreaShape>,
    unit_m: f64,
    with_distance: bool,
    with_hash: bool,
    with_coordinates: bool,
    /// 0 means all.
    count: usize,
    any: bool,
    order: Option<Direction>,
    /// The argument with the destination key.
    store_at: Option<usize>,
    stores_distances: bool,
}

#[derive(Default, PartialEq, Eq)]
enum Origin {
    #[default]
    Nowhere,
    Member,
    Position,
    /// The middle of a polygon.
    Middle,
}

#[derive(Clone, Copy)]
enum Direction {
    NearestFirst,
    FarthestFirst,
}

/// A position in the search result.
struct FoundPlace<'v> {
    member: Text<'v>,
    score: f64,
    position: Position,
    distance_m: f64,
}

pub(super) fn search(call: &mut Call<'_, '_, '_>, command: SearchCommand) -> Result {
    let source_at = if command == SearchCommand::SearchStore {
        2
    } else {
        1
    };
    let source = call.key(source_at);
    call.view.counts_reads = true;
    let there = call.view.read_sorted_set(source)?.is_some();
    call.view.counts_reads = false;
    let query = GeoQuery::parse(call, command, source_at, there)?;
    let found = match (query.center, query.shape.clone()) {
        (Some(center), Some(shape)) => {
            let area = Area { center, shape };
            let places = call.view.read_sorted_set(source)?;
            places.map_or_else(Vec::new, |places| query.find(places, &area))
        }
        _ => Vec::new(),
    };
    let Some(store_at) = query.store_at else {
        query.reply(&mut *call.reply, &found);
        return Ok(());
    };
    let mut result = Builder::default();
    for found in &found {
        let distance = found.distance_m / query.unit_m;
        let score = if query.stores_distances {
            distance
        } else {
            found.score
        };
        result.insert(found.member.as_bytes(), score);
    }
    let to = call.key(store_at);
    // If there are several destination keys, the last one counts.
    call.view.check_writable(to.bytes)?;
    let limits = call.view.keyspace.sorted_set_limits();
    let result = result.finish(to.hash, to.bytes, limits);
    let event = match command.is_search() {
        true => Event::GeoSearchStore,
        false => Event::GeoRadiusStore,
    };
    call.store_result(to, result, sorted_set::len, event);
    Ok(())
}

impl GeoQuery {
    fn parse(
        call: &mut Call<'_, '_, '_>,
        command: SearchCommand,
        source_at: usize,
        there: bool,
    ) -> Result<GeoQuery> {
        let mut query = GeoQuery {
            unit_m: 1.0,
            ..GeoQuery::default()
        };
        let first = match command {
            SearchCommand::Radius { .. } => {
                query.center = Some(position(call, 2)?);
                query.take_radius(call, 4)?;
                6
            }
            SearchCommand::RadiusByMember { .. } => {
                if there {
                    query.center = Some(member_position(call, source_at, 2)?);
                    query.take_radius(call, 3)?;
                }
                5
            }
            SearchCommand::Search => 2,
            SearchCommand::SearchStore => {
                query.store_at = Some(1);
                3
            }
        };
        let mut at = first;
        while at < call.arguments.len() {
            at += match query.take_common(call, at)? {
                0 if command.is_search() => {
                    query.take_search(call, at, command, source_at, there)?
                }
                0 => query.take_store(call, at, command)?,
                taken => taken,
            };
        }
        query.check(call, command)?;
        if query.count > 0 && query.order.is_none() && !query.any {
            query.order = Some(Direction::NearestFirst);
        }
        Ok(query)
    }

    /// Parses an option that every search has. Returns how many arguments it has; 0 for another
    /// option.
    fn take_common(&mut self, call: &Call<'_, '_, '_>, at: usize) -> Result<usize> {
        let option = call.argument(at);
        if is(option, "withdist") {
            self.with_distance = true;
        } else if is(option, "withhash") {
            self.with_hash = true;
        } else if is(option, "withcoord") {
            self.with_coordinates = true;
        } else if is(option, "any") {
            self.any = true;
        } else if is(option, "asc") {
            self.order = Some(Direction::NearestFirst);
        } else if is(option, "desc") {
            self.order = Some(Direction::FarthestFirst);
        } else if is(option, "count") && at + 1 < call.arguments.len() {
            self.count = usize::try_from(call.integer(at + 1)?)
                .ok()
                .filter(|&count| count > 0)
                .ok_or(CommandError::Refused(COUNT_NOT_POSITIVE))?;
            return Ok(2);
        } else {
            return Ok(0);
        }
        Ok(1)
    }

    fn take_store(
        &mut self,
        call: &Call<'_, '_, '_>,
        at: usize,
        command: SearchCommand,
    ) -> Result<usize> {
        let option = call.argument(at);
        let distances = is(option, "storedist");
        if !distances && !is(option, "store")
            || !command.takes_store()
            || at + 1 == call.arguments.len()
        {
            return Err(CommandError::Syntax);
        }
        // The last STORE counts, not this one: locks and access control use the same.
        let mut keys = call.command.keys[1..].iter();
        self.store_at = keys.find_map(|spec| spec.positions(call.arguments).next());
        self.stores_distances = distances;
        Ok(2)
    }

    fn take_search(
        &mut self,
        call: &mut Call<'_, '_, '_>,
        at: usize,
        command: SearchCommand,
        source_at: usize,
        there: bool,
    ) -> Result<usize> {
        let option = call.argument(at);
        let behind = call.arguments.len() - at - 1;
        if is(option, "storedist") && command == SearchCommand::SearchStore {
            self.stores_distances = true;
            Ok(1)
        } else if is(option, "frommember")
            && behind >= 1
            && matches!(self.from, Origin::Nowhere | Origin::Member)
        {
            self.from = Origin::Member;
            if there {
                self.center = Some(member_position(call, source_at, at + 1)?);
            }
            Ok(2)
        } else if is(option, "fromlonlat")
            && behind >= 2
            && matches!(self.from, Origin::Nowhere | Origin::Position)
        {
            self.from = Origin::Position;
            self.center = Some(position(call, at + 1)?);
            Ok(3)
        } else if is(option, "byradius")
            && behind >= 2
            && matches!(self.shape, None | Some(AreaShape::Circle { .. }))
        {
            self.take_radius(call, at + 1)?;
            Ok(3)
        } else if is(option, "bybox")
            && behind >= 3
            && matches!(self.shape, None | Some(AreaShape::Box { .. }))
        {
            self.take_box(call, at + 1)?;
            Ok(4)
        } else if is(option, "bypolygon")
            && behind >= 2
            && call.view.keyspace.follows_valkey()
            && matches!(self.shape, None | Some(AreaShape::Polygon(_)))
            && matches!(self.from, Origin::Nowhere | Origin::Middle)
        {
            self.take_polygon(call, at + 1)
        } else {
            Err(CommandError::Syntax)
        }
    }

    fn take_radius(&mut self, call: &Call<'_, '_, '_>, at: usize) -> Result {
        let radius = number(call, at, NO_RADIUS)?;
        if radius < 0.0 {
            return Err(CommandError::Refused(NEGATIVE_RADIUS));
        }
        self.unit_m = unit_m(call.argument(at + 1))?;
        self.shape = Some(AreaShape::Circle {
            radius_m: radius * self.unit_m,
        });
        Ok(())
    }

    fn take_box(&mut self, call: &Call<'_, '_, '_>, at: usize) -> Result {
        let width = number(call, at, NO_WIDTH)?;
        let height = number(call, at + 1, NO_HEIGHT)?;
        if width < 0.0 || height < 0.0 {
            return Err(CommandError::Refused(NEGATIVE_BOX));
        }
        self.unit_m = unit_m(call.argument(at + 2))?;
        self.shape = Some(AreaShape::Box {
            width_m: width * self.unit_m,
            height_m: height * self.unit_m,
        });
        Ok(())
    }

    /// Takes a number of corners, and the corners. Returns how many arguments the option has.
    fn take_polygon(&mut self, call: &Call<'_, '_, '_>, at: usize) -> Result<usize> {
        let count = parse_integer(call.argument(at));
        let count = count.and_then(|count| i32::try_from(count).ok());
        let count = count.ok_or(CommandError::Refused(NO_CORNERS))?;
        let possible = (call.arguments.len() - at - 1) / 2;
        let count = usize::try_from(count).unwrap_or(0);
        if count < CORNERS_MIN || possible < count {
            return Err(CommandError::Refused(FEW_CORNERS));
        }
        let corners = (0..count).map(|corner| position(call, at + 1 + corner * 2));
        let corners: Box<[Position]> = corners.collect::<Result<_>>()?;
        self.from = Origin::Middle;
        self.center = Some(middle_of(&corners));
        self.shape = Some(AreaShape::Polygon(corners));
        Ok(2 + count * 2)
    }

    fn check(&self, call: &Call<'_, '_, '_>, command: SearchCommand) -> Result {
        let shows = self.with_distance || self.with_hash || self.with_coordinates;
        if self.store_at.is_some() && shows {
            return Err(CommandError::Refused(match command {
                SearchCommand::SearchStore => SEARCH_STORE_WITH,
                _ => RADIUS_STORE_WITH,
            }));
        }
        let exactly_one = |which: &str| {
            let name = String::from_utf8_lossy(call.argument(0));
            let text = format!("ERR exactly one of {which} can be specified for {name}");
            CommandError::RefusedWith(text.into())
        };
        if command.is_search() && self.from == Origin::Nowhere {
            return Err(exactly_one("FROMMEMBER or FROMLONLAT"));
        }
        if command.is_search() && self.shape.is_none() {
            return Err(exactly_one(match call.view.keyspace.follows_valkey() {
                true => "BYRADIUS, BYBOX and BYPOLYGON",
                false => "BYRADIUS and BYBOX",
            }));
        }
        if self.any && self.count == 0 {
            return Err(CommandError::Refused(ANY_WITHOUT_COUNT));
        }
        Ok(())
    }

    /// Returns the positions in an area, limited and sorted as requested.
    fn find<'v>(&self, places: Scored<'v>, area: &Area) -> Vec<FoundPlace<'v>> {
        let enough = if self.any { self.count } else { usize::MAX };
        let mut found = Vec::new();
        for (min, max) in area.scores() {
            let (min, max) = (Bound::Included(min as f64), Bound::Excluded(max as f64));
            for (member, score) in places.range(places.ranks_by_score(min, max)) {
                if found.len() >= enough {
                    break;
                }
                let position = Position::of_score(score);
                if let Some(distance_m) = area.distance_m(position) {
                    found.push(FoundPlace {
                        member,
                        score,
                        position,
                        distance_m,
                    });
                }
            }
        }
        if let Some(order) = self.order {
            let compare = |a: &FoundPlace<'_>, b: &FoundPlace<'_>| match order {
                Direction::NearestFirst => a.distance_m.total_cmp(&b.distance_m),
                Direction::FarthestFirst => b.distance_m.total_cmp(&a.distance_m),
            };
            if (1..found.len()).contains(&self.count) {
                found.select_nth_unstable_by(self.count - 1, compare);
                found.truncate(self.count);
            }
            found.sort_by(compare);
        }
        found
    }

    fn reply(&self, reply: &mut Writer<'_>, found: &[FoundPlace<'_>]) {
        let parts = [self.with_distance, self.with_hash, self.with_coordinates];
        let parts = parts.iter().filter(|&&part| part).count();
        reply.array(found.len());
        for found in found {
            if parts > 0 {
                reply.array(1 + parts);
            }
            reply.bulk(found.member.as_bytes());
            if self.with_distance {
                reply.bulk(&distance_text(found.distance_m / self.unit_m));
            }
            if self.with_hash {
                reply.integer(found.score as i64);
            }
            if self.with_coordinates {
                reply_position(reply, found.position);
            }
        }
    }
}

/// Parses a position from two arguments.
fn position(call: &Call<'_, '_, '_>, at: usize) -> Result<Position> {
    let degrees = |at| parse_score(call.argument(at)).ok_or(CommandError::NotFloat);
    let (longitude, latitude) = (degrees(at)?, degrees(at + 1)?);
    Position::new(longitude, latitude).ok_or_else(|| {
        let pair = format!("{longitude:.6},{latitude:.6}");
        CommandError::RefusedWith(format!("ERR invalid longitude,latitude pair {pair}").into())
    })
}

/// Returns the position of a member of an existing sorted set.
fn member_position(
    call: &mut Call<'_, '_, '_>,
    source_at: usize,
    member_at: usize,
) -> Result<Position> {
    let (source, member) = (call.key(source_at), call.argument(member_at));
    let places = call.view.read_sorted_set(source)?;
    places
        .and_then(|places| places.score(member))
        .map(Position::of_score)
        .ok_or_else(|| match call.view.keyspace.follows_valkey() {
            true => {
                let text = format!(
                    "ERR member {} does not exist",
                    printable(member, ECHOED_BYTES_MAX)
                );
                CommandError::RefusedWith(text.into())
            }
            false => CommandError::Refused(NO_SUCH_MEMBER),
        })
}

fn number(call: &Call<'_, '_, '_>, at: usize, otherwise: &'static str) -> Result<f64> {
    parse_score(call.argument(at)).ok_or(CommandError::Refused(otherwise))
}

/// Returns the length of a unit in metres.
fn unit_m(name: &[u8]) -> Result<f64> {
    match name {
        name if is(name, "m") => Ok(1.0),
        name if is(name, "km") => Ok(1_000.0),
        name if is(name, "ft") => Ok(0.3048),
        name if is(name, "mi") => Ok(1_609.34),
        _ => Err(CommandError::Refused(NO_UNIT)),
    }
}

/// Formats a distance with four decimals, as Redis does.
fn distance_text(distance: f64) -> Vec<u8> {
    let scaled = (distance * 10_000.0).round_ties_even() as i64;
    format!("{}.{:04}", scaled / 10_000, scaled % 10_000).into_bytes()
}

const COUNT_NOT_POSITIVE: &str = "ERR COUNT must be > 0";
const ANY_WITHOUT_COUNT: &str = "ERR the ANY argument requires COUNT argument";
const NO_SUCH_MEMBER: &str = "ERR could not decode requested zset member";
const NO_CORNERS: &str = "ERR invalid number of vertices";
const FEW_CORNERS: &str = "ERR GEOSEARCH BYPOLYGON must have at least 3 vertices";
const CORNERS_MIN: usize = 3;
const NO_UNIT: &str = "ERR unsupported unit provided. please use M, KM, FT, MI";
const NO_RADIUS: &str = "ERR need numeric radius";
const NO_WIDTH: &str = "ERR need numeric width";
const NO_HEIGHT: &str = "ERR need numeric height";
const NEGATIVE_RADIUS: &str = "ERR radius cannot be negative";
const NEGATIVE_BOX: &str = "ERR height or width cannot be negative";
const RADIUS_STORE_WITH: &str = "ERR STORE option in GEORADIUS is not compatible with WITHDIST, \
                                 WITHHASH and WITHCOORD options";
const SEARCH_STORE_WITH: &str = "ERR GEOSEARCHSTORE is not compatible with WITHDIST, WITHHASH \
                                 and WITHCOORD options";
