//! Databento's publishers: the datasets and venues behind a record's `publisher_id`.

use tidewire_calendar::{TradingCalendar, Zone};
use tidewire_feed::wire::VenueName;

/// A publisher: one venue of one dataset.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Publisher {
    /// Databento's number, as in a record's header.
    pub id: u16,
    /// The dataset, such as `XNAS.ITCH`.
    pub dataset: &'static str,
    /// The venue, an ISO 10383 code where it has one.
    pub venue: &'static str,
}

impl Publisher {
    /// Returns the publisher of a number; `None` if Databento's table did not have it at the time
    /// of this version.
    pub fn of(id: u16) -> Option<Self> {
        let place = usize::from(id).checked_sub(1)?;
        let &(dataset, venue) = PUBLISHERS.get(place)?;
        Some(Self { id, dataset, venue })
    }

    /// Iterates over all publishers, in the order of their numbers.
    pub fn all() -> impl Iterator<Item = Self> {
        (1..).map_while(Self::of)
    }

    /// Returns the name of a publisher's venue, which no other publisher has.
    ///
    /// The first publisher of a venue has the venue's code (`XNAS`), the others have Databento's
    /// name of the publisher (`XNAS.BASIC.XNAS`), and an unknown one its number.
    pub fn venue_name(id: u16) -> VenueName {
        let Some(publisher) = Self::of(id) else {
            return VenueName::truncated(&id.to_string());
        };
        let venue = publisher.venue;
        match Self::all().find(|other| other.venue == venue) {
            Some(first) if first.id == id => VenueName::truncated(venue),
            _ => VenueName::truncated(&format!("{}.{venue}", publisher.dataset)),
        }
    }

    /// Returns the publisher of the consolidated prices that a publisher's records may carry: the
    /// one of its dataset that stands for all venues. `None` if there is none.
    #[inline]
    pub fn consolidated(id: u16) -> Option<u16> {
        let place = usize::from(id).checked_sub(1)?;
        CONSOLIDATED_OF.get(place).copied().filter(|&id| id != 0)
    }

    /// Returns the trading days of a publisher; days of UTC if it is unknown.
    pub fn calendar(id: u16) -> TradingCalendar {
        let Some(publisher) = Self::of(id) else {
            return TradingCalendar::new(Zone::UTC);
        };
        let source = publisher.dataset.split('.').next().unwrap_or_default();
        let found = CALENDARS
            .iter()
            .find(|(sources, _)| sources.contains(&source));
        found.map_or(TradingCalendar::new(Zone::NEW_YORK), |&(_, calendar)| {
            calendar
        })
    }
}

/// The trading days by the first part of a dataset's name. All others are shares and options of
/// the United States and indices on them: midnight of New York.
const CALENDARS: [(&[&str], TradingCalendar); 7] = [
    (
        &["GLBX", "XCBF"],
        TradingCalendar::new(Zone::CHICAGO)
            .from_evening(17)
            .joining_weekends(),
    ),
    (
        // Its first market opens at 18:00 on Sundays, at 19:00 or 20:00 on other days.
        &["IFUS"],
        TradingCalendar::new(Zone::NEW_YORK)
            .from_evening(18)
            .joining_weekends(),
    ),
    (
        &["OCEA"],
        TradingCalendar::new(Zone::NEW_YORK)
            .from_evening(20)
            .joining_weekends(),
    ),
    (
        &["IFEU", "IFLL"],
        TradingCalendar::new(Zone::LONDON).joining_weekends(),
    ),
    (
        &["NDEX", "XEUR", "XEEE"],
        TradingCalendar::new(Zone::CENTRAL_EUROPE).joining_weekends(),
    ),
    (
        &["XOSE"],
        TradingCalendar::new(Zone::TOKYO)
            .from_evening(16)
            .joining_weekends(),
    ),
    (&["XTKS", "XTKT"], TradingCalendar::new(Zone::TOKYO)),
];

/// Venues that stand for all venues of their dataset.
const CONSOLIDATED: [&str; 3] = ["OPRA", "EQUS", "DBEQ"];

/// The publisher of a dataset's consolidated prices, by number from 1; 0 for none.
static CONSOLIDATED_OF: [u16; PUBLISHERS.len()] = {
    let mut table = [0; PUBLISHERS.len()];
    let mut other = 0;
    while other < PUBLISHERS.len() {
        let (dataset, venue) = PUBLISHERS[other];
        let mut known = 0;
        while known < CONSOLIDATED.len() {
            if is_equal(CONSOLIDATED[known], venue) {
                let mut place = 0;
                while place < PUBLISHERS.len() {
                    if is_equal(PUBLISHERS[place].0, dataset) {
                        table[place] = other as u16 + 1;
                    }
                    place += 1;
                }
            }
            known += 1;
        }
        other += 1;
    }
    table
};

/// Compares two texts in a constant.
const fn is_equal(one: &str, other: &str) -> bool {
    let (one, other) = (one.as_bytes(), other.as_bytes());
    let mut place = 0;
    while place < one.len() && place < other.len() && one[place] == other[place] {
        place += 1;
    }
    place == one.len() && place == other.len()
}

