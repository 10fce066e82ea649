use super::*;

/// Reads files of these texts, the first of them as the one that is named.
fn read(texts: &[(&str, &str)], options: &[&str]) -> Result<RedisConf, String> {
    let thread = format!("{:?}", std::thread::current().id());
    let name = format!("tidewire-conf-{}-{thread}", std::process::id());
    let folder = std::env::temp_dir().join(name);
    std::fs::create_dir_all(&folder).unwrap();
    for (name, text) in texts {
        let text = text.replace("FOLDER", folder.to_str().unwrap());
        std::fs::write(folder.join(name), text).unwrap();
    }
    let path = texts.first().map(|(name, _)| folder.join(name));
    let options: Vec<String> = options.iter().map(|&option| option.into()).collect();
    let conf = RedisConf::read(path.as_deref(), &options);
    std::fs::remove_dir_all(folder).unwrap();
    conf
}

fn value<'a>(conf: &'a RedisConf, name: &str) -> Option<&'a str> {
    let found = conf.parameters.iter().find(|(known, _)| known == name);
    found.map(|(_, value)| value.as_str())
}

#[test]
fn a_file_is_read_as_redis_reads_it() {
    let text = "# mine\n  MaxMemory 2gb\nsave 900 1\nsave 60 10\nport 7001\n\
                bind 127.0.0.1 -::1\nclient-output-buffer-limit pubsub 1mb 0 0\n\
                client-output-buffer-limit normal 0 0 0\nrequirepass \"a\\x20b\"\n\
                user ann on >x ~* +@all\nrename-command CONFIG \"\"\nrename-command keys LIST-ALL\n\
                include FOLDER/more-*.conf\nlua-replicate-commands yes\n";
    let more = "timeout 7\ninclude FOLDER/deep.conf\n";
    let files = [
        ("a.conf", text),
        ("more-1.conf", more),
        ("deep.conf", "hz 20\n"),
    ];
    let conf = read(&files, &["--hz", "30", "--loglevel verbose"]).unwrap();
    for (name, shown) in [
        ("maxmemory", "2gb"),
        ("save", "900 1 60 10"),
        ("client-output-buffer-limit", "pubsub 1mb 0 0 normal 0 0 0"),
        ("requirepass", "a b"),
        ("timeout", "7"),
        ("hz", "30"),
        ("loglevel", "verbose"),
        ("bind", "127.0.0.1 -::1"),
    ] {
        assert_eq!(value(&conf, name), Some(shown), "{name}");
    }
    assert_eq!(
        (conf.port, conf.bind),
        (Some(7001), Some("127.0.0.1 -::1".to_owned()))
    );
    assert_eq!(
        conf.users,
        [["ann", "on", ">x", "~*", "+@all"].map(|word| word.as_bytes().to_vec())]
    );
    let own = |old: &str, new: &str| (old.to_owned(), new.to_owned());
    assert_eq!(conf.renames, [own("config", ""), own("keys", "list-all")]);
}

#[test]
fn a_mistake_is_named_with_its_line() {
    for (text, reason) in [
        (
            "hz 10\nnothing 1\n",
            "at line 2: 'nothing 1': Bad directive",
        ),
        ("hz\n", "at line 1: 'hz': wrong number of arguments"),
        ("hz 1 2\n", "wrong number of arguments"),
        ("hz many\n", "argument couldn't be parsed into an integer"),
        ("requirepass \"open\n", "Unbalanced quotes"),
        (
            "user ann\nuser ann\n",
            "at line 2: 'user ann': Duplicate user",
        ),
        (
            "user ann +nothing\n",
            "Unknown command or category name in ACL",
        ),
        (
            "aclfile a\nuser ann\n",
            "define either an ACL file or users",
        ),
        ("rename-command nothing x\n", "No such command"),
        ("rename-command get set\n", "already exists"),
        ("loadmodule a.so\n", "modules cannot be loaded"),
        ("replicaof host port\n", "Invalid master port"),
        ("include FOLDER/missing.conf\n", "can't open config file"),
        ("include FOLDER/a.conf\n", "too deeply"),
    ] {
        let error = read(&[("a.conf", text)], &[]).unwrap_err();
        assert!(error.contains(reason), "{text}: {error}");
    }
}

#[test]
fn options_are_told_from_values_as_redis_does() {
    let conf = read(
        &[],
        &[
            "--save",
            "--proc-title-template",
            "--mine--",
            "--port",
            "7002",
        ],
    );
    let conf = conf.unwrap();
    assert_eq!(value(&conf, "save"), Some(""));
    assert_eq!(value(&conf, "proc-title-template"), Some("--mine--"));
    assert_eq!(conf.port, Some(7002));
    // Nothing is taken as said that only a file's silence means.
    assert!(conf.bind.is_none() && value(&conf, "bind").is_none());
    let error = read(&[], &["--port", "--loglevel", "verbose"]).unwrap_err();
    assert!(
        error.contains("'port \"--loglevel\" \"verbose\"'"),
        "{error}"
    );
    let error = read(&[], &["--port", "many"]).unwrap_err();
    assert!(error.starts_with("--port many: "), "{error}");
    let silent = read(&[("a.conf", "")], &[]).unwrap();
    assert_eq!(silent.bind.as_deref(), Some("* -::*"));
    assert_eq!(value(&silent, "save"), Some("3600 1 300 100 60 10000"));
}
