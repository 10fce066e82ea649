//! What may happen to the hubs, and random orders of it.

/// A venue's number, and its name if it has one.
pub(super) type Numbered = (u16, Option<&'static str>);

/// What the hubs and publishers of a history are.
#[derive(Clone, Debug)]
pub(super) struct Setting {
    /// Hubs that publishers write to. The first follower follows all of them.
    pub(super) heads: usize,
    pub(super) followers: usize,
    /// Whether the last of them is followed by the second follower instead: a tree of hubs.
    pub(super) is_tree: bool,
    /// The hub of each publisher, and the numbers and names of its venues.
    pub(super) senders: Vec<(usize, Vec<Numbered>)>,
    /// Whether each hub has a client of all bars from its start on.
    pub(super) is_asked: bool,
    /// The publisher whose symbol has the name of a hub's sum.
    pub(super) named_like_sum: Option<usize>,
    /// Whether that publisher plays a recording of a hub.
    pub(super) is_player: bool,
}

/// One step. Publishers, their venues and hubs have numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Step {
    Trade(usize, usize),
    Quote(usize, usize),
    /// A trading day begins at a venue.
    Day(usize, usize),
    /// A publisher begins another session.
    Restart(usize),
    /// A publisher sends its session again to a hub that has restarted.
    Again(usize),
    Leave(usize),
    /// A venue number has another name from now on.
    Rename(usize, usize, &'static str),
    /// A hub is killed, and starts without what it knew.
    Kill(usize),
    /// The same, and what it has sent and no hub has read is lost.
    KillAndLose(usize),
    Stop(usize),
    Continue(usize),
    /// All hubs that run read everything.
    Deliver,
    DeliverTo(usize),
    /// A minute ends, and the wall clock closes bars.
    Minute,
    /// A client asks for bars.
    Ask(usize, &'static str),
    /// All hubs run and read everything.
    Settle,
}

impl Step {
    /// Returns whether no publisher and no hub begins or ends with it.
    pub(super) fn is_calm(self) -> bool {
        use Step::*;
        matches!(
            self,
            Trade(..)
                | Quote(..)
                | Day(..)
                | Stop(_)
                | Continue(_)
                | Deliver
                | DeliverTo(_)
                | Minute
                | Ask(..)
                | Settle
        )
    }
}

/// A small generator of numbers.
pub(super) struct Random(u64);

impl Random {
    pub(super) fn below(&mut self, bound: usize) -> usize {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut mixed = self.0;
        mixed = (mixed ^ mixed >> 30).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        mixed = (mixed ^ mixed >> 27).wrapping_mul(0x94D0_49BB_1331_11EB);
        ((mixed ^ mixed >> 31) % bound as u64) as usize
    }

    fn one_in(&mut self, bound: usize) -> bool {
        self.below(bound) == 0
    }
}

/// Returns the history of a seed.
pub(super) fn random_history(seed: u64) -> (Setting, Vec<Step>) {
    let mut random = Random(seed.wrapping_mul(0xD129_42CF_A6B1_5F25));
    let mut setting = random_setting(&mut random);
    let is_rare = seed % 5 == 4;
    if is_rare {
        setting.make_rare(seed / 5 % 3, &mut random);
    }
    let count = 4 + random.below(24);
    let has_days = random.one_in(4);
    let has_names = random.one_in(2);
    let has_again = random.one_in(3) || is_rare;
    let has_minutes = random.one_in(3);
    let loses = random.one_in(4);
    let is_calm = seed % 7 == 6;
    let mut steps = vec![Step::Deliver];
    for _ in 0..count {
        let step = loop {
            let step = random_step(&mut random, &setting);
            let is_left_out = match step {
                step if is_calm && !step.is_calm() => true,
                Step::Day(..) => !has_days,
                Step::Rename(..) => !has_names,
                Step::Again(_) => !has_again,
                Step::Minute => !has_minutes,
                Step::KillAndLose(_) => !loses,
                _ => false,
            };
            if !is_left_out {
                break step;
            }
        };
        steps.push(step);
        if random.below(10) < 7 {
            steps.push(Step::Deliver);
        }
    }
    steps.push(Step::Settle);
    for place in 0..setting.senders.len() {
        if random.one_in(2) {
            steps.push(Step::Trade(place, random.below(2)));
        }
    }
    steps.push(Step::Settle);
    (setting, steps)
}

impl Setting {
    /// Returns whether two publishers have one venue.
    pub(super) fn has_shared(&self) -> bool {
        let senders = self.senders.iter();
        let mut all: Vec<_> = senders.flat_map(|(_, venues)| venues).collect();
        let count = all.len();
        all.sort_unstable();
        all.dedup();
        all.len() < count
    }

    /// Makes of it what is rare: publishers that take over from each other, or one whose symbol has
    /// the name of a hub's sum.
    fn make_rare(&mut self, kind: u64, random: &mut Random) {
        let head = random.below(self.heads);
        match kind {
            0 => {
                let all = self.senders.iter().flat_map(|(_, venues)| venues);
                let next = all.map(|(number, _)| number + 1).max().unwrap_or(1);
                let senders = &mut self.senders;
                let numbers = senders.iter_mut().flat_map(|(_, venues)| venues);
                numbers.for_each(|(_, name)| *name = None);
                for number in next..next + 1 + random.below(2) as u16 {
                    senders.push((random.below(self.heads), vec![(number, None)]));
                }
            }
            1 => {
                let (head, venues) = self.senders[random.below(self.senders.len())].clone();
                self.senders.push((head, venues));
            }
            _ => {
                self.named_like_sum = Some(self.senders.len());
                self.is_player = random.one_in(2);
                self.senders.push((head, vec![(99, Some("XZ"))]));
            }
        }
    }
}

fn random_setting(random: &mut Random) -> Setting {
    let is_tree = random.one_in(6);
    let (heads, followers) = match is_tree {
        true => (2 + random.below(2), 2 + random.below(2)),
        false => {
            let heads = 1 + usize::from(random.one_in(3));
            (heads, 1 + random.below(4 - heads))
        }
    };
    let names = [
        "XA", "XB", "XC", "XD", "XE", "XF", "XG", "XH", "XK", "XL", "XM", "XN",
    ];
    let mut next = 0;
    let is_named = !random.one_in(5);
    let mut senders = Vec::new();
    for head in 0..heads {
        for _ in 0..1 + random.below(2) {
            let venues = (0..1 + usize::from(random.one_in(3))).map(|_| {
                let name = names[next % names.len()];
                next += 1;
                (next as u16, is_named.then_some(name))
            });
            senders.push((head, venues.collect()));
        }
    }
    Setting {
        heads,
        followers,
        is_tree,
        senders,
        is_asked: !random.one_in(4),
        named_like_sum: None,
        is_player: false,
    }
}

fn random_step(random: &mut Random, setting: &Setting) -> Step {
    let hubs = setting.heads + setting.followers;
    let (sender, hub) = (random.below(setting.senders.len()), random.below(hubs));
    let venue = random.below(2);
    // Heads are killed more often.
    let killed = match random.one_in(3) {
        true => hub,
        false => random.below(setting.heads),
    };
    match random.below(40) {
        0..=12 => Step::Trade(sender, venue),
        13..=15 => Step::Quote(sender, venue),
        16 => Step::Day(sender, venue),
        17..=18 => Step::Restart(sender),
        19 => Step::Leave(sender),
        20 => {
            let names = ["XA", "XB", "XC", "XI", "XJ"];
            Step::Rename(sender, venue, names[random.below(names.len())])
        }
        21..=23 => Step::Kill(killed),
        24 => Step::KillAndLose(killed),
        25..=26 => Step::Again(sender),
        27..=29 => Step::Stop(hub),
        30..=32 => Step::Continue(hub),
        33..=34 => Step::DeliverTo(hub),
        35..=36 => Step::Minute,
        37..=38 => {
            let names = ["S", "S@XA", "S@XB", "S@XC", "S@consolidated"];
            Step::Ask(hub, names[random.below(names.len())])
        }
        _ => Step::Settle,
    }
}
