use super::*;
use tidewire_keyspace::resolve;
use tidewire_resp::ArgumentList;

fn rules(modifiers: &str) -> Rules {
    let mut rules = Rules::new(false);
    let words: Vec<&[u8]> = modifiers.split(' ').map(str::as_bytes).collect();
    for modifier in join_selectors(&words).unwrap() {
        rules.apply(&modifier, false).unwrap();
    }
    rules
}

fn error(modifier: &str) -> ModifierError {
    Rules::new(false)
        .apply(modifier.as_bytes(), false)
        .unwrap_err()
}

/// How a request ends: nothing, or the reason and the argument that it is about.
fn denied(rules: &Rules, request: &str) -> Option<(Reason, String)> {
    let mut arguments = ArgumentList::new();
    request
        .split(' ')
        .for_each(|word| arguments.push(word.as_bytes()));
    let arguments = arguments.as_arguments();
    let command = resolve(arguments).unwrap();
    let denial = rules.check(command, arguments, 0).err()?;
    let object = String::from_utf8_lossy(&arguments[denial.at]).into_owned();
    Some((denial.reason, object))
}

fn about(reason: Reason, object: &str) -> Option<(Reason, String)> {
    Some((reason, object.to_owned()))
}

#[test]
fn a_new_user_may_do_nothing_and_the_default_user_everything() {
    let nobody = Rules::new(false);
    assert_eq!(denied(&nobody, "get a"), about(Reason::Command, "get"));
    // What needs no user is open to all.
    assert_eq!(denied(&nobody, "auth a b"), None);
    assert!(!nobody.admits(b""));
    let default = Rules::unlimited();
    assert!(default.is_unlimited() && default.admits(b"anything"));
    let text = "on nopass sanitize-payload ~* &* +@all";
    assert_eq!(default.describe(false), text.as_bytes());
    assert_eq!(
        nobody.describe(false),
        b"off sanitize-payload resetchannels -@all"
    );
}

#[test]
fn a_key_is_allowed_for_what_is_done_to_it() {
    let rules = rules("+@all %R~read:* %W~write:* ~both:*");
    for (request, denial) in [
        ("get read:1", None),
        ("set write:1 x", None),
        ("set read:1 x", about(Reason::Key, "read:1")),
        ("get write:1", about(Reason::Key, "write:1")),
        ("set write:1 x get", about(Reason::Key, "write:1")),
        ("set both:1 x get", None),
        ("copy read:1 write:1", None),
        ("copy write:1 read:1", about(Reason::Key, "write:1")),
        ("mget read:1 other", about(Reason::Key, "other")),
        ("sort read:1 store read:2", about(Reason::Key, "read:2")),
        ("sort read:1 store write:2", None),
        ("eval return 2 both:1 both:2", None),
        ("eval return 2 both:1 read:1", about(Reason::Key, "read:1")),
        ("xread streams read:1 0", None),
        (
            "xread count 1 streams write:1 0",
            about(Reason::Key, "write:1"),
        ),
        // It does nothing to the value.
        ("exists write:1", None),
        ("exists other", about(Reason::Key, "other")),
    ] {
        assert_eq!(denied(&rules, request), denial, "{request}");
    }
}

#[test]
fn one_selector_must_allow_all_of_a_request() {
    let rules = rules("+get ~a* (+set ~b*) (+mget ~a* ~b*)");
    assert_eq!(denied(&rules, "get a"), None);
    assert_eq!(denied(&rules, "set b 1"), None);
    assert_eq!(denied(&rules, "get b"), about(Reason::Key, "b"));
    assert_eq!(denied(&rules, "mget a b"), None);
    assert_eq!(denied(&rules, "del a"), about(Reason::Command, "del"));
    let text = "off sanitize-payload ~a* resetchannels -@all +get \
                (~b* resetchannels -@all +set) (~a* ~b* resetchannels -@all +mget)";
    assert_eq!(rules.describe(false), text.as_bytes());
    assert!(join_selectors(&[b"on", b"(+get", b"~a"]) == Err(b"(+get"));
}

