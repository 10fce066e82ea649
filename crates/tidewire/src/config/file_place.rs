//! Places in the configuration file, for error messages.

/// Name and text of the configuration file, for error messages.
#[derive(Clone, Debug, Default)]
pub(crate) struct FilePlace {
    pub(super) path: String,
    pub(super) text: String,
}

impl FilePlace {
    /// Returns the place of `key` (`table.key` inside a table): file, line and key.
    pub(crate) fn of(&self, key: &str) -> String {
        match self.line_of(key) {
            Some(line) => format!("{}, line {line}: {key}", self.path),
            None => format!("{}: {key}", self.path),
        }
    }

    fn line_of(&self, key: &str) -> Option<usize> {
        let mut table = String::new();
        self.text
            .lines()
            .position(|line| {
                let line = line.trim();
                if let Some(name) = line.strip_prefix('[') {
                    table = name.split(']').next().unwrap_or_default().trim().to_owned() + ".";
                }
                let name = line.split('=').next().unwrap_or_default();
                format!("{table}{}", name.trim().trim_matches(['"', '\''])) == key
            })
            .map(|index| index + 1)
    }

    /// Returns the key whose value is on this line, counted from 1.
    pub(super) fn key_on(&self, line: usize) -> Option<&str> {
        let line = self.text.lines().nth(line - 1)?;
        let (key, _) = line.split_once('=')?;
        Some(key.trim())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_is_found_with_its_line_in_its_table() {
        let text = "lanes = 2\n# tag = 1\n[mx]\ntag = ['A.B']\n[ limits ]\n\"clients-max\" = 1\n";
        let place = FilePlace {
            path: "hub.toml".to_owned(),
            text: text.to_owned(),
        };
        assert_eq!(place.of("lanes"), "hub.toml, line 1: lanes");
        assert_eq!(place.of("mx.tag"), "hub.toml, line 4: mx.tag");
        let limit = "limits.clients-max";
        assert_eq!(place.of(limit), format!("hub.toml, line 6: {limit}"));
        assert_eq!(place.of("tag"), "hub.toml: tag");
        assert_eq!(place.key_on(4), Some("tag"));
        assert_eq!(place.key_on(3), None);
    }
}