/// Dataset and venue by number, from 1.
const PUBLISHERS: [(&str, &str); 153] = [
    ("GLBX.MDP3", "GLBX"),
    ("XNAS.ITCH", "XNAS"),
    ("XBOS.ITCH", "XBOS"),
    ("XPSX.ITCH", "XPSX"),
    ("BATS.PITCH", "BATS"),
    ("BATY.PITCH", "BATY"),
    ("EDGA.PITCH", "EDGA"),
    ("EDGX.PITCH", "EDGX"),
    ("XNYS.PILLAR", "XNYS"),
    ("XCIS.PILLAR", "XCIS"),
    ("XASE.PILLAR", "XASE"),
    ("XCHI.PILLAR", "XCHI"),
    ("XCIS.BBO", "XCIS"),
    ("XCIS.TRADES", "XCIS"),
    ("MEMX.MEMOIR", "MEMX"),
    ("EPRL.DOM", "EPRL"),
    ("XNAS.NLS", "FINN"),
    ("XNAS.NLS", "FINC"),
    ("XNYS.TRADES", "FINY"),
    ("OPRA.PILLAR", "AMXO"),
    ("OPRA.PILLAR", "XBOX"),
    ("OPRA.PILLAR", "XCBO"),
    ("OPRA.PILLAR", "EMLD"),
    ("OPRA.PILLAR", "EDGO"),
    ("OPRA.PILLAR", "GMNI"),
    ("OPRA.PILLAR", "XISX"),
    ("OPRA.PILLAR", "MCRY"),
    ("OPRA.PILLAR", "XMIO"),
    ("OPRA.PILLAR", "ARCO"),
    ("OPRA.PILLAR", "OPRA"),
    ("OPRA.PILLAR", "MPRL"),
    ("OPRA.PILLAR", "XNDQ"),
    ("OPRA.PILLAR", "XBXO"),
    ("OPRA.PILLAR", "C2OX"),
    ("OPRA.PILLAR", "XPHL"),
    ("OPRA.PILLAR", "BATO"),
    ("OPRA.PILLAR", "MXOP"),
    ("IEXG.TOPS", "IEXG"),
    ("DBEQ.BASIC", "XCHI"),
    ("DBEQ.BASIC", "XCIS"),
    ("DBEQ.BASIC", "IEXG"),
    ("DBEQ.BASIC", "EPRL"),
    ("ARCX.PILLAR", "ARCX"),
    ("XNYS.BBO", "XNYS"),
    ("XNYS.TRADES", "XNYS"),
    ("XNAS.QBBO", "XNAS"),
    ("XNAS.NLS", "XNAS"),
    ("EQUS.PLUS", "XCHI"),
    ("EQUS.PLUS", "XCIS"),
    ("EQUS.PLUS", "IEXG"),
    ("EQUS.PLUS", "EPRL"),
    ("EQUS.PLUS", "XNAS"),
    ("EQUS.PLUS", "XNYS"),
    ("EQUS.PLUS", "FINN"),
    ("EQUS.PLUS", "FINY"),
    ("EQUS.PLUS", "FINC"),
    ("IFEU.IMPACT", "IFEU"),
    ("NDEX.IMPACT", "NDEX"),
    ("DBEQ.BASIC", "DBEQ"),
    ("EQUS.PLUS", "EQUS"),
    ("OPRA.PILLAR", "SPHR"),
    ("EQUS.ALL", "XCHI"),
    ("EQUS.ALL", "XCIS"),
    ("EQUS.ALL", "IEXG"),
    ("EQUS.ALL", "EPRL"),
    ("EQUS.ALL", "XNAS"),
    ("EQUS.ALL", "XNYS"),
    ("EQUS.ALL", "FINN"),
    ("EQUS.ALL", "FINY"),
    ("EQUS.ALL", "FINC"),
    ("EQUS.ALL", "BATS"),
    ("EQUS.ALL", "BATY"),
    ("EQUS.ALL", "EDGA"),
    ("EQUS.ALL", "EDGX"),
    ("EQUS.ALL", "XBOS"),
    ("EQUS.ALL", "XPSX"),
    ("EQUS.ALL", "MEMX"),
    ("EQUS.ALL", "XASE"),
    ("EQUS.ALL", "ARCX"),
    ("EQUS.ALL", "LTSE"),
    ("XNAS.BASIC", "XNAS"),
    ("XNAS.BASIC", "FINN"),
    ("XNAS.BASIC", "FINC"),
    ("IFEU.IMPACT", "XOFF"),
    ("NDEX.IMPACT", "XOFF"),
    ("XNAS.NLS", "XBOS"),
    ("XNAS.NLS", "XPSX"),
    ("XNAS.BASIC", "XBOS"),
    ("XNAS.BASIC", "XPSX"),
    ("EQUS.SUMMARY", "EQUS"),
    ("XCIS.TRADESBBO", "XCIS"),
    ("XNYS.TRADESBBO", "XNYS"),
    ("XNAS.BASIC", "EQUS"),
    ("EQUS.ALL", "EQUS"),
    ("EQUS.MINI", "EQUS"),
    ("XNYS.TRADES", "EQUS"),
    ("IFUS.IMPACT", "IFUS"),
    ("IFUS.IMPACT", "XOFF"),
    ("IFLL.IMPACT", "IFLL"),
    ("IFLL.IMPACT", "XOFF"),
    ("XEUR.EOBI", "XEUR"),
    ("XEEE.EOBI", "XEEE"),
    ("XEUR.EOBI", "XOFF"),
    ("XEEE.EOBI", "XOFF"),
    ("XCBF.PITCH", "XCBF"),
    ("XCBF.PITCH", "XOFF"),
    ("OCEA.MEMOIR", "OCEA"),
    ("OPRA.PILLAR", "MXTO"),
    ("OPRA.PILLAR", "IEXO"),
    ("MAIN.CGIF", "MAIN"),
    ("EQUS.SIP", "XASE"),
    ("EQUS.SIP", "XBOS"),
    ("EQUS.SIP", "XCIS"),
    ("EQUS.SIP", "TXSE"),
    ("EQUS.SIP", "24EQ"),
    ("EQUS.SIP", "EPRL"),
    ("EQUS.SIP", "XISX"),
    ("EQUS.SIP", "EDGA"),
    ("EQUS.SIP", "EDGX"),
    ("EQUS.SIP", "LTSE"),
    ("EQUS.SIP", "XCHI"),
    ("EQUS.SIP", "XNYS"),
    ("EQUS.SIP", "ARCX"),
    ("EQUS.SIP", "XNAS"),
    ("EQUS.SIP", "MEMX"),
    ("EQUS.SIP", "IEXG"),
    ("EQUS.SIP", "XPSX"),
    ("EQUS.SIP", "BATY"),
    ("EQUS.SIP", "BATS"),
    ("EQUS.SIP", "FINN"),
    ("EQUS.SIP", "FINY"),
    ("EQUS.SIP", "FINC"),
    ("EQUS.SIP", "XADF"),
    ("EQUS.SIP", "CTA"),
    ("EQUS.SIP", "UTP"),
    ("MSCI.CGIF", "MSCI"),
    ("FTSE.CGIF", "FTSE"),
    ("INAV.CGIF", "INAV"),
    ("MSTAR.CGIF", "MSTAR"),
    ("CCCY.CGIF", "CCCY"),
    ("CGI.CGIF", "CGI"),
    ("MAIN.CGIF", "CDEF"),
    ("XTKS.FLEX", "XTKS"),
    ("XTKT.ITCH", "XTKT"),
    ("XOSE.ITCH", "XOSE"),
    ("DBIX.CORE", "MAIN"),
    ("DBIX.CORE", "MSCI"),
    ("DBIX.CORE", "FTSE"),
    ("DBIX.CORE", "INAV"),
    ("DBIX.CORE", "MSTAR"),
    ("DBIX.CORE", "CCCY"),
    ("DBIX.CORE", "CGI"),
    ("DBIX.CORE", "CDEF"),
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn publishers_are_those_of_databento() {
        let mut count = 0;
        for publisher in Publisher::all() {
            let theirs = dbn::Publisher::try_from(publisher.id).unwrap();
            assert_eq!(theirs.dataset().as_str(), publisher.dataset);
            assert_eq!(theirs.venue().as_str(), publisher.venue);
            count += 1;
        }
        assert_eq!(count, dbn::publishers::PUBLISHER_COUNT);
        assert!(dbn::Publisher::try_from(count as u16 + 1).is_err());
    }

    #[test]
    fn every_publisher_has_a_venue_name_of_its_own() {
        let name = |id| Publisher::venue_name(id).as_str().to_owned();
        assert_eq!(
            (name(1), name(2), name(12)),
            ("GLBX".into(), "XNAS".into(), "XCHI".into())
        );
        assert_eq!(name(39), "DBEQ.BASIC.XCHI");
        assert_eq!(name(81), "XNAS.BASIC.XNAS");
        assert_eq!((name(0), name(60_000)), ("0".into(), "60000".into()));
        let mut names: Vec<_> = (0..1_000).map(name).collect();
        names.sort();
        names.dedup();
        assert_eq!(names.len(), 1_000);
    }

    #[test]
    fn consolidated_prices_have_a_publisher_where_the_dataset_has_one() {
        let consolidated = Publisher::consolidated;
        assert_eq!((consolidated(20), consolidated(30)), (Some(30), Some(30)));
        assert_eq!((consolidated(1), consolidated(0)), (None, None));
    }

    #[test]
    fn each_kind_of_venue_has_its_trading_day() {
        // Sunday, 2024-07-07, 23:30 UTC.
        let day = |id| {
            Publisher::calendar(id)
                .day_of(1_720_395_000_000_000_000)
                .number()
        };
        assert_eq!((day(1), day(97), day(105)), (20240708, 20240708, 20240708));
        assert_eq!(
            (day(57), day(101), day(145)),
            (20240708, 20240708, 20240708)
        );
        assert_eq!((day(2), day(20), day(0)), (20240707, 20240707, 20240707));
        assert_eq!((day(107), day(143)), (20240707 + 1, 20240708));
    }
}