#[test]
fn channels_are_matched_and_patterns_must_be_the_same() {
    let rules = rules("+@all &news:*");
    assert_eq!(denied(&rules, "subscribe news:1"), None);
    assert_eq!(denied(&rules, "publish news:1 x"), None);
    assert_eq!(denied(&rules, "psubscribe news:*"), None);
    let refused = about(Reason::Channel, "news:1*");
    assert_eq!(denied(&rules, "psubscribe news:* news:1*"), refused);
    assert_eq!(
        denied(&rules, "spublish other x"),
        about(Reason::Channel, "other")
    );
    assert_eq!(denied(&rules, "unsubscribe other"), None);
    let narrower = self::rules("+@all &news:1");
    let names = || [&b"news:2"[..]].into_iter();
    assert!(narrower.revokes(&rules, names(), std::iter::empty()));
    assert!(!self::rules("+@all &news:* &x").revokes(&narrower, names(), std::iter::empty()));
}

#[test]
fn subcommands_and_first_arguments_are_told_apart() {
    let rules = rules("+@all -config +config|get -@dangerous +select|0 +info");
    assert_eq!(
        denied(&rules, "config set a b"),
        about(Reason::Command, "config")
    );
    assert_eq!(denied(&rules, "select 1"), None);
    let rules = self::rules("+select|0 +config|get +@all -select");
    assert_eq!(denied(&rules, "select 0"), about(Reason::Command, "select"));
    let rules = self::rules("-@all +select|0");
    assert_eq!(denied(&rules, "select 0"), None);
    assert_eq!(denied(&rules, "select 1"), about(Reason::Command, "select"));
    let described = |modifiers: &str| self::rules(modifiers).selectors[0].describe_commands();
    assert_eq!(
        described("+config|get +config|set +config"),
        "-@all +config"
    );
    assert_eq!(described("+@all -@admin +get -get"), "+@all -@admin -get");
    assert_eq!(described("+SELECT|0 +@LIST"), "-@all +select|0 +@list");
}

#[test]
fn what_makes_no_sense_is_refused_with_its_reason() {
    for (modifier, reason) in [
        ("+nothing", ModifierError::Unknown),
        ("+@nothing", ModifierError::Unknown),
        ("-config|nothing", ModifierError::Unknown),
        ("+config|get|x", ModifierError::FirstArgumentOfSubcommand),
        ("+get|", ModifierError::Syntax),
        ("what", ModifierError::Syntax),
        ("%~a", ModifierError::Syntax),
        ("%RR~a", ModifierError::Syntax),
        ("~a b", ModifierError::Syntax),
        ("&a b", ModifierError::Syntax),
        ("#12", ModifierError::BadDigest),
        ("<secret", ModifierError::NoSuchPassword),
        ("(+get ~a b)", ModifierError::Syntax),
    ] {
        assert_eq!(error(modifier), reason, "{modifier}");
    }
    let mut all = rules("allkeys allchannels");
    assert_eq!(all.apply(b"~a", false), Err(ModifierError::KeysAfterAll));
    assert_eq!(
        all.apply(b"&a", false),
        Err(ModifierError::ChannelsAfterAll)
    );
}

#[test]
fn any_of_the_passwords_lets_an_enabled_user_in() {
    let rules = rules("on >one >two");
    for (password, admitted) in [("one", true), ("two", true), ("", false), ("One", false)] {
        assert_eq!(rules.admits(password.as_bytes()), admitted, "{password}");
    }
    let mut rules = rules;
    rules.apply(b"<one", false).unwrap();
    assert!(!rules.admits(b"one") && rules.admits(b"two"));
    rules.apply(b"off", false).unwrap();
    assert!(!rules.admits(b"two"));
}

