//! Databento's publisher numbers.

/// Returns the number of a dataset's first publisher; 0 for an unknown dataset. Clients look up the
/// venue of a record by this number.
pub fn publisher_of(dataset: &str) -> u16 {
    let found = PUBLISHERS.iter().find(|(name, _)| *name == dataset);
    found.map_or(0, |&(_, number)| number)
}

const PUBLISHERS: [(&str, u16); 37] = [
    ("GLBX.MDP3", 1),
    ("XNAS.ITCH", 2),
    ("XBOS.ITCH", 3),
    ("XPSX.ITCH", 4),
    ("BATS.PITCH", 5),
    ("BATY.PITCH", 6),
    ("EDGA.PITCH", 7),
    ("EDGX.PITCH", 8),
    ("XNYS.PILLAR", 9),
    ("XCIS.PILLAR", 10),
    ("XASE.PILLAR", 11),
    ("XCHI.PILLAR", 12),
    ("XCIS.BBO", 13),
    ("XCIS.TRADES", 14),
    ("MEMX.MEMOIR", 15),
    ("EPRL.DOM", 16),
    ("XNAS.NLS", 17),
    ("XNYS.TRADES", 19),
    ("OPRA.PILLAR", 20),
    ("IEXG.TOPS", 38),
    ("DBEQ.BASIC", 39),
    ("ARCX.PILLAR", 43),
    ("XNYS.BBO", 44),
    ("XNAS.QBBO", 46),
    ("EQUS.PLUS", 48),
    ("IFEU.IMPACT", 57),
    ("NDEX.IMPACT", 58),
    ("EQUS.ALL", 62),
    ("XNAS.BASIC", 81),
    ("EQUS.SUMMARY", 90),
    ("XCIS.TRADESBBO", 91),
    ("XNYS.TRADESBBO", 92),
    ("EQUS.MINI", 95),
    ("IFUS.IMPACT", 97),
    ("IFLL.IMPACT", 99),
    ("XEUR.EOBI", 101),
    ("XEEE.EOBI", 102),
];
