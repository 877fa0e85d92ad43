use std::io::Write as _;

use tempfile::NamedTempFile;

use quota_service::config::{Schema as _, entries, leaves_of_defaults};

use super::*;

fn file(text: &str) -> NamedTempFile {
    let mut file = NamedTempFile::new().unwrap();
    file.write_all(text.as_bytes()).unwrap();
    file
}

fn load_file(text: &str) -> Result<Effective<Config>, Problems> {
    load_layers(text, &[], &[])
}

fn load_layers(
    text: &str,
    environment: &[(&str, &str)],
    flags: &[(&str, &str)],
) -> Result<Effective<Config>, Problems> {
    let file = file(text);
    load(&Sources {
        file: Some(file.path().to_owned()),
        environment: environment.iter().map(|(name, value)| (name.into(), value.into())).collect(),
        flags: flags.iter().map(|(key, text)| ((*key).into(), (*text).into())).collect(),
    })
}

/// The key, message and origin (without the file name) of every problem.
fn problems(result: Result<Effective<Config>, Problems>) -> Vec<String> {
    let Problems(problems) = result.unwrap_err();
    let text = |problem: &Problem| match &problem.origin {
        Origin::File(_, line) => {
            let key = problem.key.as_deref().unwrap_or("file");
            format!("{key}: {} (line {line})", problem.message)
        }
        _ => problem.to_string(),
    };
    problems.iter().map(text).collect()
}

#[test]
fn the_shipped_file_holds_every_key_with_its_default_and_a_comment() {
    assert_eq!(load_file(Config::SHIPPED).unwrap().config, Config::default());

    let mut described: Vec<_> = entries::<Config>().into_iter().map(|entry| entry.key).collect();
    described.sort();
    let mut keys: Vec<_> = leaves_of_defaults::<Config>().into_keys().collect();
    keys.sort();
    assert_eq!(described, keys);
    for entry in entries::<Config>() {
        assert!(!entry.comment.is_empty(), "{} has no comment", entry.key);
    }
}

#[test]
fn the_short_file_holds_the_first_keys_with_their_defaults() {
    let short = include_str!("../../config.min.toml");
    assert_eq!(load_file(short).unwrap().config, Config::default());
    // A key that is changed there loses its sign.
    let lines = short.lines().map(|line| match line.strip_prefix('#') {
        Some(setting) if !setting.starts_with(' ') => setting,
        _ => line,
    });
    let whole: String = lines.map(|line| format!("{line}\n")).collect();
    let named = "Most installations change no more than these eight";
    let shipped = Config::SHIPPED.replace("\n# ", " ");
    let named = shipped.split_once(named).unwrap().1.split_once(": ").unwrap().1;
    let named: Vec<_> = named.split_once(". ").unwrap().0.split(", ").collect();
    assert_eq!(named.len(), 8);
    let settings: toml::Table = whole.parse().unwrap();
    let mut keys = Vec::new();
    for (name, value) in &settings {
        match value.as_table() {
            None => keys.push(name.clone()),
            Some(section) => keys.extend(section.keys().map(|key| format!("{name}.{key}"))),
        }
    }
    keys.sort();
    let mut expected = named.clone();
    expected.sort_unstable();
    assert_eq!(keys, expected);
    assert_eq!(load_file(&whole).unwrap().config, Config::default());
    // In the long file, each is before all others of its section.
    for key in named.iter().filter_map(|key| key.split_once('.')) {
        let mut entries = entries::<Config>().into_iter().map(|entry| entry.key);
        let first = entries.find(|entry| entry.starts_with(&format!("{}.", key.0)));
        let first = first.unwrap();
        assert!(named.contains(&first.as_str()), "{first} is before {key:?}");
    }
}