#[test]
fn a_change_is_whole_or_not_at_all_and_seen_by_everybody() {
    let access = AccessControl::new(1, Arc::default(), false);
    let before = access.generation();
    let set = |name: &str, modifiers: &[&[u8]]| access.set_user(name.as_bytes(), modifiers, false);
    set("ann", &[b"on", b">secret", b"+get", b"~*"]).unwrap();
    let ann = access.find(b"ann").unwrap();
    assert!(access.generation() > before);
    let text = set("ann", &[b"+set", b"+nothing"]).unwrap_err();
    let unknown = "Error in ACL SETUSER modifier '+nothing': Unknown command or category name in \
                   ACL";
    assert_eq!(text, unknown);
    assert_eq!(
        denied(&ann.rules().unwrap(), "set a b"),
        about(Reason::Command, "set")
    );
    assert!(access.authenticate(b"ann", b"secret").is_some());
    assert!(access.authenticate(b"ann", b"Secret").is_none());
    assert_eq!(access.delete([b"ann"].iter()), 1);
    assert!(ann.rules().is_none());
    assert!(access.authenticate(b"ann", b"secret").is_none());
    access.set_default_password(b"secret");
    assert!(access.requires_password() && access.authenticate(b"default", b"secret").is_some());
    access.set_default_password(b"");
    assert!(!access.requires_password());
}

#[test]
fn a_file_is_taken_whole_or_not_at_all() {
    let name = format!("tidewire-users-{}", std::process::id());
    let path = std::env::temp_dir().join(name);
    let path = path.to_str().unwrap();
    let access = AccessControl::new(1, Arc::default(), false);
    access
        .set_user(b"ann", &[b"on", b"nopass", b"(+get", b"~a)"], false)
        .unwrap();
    access.save(path).unwrap();
    let saved = std::fs::read_to_string(path).unwrap();
    let ann = access.find(b"ann").unwrap();
    access.delete([b"ann"].iter());
    access.load(path, false).unwrap();
    let lines: Vec<_> = access.lines().into_iter().map(String::from_utf8).collect();
    let lines: Vec<_> = lines.into_iter().map(Result::unwrap).collect();
    assert_eq!(lines.join("\n") + "\n", saved);
    // Somebody of the same name is somebody else once the first was deleted.
    assert!(ann.rules().is_none());
    std::fs::write(
        path,
        "user ann on\nuser ann off\nuser bob +nothing >x y\nbob\n",
    )
    .unwrap();
    let text = access.load(path, false).unwrap_err();
    let expected = format!(
        "WARNING: Duplicate user 'ann' found on line 2. {path}:3: Error in applying operation \
         '+nothing': Unknown command or category name in ACL. {path}:3: Syntax error. {path}:4 \
         should start with user keyword followed by the username. WARNING: ACL errors detected, \
         no change to the previously active ACL rules was performed"
    );
    assert_eq!(text, expected);
    assert!(access.find(b"ann").unwrap().rules().unwrap().is_enabled);
    std::fs::remove_file(path).unwrap();
}

#[test]
fn refusals_that_are_alike_are_counted_together() {
    let access = AccessControl::new(1, Arc::default(), false);
    let entry = |object: &str, unix_ms: i64| AclLogEntry {
        reason: Reason::Key,
        origin: Origin::Toplevel,
        object: object.into(),
        user: (*b"ann").into(),
        client: String::new(),
        unix_ms,
    };
    for (object, unix_ms) in [("a", 0), ("b", 1), ("a", 59_000), ("a", 200_000)] {
        access.note(entry(object, unix_ms), 2);
    }
    let newest = access.log.lock().newest(9);
    let told: Vec<_> = newest
        .iter()
        .map(|known| {
            (
                known.number,
                known.count,
                known.created_unix_ms,
                known.entry.unix_ms,
            )
        })
        .collect();
    assert_eq!(told, [(2, 1, 200_000, 200_000), (0, 2, 0, 59_000)]);
    assert_eq!(access.refusals(Reason::Key), 4);
}

