//! What a config may say, and what is answered to one that does not.

use std::time::Duration;

use event::{Backoff, Durability, Order};

use super::sealed::Url;
use super::sinks::Kind;
use super::sinks::common::Pace;
use super::sinks::http::Http;
use super::*;

const SECOND: Duration = Duration::from_secs(1);
const DAY: Duration = Duration::from_secs(24 * 3600);

const SMALL: &str = r#"
[outbox.orders]
url = "sqlite:orders.sqlite3"

[sink.stock]
kind = "http"
url = "https://stock.example.com/events"

[[route]]
topic = "order.*"
sink = "stock"
"#;

fn none() -> Vec<(String, String)> {
    Vec::new()
}

fn small() -> Config {
    parse("postbox.toml", SMALL, none()).unwrap()
}

fn problems(text: &str) -> Vec<String> {
    let problems = parse("postbox.toml", text, none()).unwrap_err();
    problems.0.iter().map(Problem::to_string).collect()
}

#[test]
fn the_default_file_is_a_config_that_means_exactly_the_defaults() {
    let mut example = parse(DEFAULT_NAME, DEFAULT, none()).unwrap();
    assert_eq!(example.policy.limits.len(), 1, "the example shows a limit");
    example.policy.limits.clear();
    assert_eq!(example.routes[0].outbox.take().as_deref(), Some("orders"));
    assert_eq!(example.routes[0].durability.take(), Some(Durability::BestEffort));
    assert_eq!(example.routes[0].lag_limit.take(), Some(100_000));
    example.sinks.retain(|sink| sink.name == "stock");
    assert_eq!(example, small());
}

#[test]
fn the_defaults_are_these() {
    let config = small();
    let outbox = Outbox {
        name: "orders".to_owned(),
        url: Url::read("sqlite:orders.sqlite3").unwrap(),
        table: "outbox".to_owned(),
        batch: 200,
        bytes: 4 << 20,
        lease: 30 * SECOND,
        idle: SECOND,
        turns: 2,
        drain: 25 * SECOND,
        history: true,
        strategy: store::Strategy::Auto,
        shards: 16,
        connections: 10,
        listen: false,
        order: Order::Hold,
        keep_sent: 7 * DAY,
        keep_inbox: 14 * DAY,
    };
    assert_eq!(config.outboxes, [outbox]);
    let http = Http {
        url: Url::read("https://stock.example.com/events").unwrap(),
        structured: false,
        pace: Pace { timeout: 10 * SECOND, concurrency: 16 },
        secrets: Vec::new(),
        headers: Vec::new(),
        allow_private: false,
        durability: Durability::BestEffort,
    };
    assert_eq!(config.sinks, [Sink { name: "stock".to_owned(), kind: Kind::Http(http) }]);
    let backoff = Backoff { base: SECOND, cap: 3600 * SECOND };
    let policy = event::Policy { limits: Vec::new(), attempts: 200, backoff, rest: 5 * SECOND };
    assert_eq!(config.policy, policy);
    assert_eq!(config.chores, Chores { every: 10 * SECOND, step: 500, lease: 30 * SECOND });
    assert_eq!(config.admin.listen.to_string(), "127.0.0.1:8025");
    assert!(!config.admin.off && config.admin.token.is_none() && config.admin.hosts.is_empty());
    assert_eq!(config.admin.sample, SECOND);
    assert!(!config.log.json && config.log.filter == "info");
}

#[test]
fn by_default_an_event_that_is_refused_all_the_time_outlives_a_long_weekend() {
    let event::Policy { attempts, backoff, .. } = small().policy;
    let mut chance = fastrand::Rng::with_seed(7);
    let mut lives: Vec<Duration> = (0..2001)
        .map(|_| (1..attempts).map(|attempt| backoff.pick(attempt, chance.f64())).sum())
        .collect();
    lives.sort_unstable();
    let days = |life: Duration| life.as_secs_f64() / DAY.as_secs_f64();
    let (least, median) = (days(lives[20]), days(lives[1000]));
    assert!(least > 3.5, "1 in 100 lives only {least} days");
    assert!((3.88..3.96).contains(&median), "the pages say 3 days and 22 hours: {median} days");
    let page = include_str!("../../../../docs/concepts/retries.md");
    for text in [DEFAULT, page] {
        assert!(text.contains("3 days and 22 hours"), "{text}");
    }
}