#[test]
fn later_layers_win() {
    let text = "data_dir = \"file\"\n[nats]\nurl = \"nats://file\"\nstream = \"FILE\"\n";
    let environment = [("QUOTAD_NATS__URL", "nats://env"), ("QUOTAD_NATS__STREAM", "ENV")];
    let effective = load_layers(text, &environment, &[("nats.stream", "FLAG")]).unwrap();
    assert_eq!(effective.config.data_dir.to_str(), Some("file"));
    assert_eq!(effective.config.nats.url.as_deref(), Some("nats://env"));
    assert_eq!(effective.config.nats.stream, "FLAG");
    assert_eq!(effective.config.nats.subject, "quota.objects.>");
}

#[test]
fn text_becomes_a_value_of_the_type_of_its_key() {
    let environment = [
        ("QUOTAD_NATS__CREATE_STREAM", "false"),
        ("QUOTAD_LIMITS__QUEUE", "1_000"),
        ("QUOTAD_LIMITS__REQUEST_BODY_BYTES", "4096"),
        ("QUOTAD_ADMISSION__CHARGE", "deployments.apps, jobs.batch"),
        ("QUOTAD_ADMISSION__WARN_RATIO", "1"),
        ("QUOTAD_RESERVATIONS__MAX_HOLD", "90m"),
        ("QUOTAD_KINDS", "{ \"Widget.example.com\" = \"widgetry\" }"),
        ("QUOTAD_CONFIG", "names the file, is no key"),
        ("HOME", "/nowhere"),
    ];
    let config = load_layers("", &environment, &[("retention.max_age", "90d")]).unwrap().config;
    assert!(!config.nats.create_stream);
    assert_eq!(config.limits.queue.get(), 1000);
    assert_eq!(config.limits.request_body_bytes, Size::from_bytes(4096));
    assert_eq!(config.admission.charge, ["deployments.apps", "jobs.batch"]);
    assert_eq!(config.admission.warn_ratio, 1.0);
    assert_eq!(config.reservations.max_hold, Period::from_secs(5400));
    assert_eq!(config.kinds["Widget.example.com"], "widgetry");
    assert_eq!(config.retention.max_age, Some("90d".parse().unwrap()));
}

#[test]
fn every_problem_is_named_with_its_origin() {
    let text = "\
listne = \"127.0.0.1:1\"
default_ttl = \"1s\"
nats = 3

[reservations]
max_pending = 0
max_ttl = \"soon\"

[snapshots]
keep = 3
";
    let environment = [("QUOTAD_NATS_URL", "nats://a"), ("QUOTAD_LIMITS__QUEUE", "many")];
    let found = problems(load_layers(text, &environment, &[("log.format", "xml")]));
    assert_eq!(
        found,
        [
            "default_ttl: unknown key; did you mean reservations.default_ttl? (line 2)",
            "listne: unknown key; did you mean listen? (line 1)",
            "nats: is a section, not a value (line 3)",
            "snapshots: unknown key (line 9)",
            "nats_url: unknown key; did you mean QUOTAD_NATS__URL? (environment QUOTAD_NATS_URL)",
            "reservations.max_pending: invalid value: integer `0`, expected a nonzero usize (line 6)",
            "reservations.max_ttl: not a length of time from 0s to 100 years such as \"30s\", \
             \"10m\", \"1h30m\": \"soon\" (line 7)",
            "limits.queue: invalid type: string \"many\", expected a nonzero usize \
             (environment QUOTAD_LIMITS__QUEUE)",
            "log.format: unknown variant `xml`, expected one of `auto`, `json`, `pretty` \
             (flag --log.format)",
        ]
    );
}

