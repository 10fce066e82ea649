use super::*;
use tidewire_feed::journal::Journal;

fn with_file(text: &str, options: ServeOptions) -> Result<Config, String> {
    let name = format!("tidewire-config-{:?}.toml", std::thread::current().id());
    let path = std::env::temp_dir().join(name);
    std::fs::write(&path, text).unwrap();
    let options = ServeOptions {
        config: Some(path.clone()),
        ..options
    };
    let config = Config::new(&options).map_err(|failure| format!("{failure:?}"));
    std::fs::remove_file(path).unwrap();
    config
}

#[test]
fn an_option_wins_over_the_file_and_the_file_over_the_default() {
    let options = ServeOptions {
        lanes: Some(3),
        ..ServeOptions::default()
    };
    let text = "lanes = 2\nresp = '127.0.0.1:7000'\n[limits]\ntopic-bytes-max = 99\n";
    let config = with_file(text, options).unwrap();
    assert_eq!(config.hub.redis.lanes, 3);
    assert_eq!(config.resp.to_string(), "127.0.0.1:7000");
    assert_eq!(config.feed.to_string(), "127.0.0.1:9876");
    assert_eq!(config.hub.topic_bytes_max, 99);
    assert_eq!(config.hub.redis.live_prefixes, [b"live:"]);
}

#[test]
fn a_journal_of_any_number_of_messages_in_its_range_is_accepted() {
    for messages in [64, 100, 1_000, 100_000, 67_108_864] {
        let text = format!("[limits]\njournal-messages = {messages}\n");
        let config = with_file(&text, ServeOptions::default()).unwrap();
        let journal = Journal::new(1, config.hub.market.journal_messages);
        assert_eq!(journal.capacity(), u64::next_power_of_two(messages));
    }
}

#[test]
fn a_limit_with_which_a_hub_cannot_work_is_named_with_its_range() {
    for (name, wrong, range) in [
        ("journal-messages", 0, "from 64 to 67108864"),
        ("journal-messages", 1, "from 64 to 67108864"),
        ("journal-messages", 63, "from 64 to 67108864"),
        ("journal-messages", 67_108_865, "from 64 to 67108864"),
        ("clients-max", 0, "from 1 to 4294967295"),
        ("market-topics-max", 0, "from 1 to 16777216"),
        ("zmq-frame-bytes-max", 0, "of at least 1"),
        ("topic-bytes-max", 0, "of at least 1"),
    ] {
        let text = format!("[limits]\n{name} = {wrong}\n");
        let error = with_file(&text, ServeOptions::default()).unwrap_err();
        let wanted = format!("line 2: limits.{name} = {wrong}: a whole number {range} is");
        assert!(error.contains(&wanted), "{error}");
    }
}

#[test]
fn a_live_prefix_that_the_hub_serves_itself_is_refused() {
    for prefix in ["md:", "m", "mx:Tank", "__keyspace@0"] {
        let options = ServeOptions {
            live_prefix: vec![prefix.to_owned()],
            ..ServeOptions::default()
        };
        let error = Config::new(&options).unwrap_err().to_string();
        let wanted = format!("--live-prefix '{prefix}': names that begin with ");
        assert!(error.starts_with(&wanted), "{error}");
    }
    let text = "lanes = 1\nlive-prefix = ['md:']\n";
    let error = with_file(text, ServeOptions::default()).unwrap_err();
    assert!(error.contains("line 2: live-prefix 'md:'"), "{error}");
}

#[test]
fn one_address_under_two_options_is_refused() {
    let text = "resp = '127.0.0.1:7000'\nfeed = '127.0.0.1:7000'\n";
    let error = with_file(text, ServeOptions::default()).unwrap_err();
    let wanted = "--resp and --feed name the same address, 127.0.0.1:7000";
    assert!(error.contains(wanted), "{error}");
    let text = "resp = '127.0.0.1:0'\nfeed = '127.0.0.1:0'\n";
    with_file(text, ServeOptions::default()).unwrap();
}

#[test]
fn parameters_of_the_file_and_of_the_command_line_are_checked() {
    let text = "[parameters]\nmaxmemory = '1gb'\n";
    let options = |parameter: &str| ServeOptions {
        parameter: vec![parameter.to_owned()],
        ..ServeOptions::default()
    };
    let config = with_file(text, options("enable-debug-command=yes")).unwrap();
    let own = |name: &str, value: &str| (name.to_owned(), value.to_owned());
    let expected = [own("maxmemory", "1gb"), own("enable-debug-command", "yes")];
    assert_eq!(config.hub.redis.parameters, expected);
    let error = with_file(text, options("maxclients=many")).unwrap_err();
    assert!(error.contains("--set: maxclients = 'many'"), "{error}");
    let error = with_file("[parameters]\nnothing = '1'\n", options("timeout=1")).unwrap_err();
    assert!(error.contains("there is no parameter 'nothing'"), "{error}");
}

#[test]
fn a_mistake_in_the_file_is_named_with_its_line() {
    let error = with_file("lanes = 2\nport = 1\n", ServeOptions::default()).unwrap_err();
    assert!(error.contains("line 2: unknown key `port`"), "{error}");
    let error = with_file("feed = 'nowhere'\n", ServeOptions::default()).unwrap_err();
    assert!(error.contains("feed = 'nowhere': no port"), "{error}");
    let error = with_file("lanes = 'two'\n", ServeOptions::default()).unwrap_err();
    assert!(error.contains("line 1: lanes: found"), "{error}");
    let error = with_file("lanes = 0\n", ServeOptions::default()).unwrap_err();
    assert!(error.contains("lanes = 0"), "{error}");
}
