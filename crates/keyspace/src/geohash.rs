//! Positions as scores: longitude and latitude with 26 bits each, interleaved; and searches around
//! a position.
//!
//! The arithmetic is Redis's, operation for operation, so that scores, positions and distances are
//! equal to the last digit.

/// A position in degrees.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Position {
    pub(crate) longitude: f64,
    pub(crate) latitude: f64,
}

impl Position {
    /// Returns `None` outside of the range of a score, which ends before the poles.
    pub(crate) fn new(longitude: f64, latitude: f64) -> Option<Position> {
        let inside = LONGITUDES.contains(longitude) && LATITUDES.contains(latitude);
        inside.then_some(Position {
            longitude,
            latitude,
        })
    }

    /// Returns the middle of a score's cell.
    pub(crate) fn of_score(score: f64) -> Position {
        let bits = if score < TWO_63 {
            score as i64 as u64
        } else {
            score as u64
        };
        let cell = Cell {
            x: squeeze(bits >> 1),
            y: squeeze(bits),
            step: STEP_MAX,
        };
        let (longitudes, latitudes) = (cell.longitudes(), cell.latitudes());
        Position {
            longitude: LONGITUDES.clamp((longitudes.min + longitudes.max) / 2.0),
            latitude: LATITUDES.clamp((latitudes.min + latitudes.max) / 2.0),
        }
    }

    /// Returns the score: 52 bits, which a double stores exactly.
    pub(crate) fn score(self) -> f64 {
        Cell::around(self, STEP_MAX).scores().0 as f64
    }

    /// Returns the standard geohash of eleven letters. The last is always 0, because 52 bits fill
    /// ten.
    pub(crate) fn geohash(self) -> [u8; 11] {
        const LETTERS: &[u8; 32] = b"0123456789bcdefghjkmnpqrstuvwxyz";
        // A standard geohash has latitudes from pole to pole.
        let poles = DegreeRange {
            min: -90.0,
            max: 90.0,
        };
        let x = LONGITUDES.index(self.longitude, STEP_MAX);
        let y = poles.index(self.latitude, STEP_MAX);
        let bits = spread(y) | spread(x) << 1;
        let mut text = [b'0'; 11];
        for (at, letter) in text.iter_mut().take(10).enumerate() {
            *letter = LETTERS[(bits >> (47 - 5 * at)) as usize % LETTERS.len()];
        }
        text
    }

    /// Returns the distance along a great circle, in metres.
    pub(crate) fn distance_m(self, to: Position) -> f64 {
        let longitude = radians(self.longitude);
        let v = ((radians(to.longitude) - longitude) / 2.0).sin();
        if v == 0.0 {
            return latitude_distance_m(self.latitude, to.latitude);
        }
        let (from, to) = (radians(self.latitude), radians(to.latitude));
        let u = ((to - from) / 2.0).sin();
        let a = u * u + from.cos() * to.cos() * v * v;
        2.0 * EARTH_RADIUS_M * a.sqrt().asin()
    }
}

/// The shape of a search area.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum AreaShape {
    Circle {
        radius_m: f64,
    },
    Box {
        width_m: f64,
        height_m: f64,
    },
    /// Its corners. It lies on the map of longitude and latitude, and edges may cross.
    Polygon(Box<[Position]>),
}

/// A shape around a position.
#[derive(Clone, Debug)]
pub(crate) struct Area {
    pub(crate) center: Position,
    pub(crate) shape: AreaShape,
}

impl Area {
    /// Returns the distance from the center in metres, if the position is inside.
    pub(crate) fn distance_m(&self, position: Position) -> Option<f64> {
        let north_m = latitude_distance_m(position.latitude, self.center.latitude);
        match &self.shape {
            &AreaShape::Circle { radius_m } => {
                // Most positions outside are recognized without trigonometry. The margin covers
                // rounding for positions on the circle.
                if north_m > radius_m * 1.000_001 + 0.001 {
                    return None;
                }
                let distance_m = self.center.distance_m(position);
                (distance_m <= radius_m || distance_m.is_nan()).then_some(distance_m)
            }
            &AreaShape::Box { width_m, height_m } => {
                let beside = Position {
                    longitude: self.center.longitude,
                    latitude: position.latitude,
                };
                let outside =
                    north_m > height_m / 2.0 || position.distance_m(beside) > width_m / 2.0;
                (!outside).then(|| self.center.distance_m(position))
            }
            AreaShape::Polygon(corners) => {
                is_inside(corners, position).then(|| self.center.distance_m(position))
            }
        }
    }