#[test]
fn the_default_file_explains_every_key_that_can_be_printed() {
    let document = document(&parse(DEFAULT_NAME, DEFAULT, none()).unwrap());
    let printed = toml::to_string(&document).unwrap();
    for line in printed.lines().filter(|line| line.contains(" = ")) {
        let key = line.split(' ').next().unwrap();
        let at = DEFAULT.find(&format!("\n{key} = ")).unwrap_or_else(|| panic!("{key}"));
        let before = DEFAULT[..at].lines().last().unwrap();
        let shared = ["backoff", "backoff_cap"].contains(&key);
        assert!(before.starts_with('#') || shared, "{key} has no comment: {before}");
    }
}

#[test]
fn what_is_printed_reads_back_as_the_same_config() {
    // Without a path: of a url only the scheme and the host print.
    let config = parse("postbox.toml", &SMALL.replace(".com/events", ".com"), none()).unwrap();
    let printed = toml::to_string(&document(&config)).unwrap();
    assert_eq!(parse("printed", &printed, none()).unwrap(), config);
}

#[test]
fn an_unknown_key_is_told_with_its_line_and_the_nearest_name() {
    let text = SMALL.replace("url = \"sqlite", "bacth = 7\nurl = \"sqlite");
    assert_eq!(
        problems(&text),
        ["postbox.toml:3: unknown key `bacth` in [outbox.orders]; did you mean `batch`?"]
    );
    let text = format!("{SMALL}\n[polcy]\nattempts = 1\n");
    assert_eq!(problems(&text), ["postbox.toml:13: unknown key `polcy`; did you mean `policy`?"]);
}

#[test]
fn every_problem_is_told_at_once_in_the_order_of_the_lines() {
    let text = r#"[outbox.orders]
url = "sqlite:orders.sqlite3"
batch = "many"
lease = 30
idle = "soon"
history = "yes"
order = "hodl"
bytes = 0

[sink.stock]
kind = "http"
url = "ftp://stock"
timeout = "5d"
allow_private = 1

[[route]]
topic = "order.*"
sink = "stok"

[admin]
listen = "0.0.0.0:8025"
"#;
    let said = problems(text);
    let expected = [
        "3: `batch` in [outbox.orders]: it takes a whole number, for example 100",
        "4: `lease` in [outbox.orders]: it takes a duration in quotes, for example \"30s\"",
        "5: `idle` in [outbox.orders]: \"soon\" is no duration; write for example",
        "6: `history` in [outbox.orders]: it takes true or false",
        "7: `order` in [outbox.orders]: \"hodl\" is not one of \"hold\", \"pass\"; did you mean",
        "8: `bytes` in [outbox.orders] must be at least 1",
        "12: `url` in [sink.stock]: it must begin with http:// or https://",
        "14: `allow_private` in [sink.stock]: it takes true or false",
        "18: [[route]] names the unknown sink `stok`; did you mean `stock`?",
        "21: [admin] listens on 0.0.0.0:8025, which others can reach: set `token`",
    ];
    assert_eq!(said.len(), expected.len(), "{said:#?}");
    for (said, expected) in said.iter().zip(expected) {
        assert!(said.starts_with(&format!("postbox.toml:{expected}")), "{said}\n{expected}");
    }
}

#[test]
fn relations_between_values_are_checked() {
    for (from, to, expected) in [
        ("url = \"sqlite", "drain = \"20s\"\nurl = \"sqlite", "shorter than half the drain"),
        ("url = \"https", "timeout = \"13s\"\nurl = \"https", "shorter than half the drain"),
        ("url = \"sqlite", "keep_inbox = \"6d\"\nurl = \"sqlite", "taken in twice"),
        ("url = \"sqlite", "idle = \"30s\"\nurl = \"sqlite", "shorter than its lease"),
        ("url = \"sqlite", "table = \"a; b\"\nurl = \"sqlite", "letters, digits and _"),
        ("https://stock.example.com", "http://127.0.0.1:1", "allow_private = true"),
        ("https://stock.example.com", "https://localhost:1", "allow_private = true"),
        ("kind = \"http\"", "", "[sink.stock] needs `kind`"),
        ("url = \"sqlite:orders.sqlite3\"", "", "[outbox.orders] needs `url`"),
        ("[outbox.orders]", "[outbox.a]\nurl = \"sqlite:orders.sqlite3\"\n[outbox.orders]", "same"),
        ("[[route]]", "[policy]\nbackoff = \"2h\"\n[[route]]", "longer than `backoff_cap`"),
        ("[[route]]", "[[limit]]\nattempts = 1\n[[route]]", "names no events"),
        ("sink = \"stock\"", "sink = \"stock\"\noutbox = \"order\"", "did you mean `orders`"),
    ] {
        let said = problems(&SMALL.replace(from, to));
        assert!(said.len() == 1 && said[0].contains(expected), "{to}: {said:#?}");
    }
    let said = problems(&SMALL.replace("url = \"sqlite", "lease = \"20s\"\nurl = \"sqlite"));
    assert!(
        said[0].starts_with("postbox.toml:3: `timeout`"),
        "a default is nobody's line: {said:?}"
    );
    let lease = "drain = \"60s\"\nlease = \"20s\"\nurl = \"sqlite";
    let said = problems(&SMALL.replace("url = \"sqlite", lease));
    assert!(said[0].contains("shorter than half the lease of [outbox.orders], 10s"), "{said:?}");
    let said = problems("");
    assert!(said.iter().any(|line| line.contains("there is no outbox")), "{said:?}");
}

