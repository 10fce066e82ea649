//! Lua 5.1's patterns, with a matcher that can be interrupted.
//!
//! The Lua library's own matcher recurses after each repeated item and cannot be interrupted. This
//! one keeps its backtracking points on its own stack, takes the same steps in the same order, and
//! calls back at intervals.

/// Why a match ended without a result.
#[derive(Debug)]
pub(crate) enum Stop<E> {
    /// The pattern is invalid; contains the library's error text.
    Pattern(&'static str),
    /// The callback ended it.
    Ended(E),
}

/// A capture of a match.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Capture {
    /// A text from one position to another, counted from 0.
    Text(usize, usize),
    /// `()`: a position, counted from 0.
    Position(usize),
}

/// A matcher of a pattern in a subject.
pub(crate) struct Matcher<'a, F> {
    subject: &'a [u8],
    pattern: &'a [u8],
    is_anchored: bool,
    captures: [Open; CAPTURES_MAX],
    level: usize,
    /// Backtracking points.
    back: Vec<Back>,
    /// Number of steps until `spend` is called.
    left: usize,
    spend: F,
}

#[derive(Clone, Copy, Debug)]
struct Open {
    start: usize,
    length: Length,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Length {
    Unfinished,
    Position,
    Bytes(usize),
}

/// A backtracking point.
#[derive(Clone, Copy, Debug)]
enum Back {
    /// A greedy item has matched `count` bytes from `start` and may match fewer; `next` follows it.
    Fewer {
        start: usize,
        count: usize,
        next: usize,
    },
    /// A lazy item of the pattern, from `item` to `end`, may match one more byte.
    More { at: usize, item: usize, end: usize },
    /// An optional item may be skipped.
    Without { at: usize, next: usize },
    /// A capture was opened.
    Begun,
    /// A capture was closed.
    Ended(usize),
}

type Result<T, E> = std::result::Result<T, Stop<E>>;

impl<'a, E, F: FnMut(usize) -> std::result::Result<(), E>> Matcher<'a, F> {
    /// Creates a matcher. A pattern ends at its first zero, as in the Lua library. `spend` receives
    /// the number of steps since its last call, and can end the match with an error.
    pub(crate) fn new(subject: &'a [u8], pattern: &'a [u8], may_anchor: bool, spend: F) -> Self {
        let end = pattern.iter().position(|&byte| byte == 0);
        let pattern = &pattern[..end.unwrap_or(pattern.len())];
        let is_anchored = may_anchor && pattern.first() == Some(&b'^');
        let nothing = Open {
            start: 0,
            length: Length::Unfinished,
        };
        Matcher {
            subject,
            pattern: &pattern[usize::from(is_anchored)..],
            is_anchored,
            captures: [nothing; CAPTURES_MAX],
            level: 0,
            back: Vec::new(),
            left: STEPS,
            spend,
        }
    }

    /// Returns whether it can match at only one position.
    pub(crate) fn is_anchored(&self) -> bool {
        self.is_anchored
    }

    /// Finds the first match at or after `from`. Returns its start and end.
    pub(crate) fn find(&mut self, from: usize) -> Result<Option<(usize, usize)>, E> {
        let mut at = from;
        while at <= self.subject.len() {
            if let Some(end) = self.at(at)? {
                return Ok(Some((at, end)));
            } else if self.is_anchored {
                break;
            }
            at += 1;
        }
        Ok(None)
    }

    /// Returns the number of captures of the last match.
    pub(crate) fn captured(&self) -> usize {
        self.level
    }

    /// Returns capture `index` of the last match, from 0. Without captures, the first one is the
    /// whole match.
    pub(crate) fn capture(&self, index: usize, whole: (usize, usize)) -> Result<Capture, E> {
        if index >= self.level {
            return match index {
                0 => Ok(Capture::Text(whole.0, whole.1)),
                _ => Err(Stop::Pattern(BAD_INDEX)),
            };
        }
        let open = self.captures[index];
        match open.length {
            Length::Unfinished => Err(Stop::Pattern("unfinished capture")),
            Length::Position => Ok(Capture::Position(open.start)),
            Length::Bytes(count) => Ok(Capture::Text(open.start, open.start + count)),
        }
    }

