//! The options of a chore. Each call removes what it reads from the command line.

use crate::shell::Failure;
use std::str::FromStr;

/// The rest of a command line.
#[derive(Debug)]
pub(crate) struct Arguments(Vec<String>);

impl Arguments {
    pub(crate) fn new(arguments: &[&str]) -> Self {
        Self(
            arguments
                .iter()
                .map(|argument| (*argument).to_owned())
                .collect(),
        )
    }

    /// Returns whether `--name` is given.
    pub(crate) fn flag(&mut self, name: &str) -> bool {
        let before = self.0.len();
        self.0.retain(|argument| argument != name);
        self.0.len() < before
    }

    /// Returns the value after `--name`, if it is given.
    pub(crate) fn value(&mut self, name: &str) -> Result<Option<String>, Failure> {
        let mut values = self.values(name)?;
        if values.len() > 1 {
            return Err(Failure::new(format!("{name} is given more than once")));
        }
        Ok(values.pop())
    }

    /// Returns the values after every `--name`.
    pub(crate) fn values(&mut self, name: &str) -> Result<Vec<String>, Failure> {
        let mut values = Vec::new();
        while let Some(at) = self.0.iter().position(|argument| argument == name) {
            if at + 1 == self.0.len() {
                return Err(Failure::new(format!("{name} needs a value")));
            }
            values.push(self.0.remove(at + 1));
            self.0.remove(at);
        }
        Ok(values)
    }

    /// Returns the number after `--name`, or `default`.
    pub(crate) fn number<T: FromStr>(&mut self, name: &str, default: T) -> Result<T, Failure> {
        let Some(value) = self.value(name)? else {
            return Ok(default);
        };
        let plain = value.replace('_', "");
        plain
            .parse()
            .map_err(|_| Failure::new(format!("{name} {value}: not a number that fits")))
    }

    /// Returns the remaining arguments that are not options, in order.
    pub(crate) fn names(&mut self) -> Vec<String> {
        let is_name = |argument: &mut String| !argument.starts_with("--");
        self.0.extract_if(.., is_name).collect()
    }

    /// Returns an error if an argument is left.
    pub(crate) fn end(self) -> Result<(), Failure> {
        match self.0.first() {
            None => Ok(()),
            Some(argument) => Err(Failure::new(format!(
                "'{argument}' is not an argument of this chore"
            ))),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn options_are_taken_in_any_order_and_nothing_is_left_over() {
        let mut arguments =
            Arguments::new(&["--unit", "a", "--fast", "--lanes", "4", "--unit", "b"]);
        assert!(arguments.flag("--fast") && !arguments.flag("--fast"));
        assert_eq!(arguments.values("--unit").unwrap(), ["a", "b"]);
        assert_eq!(arguments.number("--lanes", 1).unwrap(), 4);
        assert_eq!(arguments.number("--seed", 7).unwrap(), 7);
        arguments.end().unwrap();
    }

    #[test]
    fn names_are_what_is_no_option() {
        let mut arguments = Arguments::new(&["a", "--seconds", "5", "b", "--odd"]);
        assert_eq!(arguments.number("--seconds", 1).unwrap(), 5);
        assert_eq!(arguments.names(), ["a", "b"]);
        assert!(arguments.end().is_err());
    }

    #[test]
    fn a_mistake_is_named() {
        assert!(Arguments::new(&["--suite"]).value("--suite").is_err());
        assert!(
            Arguments::new(&["--s", "1", "--s", "2"])
                .value("--s")
                .is_err()
        );
        assert!(Arguments::new(&["--n", "x"]).number("--n", 1_u64).is_err());
        let error = Arguments::new(&["--verbos"]).end().unwrap_err().to_string();
        assert!(error.contains("--verbos"));
    }
}