#[test]
fn what_the_database_or_the_broker_would_refuse_is_told_with_the_line_of_its_key() {
    for (from, to, line, expected) in [
        ("sqlite:orders.sqlite3", "oracle://h/orders", 3, "`url` in [outbox.orders]: an outbox"),
        ("sqlite:orders.sqlite3", "sqlite::memory:", 3, "lives in a file; write sqlite:PATH"),
        ("sqlite:orders.sqlite3", "sqlite:a.db?mode=rwc", 3, "takes no parameters"),
        ("https://", "https://me:canary@", 7, "user and password do not belong there"),
        ("https://stock.example.com", "https://:80", 7, "`url` in [sink.stock]: it cannot be read"),
        ("[[route]]", "secrets = [\"canary\"]\n[[route]]", 9, "base64 of 24 to 64 bytes"),
        ("[[route]]", "headers = { \"a b\" = \"canary\" }\n[[route]]", 9, "not a name HTTP allows"),
        ("[[route]]", "headers = { ce-id = \"canary\" }\n[[route]]", 9, "set by the sink itself"),
        ("[[route]]", "[log]\nfilter = \"a=b=c\"\n[[route]]", 10, "`filter` in [log]: \"a=b=c\""),
    ] {
        let said = problems(&SMALL.replace(from, to));
        assert!(said.len() == 1 && said[0].contains(expected), "{to}: {said:#?}");
        assert!(said[0].starts_with(&format!("postbox.toml:{line}: ")), "{to}: {said:#?}");
        assert!(!said[0].contains("canary"), "{said:#?}");
    }
}

#[test]
fn a_table_has_a_name_that_the_database_takes() {
    let named = |name: &str| {
        let text = format!("table = \"{name}\"\nurl = \"sqlite");
        parse("postbox.toml", &SMALL.replace("url = \"sqlite", &text), none())
    };
    assert_eq!(named(&"a".repeat(48)).unwrap().outboxes[0].table.len(), 48);
    assert!(named(&"a".repeat(49)).unwrap_err().to_string().starts_with("postbox.toml:3: `table`"));
}

#[test]
fn two_outboxes_on_one_table_are_found_under_every_spelling() {
    let dir = tempfile::tempdir().unwrap();
    let folder = dir.path();
    std::os::unix::fs::symlink(folder, folder.join("link")).unwrap();
    let first = folder.join("a.sqlite3");
    let said = |second: &str, more: &str| {
        let (first, second) = (first.display(), folder.join(second));
        let text = format!(
            "[outbox.a]\nurl = \"sqlite:{first}\"\n[outbox.b]\nurl = \"sqlite:{}\"\n{more}\n",
            second.display()
        );
        parse(
            "postbox.toml",
            &SMALL.replace("[outbox.orders]", &(text + "[outbox.orders]")),
            none(),
        )
    };
    for spelling in ["a.sqlite3", "./a.sqlite3", "link/a.sqlite3", "link/link/a.sqlite3"] {
        let problems = said(spelling, "").unwrap_err().to_string();
        assert!(problems.contains("[outbox.b] and [outbox.a] are the same table"), "{problems}");
        assert!(problems.starts_with("postbox.toml:4: "), "{problems}");
    }
    assert_eq!(said("b.sqlite3", "").unwrap().outboxes.len(), 3);
    assert_eq!(said("a.sqlite3", "table = \"other\"").unwrap().outboxes.len(), 3);
}