    /// Matches at `start`; returns the end of the match.
    pub(crate) fn at(&mut self, start: usize) -> Result<Option<usize>, E> {
        self.level = 0;
        self.back.clear();
        let (mut s, mut p) = (start, 0);
        loop {
            self.step(1)?;
            let next = match self.byte(p) {
                0 => return Ok(Some(s)),
                b'$' if self.byte(p + 1) == 0 => match s == self.subject.len() {
                    true => return Ok(Some(s)),
                    false => None,
                },
                b'(' => Some(self.begin_capture(s, p)?),
                b')' => Some(self.end_capture(s, p)?),
                b'%' => match self.byte(p + 1) {
                    b'b' => self.balanced(s, p + 2)?.map(|s| (s, p + 4)),
                    b'f' => self.frontier(s, p + 2)?.map(|p| (s, p)),
                    digit if digit.is_ascii_digit() => {
                        self.captured_again(s, digit)?.map(|s| (s, p + 2))
                    }
                    _ => self.item(s, p)?,
                },
                _ => self.item(s, p)?,
            };
            match next.map_or_else(|| self.go_back(), |next| Ok(Some(next)))? {
                Some(next) => (s, p) = next,
                None => return Ok(None),
            }
        }
    }

    /// Returns a byte of the pattern; zero after its end.
    #[inline]
    fn byte(&self, at: usize) -> u8 {
        self.pattern.get(at).copied().unwrap_or(0)
    }

    #[inline]
    fn step(&mut self, count: usize) -> Result<(), E> {
        if self.left > count {
            self.left -= count;
            return Ok(());
        }
        self.told(count)
    }

    #[cold]
    fn told(&mut self, count: usize) -> Result<(), E> {
        let spent = STEPS - self.left + count;
        self.left = STEPS;
        (self.spend)(spent).map_err(Stop::Ended)
    }

    /// Returns to the last backtracking point with an alternative; `None` if there is none.
    fn go_back(&mut self) -> Result<Option<(usize, usize)>, E> {
        while let Some(back) = self.back.pop() {
            match back {
                Back::Fewer { count: 0, .. } => {}
                Back::Fewer { start, count, next } => {
                    let count = count - 1;
                    self.back.push(Back::Fewer { start, count, next });
                    return Ok(Some((start + count, next)));
                }
                Back::More { at, item, end } => {
                    if self.single(at, item, end)? {
                        let at = at + 1;
                        self.back.push(Back::More { at, item, end });
                        return Ok(Some((at, end + 1)));
                    }
                }
                Back::Without { at, next } => return Ok(Some((at, next))),
                Back::Begun => self.level -= 1,
                Back::Ended(index) => self.captures[index].length = Length::Unfinished,
            }
        }
        Ok(None)
    }

    /// Matches a set, a class or a byte, with its repetition.
    #[inline]
    fn item(&mut self, s: usize, p: usize) -> Result<Option<(usize, usize)>, E> {
        let end = self.item_end(p)?;
        let is_one = self.single(s, p, end)?;
        match self.byte(end) {
            b'?' => {
                if is_one {
                    let next = end + 1;
                    self.back.push(Back::Without { at: s, next });
                    return Ok(Some((s + 1, next)));
                }
                Ok(Some((s, end + 1)))
            }
            b'*' => self.most(s, p, end).map(Some),
            b'+' if is_one => self.most(s + 1, p, end).map(Some),
            b'-' => {
                let (at, item) = (s, p);
                self.back.push(Back::More { at, item, end });
                Ok(Some((s, end + 1)))
            }
            b'+' => Ok(None),
            _ => Ok(is_one.then_some((s + 1, end))),
        }
    }

    /// Matches as many repetitions of an item as possible.
    fn most(&mut self, start: usize, item: usize, end: usize) -> Result<(usize, usize), E> {
        let mut count = 0;
        if self.byte(item) == b'.' {
            count = self.subject.len() - start;
            self.step(count / BYTES_PER_STEP)?;
        } else {
            while self.single(start + count, item, end)? {
                self.step(1)?;
                count += 1;
            }
        }
        let next = end + 1;
        self.back.push(Back::Fewer { start, count, next });
        Ok((start + count, next))
    }

    fn item_end(&mut self, item: usize) -> Result<usize, E> {
        let mut p = item + 1;
        match self.byte(item) {
            b'%' if self.byte(p) == 0 => Err(Stop::Pattern("malformed pattern (ends with '%')")),
            b'%' => Ok(p + 1),
            b'[' => {
                if self.byte(p) == b'^' {
                    p += 1;
                }
                loop {
                    let byte = self.byte(p);
                    if byte == 0 {
                        return Err(Stop::Pattern("malformed pattern (missing ']')"));
                    }
                    p += 1;
                    if byte == b'%' && self.byte(p) != 0 {
                        p += 1;
                    }
                    if self.byte(p) == b']' {
                        break;
                    }
                }
                self.step((p - item) / BYTES_PER_STEP)?;
                Ok(p + 1)
            }
            _ => Ok(p),
        }
    }