    /// Returns ranges of scores (end excluded) that together contain all positions inside, nearest
    /// cells first.
    pub(crate) fn scores(&self) -> Vec<(u64, u64)> {
        let bounds = self.bounds();
        let mut step = steps_for(self.reach_m(), self.center.latitude);
        let mut cell = Cell::around(self.center, step);
        // Near an edge of its cell, the neighbouring cells may not reach as far as the shape.
        let too_small = cell.moved(0, 1).latitudes().max < bounds.latitudes.max
            || cell.moved(0, -1).latitudes().min > bounds.latitudes.min
            || cell.moved(1, 0).longitudes().max < bounds.longitudes.max
            || cell.moved(-1, 0).longitudes().min > bounds.longitudes.min;
        if too_small && step > 1 {
            step -= 1;
            cell = Cell::around(self.center, step);
        }
        let (x, y) = (cell.longitudes(), cell.latitudes());
        let mut ranges = Vec::with_capacity(NEIGHBOURS.len());
        for (right, up) in NEIGHBOURS {
            let needless = up < 0 && y.min < bounds.latitudes.min
                || up > 0 && y.max > bounds.latitudes.max
                || right < 0 && x.min < bounds.longitudes.min
                || right > 0 && x.max > bounds.longitudes.max;
            if needless && step >= 2 {
                continue;
            }
            // With large cells, the right and left neighbours may be the same cell.
            let range = cell.moved(right, up).scores();
            if !ranges.contains(&range) {
                ranges.push(range);
            }
        }
        debug_assert!(!ranges.is_empty(), "the cell of the centre is searched");
        ranges
    }

    /// Returns the distance from the center to the farthest point, in metres.
    fn reach_m(&self) -> f64 {
        match &self.shape {
            &AreaShape::Circle { radius_m } => radius_m,
            &AreaShape::Box { width_m, height_m } => {
                let (x, y) = (width_m / 2.0, height_m / 2.0);
                (x * x + y * y).sqrt()
            }
            AreaShape::Polygon(corners) => {
                let Bounds {
                    longitudes: x,
                    latitudes: y,
                } = bounds_of(corners);
                let edges = [
                    (x.min, y.max),
                    (x.max, y.max),
                    (x.min, y.min),
                    (x.max, y.min),
                ];
                let reaches = edges.map(|(longitude, latitude)| {
                    self.center.distance_m(Position {
                        longitude,
                        latitude,
                    })
                });
                reaches.into_iter().fold(0.0, f64::max)
            }
        }
    }

    /// Returns the shape's extent in degrees; it is widest at the edge towards the pole.
    fn bounds(&self) -> Bounds {
        let (width_m, height_m) = match &self.shape {
            &AreaShape::Circle { radius_m } => (radius_m, radius_m),
            &AreaShape::Box { width_m, height_m } => (width_m / 2.0, height_m / 2.0),
            AreaShape::Polygon(corners) => return bounds_of(corners),
        };
        let Position {
            longitude,
            latitude,
        } = self.center;
        let up = degrees(height_m / EARTH_RADIUS_M);
        let edge = if latitude < 0.0 {
            latitude - up
        } else {
            latitude + up
        };
        let right = degrees(width_m / EARTH_RADIUS_M / radians(edge).cos());
        Bounds {
            longitudes: DegreeRange {
                min: longitude - right,
                max: longitude + right,
            },
            latitudes: DegreeRange {
                min: latitude - up,
                max: latitude + up,
            },
        }
    }
}

/// Returns the middle of some positions on the globe.
pub(crate) fn middle_of(corners: &[Position]) -> Position {
    let (mut x, mut y, mut z) = (0.0, 0.0, 0.0);
    for corner in corners {
        let (longitude, latitude) = (radians(corner.longitude), radians(corner.latitude));
        x += latitude.cos() * longitude.cos();
        y += latitude.cos() * longitude.sin();
        z += latitude.sin();
    }
    Position {
        longitude: degrees(f64::atan2(y, x)),
        latitude: degrees(f64::atan2(z, (x * x + y * y).sqrt())),
    }
}

/// Returns whether a position is inside of a polygon: a line from it to the east crosses an odd
/// number of edges.
fn is_inside(corners: &[Position], position: Position) -> bool {
    let (x, y) = (position.longitude, position.latitude);
    let before = corners.iter().cycle().skip(corners.len() - 1);
    let crossed = corners.iter().zip(before).filter(|(a, b)| {
        let spans = (a.latitude > y) != (b.latitude > y);
        let slope = (b.longitude - a.longitude) * (y - a.latitude) / (b.latitude - a.latitude);
        spans && x < slope + a.longitude
    });
    crossed.count() % 2 == 1
}