#[test]
fn what_is_missing_is_told_for_each_section_by_itself() {
    let text = "[outbox]\nurl = \"sqlite:x\"\n[[route]]\ntopic = 3\n[[route]]\nsink = \"stock\"\n";
    let said = problems(&SMALL.replace("[outbox.orders]", &format!("{text}[outbox.orders]")));
    assert_eq!(
        said,
        [
            "postbox.toml:3: [outbox] has no name: write [outbox.NAME]",
            "postbox.toml:4: [[route]] needs `sink`",
            "postbox.toml:5: `topic` in [[route]]: it takes a text in quotes",
            "postbox.toml:6: [[route]] needs `topic`",
        ]
    );
}

#[test]
fn a_lease_or_a_drain_that_printing_could_outlast_is_told_with_its_line() {
    let printer = |times: &str| {
        let text =
            SMALL.replace("\"http\"\nurl = \"https://stock.example.com/events\"", "\"stdout\"");
        parse("postbox.toml", &text.replace("url", &format!("{times}\nurl")), none())
    };
    assert!(printer("lease = \"6s\"\ndrain = \"6s\"").is_ok());
    let said = printer("lease = \"5s\"\ndrain = \"1s\"").unwrap_err().to_string();
    assert_eq!(
        said,
        "postbox.toml:3: `lease` in [outbox.orders] is 5s; it must be longer than 5s, which \
         [sink.stock] may take to print\n\
         postbox.toml:4: `drain` in [outbox.orders] is 1s; it must be longer than 5s, which \
         [sink.stock] may take to print"
    );
}

#[test]
fn a_sink_that_prints_takes_no_url() {
    let said = problems(&SMALL.replace("\"http\"", "\"stdout\""));
    let told = "it is a key of kind \"rocketmq\", \"kafka\", \"rabbitmq\", \"nats\", \"redis\", \
                \"http\", and this is \"stdout\"";
    assert_eq!(said, [format!("postbox.toml:7: unknown key `url` in [sink.stock]; {told}")]);
}

fn with(variables: &[(&str, &str)]) -> Result<Config, Problems> {
    let owned = variables.iter().map(|(name, value)| (name.to_string(), value.to_string()));
    parse("postbox.toml", SMALL, owned.collect::<Vec<_>>())
}

#[test]
fn the_environment_overrides_every_kind_of_value() {
    let config = with(&[
        ("POSTBOX__OUTBOX__ORDERS__BATCH", "50"),
        ("POSTBOX__OUTBOX__ORDERS__KEEP_SENT", "1d"),
        ("POSTBOX__SINK__STOCK__ALLOW_PRIVATE", "true"),
        ("POSTBOX__SINK__STOCK__HEADERS__X_KEY", "k"),
        ("POSTBOX__SINK__PRINTER__KIND", "stdout"),
        ("POSTBOX__ROUTE__1__TOPIC", "*"),
        ("POSTBOX__ROUTE__1__SINK", "printer"),
        ("POSTBOX__ADMIN__HOSTS", "a.example.com, b.example.com"),
        ("POSTBOX__LOG__FORMAT", "json"),
        ("POSTBOX_UNRELATED", "1"),
    ])
    .unwrap();
    assert_eq!((config.outboxes[0].batch, config.outboxes[0].keep_sent), (50, DAY));
    assert_eq!(config.sinks.len(), 2);
    let Kind::Http(http) = &config.sinks[1].kind else { panic!("{:?}", config.sinks) };
    assert!(http.allow_private && http.headers[0].0 == "X-KEY");
    assert_eq!((config.routes.len(), config.routes[1].sink.as_str()), (2, "printer"));
    assert_eq!(config.admin.hosts, ["a.example.com", "b.example.com"]);
    assert!(config.log.json);
}

#[test]
fn an_unknown_variable_is_told_like_an_unknown_key() {
    let said = |name: &str| with(&[(name, "1")]).unwrap_err().to_string();
    assert_eq!(
        said("POSTBOX__OUTBOX__ORDERS__BACTH"),
        "environment POSTBOX__OUTBOX__ORDERS__BACTH: unknown key `bacth` in [outbox.orders]; \
         did you mean `batch`?"
    );
    assert!(said("POSTBOX__OUTBOX__ORDRES__BATCH").contains("did you mean `orders`?"));
    assert!(said("POSTBOX__ROUTE__7__SINK").contains("there are 1 of [[route]]"));
    assert!(said("POSTBOX__BATCH").contains("POSTBOX__OUTBOX__NAME__KEY"));
}

