//! The page of metrics.

use std::fmt::{Display, Write};

use super::Metric;

/// A page of metrics in the Prometheus text format, version 0.0.4. Names begin with `tidewire_`,
/// but those of the process have the names that all Prometheus clients use.
#[derive(Debug, Default)]
pub struct Page {
    /// Series, and their values as text.
    parts: Vec<(Metric, String)>,
}

impl Page {
    /// The text: series by their places, each metric's behind its help and kind.
    pub fn into_text(mut self) -> String {
        self.parts.sort_by_key(|(metric, _)| metric.place);
        let places = self.parts.iter().map(|(metric, _)| metric.place);
        debug_assert!(
            places.is_sorted_by(|one, next| one < next),
            "one place for two series"
        );
        let (mut text, mut begun) = (String::new(), "");
        for (metric, values) in &self.parts {
            let (name, kind, help) = (metric.name, metric.kind, metric.help);
            if name != begun {
                let prefix = prefix(name);
                let _ = writeln!(
                    text,
                    "# HELP {prefix}{name} {help}\n# TYPE {prefix}{name} {kind}"
                );
                begun = name;
            }
            text += values;
        }
        text
    }

    /// Begins a series: values are its own from now on.
    pub(super) fn begin(&mut self, metric: Metric) {
        self.parts.push((metric, String::new()));
    }

    /// A value of the series that was begun.
    pub fn value(&mut self, name: &str, labels: &[(&str, &str)], value: impl Display) {
        debug_assert!(
            self.parts
                .last()
                .is_some_and(|(metric, _)| name.starts_with(metric.name)),
            "a value is of the metric that was begun: {name}"
        );
        let Some((_, out)) = self.parts.last_mut() else {
            return;
        };
        let _ = write!(out, "{}{name}", prefix(name));
        for (number, (label, text)) in labels.iter().enumerate() {
            let before = if number == 0 { '{' } else { ',' };
            let _ = write!(out, "{before}{label}=\"{}\"", escaped(text));
        }
        let after = if labels.is_empty() { "" } else { "}" };
        let _ = writeln!(out, "{after} {value}");
    }
}

fn prefix(name: &str) -> &'static str {
    match name.starts_with("process_") {
        true => "",
        false => "tidewire_",
    }
}

/// A label's value as the format wants it.
fn escaped(text: &str) -> String {
    let text = text.replace('\\', "\\\\").replace('"', "\\\"");
    text.replace('\n', "\\n")
}