fn bounds_of(corners: &[Position]) -> Bounds {
    let range = |degrees: fn(&Position) -> f64| {
        let all = || corners.iter().map(degrees);
        DegreeRange {
            min: all().fold(f64::INFINITY, f64::min),
            max: all().fold(f64::NEG_INFINITY, f64::max),
        }
    };
    Bounds {
        longitudes: range(|corner| corner.longitude),
        latitudes: range(|corner| corner.latitude),
    }
}

struct Bounds {
    longitudes: DegreeRange,
    latitudes: DegreeRange,
}

/// A range of degrees.
#[derive(Clone, Copy)]
struct DegreeRange {
    min: f64,
    max: f64,
}

impl DegreeRange {
    fn contains(self, degrees: f64) -> bool {
        degrees >= self.min && degrees <= self.max
    }

    fn clamp(self, degrees: f64) -> f64 {
        degrees.max(self.min).min(self.max)
    }

    /// Returns the index of a degree among 2^step parts.
    fn index(self, degrees: f64, step: u32) -> u32 {
        let part = (degrees - self.min) / (self.max - self.min);
        (part * f64::from(1u32 << step)) as u32
    }

    /// Returns the span of one of 2^step parts.
    fn part(self, index: u32, step: u32) -> DegreeRange {
        let parts = f64::from(1u32 << step);
        let scale = self.max - self.min;
        DegreeRange {
            min: self.min + f64::from(index) / parts * scale,
            max: self.min + f64::from(index.wrapping_add(1)) / parts * scale,
        }
    }
}

/// One of the 4^step cells of the map.
#[derive(Clone, Copy)]
struct Cell {
    x: u32,
    y: u32,
    step: u32,
}

impl Cell {
    fn around(position: Position, step: u32) -> Cell {
        Cell {
            x: LONGITUDES.index(position.longitude, step),
            y: LATITUDES.index(position.latitude, step),
            step,
        }
    }

    fn longitudes(self) -> DegreeRange {
        LONGITUDES.part(self.x, self.step)
    }

    fn latitudes(self) -> DegreeRange {
        LATITUDES.part(self.y, self.step)
    }

    /// Returns the cell `right` cells to the right and `up` cells up, around the map.
    fn moved(self, right: i32, up: i32) -> Cell {
        let mask = (1 << self.step) - 1;
        let moved = |index: u32, by: i32| match by {
            0 => index,
            _ => index.wrapping_add_signed(by) & mask,
        };
        Cell {
            x: moved(self.x, right),
            y: moved(self.y, up),
            step: self.step,
        }
    }

    /// Returns the scores of the positions inside, end excluded.
    fn scores(self) -> (u64, u64) {
        let bits = spread(self.y) | spread(self.x) << 1;
        debug_assert!((1..=STEP_MAX).contains(&self.step));
        let shift = 2 * (STEP_MAX - self.step);
        (bits << shift, (bits + 1) << shift)
    }
}

/// Returns the step of the smallest cells of which nine cover a distance, in most cases.
fn steps_for(mut reach_m: f64, latitude: f64) -> u32 {
    if reach_m == 0.0 {
        return STEP_MAX;
    }
    let mut step = 1;
    while reach_m < MERCATOR_MAX_M {
        reach_m *= 2.0;
        step += 1;
    }
    step -= 2;
    // Degrees of longitude are shorter towards the poles.
    step -= i32::from(latitude.abs() > 66.0) + i32::from(latitude.abs() > 80.0);
    step.clamp(1, STEP_MAX as i32) as u32
}

fn latitude_distance_m(from: f64, to: f64) -> f64 {
    EARTH_RADIUS_M * (radians(to) - radians(from)).abs()
}

fn radians(degrees: f64) -> f64 {
    degrees * (std::f64::consts::PI / 180.0)
}

fn degrees(radians: f64) -> f64 {
    radians / (std::f64::consts::PI / 180.0)
}

/// Inserts a zero before each bit.
fn spread(value: u32) -> u64 {
    let mut bits = u64::from(value);
    bits = (bits | bits << 16) & 0x0000_FFFF_0000_FFFF;
    bits = (bits | bits << 8) & 0x00FF_00FF_00FF_00FF;
    bits = (bits | bits << 4) & 0x0F0F_0F0F_0F0F_0F0F;
    bits = (bits | bits << 2) & 0x3333_3333_3333_3333;
    (bits | bits << 1) & 0x5555_5555_5555_5555
}

