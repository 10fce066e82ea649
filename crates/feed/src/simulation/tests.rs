//! Properties of a simulated market.

use super::*;

const SECOND_NS: u64 = 1_000_000_000;
const START_NS: u64 = 1_700_000_000 * SECOND_NS;

fn market(kind: MarketKind, seed: u64) -> Market {
    Market::new(SimulationConfig {
        seed,
        market: kind,
        ..Default::default()
    })
}

#[test]
fn the_same_seed_gives_the_same_ticks_on_every_machine() {
    let mut market = market(MarketKind::Neutral, 1);
    let ticks: Vec<String> = (0..5)
        .map(|number| match market.next(START_NS + number * 1_000_000) {
            Tick::Quote(q) => format!(
                "quote {} {}@{} {}@{} {}/{}",
                q.symbol, q.bid_size, q.bid, q.ask_size, q.ask, q.bid_orders, q.ask_orders
            ),
            Tick::Trade(t) => format!("trade {} {}@{} {}", t.symbol, t.size, t.price, t.condition),
        })
        .collect();
    assert_eq!(ticks, GOLDEN);
}

const GOLDEN: [&str; 5] = [
    "quote 22 17347@348000000000 7826@348300000000 13/16",
    "trade 22 225@348000000000 2",
    "quote 9 57132@1746950000000 215@1749800000000 16/26",
    "quote 94 1019@22820000000 7628@22860000000 25/20",
    "trade 13 247@11360400000000 1",
];

#[test]
fn another_seed_gives_another_market() {
    let ticks = |seed| {
        let mut market = market(MarketKind::Neutral, seed);
        (0..10).map(|_| market.next(START_NS)).collect::<Vec<_>>()
    };
    assert_eq!(ticks(3), ticks(3));
    assert_ne!(ticks(3), ticks(4));
}

#[test]
fn seven_of_ten_are_quotes_with_spreads_in_bounds_and_trades_lie_within() {
    let mut market = market(MarketKind::Neutral, 2);
    let mut quotes: Vec<_> = (0..100).map(|s| market.quote(s, 0).unwrap()).collect();
    let (mut quote_count, mut spreads) = (0, 0.0);
    let mut symbols = [0u32; 100];
    let count = 1_000_000u32;
    for number in 0..u64::from(count) {
        match market.next(START_NS + number * 10_000_000) {
            Tick::Quote(quote) => {
                quote_count += 1;
                let spread = (quote.ask - quote.bid) as f64;
                let share = spread / ((quote.ask + quote.bid) as f64 / 2.0);
                assert!((0.000_5..=0.002).contains(&share), "{share} {quote:?}");
                spreads += share;
                assert!(quote.bid > 0 && (100..=100_000).contains(&quote.bid_size));
                assert!((1..=32).contains(&quote.bid_orders) && quote.ask_orders > 0);
                let tick = if quote.bid > 100_000_000_000 {
                    50_000_000
                } else {
                    10_000_000
                };
                assert_eq!((quote.bid % tick, quote.ask % tick), (0, 0), "{quote:?}");
                symbols[quote.symbol as usize] += 1;
                quotes[quote.symbol as usize] = quote;
            }
            Tick::Trade(trade) => {
                let quote = &quotes[trade.symbol as usize];
                assert!((quote.bid..=quote.ask).contains(&trade.price));
                assert!((100..=100_000).contains(&trade.size));
                match trade.condition {
                    AGGRESSOR_BUY => assert_eq!(trade.price, quote.ask),
                    AGGRESSOR_SELL => assert_eq!(trade.price, quote.bid),
                    _ => {}
                }
            }
        }
    }
    let share = f64::from(quote_count) / f64::from(count);
    assert!((share - 0.7).abs() < 0.01, "{share}");
    let spread = spreads / f64::from(quote_count);
    assert!((spread - 0.001_25).abs() < 0.000_1, "{spread}");
    assert!(symbols.iter().all(|&count| (6_600..7_400).contains(&count)));
}