#[test]
fn values_that_contradict_each_other_are_named() {
    let text = "\
listen = \"0.0.0.0:8481\"
[admin]
listen = \"0.0.0.0:8481\"
[reservations]
default_ttl = \"1h\"
[tls]
client_ca = \"ca.pem\"
key = \"key.pem\"
api = true
[admission]
listen = \"127.0.0.1:8443\"
warn_ratio = 1.5
charge = [\"Deployments\"]
[nats]
user = \"me\"
token_file = \"token\"
[log]
level = \"info,=\"
[limits]
connections = 9223372036854775807
events_body_bytes = 1
";
    let found = problems(load_file(text));
    let keys: Vec<_> = found.iter().map(|line| line.split(':').next().unwrap()).collect();
    assert_eq!(
        keys,
        [
            "listen",
            "admin.listen",
            "nats.token_file",
            "nats.password_file",
            "reservations.default_ttl",
            "limits.events_body_bytes",
            "limits.connections",
            "tls.key",
            "admission.listen",
            "tls.allowed_names",
            "tls.api",
            "admission.warn_ratio",
            "admission.charge",
            "log.level",
        ]
    );
    assert_eq!(
        found[4],
        "reservations.default_ttl: is longer than reservations.max_ttl (10m) (line 5)"
    );
}

#[test]
fn a_file_that_cannot_be_read_or_parsed_is_a_problem() {
    let missing = Sources { file: Some("/nowhere/config.toml".into()), ..Sources::default() };
    assert!(load::<Config>(&missing).unwrap_err().to_string().contains("cannot be read"));
    let found = problems(load_file("listen = \"127.0.0.1:1\"\ndata_dir = \n"));
    assert_eq!(found.len(), 1);
    assert!(found[0].ends_with("(line 2)"), "{found:?}");
}

#[test]
fn the_effective_configuration_is_toml_with_origins_and_without_passwords() {
    let flags = [("nats.url", "nats://me:secret@a"), ("snapshot.keep", "3")];
    let effective = load_layers("[log]\nlevel = \"debug\"\n", &[], &flags).unwrap();
    let overridden = effective.overridden();
    assert_eq!(overridden.len(), 2);
    assert_eq!(overridden[1], "nats.url = \"nats://me:***@a\" (flag --nats.url)");
    let printed = effective.to_toml();
    assert!(printed.contains("url = \"nats://me:***@a\" # flag --nats.url\n"), "{printed}");
    let flags = [("cluster.monitoring", "http://me:secret@a,http://b/?key=secret")];
    let lists = load_layers("", &[], &flags).unwrap();
    let shown = "[\"http://me:***@a\", \"http://b/?key=***\"]";
    assert_eq!(
        lists.overridden(),
        [format!("cluster.monitoring = {shown} (flag --cluster.monitoring)")]
    );
    assert!(lists.to_toml().contains(shown));
    assert!(printed.contains("level = \"debug\" # "), "{printed}");
    assert!(printed.contains("keep = 3\n"), "{printed}");
    let mut read_back = load_file(&printed).unwrap().config;
    read_back.nats.url = effective.config.nats.url.clone();
    assert_eq!(read_back, effective.config);
}

#[test]
fn the_short_help_is_short_and_the_long_one_has_every_key() {
    let help = |flag| parse::<Config>(["quotad", flag]).unwrap_err().to_string();
    let (short, long) = (help("-h"), help("--help"));
    assert!(short.lines().count() <= 15, "{short}");
    assert!(short.contains("demo") && !short.contains("--nats.url"), "{short}");
    for entry in entries::<Config>() {
        let flag = format!("--{}", entry.key.replace('_', "-"));
        assert!(long.contains(&flag), "{flag}");
    }
}

#[test]
fn each_key_has_a_flag_before_and_after_the_subcommand() {
    let arguments =
        ["quotad", "--data-dir=d", "check-config", "--nats.create_stream", "false", "-c", "f.toml"];
    let invocation = parse::<Config>(arguments).unwrap();
    assert_eq!(invocation.task, Task::CheckConfig);
    assert_eq!(invocation.file.as_deref(), Some(std::path::Path::new("f.toml")));
    let expected = [("data_dir", "d"), ("nats.create_stream", "false")];
    assert_eq!(invocation.overrides, expected.map(|(k, v)| (k.to_owned(), v.to_owned())));
    assert_eq!(parse::<Config>(["quotad"]).unwrap().task, Task::Run);
    assert_eq!(parse::<Config>(["quotad", "--data-dri=x"]).unwrap_err().exit_code(), 2);
}