/// Takes every second bit, from the lowest on.
fn squeeze(bits: u64) -> u32 {
    let mut bits = bits & 0x5555_5555_5555_5555;
    bits = (bits | bits >> 1) & 0x3333_3333_3333_3333;
    bits = (bits | bits >> 2) & 0x0F0F_0F0F_0F0F_0F0F;
    bits = (bits | bits >> 4) & 0x00FF_00FF_00FF_00FF;
    bits = (bits | bits >> 8) & 0x0000_FFFF_0000_FFFF;
    (bits | bits >> 16) as u32
}

/// The cell itself and its neighbours, in search order.
const NEIGHBOURS: [(i32, i32); 9] = [
    (0, 0),
    (0, 1),
    (0, -1),
    (1, 0),
    (-1, 0),
    (1, 1),
    (-1, 1),
    (1, -1),
    (-1, -1),
];

/// Maximum step: 52 bits in total.
const STEP_MAX: u32 = 26;
const LONGITUDES: DegreeRange = DegreeRange {
    min: -180.0,
    max: 180.0,
};
/// The limits of the Web Mercator map.
const LATITUDES: DegreeRange = DegreeRange {
    min: -85.051_128_78,
    max: 85.051_128_78,
};
const EARTH_RADIUS_M: f64 = 6_372_797.560_856;
const MERCATOR_MAX_M: f64 = 20_037_726.37;
const TWO_63: f64 = 9_223_372_036_854_775_808.0;

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn any_position() -> impl Strategy<Value = Position> {
        // Includes the poles and the date line.
        let longitude = prop_oneof![-180.0..180.0, 179.0..180.0, -180.0..-179.0];
        let latitude = prop_oneof![-85.05..85.05, 84.0..85.05, -85.05..-84.0];
        (longitude, latitude).prop_map(|(longitude, latitude)| Position {
            longitude,
            latitude,
        })
    }

    proptest! {
        #[test]
        fn a_score_gives_the_position_within_a_metre(position in any_position()) {
            let back = Position::of_score(position.score());
            prop_assert!(position.distance_m(back) < 1.0);
            prop_assert_eq!(back.score(), position.score());
        }

        #[test]
        fn positions_inside_are_in_the_score_ranges(
            // Not at the edge of the map: Redis's cells do not cover everything there.
            longitude in -170.0..170.0,
            latitude in -80.0..80.0,
            east in -1.0..1.0,
            north in -1.0..1.0,
            reach in prop::sample::select(vec![1.0, 100.0, 5_000.0, 200_000.0]),
        ) {
            let center = Position { longitude, latitude };
            let degrees = reach / 111_000.0;
            let other = Position {
                longitude: center.longitude + east * degrees,
                latitude: center.latitude + north * degrees,
            };
            let other = Position::of_score(other.score());
            for shape in [
                AreaShape::Circle { radius_m: reach },
                AreaShape::Box { width_m: reach, height_m: reach * 2.0 },
                AreaShape::Polygon([(-1.0, -1.0), (1.0, -1.0), (0.0, 1.0)].map(|(x, y)| Position {
                    longitude: (center.longitude + x * degrees).clamp(-180.0, 180.0),
                    latitude: (center.latitude + y * degrees).clamp(-85.0, 85.0),
                }).into()),
            ] {
                let area = Area { center, shape };
                if area.distance_m(other).is_some() {
                    let score = other.score() as u64;
                    let found = area.scores().iter().any(|range| {
                        range.0 <= score && score < range.1
                    });
                    prop_assert!(found, "{area:?} {other:?}");
                }
            }
        }
    }

    #[test]
    fn known_positions_have_the_expected_hashes_and_distances() {
        let palermo = Position::new(13.361389, 38.115556).unwrap();
        let catania = Position::new(15.087269, 37.502669).unwrap();
        assert_eq!(palermo.score(), 3_479_099_956_230_698.0);
        assert_eq!(
            &Position::of_score(palermo.score()).geohash(),
            b"sqc8b49rny0"
        );
        let [from, to] = [palermo, catania].map(|place| Position::of_score(place.score()));
        assert!((from.distance_m(to) - 166_274.151_6).abs() < 0.0001);
        assert!(Position::new(181.0, 0.0).is_none() && Position::new(0.0, 86.0).is_none());
        assert!(Position::new(f64::NAN, 0.0).is_none());
    }
}
