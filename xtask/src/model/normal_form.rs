//! The normal form of a reply: equal replies have the same bytes. It ignores an order that Redis
//! does not define, and time that passes between two servers.

use super::reply::Reply;

/// Returns a reply in its normal form.
pub(crate) fn normal(words: &[Vec<u8>], mut reply: Reply) -> Reply {
    let Some(name) = words.first() else {
        return reply;
    };
    let name = name.to_ascii_uppercase();
    let name = String::from_utf8_lossy(&name).into_owned();
    match name.as_str() {
        _ if reply.is_error() => {}
        "KEYS" | "SMEMBERS" | "SINTER" | "SUNION" | "SDIFF" | "HKEYS" | "HVALS" | "SPOP"
        | "SRANDMEMBER" => sort(&mut reply),
        "HGETALL" => sort_pairs(&mut reply),
        "HRANDFIELD" | "ZRANDMEMBER" => sort_with_partners(words, &mut reply),
        "SCAN" | "SSCAN" => each_part(&mut reply, sort),
        "HSCAN" | "ZSCAN" => {
            let alone = words
                .iter()
                .any(|word| word.eq_ignore_ascii_case(b"NOVALUES"));
            each_part(&mut reply, if alone { sort } else { sort_pairs });
        }
        "GEOSEARCH"
        | "GEORADIUS"
        | "GEORADIUS_RO"
        | "GEORADIUSBYMEMBER"
        | "GEORADIUSBYMEMBER_RO" => {
            let is_order = |word: &Vec<u8>| {
                word.eq_ignore_ascii_case(b"ASC")
                    || word.eq_ignore_ascii_case(b"DESC")
                    || word.eq_ignore_ascii_case(b"COUNT")
            };
            if !words.iter().any(is_order) {
                sort(&mut reply);
            }
        }
        "TTL" | "PTTL" | "HTTL" | "HPTTL" | "EXPIRETIME" | "PEXPIRETIME" | "HEXPIRETIME"
        | "HPEXPIRETIME" => round(&mut reply, &name),
        "XPENDING" => each_part(&mut reply, |entry| hide(entry, &[2])),
        "GET" => forget_old_estimate(&mut reply),
        "XINFO" => hide_times(&mut reply),
        "XREADGROUP" if words.iter().any(|word| word.eq_ignore_ascii_case(b"CLAIM")) => {
            settle_claimed(&mut reply);
        }
        _ => {}
    }
    round_numbers(&mut reply);
    reply
}

/// Normalizes numbers. Redis's shortest form is not always the shortest, so a number with more
/// digits than are always exact is compared by value.
fn round_numbers(reply: &mut Reply) {
    if let Reply::Parts(_, parts) = reply {
        return parts.iter_mut().for_each(round_numbers);
    }
    let Some(text) = reply.text().and_then(|text| std::str::from_utf8(text).ok()) else {
        return;
    };
    let digits = text.bytes().filter(u8::is_ascii_digit).count();
    let is_fraction = text.contains('.') && digits < DIGITS_MAX;
    let Some(number) = text.parse::<f64>().ok().filter(|_| is_fraction) else {
        return;
    };
    let number = number.to_string();
    if digits > EXACT_DIGITS || number == text {
        let kind = char::from(reply.kind());
        *reply = Reply::Leaf(format!("{kind}{number}\r\n").into_bytes());
    }
}

/// Removes a cached estimate that is marked as out of date.
fn forget_old_estimate(reply: &mut Reply) {
    let Reply::Leaf(bytes) = reply else { return };
    if let Some(at) = bytes.windows(4).position(|magic| magic == b"HYLL")
        && let Some(estimate) = bytes.get_mut(at + 8..at + 16)
        && estimate[7] & 0x80 != 0
    {
        estimate[..7].fill(0);
        estimate[7] = 0x80;
    }
}

fn sort(reply: &mut Reply) {
    if let Some(parts) = reply.parts_mut() {
        parts.sort();
    }
}

/// Sorts names with the value after each.
fn sort_pairs(reply: &mut Reply) {
    let Some(parts) = reply.parts_mut() else {
        return;
    };
    if parts.len() % 2 == 1 {
        return;
    }
    let mut pairs: Vec<Vec<Reply>> = parts.chunks(2).map(<[Reply]>::to_vec).collect();
    pairs.sort();
    *parts = pairs.concat();
}

/// Sorts names with values or scores: RESP2 puts each after its name, RESP3 makes pairs.
fn sort_with_partners(words: &[Vec<u8>], reply: &mut Reply) {
    let with = |word: &Vec<u8>| word.to_ascii_uppercase().starts_with(b"WITH");
    let is_flat = reply
        .parts_mut()
        .is_some_and(|parts| parts.iter().all(|part| matches!(part, Reply::Leaf(_))));
    if is_flat && words.iter().any(with) {
        sort_pairs(reply);
    } else {
        sort(reply);
    }
}

fn each_part(reply: &mut Reply, mut change: impl FnMut(&mut Reply)) {
    if let Some(parts) = reply.parts_mut() {
        parts.iter_mut().for_each(&mut change);
    }
}

/// Rounds remaining times, because the two servers are asked one after the other. Expiry times that
/// were set as absolute times are far beyond those.
fn round(reply: &mut Reply, name: &str) {
    match reply {
        Reply::Leaf(bytes) => {
            let number: Option<i64> = bytes
                .strip_prefix(b":")
                .and_then(|digits| std::str::from_utf8(digits.trim_ascii_end()).ok())
                .and_then(|digits| digits.parse().ok());
            let unit = if is_of_milliseconds(name) { 1_000 } else { 1 };
            let is_absolute = name.ends_with("TIME");
            if let Some(number) = number
                && number > 0
                && !(is_absolute && number / unit >= FAR_DEADLINE_S)
            {
                let step = ROUNDED_S * unit;
                *bytes = format!(":{}", (number + step / 2) / step * step).into_bytes();
            }
        }
        Reply::Parts(_, parts) => parts.iter_mut().for_each(|part| round(part, name)),
    }
}