#[test]
fn rights_to_keys_are_those_of_get_and_set() {
    let right = |modifiers: &str, verb| KeyRights::new(Arc::new(rules(modifiers)), verb).unwrap();
    let reads = right("+get %R~md:A.* %W~md:B.* ~both", Verb::Read);
    for (key, is) in [
        ("md:A.1", true),
        ("md:B.1", false),
        ("both", true),
        ("md:A", false),
    ] {
        assert_eq!(reads.allows(key.as_bytes()), is, "{key}");
    }
    let writes = right("+set %R~md:A.* %W~md:B.* ~both", Verb::Write);
    assert!(!writes.allows(b"md:A.1") && writes.allows(b"md:B.1") && writes.allows(b"both"));
    assert_eq!((reads.pattern_count(), writes.pattern_count()), (2, 2));
    // Command and key must be of one selector.
    let torn = right("+get (+set ~md:*)", Verb::Read);
    assert!(torn.allows_none(b"md:") && !torn.allows(b"md:A"));
    assert!(right("~md:*", Verb::Read).allows_none(b"md:"));
    assert!(right("+get (+get %R~md:X)", Verb::Read).allows(b"md:X"));
    for (modifiers, is) in [
        ("+get ~*", true),
        ("+get %R~md:*", true),
        ("+get %R~m*", true),
        ("+get %W~md:*", false),
        ("+get %R~md:A*", false),
        ("+get %R~m?:*", false),
        ("+set ~*", false),
    ] {
        assert_eq!(
            right(modifiers, Verb::Read).allows_all(b"md:"),
            is,
            "{modifiers}"
        );
    }
}

#[test]
fn rights_to_keys_of_other_prefixes_are_none_to_those_of_this_one() {
    for (modifiers, is) in [
        ("+get %R~foo:*", true),
        ("+get %R~book:* %R~bar:*", true),
        ("+get %W~md:*", true),
        ("+get|foo:a ~*", true),
        ("+get %R~foo:* (+get %R~other)", true),
        ("+get %R~foo:* (+get %R~md:A)", false),
        ("+get %R~*:NSE", false),
        ("+get %R~[mn]?:x", false),
        ("+get|md:a ~*", false),
    ] {
        let right = KeyRights::new(Arc::new(rules(modifiers)), Verb::Read).unwrap();
        assert_eq!(right.allows_none(b"md:"), is, "{modifiers}");
    }
}

#[test]
fn rights_that_are_taken_back_are_told_from_those_that_are_given() {
    let right = |modifiers: &str| KeyRights::new(Arc::new(rules(modifiers)), Verb::Write).unwrap();
    let before = right("on >old +set %W~md:A %W~md:B");
    assert!(
        right("off >new +set %W~md:A %W~md:B").is_as(&before),
        "only a password"
    );
    for (modifiers, is) in [
        ("+set %W~md:A %W~md:B %W~md:C", true),
        ("+set ~md:*", true),
        ("+set %W~md:A", false),
        ("+set %R~md:A %R~md:B", false),
        ("~md:A ~md:B", false),
    ] {
        assert_eq!(
            right(modifiers).includes(&before, b"md:"),
            is,
            "{modifiers}"
        );
    }
    assert!(!right("+set %W~md:A %W~md:B").includes(&right("+set ~*"), b"md:"));
}

/// How a request ends in a database.
fn denied_in(rules: &Rules, database: usize, request: &str) -> Option<(Reason, String)> {
    let words: Vec<&[u8]> = request.split(' ').map(str::as_bytes).collect();
    let request = ArgumentList::from_slices(&words);
    let arguments = request.as_arguments();
    let command = resolve(arguments).unwrap();
    let denial = rules.check(command, arguments, database).err()?;
    let object = String::from_utf8_lossy(&arguments[denial.at]).into_owned();
    Some((denial.reason, object))
}

