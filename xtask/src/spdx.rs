//! Licence expressions as crates write them: `MIT OR Apache-2.0`, `(MIT AND Zlib)`, and the old
//! form `MIT/Apache-2.0`.

/// Returns whether `expression` can be satisfied with licences for which `allowed` is true. An
/// invalid expression cannot be satisfied.
pub(crate) fn is_met(expression: &str, allowed: impl Fn(&str) -> bool) -> bool {
    let spaced = expression
        .replace('/', " OR ")
        .replace('(', " ( ")
        .replace(')', " ) ");
    let mut words = Words {
        words: spaced.split_whitespace().collect(),
        position: 0,
    };
    let met = words.alternatives(&allowed);
    met == Some(true) && words.peek().is_none()
}

struct Words<'a> {
    words: Vec<&'a str>,
    position: usize,
}

impl<'a> Words<'a> {
    /// Parses `a OR b`, which binds weaker than AND. `None` is a syntax error.
    fn alternatives(&mut self, allowed: &impl Fn(&str) -> bool) -> Option<bool> {
        let mut met = self.conjunction(allowed)?;
        while self.take("OR") {
            met |= self.conjunction(allowed)?;
        }
        Some(met)
    }

    fn conjunction(&mut self, allowed: &impl Fn(&str) -> bool) -> Option<bool> {
        let mut met = self.single(allowed)?;
        while self.take("AND") {
            met &= self.single(allowed)?;
        }
        Some(met)
    }

    /// Parses a licence, possibly with an exception, or an expression in brackets.
    fn single(&mut self, allowed: &impl Fn(&str) -> bool) -> Option<bool> {
        if self.take("(") {
            let met = self.alternatives(allowed)?;
            return self.take(")").then_some(met);
        }
        let licence = self
            .next()
            .filter(|word| !["OR", "AND", "WITH", ")"].contains(word))?;
        if self.take("WITH") {
            // An exception only adds permissions.
            self.next()?;
        }
        Some(allowed(licence))
    }

    fn peek(&self) -> Option<&'a str> {
        self.words.get(self.position).copied()
    }

    fn next(&mut self) -> Option<&'a str> {
        let word = self.peek()?;
        self.position += 1;
        Some(word)
    }

    fn take(&mut self, word: &str) -> bool {
        let is_next = self.peek() == Some(word);
        self.position += usize::from(is_next);
        is_next
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn met(expression: &str) -> bool {
        is_met(expression, |licence| {
            ["MIT", "Apache-2.0", "Zlib"].contains(&licence)
        })
    }

    #[test]
    fn one_of_the_alternatives_is_enough() {
        assert!(met("GPL-3.0 OR MIT"));
        assert!(met("MIT/Apache-2.0"));
        assert!(!met("GPL-3.0 OR AGPL-3.0"));
    }

    #[test]
    fn all_parts_of_a_conjunction_are_needed() {
        assert!(met("(MIT OR Apache-2.0) AND Zlib"));
        assert!(!met("(MIT OR Apache-2.0) AND GPL-3.0"));
        assert!(
            met("MIT OR Apache-2.0 AND GPL-3.0"),
            "AND binds tighter than OR"
        );
    }

    #[test]
    fn an_exception_only_adds_permissions() {
        assert!(met("Apache-2.0 WITH LLVM-exception OR GPL-2.0"));
    }

    #[test]
    fn what_cannot_be_read_is_not_met() {
        for expression in ["", "MIT OR", "(MIT", "MIT MIT", "OR MIT", "MIT )"] {
            assert!(!met(expression), "{expression}");
        }
    }
}
