//! Values that follow from the parameters of memory.

use tidewire_keyspace::{EvictionOrder, EvictionRules};

/// The rules of a policy of `maxmemory-policy`; `None` if no key is evicted.
pub(super) fn rules_of(policy: &str, samples: usize) -> Option<EvictionRules> {
    let (scope, order) = policy.split_once('-')?;
    let order = match order {
        "lru" => EvictionOrder::LeastRecentlyUsed,
        "lrm" => EvictionOrder::LeastRecentlyModified,
        "lfu" => EvictionOrder::LeastFrequentlyUsed,
        "random" => EvictionOrder::Random,
        "ttl" => EvictionOrder::SoonestToExpire,
        _ => return None,
    };
    Some(EvictionRules {
        order,
        expiring_only: scope == "volatile",
        samples,
    })
}

/// What `maxmemory-clients` allows, bytes; 0 for no limit. A part of `maxmemory`, if it is a
/// percentage.
pub(super) fn clients_bytes_max(text: &str, bytes_max: u64) -> u64 {
    let allowed = match text.strip_suffix('%') {
        Some(percent) => {
            let percent: u64 = percent.parse().unwrap_or(0);
            (u128::from(bytes_max) * u128::from(percent) / 100) as u64
        }
        None => text.parse().unwrap_or(0),
    };
    match allowed {
        0 => 0,
        // With less no client could send CONFIG SET.
        allowed => allowed.max(128 << 10),
    }
}

/// How long one round of evictions may last at a tenacity of 0 to 100, ns: up to 0.5 ms at 10,
/// 15 % more for each step from there, and without end at 100.
pub(super) fn time_max_ns(tenacity: u64) -> u64 {
    match tenacity {
        0..=10 => tenacity * 50_000,
        11..100 => (500_000.0 * 1.15f64.powi(tenacity as i32 - 10)) as u64,
        _ => u64::MAX,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_policy_s_name_says_which_keys_go() {
        let rules = rules_of("volatile-lfu", 7).expect("a policy");
        assert!(rules.expiring_only && rules.samples == 7);
        assert_eq!(rules.order, EvictionOrder::LeastFrequentlyUsed);
        assert!(
            !rules_of("allkeys-random", 5)
                .expect("a policy")
                .expiring_only
        );
        assert_eq!(rules_of("noeviction", 5), None);
    }

    #[test]
    fn tenacity_stretches_the_time_for_evictions() {
        assert_eq!([0, 1, 10].map(time_max_ns), [0, 50_000, 500_000]);
        assert!((570_000..580_000).contains(&time_max_ns(11)));
        // About two minutes.
        assert!((120..130).contains(&(time_max_ns(99) / 1_000_000_000)));
        assert_eq!(time_max_ns(100), u64::MAX);
    }
}
