//! Shortens a long history with a difference.

use super::generator::Step;
use super::{Comparison, Difference, print};
use crate::shell::Failure;

/// Shortens the history as far as possible, and prints it with both replies.
pub(crate) fn report(
    comparison: &mut Comparison,
    history: Vec<Step>,
    difference: Difference,
) -> Result<(), Failure> {
    let (history, difference) = shorten(history, difference, |history| comparison.play(history))?;
    println!("\n{} steps end in a difference:", history.len());
    for step in &history {
        let database = if step.connection == 2 { 1 } else { 0 };
        let protocol = 2 + step.connection % 2;
        for words in &step.commands {
            println!(
                "  [{} RESP{protocol} db {database}] {}",
                step.connection,
                print(words)
            );
        }
    }
    let (expected, actual) = around(&difference.expected, &difference.actual);
    println!("to {}", clip(&difference.command));
    println!("  Redis: {}", clip(&expected));
    println!("  {}: {}", difference.name, clip(&actual));
    Ok(())
}

/// Removes the keys of other groups first, and then ever smaller parts.
fn shorten(
    history: Vec<Step>,
    difference: Difference,
    mut play: impl FnMut(&[Step]) -> Result<Option<Difference>, Failure>,
) -> Result<(Vec<Step>, Difference), Failure> {
    let mut best = (history, difference);
    let mut attempts = 0;
    let mut attempt = |candidate: Vec<Step>, best: &mut (Vec<Step>, Difference)| {
        attempts += 1;
        if candidate.is_empty() || attempts > ATTEMPTS_MAX {
            return Ok::<bool, Failure>(false);
        }
        let Some(difference) = play(&candidate)? else {
            return Ok(false);
        };
        let mut candidate = candidate;
        candidate.truncate(difference.at + 1);
        *best = (candidate, difference);
        Ok(true)
    };
    let group = best.0.last().and_then(|step| step.group);
    if let Some(group) = group {
        let of_group = |step: &&Step| step.group.is_none_or(|other| other == group);
        let candidate = best.0.iter().filter(of_group).cloned().collect();
        attempt(candidate, &mut best)?;
    }
    let mut size = best.0.len().div_ceil(2);
    while size > 0 {
        let mut begin = 0;
        while begin < best.0.len() {
            let mut candidate = best.0.clone();
            candidate.drain(begin..(begin + size).min(best.0.len()));
            if !attempt(candidate, &mut best)? {
                begin += size;
            }
        }
        size /= 2;
    }
    Ok(best)
}

/// Returns both texts from shortly before the place where they differ.
fn around(one: &str, other: &str) -> (String, String) {
    let same = one
        .chars()
        .zip(other.chars())
        .take_while(|(a, b)| a == b)
        .count();
    let cut = |text: &str| match same.saturating_sub(BEFORE_COLUMNS) {
        0 => text.to_owned(),
        begin => format!("…{}", text.chars().skip(begin).collect::<String>()),
    };
    (cut(one), cut(other))
}

fn clip(text: &str) -> String {
    let mut clipped: String = text.chars().take(COLUMNS_MAX).collect();
    if clipped.len() < text.len() {
        clipped.push('…');
    }
    clipped
}

/// Limit for a server that hangs, where each attempt takes long.
const ATTEMPTS_MAX: usize = 600;
const COLUMNS_MAX: usize = 2_000;
const BEFORE_COLUMNS: usize = 80;

#[cfg(test)]
mod tests {
    use super::*;

    fn step(group: usize, word: &str) -> Step {
        Step {
            connection: 0,
            group: Some(group),
            commands: vec![vec![word.as_bytes().to_vec()]],
        }
    }

    #[test]
    fn a_history_is_cut_to_what_the_difference_needs() {
        let mut history: Vec<Step> = (0..500).map(|n| step(n % 7, "noise")).collect();
        history[40] = step(3, "first");
        history[300] = step(3, "second");
        history.push(step(3, "last"));
        let word = |step: &Step| step.commands[0][0].clone();
        let play = |history: &[Step]| {
            let at = |name: &str| {
                history
                    .iter()
                    .position(|step| word(step) == name.as_bytes())
            };
            let found = at("first").zip(at("second")).zip(at("last"));
            Ok(found.map(|(_, at)| Difference {
                at,
                command: "last".into(),
                expected: String::new(),
                name: String::new(),
                actual: String::new(),
            }))
        };
        let difference = play(&history).unwrap().unwrap();
        let (short, _) = shorten(history, difference, play).unwrap();
        let words: Vec<_> = short.iter().map(word).collect();
        assert_eq!(
            words,
            [b"first".to_vec(), b"second".to_vec(), b"last".to_vec()]
        );
    }
}
