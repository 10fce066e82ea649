//! The share of each command in a load: `get:80,set:20`.

use std::str::FromStr;

use serde::Serialize;

/// GET and SET in random order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub(crate) struct Mix {
    /// Share of GET in per cent.
    pub(crate) gets: u64,
}

impl Mix {
    /// Returns a name such as `80 % GET, 20 % SET`.
    pub(crate) fn name(self) -> String {
        format!("{} % GET, {} % SET", self.gets, 100 - self.gets)
    }
}

impl FromStr for Mix {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (mut gets, mut sets) = (None, None);
        for part in text.split(',') {
            let (command, share) = part.split_once(':').ok_or_else(expected)?;
            let share: u64 = share.trim().parse().map_err(|_| expected())?;
            let place = match command.trim().to_ascii_lowercase().as_str() {
                "get" => &mut gets,
                "set" => &mut sets,
                _ => return Err(expected()),
            };
            if place.replace(share).is_some() {
                return Err(expected());
            }
        }
        let (gets, sets) = (gets.unwrap_or(0), sets.unwrap_or(0));
        match gets.checked_add(sets) {
            Some(100) => Ok(Mix { gets }),
            _ => Err("the shares of a mix are 100 together".to_owned()),
        }
    }
}

fn expected() -> String {
    "a mix such as get:80,set:20 is expected".to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mix_names_each_command_once_and_is_a_hundred_together() {
        assert_eq!("get:80,set:20".parse(), Ok(Mix { gets: 80 }));
        assert_eq!("SET:95, get:5".parse(), Ok(Mix { gets: 5 }));
        assert_eq!("set:100".parse(), Ok(Mix { gets: 0 }));
        for wrong in [
            "",
            "get",
            "get:80",
            "get:80,set:21",
            "get:50,get:50",
            "get:-1,set:101",
            "del:100",
            "get:18446744073709551615,set:101",
            "get:80,set:20,",
        ] {
            assert!(wrong.parse::<Mix>().is_err(), "{wrong:?}");
        }
    }
}