    /// Returns whether the byte at `at` matches an item.
    #[inline]
    fn single(&mut self, at: usize, item: usize, end: usize) -> Result<bool, E> {
        let Some(&byte) = self.subject.get(at) else {
            return Ok(false);
        };
        match self.byte(item) {
            b'.' => Ok(true),
            b'%' => Ok(is_of_class(byte, self.byte(item + 1))),
            b'[' => {
                self.step((end - item) / BYTES_PER_STEP)?;
                Ok(self.is_in_set(byte, item, end - 1))
            }
            own => Ok(own == byte),
        }
    }

    /// Returns whether a byte is in the set with brackets at `p` and `last`.
    fn is_in_set(&self, byte: u8, mut p: usize, last: usize) -> bool {
        let is_in = self.byte(p + 1) != b'^';
        p += usize::from(!is_in);
        loop {
            p += 1;
            if p >= last {
                return !is_in;
            }
            if self.byte(p) == b'%' {
                p += 1;
                if is_of_class(byte, self.byte(p)) {
                    return is_in;
                }
            } else if self.byte(p + 1) == b'-' && p + 2 < last {
                p += 2;
                if (self.byte(p - 2)..=self.byte(p)).contains(&byte) {
                    return is_in;
                }
            } else if self.byte(p) == byte {
                return is_in;
            }
        }
    }

    fn begin_capture(&mut self, s: usize, p: usize) -> Result<(usize, usize), E> {
        let is_position = self.byte(p + 1) == b')';
        if self.level >= CAPTURES_MAX {
            return Err(Stop::Pattern("too many captures"));
        }
        self.captures[self.level] = Open {
            start: s,
            length: match is_position {
                true => Length::Position,
                false => Length::Unfinished,
            },
        };
        self.level += 1;
        self.back.push(Back::Begun);
        Ok((s, p + 1 + usize::from(is_position)))
    }

    fn end_capture(&mut self, s: usize, p: usize) -> Result<(usize, usize), E> {
        let open = self.captures[..self.level].iter();
        let last = open
            .enumerate()
            .rfind(|(_, open)| open.length == Length::Unfinished);
        let Some((index, open)) = last else {
            return Err(Stop::Pattern("invalid pattern capture"));
        };
        self.captures[index].length = Length::Bytes(s - open.start);
        self.back.push(Back::Ended(index));
        Ok((s, p + 1))
    }

    /// Matches a back reference (`%1` and so on).
    fn captured_again(&mut self, s: usize, digit: u8) -> Result<Option<usize>, E> {
        let index = usize::from(digit).wrapping_sub(usize::from(b'1'));
        let open = match self.captures[..self.level].get(index) {
            Some(open) if open.length != Length::Unfinished => *open,
            _ => return Err(Stop::Pattern(BAD_INDEX)),
        };
        let Length::Bytes(count) = open.length else {
            return Ok(None);
        };
        self.step(count / BYTES_PER_STEP)?;
        let captured = &self.subject[open.start..open.start + count];
        Ok(self.subject[s..].starts_with(captured).then_some(s + count))
    }

    /// Matches `%bxy`.
    fn balanced(&mut self, s: usize, p: usize) -> Result<Option<usize>, E> {
        let (open, close) = (self.byte(p), self.byte(p + 1));
        if open == 0 || close == 0 {
            return Err(Stop::Pattern("unbalanced pattern"));
        } else if self.subject.get(s) != Some(&open) {
            return Ok(None);
        }
        let mut depth = 1;
        for at in s + 1..self.subject.len() {
            self.step(1)?;
            let byte = self.subject[at];
            if byte == close {
                depth -= 1;
                if depth == 0 {
                    return Ok(Some(at + 1));
                }
            } else if byte == open {
                depth += 1;
            }
        }
        Ok(None)
    }