/// Returns the log returns of the quotes' middles over steps of five minutes of trading, in units
/// of each symbol's expected deviation, and their sum over all symbols for a year.
fn year_of_returns(kind: MarketKind, factor: f64) -> (Vec<f64>, f64) {
    const STEP_NS: u64 = 300 * SECOND_NS;
    const STEPS: u64 = 252 * 75;
    let mut market = market(kind, 5);
    let specs: Vec<_> = market.symbols().iter().cloned().collect();
    let middle = |q: &Quote| ((q.bid + q.ask) as f64 / 2.0).ln();
    let opening: Vec<f64> = (0..100)
        .map(|s| middle(&market.quote(s, 0).unwrap()))
        .collect();
    let mut last: Vec<Option<(u64, f64)>> = vec![None; 100];
    let mut returns = Vec::new();
    for step in 0..STEPS * 100 {
        let now_ns = START_NS + step * STEP_NS / 100;
        let Tick::Quote(quote) = market.next(now_ns) else {
            continue;
        };
        let symbol = quote.symbol as usize;
        let now = middle(&quote);
        if let Some((then_ns, then)) = last[symbol].replace((now_ns, now)) {
            let years = (now_ns - then_ns) as f64 / (252.0 * 6.25 * 3_600.0 * 1e9);
            let deviation = specs[symbol].volatility * factor * years.sqrt();
            if years > 1e-5 {
                returns.push((now - then) / deviation);
            }
        }
    }
    let total: f64 = last
        .iter()
        .zip(&opening)
        .map(|(last, open)| last.unwrap().1 - open)
        .sum();
    (returns, total / 100.0)
}

fn moments(returns: &[f64]) -> (f64, f64) {
    let count = returns.len() as f64;
    let mean = returns.iter().sum::<f64>() / count;
    let variance = returns.iter().map(|r| (r - mean) * (r - mean)).sum::<f64>() / count;
    (mean, variance)
}

#[test]
fn returns_have_the_volatility_of_their_symbol_whatever_the_time_between() {
    let (returns, total) = year_of_returns(MarketKind::Neutral, 1.0);
    assert!(returns.len() > 500_000, "{}", returns.len());
    let (mean, variance) = moments(&returns);
    assert!(mean.abs() < 0.01, "{mean}");
    assert!((variance - 1.0).abs() < 0.03, "{variance}");
    assert!(total.abs() < 0.12, "a neutral market went by {total}");
}

#[test]
fn bulls_rise_and_bears_fall() {
    // The median path is the drift less half the variance; 100 symbols leave ± 0.03.
    let (_, bull) = year_of_returns(MarketKind::Bull, 0.8);
    let (_, bear) = year_of_returns(MarketKind::Bear, 1.4);
    assert!((0.2..0.5).contains(&bull), "{bull}");
    assert!((-0.7..-0.3).contains(&bear), "{bear}");
}

#[test]
fn prices_stay_positive_and_spreads_open_in_the_worst_of_times() {
    let symbols =
        Symbols::parse("FALL,0.00001,10\nRISE,999999999,10\nODD,37.123456789,10").unwrap();
    let mut market = Market::new(SimulationConfig {
        symbols,
        market: MarketKind::Bear,
        time_factor: 1_000,
        ..Default::default()
    });
    for number in 0..200_000 {
        if let Tick::Quote(quote) = market.next(START_NS + number * 3_600 * SECOND_NS) {
            assert!(0 < quote.bid && quote.bid < quote.ask, "{quote:?}");
            let share = (quote.ask - quote.bid) as f64 / (quote.ask + quote.bid) as f64 * 2.0;
            assert!((0.000_5..=0.002).contains(&share), "{quote:?}");
        }
    }
}

#[test]
fn a_clock_that_stands_or_goes_back_moves_no_price() {
    let mut market = market(MarketKind::Neutral, 9);
    for _ in 0..10_000 {
        market.next(START_NS);
    }
    let middles = |market: &Market| -> Vec<i64> {
        (0..100)
            .map(|s| market.quote(s, 0).unwrap())
            .map(|q| (q.bid + q.ask) / 2)
            .collect()
    };
    let before = middles(&market);
    for _ in 0..10_000 {
        market.next(START_NS - SECOND_NS);
    }
    for (before, after) in before.iter().zip(middles(&market)) {
        assert!(
            (before - after).abs() <= 50_000_000,
            "more than the rounding to a tick"
        );
    }
}

#[test]
fn a_million_symbols_are_all_traded() {
    let mut market = Market::new(SimulationConfig {
        symbols: Symbols::first(1_000_000),
        ..Default::default()
    });
    let mut highest = 0;
    for number in 0..100_000 {
        let (Tick::Quote(Quote { symbol, .. }) | Tick::Trade(Trade { symbol, .. })) =
            market.next(START_NS + number);
        highest = highest.max(symbol);
    }
    assert!((999_000..1_000_000).contains(&highest));
}