#[test]
fn no_secret_prints_wherever_it_was_written() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("secret");
    let secret = "whsec_canaryfilecanaryfilecanaryfileca";
    std::fs::write(&file, format!("{secret}\n")).unwrap();
    let text = format!(
        r#"
[outbox.orders]
url = "sqlite:orders.sqlite3"
[sink.stock]
kind = "http"
url = "https://stock.example.com/${{file:{file}}}?token=canary-query"
secrets = ["whsec_canarycanarycanarycanarycanaryca", {{ file = "{file}" }}]
headers = {{ Authorization = "Bearer canary-header" }}
[[route]]
topic = "*"
sink = "stock"
[admin]
listen = "0.0.0.0:1"
token = "a-canary-as-token"
"#,
        file = file.display()
    );
    let config = parse("postbox.toml", &text, none()).unwrap();
    let Kind::Http(http) = &config.sinks[0].kind else { panic!("{:?}", config.sinks) };
    assert_eq!(http.secrets[1].value.reveal(), secret);
    assert!(http.url.reveal().contains(secret));
    let printed = toml::to_string(&document(&config)).unwrap();
    assert!(!format!("{printed} {config:?}").contains("canary"), "{printed}\n{config:?}");
    assert!(printed.contains("secret\""), "the file's path may be shown: {printed}");
}

#[test]
fn a_broken_file_is_told_with_its_line() {
    let said = problems("[outbox.orders]\nurl = \"x\nbatch = 1\n");
    assert!(said[0].starts_with("postbox.toml:2: "), "{said:?}");
}

const ON_A_SERVER: &str = "postgres://postbox@127.0.0.1/orders";

fn on_a_server(lines: &str) -> String {
    SMALL.replace("sqlite:orders.sqlite3\"", &format!("{ON_A_SERVER}\"\n{lines}"))
}

#[test]
fn an_outbox_on_a_server_takes_its_strategy_its_shards_and_its_connections() {
    let lines = "strategy = \"skip_locked\"\norder = \"pass\"\nshards = 4\nconnections = 2";
    let config = parse("postbox.toml", &on_a_server(lines), none()).unwrap();
    let outbox = &config.outboxes[0];
    assert_eq!(outbox.strategy, store::Strategy::SkipLocked);
    assert_eq!((outbox.shards, outbox.connections), (4, 2));
}

#[test]
fn a_strategy_that_there_is_not_or_that_cannot_be_is_told_with_its_line() {
    let told = problems(&on_a_server("strategy = \"skip_lock\""));
    assert_eq!(
        told,
        ["postbox.toml:4: `strategy` in [outbox.orders]: \"skip_lock\" is not one of \"auto\", \
          \"own\", \"skip_locked\", \"cas\", \"preempt\"; did you mean `skip_locked`?"]
    );
    let file =
        SMALL.replace("url = \"sqlite", "strategy = \"cas\"\norder = \"pass\"\nurl = \"sqlite");
    let told = problems(&file);
    assert!(told[0].starts_with("postbox.toml:3: ") && told[0].contains("one writer"), "{told:?}");
    let told = problems(&on_a_server("strategy = \"preempt\"\norder = \"pass\""));
    assert!(told[0].starts_with("postbox.toml:4: "), "{told:?}");
    assert!(told[0].contains("take own, skip_locked, cas"), "{told:?}");
    let told = problems(&on_a_server("strategy = \"cas\""));
    assert!(told[0].contains("no order per key is kept: set `order` to \"pass\""), "{told:?}");
}

#[test]
fn shards_are_a_power_of_two_and_connections_at_least_two() {
    for shards in ["0", "3", "2048", "65537"] {
        let told = problems(&on_a_server(&format!("shards = {shards}")));
        assert!(told[0].starts_with("postbox.toml:4: `shards` in [outbox.orders]: "), "{told:?}");
    }
    for connections in ["0", "1", "1001", "65538"] {
        let told = problems(&on_a_server(&format!("connections = {connections}")));
        assert!(told[0].starts_with("postbox.toml:4: `connections` in "), "{told:?}");
    }
}

#[test]
fn only_postgres_is_listened_to_and_that_takes_a_connection() {
    let config = parse("postbox.toml", &on_a_server("listen = true"), none()).unwrap();
    assert!(config.outboxes[0].listen);
    let told = problems(&on_a_server("listen = true\nconnections = 2"));
    assert!(told[0].starts_with("postbox.toml:5: `connections` in "), "{told:?}");
    let told = problems(&SMALL.replace("url = \"sqlite", "listen = true\nurl = \"sqlite"));
    assert!(told[0].contains("`listen` in [outbox.orders]: only PostgreSQL"), "{told:?}");
    let text = on_a_server("listen = true").replace("/orders\"", "/orders_{0..1}\"");
    let told = problems(&format!("{text}\n[server]\nconnections = 5"));
    assert!(told[0].contains("the 2 outboxes at 127.0.0.1:5432 need at least 6"), "{told:?}");
}