#[test]
fn a_rule_about_databases_holds_where_a_database_is_chosen() {
    let rules = rules("+@all ~* db=0,3");
    let database = |object| about(Reason::Database, object);
    for (number, request, denial) in [
        (0, "get a", None),
        (1, "get a", database("get")),
        (1, "ping", None),
        (1, "keys *", database("keys")),
        (1, "eval return 0", database("eval")),
        (1, "select 3", None),
        (0, "select 1", database("1")),
        // The command refuses what is no database.
        (0, "select 16", None),
        (0, "select x", None),
        (0, "swapdb 0 3", None),
        (0, "swapdb 0 1", database("1")),
        (0, "swapdb 1 x", database("1")),
        (0, "move a 3", None),
        (0, "move a 2", database("2")),
        (1, "move a 3", database("move")),
        (0, "copy a b", None),
        (0, "copy a b db 3 db 1 replace", database("1")),
        (0, "copy a b db 1 db 3", database("1")),
        (0, "copy a b db 1 nonsense", database("1")),
        (1, "copy a b db 3", database("copy")),
        (0, "copy db db", None),
        (0, "flushdb", None),
        (1, "flushdb", database("flushdb")),
        (0, "flushall", database("flushall")),
    ] {
        assert_eq!(denied_in(&rules, number, request), denial, "{request}");
    }
    assert!(rules.limits_databases() && !rules.is_unlimited());
    assert!(!self::rules("+@all ~* &* db=0").is_unlimited());
    let all: Vec<String> = (0..16).map(|number| number.to_string()).collect();
    let rules = self::rules(&format!("+@all ~* db={}", all.join(",")));
    assert_eq!(denied_in(&rules, 0, "flushall"), None);
    assert_eq!(
        denied_in(&self::rules("+@all ~* resetdbs"), 0, "get a"),
        database("get")
    );
}

#[test]
fn what_tells_more_than_a_database_is_told() {
    let rules = rules("(db=0,1 +@write +select ~w*) (db=1,2 +@read +select ~r*)");
    assert_eq!(denied_in(&rules, 0, "get r"), about(Reason::Command, "get"));
    assert_eq!(denied_in(&rules, 1, "set r 1"), about(Reason::Key, "r"));
    assert_eq!(denied_in(&rules, 1, "get r"), None);
    assert_eq!(
        denied_in(&rules, 2, "set w 1"),
        about(Reason::Command, "set")
    );
    // The selector of the user itself allows no command.
    assert_eq!(
        denied_in(&rules, 0, "select 3"),
        about(Reason::Command, "select")
    );
}

#[test]
fn databases_are_described_as_they_are_read() {
    for (modifiers, text) in [
        ("db=3,1,1", "resetchannels db=1,3 -@all"),
        ("db=1 db=2", "resetchannels db=2 -@all"),
        ("DB=+2147483647,-0", "resetchannels db=0,2147483647 -@all"),
        ("db=1 resetdbs", "resetchannels resetdbs -@all"),
        ("db=1 alldbs", "resetchannels -@all"),
        ("db=1 reset", "resetchannels -@all"),
        (
            "(db=1 +get)",
            "resetchannels -@all (resetchannels db=1 -@all +get)",
        ),
    ] {
        let described = rules(modifiers).describe(true);
        assert_eq!(String::from_utf8(described).unwrap(), format!("off {text}"));
        assert_eq!(rules(text).describe(true), rules(modifiers).describe(true));
    }
    for text in [
        "db=", "db=,1", "db=1,", "db=1,,2", "db=a", "db=1x", "db=-", "db= 1",
    ] {
        assert_eq!(error(text), ModifierError::Syntax, "{text}");
    }
    for text in ["db=-1", "db=2147483648", "db=99999999999999999999"] {
        assert_eq!(error(text), ModifierError::DatabaseOutOfRange, "{text}");
    }
    // A database that does not exist allows nothing.
    let rules = rules("+@all ~* db=16");
    assert_eq!(
        denied_in(&rules, 0, "get a"),
        about(Reason::Database, "get")
    );
}

#[test]
fn protocols_without_databases_use_the_first_one() {
    let right = |modifiers: &str, verb| {
        let rules = Arc::new(rules(&format!("+@all ~* {modifiers}")));
        KeyRights::new(rules, verb).unwrap()
    };
    for verb in [Verb::Read, Verb::Write] {
        assert!(right("db=0", verb).allows(b"a") && right("db=0", verb).allows_all(b"md:"));
        for modifiers in ["db=1", "resetdbs"] {
            let none = right(modifiers, verb);
            assert!(!none.allows(b"a") && !none.allows_all(b"md:") && none.allows_none(b"md:"));
            assert!(!none.is_as(&right("alldbs", verb)) && none.pattern_count() == 0);
        }
    }
}