fn is_of_milliseconds(name: &str) -> bool {
    name.trim_start_matches('H').starts_with('P')
}

/// Replaces the parts at these positions.
fn hide(reply: &mut Reply, places: &[usize]) {
    let Some(parts) = reply.parts_mut() else {
        return;
    };
    for &place in places {
        if let Some(part) = parts.get_mut(place) {
            *part = Reply::Leaf(Vec::new());
        }
    }
}

/// Hides how long claimed entries were idle, which decides about their order too.
fn settle_claimed(reply: &mut Reply) {
    let Some(parts) = reply.parts_mut() else {
        return;
    };
    let is_entry = |part: &mut Reply| part.parts_mut().is_some_and(|parts| parts.len() == 4);
    if !parts.is_empty() && parts.iter_mut().all(is_entry) {
        parts.iter_mut().for_each(|entry| hide(entry, &[2]));
        parts.sort();
    } else {
        parts.iter_mut().for_each(settle_claimed);
    }
}

/// Hides the values of fields with times or details of an encoding.
fn hide_times(reply: &mut Reply) {
    let Some(parts) = reply.parts_mut() else {
        return;
    };
    for at in 0..parts.len() {
        let is_time = parts[at].text().is_some_and(|name| TIMES.contains(&name));
        let is_pending = parts[at].text() == Some(b"pel") || parts[at].text() == Some(b"pending");
        let Some(next) = parts.get_mut(at + 1) else {
            continue;
        };
        if is_time {
            *next = Reply::Leaf(Vec::new());
        } else if is_pending {
            // Entries of a group are [id, consumer, time, count], and of a consumer [id, time,
            // count].
            each_part(next, |entry| {
                let places: &[usize] = match entry.parts_mut().map(|parts| parts.len()) {
                    Some(4) => &[2],
                    _ => &[1],
                };
                hide(entry, places);
            });
        }
    }
    parts.iter_mut().for_each(hide_times);
}

/// Seconds since the UNIX epoch; 100,000,000 seconds from now is earlier than this.
const FAR_DEADLINE_S: i64 = 4_000_000_000;
const ROUNDED_S: i64 = 60_000;
const EXACT_DIGITS: usize = 15;
const DIGITS_MAX: usize = 24;
const TIMES: &[&[u8]] = &[
    b"idle",
    b"inactive",
    b"seen-time",
    b"active-time",
    b"radix-tree-keys",
    b"radix-tree-nodes",
];

#[cfg(test)]
mod tests {
    use super::*;

    fn normal_of(command: &str, reply: &str) -> String {
        let words: Vec<Vec<u8>> = command.split(' ').map(|word| word.into()).collect();
        let (reply, _) = Reply::read(reply.as_bytes()).unwrap().unwrap();
        normal(&words, reply).print()
    }

    #[test]
    fn an_undefined_order_does_not_count() {
        let (one, other) = (
            "*2\r\n$1\r\na\r\n$1\r\nb\r\n",
            "*2\r\n$1\r\nb\r\n$1\r\na\r\n",
        );
        assert_eq!(normal_of("SMEMBERS k", one), normal_of("smembers k", other));
        assert_ne!(
            normal_of("LRANGE k 0 1", one),
            normal_of("LRANGE k 0 1", other)
        );
        let (one, other) = (
            "*4\r\n+b\r\n+1\r\n+a\r\n+2\r\n",
            "*4\r\n+a\r\n+2\r\n+b\r\n+1\r\n",
        );
        assert_eq!(normal_of("HGETALL k", one), normal_of("HGETALL k", other));
        let changed = "*4\r\n+a\r\n+1\r\n+b\r\n+2\r\n";
        assert_ne!(normal_of("HGETALL k", one), normal_of("HGETALL k", changed));
    }

    #[test]
    fn numbers_of_many_digits_count_by_their_value() {
        let (one, other) = (",47.482800939756856\r\n", ",47.48280093975686\r\n");
        assert_eq!(normal_of("ZSCORE k m", one), normal_of("ZSCORE k m", other));
        assert_ne!(
            normal_of("GET k", ",1.50\r\n"),
            normal_of("GET k", ",1.5\r\n")
        );
    }

    #[test]
    fn time_that_passes_does_not_count() {
        assert_eq!(
            normal_of("TTL k", ":900000\r\n"),
            normal_of("TTL k", ":899999\r\n")
        );
        assert_ne!(normal_of("TTL k", ":-1\r\n"), normal_of("TTL k", ":-2\r\n"));
        let (one, other) = (":1895305504873\r\n", ":1895305504870\r\n");
        assert_eq!(
            normal_of("PEXPIRETIME k", one),
            normal_of("PEXPIRETIME k", other)
        );
        let (one, other) = (":4102444800001\r\n", ":4102444800000\r\n");
        assert_ne!(
            normal_of("PEXPIRETIME k", one),
            normal_of("PEXPIRETIME k", other)
        );
        let pending = |time| format!("*1\r\n*4\r\n$3\r\n1-1\r\n$1\r\nc\r\n:{time}\r\n:1\r\n");
        let command = "XPENDING k g - + 10";
        assert_eq!(
            normal_of(command, &pending(1)),
            normal_of(command, &pending(2))
        );
        let info = |time| format!("*1\r\n*4\r\n+name\r\n+c\r\n+idle\r\n:{time}\r\n");
        let command = "XINFO CONSUMERS k g";
        assert_eq!(normal_of(command, &info(1)), normal_of(command, &info(2)));
    }
}