    /// Matches `%f[set]`; returns the next position in the pattern.
    fn frontier(&mut self, s: usize, p: usize) -> Result<Option<usize>, E> {
        if self.byte(p) != b'[' {
            return Err(Stop::Pattern("missing '[' after '%f' in pattern"));
        }
        let end = self.item_end(p)?;
        let byte = |at: usize| self.subject.get(at).copied().unwrap_or(0);
        let before = if s == 0 { 0 } else { byte(s - 1) };
        let is_here = !self.is_in_set(before, p, end - 1) && self.is_in_set(byte(s), p, end - 1);
        Ok(is_here.then_some(end))
    }
}

fn is_of_class(byte: u8, class: u8) -> bool {
    let is_one = match class.to_ascii_lowercase() {
        b'a' => byte.is_ascii_alphabetic(),
        b'c' => byte.is_ascii_control(),
        b'd' => byte.is_ascii_digit(),
        b'l' => byte.is_ascii_lowercase(),
        b'p' => byte.is_ascii_punctuation(),
        b's' => byte.is_ascii_whitespace() || byte == 0x0B,
        b'u' => byte.is_ascii_uppercase(),
        b'w' => byte.is_ascii_alphanumeric(),
        b'x' => byte.is_ascii_hexdigit(),
        b'z' => byte == 0,
        _ => return class == byte,
    };
    is_one == class.is_ascii_lowercase()
}

/// Returns the maximum length of a subject for which the library's own matcher surely finishes in
/// about a millisecond, without an error. Returns `None` if that is unknown.
pub(crate) fn quick_length(pattern: &[u8]) -> Option<usize> {
    let byte = |at: usize| pattern.get(at).copied().unwrap_or(0);
    let (mut p, mut captures, mut open) = (usize::from(byte(0) == b'^'), 0, 0);
    // Every repeated item may be tried at each position, for each position of the previous one.
    let (mut repeated, mut ways, mut weight) = (0, 1_usize, 1);
    while p < pattern.len() {
        let item = p;
        match (byte(p), byte(p + 1)) {
            (0, _) | (b'%', 0 | b'0'..=b'9' | b'f') => return None,
            (b'(', _) => {
                (captures, open) = (captures + 1, open + 1);
                p += 1;
                continue;
            }
            (b')', _) if open == 0 => return None,
            (b')', _) => {
                open -= 1;
                p += 1;
                continue;
            }
            (b'%', b'b') if byte(p + 2) == 0 || byte(p + 3) == 0 => return None,
            (b'%', b'b') => {
                repeated += 1;
                p += 4;
                continue;
            }
            (b'%', _) => p += 2,
            (b'[', next) => {
                p += 2 + usize::from(next == b'^');
                while byte(p) != b']' {
                    if byte(p) == 0 || byte(p) == b'%' {
                        return None;
                    }
                    p += 1;
                }
                p += 1;
                weight = weight.max(p - item);
            }
            _ => p += 1,
        }
        match byte(p) {
            b'*' | b'+' | b'-' => repeated += 1,
            b'?' => ways = ways.checked_mul(2)?,
            _ => continue,
        }
        p += 1;
    }
    if open > 0 || captures > CAPTURES_MAX {
        return None;
    }
    let tries = QUICK_STEPS / weight.checked_mul(ways)?;
    let length = (tries as f64).powf(1.0 / f64::from(repeated + 1)) as usize;
    // At most, the whole pattern is compared at each position.
    let most = QUICK_STEPS / pattern.len().max(1);
    Some(length.saturating_sub(2).min(most))
}

/// Returns whether a pattern has more repeated items than accepted. Escaped characters and
/// characters in a set do not count.
pub(crate) fn is_too_complex(pattern: &[u8]) -> bool {
    if pattern.len() <= REPEATED_MAX {
        return false;
    }
    let (mut at, mut repeated) = (0, 0);
    while let Some(&byte) = pattern.get(at) {
        at += match byte {
            b'%' => 2,
            b'[' => {
                let first = 2 + usize::from(pattern.get(at + 1) == Some(&b'^'));
                let rest = pattern.get(at + first..).unwrap_or(&[]);
                let end = rest.iter().position(|&byte| byte == b']');
                end.map_or(1, |end| first + end + 1)
            }
            _ => 1,
        };
        repeated += usize::from(matches!(byte, b'*' | b'+' | b'?' | b'-'));
    }
    repeated > REPEATED_MAX
}

/// As in the Lua library.
const CAPTURES_MAX: usize = 32;
/// More repeated items than any real pattern has. Beyond it, backtracking could take too long.
const REPEATED_MAX: usize = 4_000;
/// Number of steps between two callbacks: a few hundred microseconds.
const STEPS: usize = 100_000;
/// Number of bytes compared in the time of one step.
const BYTES_PER_STEP: usize = 8;
/// Number of steps of the library's own matcher in about a millisecond.
const QUICK_STEPS: usize = 300_000;
const BAD_INDEX: &str = "invalid capture index";
