//! Plots as SVG: bars of ratios beside the line where both are equal.

use std::fmt::Write as _;

use super::report::Spread;

/// One ratio with its label.
#[derive(Debug)]
pub(crate) struct Bar {
    pub(crate) label: String,
    pub(crate) ratio: Spread,
}

/// Draws horizontal bars, each with its spread; bars left of the line are in our favour.
pub(crate) fn bars(title: &str, bars: &[Bar]) -> String {
    let most = bars.iter().map(|bar| bar.ratio.median).fold(1.0, f64::max) * 1.15;
    let x = |ratio: f64| LABELS_PX + ratio.min(most) / most * BARS_PX;
    let height = TOP_PX + bars.len() as f64 * ROW_PX + 10.0;
    let width = LABELS_PX + BARS_PX + 60.0;
    let mut svg = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {width:.0} {height:.0}\" \
         font-family=\"sans-serif\" font-size=\"11\">\n\
         <rect width=\"100%\" height=\"100%\" fill=\"#fff\"/>\n\
         <text x=\"8\" y=\"16\" font-size=\"13\">{}</text>\n",
        escaped(title)
    );
    for (row, bar) in bars.iter().enumerate() {
        let y = TOP_PX + row as f64 * ROW_PX;
        let middle = y + ROW_PX / 2.0 - 1.0;
        let colour = match bar.ratio.median <= 1.0 {
            true => "#2a7f9e",
            false => "#b5533c",
        };
        // Writing into a string cannot fail.
        let _ = writeln!(
            svg,
            "<text x=\"{:.0}\" y=\"{:.1}\" text-anchor=\"end\">{}</text>\
             <rect x=\"{LABELS_PX}\" y=\"{:.1}\" width=\"{:.1}\" height=\"{:.1}\" fill=\"{colour}\"/>\
             <line x1=\"{:.1}\" x2=\"{:.1}\" y1=\"{middle:.1}\" y2=\"{middle:.1}\" stroke=\"#222\"/>\
             <text x=\"{:.1}\" y=\"{:.1}\">{:.2}</text>",
            LABELS_PX - 6.0,
            middle + 4.0,
            escaped(&bar.label),
            y + 2.0,
            x(bar.ratio.median) - LABELS_PX,
            ROW_PX - 6.0,
            x(bar.ratio.min),
            x(bar.ratio.max),
            x(bar.ratio.median.max(bar.ratio.max)) + 5.0,
            middle + 4.0,
            bar.ratio.median,
        );
    }
    let one = x(1.0);
    let _ = writeln!(
        svg,
        "<line x1=\"{one:.1}\" x2=\"{one:.1}\" y1=\"{:.0}\" y2=\"{:.0}\" stroke=\"#888\" \
         stroke-dasharray=\"3 3\"/>\n</svg>",
        TOP_PX - 4.0,
        height - 6.0
    );
    svg
}

fn escaped(text: &str) -> String {
    text.replace('&', "&amp;")
        .replace('<', "&lt;")
        .replace('>', "&gt;")
}

const LABELS_PX: f64 = 230.0;
const BARS_PX: f64 = 420.0;
const TOP_PX: f64 = 30.0;
const ROW_PX: f64 = 18.0;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_bar_has_its_label_and_its_figure() {
        let bar = |label: &str, figure| Bar {
            label: label.to_owned(),
            ratio: Spread::of([figure]),
        };
        let svg = bars("A & B", &[bar("GET", 0.5), bar("SET", 1.5)]);
        for part in ["A &amp; B", ">GET<", ">0.50<", ">SET<", ">1.50<", "</svg>"] {
            assert!(svg.contains(part), "{part}");
        }
    }
}