#[test]
fn one_section_makes_an_outbox_of_every_number_of_its_range() {
    let text = on_a_server("").replace("/orders\"", "/orders_{00..02}\"");
    let text = text.replace("sink = \"stock\"", "sink = \"stock\"\noutbox = \"orders\"");
    let config = parse("postbox.toml", &text, none()).unwrap();
    let names: Vec<&str> = config.outboxes.iter().map(|outbox| outbox.name.as_str()).collect();
    assert_eq!(names, ["orders_00", "orders_01", "orders_02"]);
    let urls: Vec<&str> = config.outboxes.iter().map(|outbox| outbox.url.reveal()).collect();
    assert_eq!(urls[2], "postgres://postbox@127.0.0.1/orders_02");
    let routed = |route: &Route| route.outbox.clone();
    let routed: Vec<_> = config.routes.iter().filter_map(routed).collect();
    assert_eq!(routed, names, "a route of the section is a route of each");
}

#[test]
fn a_range_may_number_tables_instead() {
    let text = on_a_server("table = \"outbox_{0..1}\"");
    let config = parse("postbox.toml", &text, none()).unwrap();
    let tables: Vec<&str> = config.outboxes.iter().map(|outbox| outbox.table.as_str()).collect();
    assert_eq!(tables, ["outbox_0", "outbox_1"]);
}

#[test]
fn a_range_that_is_none_is_told_once_and_so_is_a_mistake_beside_one() {
    let ranged = |range: &str, more: &str| {
        on_a_server(more).replace("/orders\"", &format!("/orders_{range}\""))
    };
    for (range, wrong) in [
        ("{2..0}", "{2..0} counts down"),
        ("{0..1000}", "names more than 1000"),
        ("{a..b}", "{a..b} is no range; write for example {0..2}"),
        ("{0..1}{0..2}", "{0..1} and {0..2} are different ranges"),
    ] {
        let told = problems(&ranged(range, ""));
        assert!(told.len() == 1 && told[0].starts_with("postbox.toml:3: "), "{told:?}");
        assert!(told[0].contains(wrong), "{told:?}");
    }
    let secret = on_a_server("").replace("postbox@", "postbox:ca{7..a}na{1..2}ry@");
    let config = parse("postbox.toml", &secret, none()).unwrap();
    assert_eq!(config.outboxes.len(), 1, "a password is no range");
    let told = problems(&ranged("{0..2}", "batch = 0"));
    assert_eq!(told, ["postbox.toml:4: `batch` in [outbox.orders] must be at least 1"]);
    let told =
        problems(&format!("{}\n[outbox.orders_1]\nurl = \"sqlite:o\"", ranged("{0..2}", "")));
    assert!(told[0].contains("both make an outbox `orders_1`; rename one"), "{told:?}");
}

#[test]
fn outboxes_on_one_server_share_its_connections() {
    let text = on_a_server("").replace("/orders\"", "/orders_{0..2}\"");
    let counts = |text: &str| {
        let config = parse("postbox.toml", text, none()).unwrap();
        config.outboxes.iter().map(|outbox| outbox.connections).collect::<Vec<_>>()
    };
    assert_eq!(counts(&text), [10, 10, 10], "each has its own limit");
    assert_eq!(counts(&format!("{text}\n[server]\nconnections = 20")), [6, 6, 6]);
    let elsewhere = "\n[outbox.b]\nurl = \"postgres://postbox@127.0.0.2/orders\"";
    let more = format!("{text}{elsewhere}\n[server]\nconnections = 8");
    assert_eq!(counts(&more), [8, 2, 2, 2], "another server has another budget");
    let told = problems(&format!("{text}\n[server]\nconnections = 5"));
    let wrong = "`connections` in [server] is 5: the 3 outboxes at 127.0.0.1:5432 need at least 6";
    assert!(told[0].contains(wrong), "{told:?}");
    let many = on_a_server("").replace("/orders\"", "/orders_{0..40}\"");
    let told = problems(&many);
    assert!(told[0].starts_with("postbox.toml:2: `connections` in [server] is 60"), "{told:?}");
}
