//! The real binary, end to end, on a temporary SQLite file.

use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Child, Command, Output, Stdio};
use std::sync::mpsc::{self, Receiver};
use std::time::Duration;

use serde_json::Value;
use sqlx::Connection;

/// How long a fact may take before the test gives up on it.
const PATIENCE: Duration = Duration::from_secs(60);

const CONFIG: &str = r#"
[outbox.orders]
url = "sqlite:orders.sqlite3"
idle = "50ms"

[sink.screen]
kind = "stdout"

[[route]]
topic = "order.*"
sink = "screen"

[admin]
off = true
"#;

/// A folder with a config, and the binary run in it.
struct Home(tempfile::TempDir);

impl Home {
    fn new(config: &str) -> Home {
        let folder = tempfile::tempdir().expect("a folder can be made");
        std::fs::write(folder.path().join("postbox.toml"), config).expect("the folder is writable");
        Home(folder)
    }

    fn migrated() -> Home {
        let home = Home::new(CONFIG);
        home.fine(&["migrate"]);
        home
    }

    fn path(&self) -> &Path {
        self.0.path()
    }

    fn command(&self, args: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_postbox"));
        command.args(args).current_dir(self.path()).env_remove("POSTBOX_CONFIG");
        command.stdin(Stdio::null());
        command
    }

    fn run(&self, args: &[&str]) -> Output {
        self.command(args).output().expect("the binary runs")
    }

    /// Runs a command that must end well, and returns what it answered.
    fn fine(&self, args: &[&str]) -> String {
        let output = self.run(args);
        assert!(output.status.success(), "{args:?}: {output:?}");
        String::from_utf8(output.stdout).expect("the answer is text")
    }

    /// Runs a command that must end with a code, and returns what it said aside.
    fn ends(&self, code: i32, args: &[&str]) -> String {
        let output = self.run(args);
        assert_eq!(output.status.code(), Some(code), "{args:?}: {output:?}");
        String::from_utf8(output.stderr).expect("what is said is text")
    }

    /// Writes a row as a service does.
    fn insert(&self, row: &str) {
        let url = format!("sqlite:{}", self.path().join("orders.sqlite3").display());
        let insert = sqlx::AssertSqlSafe(format!("INSERT INTO outbox {row}"));
        let inserted = async {
            let mut conn = sqlx::SqliteConnection::connect(&url).await?;
            sqlx::raw_sql(insert).execute(&mut conn).await
        };
        let runtime = tokio::runtime::Runtime::new().expect("a runtime can be made");
        runtime.block_on(inserted).expect("the tables are there");
    }

    fn put(&self, args: &[&str]) -> String {
        self.fine(&[&["put"], args].concat()).trim().to_owned()
    }

    fn list(&self, args: &[&str]) -> Vec<Value> {
        let all = self.fine(&[args, &["--json"]].concat());
        all.lines().map(json).collect()
    }

    fn counts(&self) -> Value {
        let all = json(&self.fine(&["status", "--json"]));
        all["outboxes"][0]["counts"].clone()
    }
}

fn json(text: &str) -> Value {
    serde_json::from_str(text).expect("--json answers JSON")
}

/// A relay in its own process.
struct Relay {
    child: Child,
    lines: Receiver<String>,
}

impl Relay {
    fn start(home: &Home) -> Relay {
        let mut child = home
            .command(&["run"])
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .expect("the binary runs");
        let (said, lines) = mpsc::channel();
        let stdout = BufReader::new(child.stdout.take().expect("it is piped"));
        std::thread::spawn(move || {
            for line in stdout.lines().map_while(Result::ok) {
                let _ = said.send(line);
            }
        });
        Relay { child, lines }
    }

    fn next(&self) -> Value {
        let line = self.lines.recv_timeout(PATIENCE).expect("the relay publishes what is due");
        json(&line)
    }

    /// Tells the relay to stop, and returns its exit code.
    fn stop(mut self) -> Option<i32> {
        let id = self.child.id().to_string();
        let told = Command::new("kill").args(["-TERM", &id]).status();
        assert!(told.expect("there is a kill").success());
        self.child.wait().expect("it ends").code()
    }
}

impl Drop for Relay {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Looks again and again until a fact holds.
fn until(mut holds: impl FnMut() -> bool) {
    let begun = std::time::Instant::now();
    while !holds() {
        assert!(begun.elapsed() < PATIENCE, "it never came true");
    }
}

#[test]
fn an_event_goes_from_put_through_the_relay_to_sent() {
    let home = Home::migrated();
    let first = home.put(&["order.paid", "OrderPaid", r#"{"total": 42}"#, "--key", "123"]);
    let relay = Relay::start(&home);
    let event = relay.next();
    assert_eq!((&event["id"], &event["data"]["total"]), (&first.clone().into(), &42.into()));
    let second = home.put(&["order.sent", "OrderSent", "{}", "--header", "schema_version=2"]);
    assert_eq!(relay.next()["id"], second);
    until(|| home.counts()["pending"] == 0);
    assert_eq!(relay.stop(), Some(0));

    let listed = home.list(&["events", "list"]);
    let ids: Vec<&str> = listed.iter().map(|event| event["id"].as_str().unwrap()).collect();
    assert_eq!(ids, [second.as_str(), first.as_str()], "newest first");
    assert!(listed.iter().all(|event| event["status"] == "SENT"), "{listed:?}");
    assert_eq!(home.list(&["events", "list", "--key", "123"]).len(), 1);
    let table = home.fine(&["events", "list", "--limit", "1"]);
    assert!(table.starts_with("ID ") && table.lines().count() == 2, "{table}");
    let counts = home.counts();
    assert_eq!((&counts["sent"], &counts["committed"]), (&2.into(), &2.into()));
}

#[test]
fn what_no_route_takes_is_dead_until_somebody_requeues_it() {
    let home = Home::migrated();
    let id = home.put(&["bill.paid", "BillPaid", r#"{"n": 1}"#]);
    let relay = Relay::start(&home);
    until(|| home.counts()["dead"] == 1);
    assert_eq!(relay.stop(), Some(0));
    assert_eq!(home.list(&["dead", "list", "--code", "unrouted"]).len(), 1);
    assert!(home.fine(&["dead", "show", &id]).contains("unrouted"));
    let exported = home.list(&["dead", "export"]);
    assert_eq!(exported[0]["payload"], r#"{"n": 1}"#);

    let said = home.ends(2, &["dead", "requeue", "--all"]);
    assert!(said.contains("--yes"), "{said}");
    home.ends(2, &["dead", "requeue"]);
    assert!(home.fine(&["dead", "requeue", "--all", "--dry-run"]).contains(&id));
    assert_eq!(home.counts()["dead"], 1, "neither changed anything");
    let config = CONFIG.replace("order.*", "*");
    std::fs::write(home.path().join("postbox.toml"), config).unwrap();
    home.fine(&["dead", "requeue", "--code", "unrouted", "--yes"]);
    let relay = Relay::start(&home);
    assert_eq!(relay.next()["id"], id);
    until(|| home.counts()["sent"] == 1);
    assert_eq!(relay.stop(), Some(0));
    home.ends(1, &["dead", "show", &id]);
    let again = home.run(&["dead", "requeue", &id]);
    assert_eq!(again.status.code(), Some(1));
    assert_eq!(String::from_utf8(again.stdout).unwrap(), "! nothing was requeued\n");
    let none = home.fine(&["dead", "requeue", "--all", "--yes"]);
    assert_eq!(none, "✓ there was nothing to requeue\n");
}

#[test]
fn a_url_is_enough_without_a_config() {
    let folder = tempfile::tempdir().unwrap();
    let home = Home(folder);
    let url = ["--url", "sqlite:other.sqlite3"];
    let said = home.ends(1, &[&["status"], &url[..]].concat());
    assert!(said.contains("postbox migrate"), "{said}");
    assert!(!home.path().join("other.sqlite3").exists(), "only migrate makes a file");
    let statements = home.fine(&[&["migrate", "--print"], &url[..]].concat());
    assert!(statements.contains("CREATE TABLE"), "{statements}");
    home.fine(&[&["migrate"], &url[..]].concat());
    let id = home.put(&[&["a", "B", "x", "--due", "1h"], &url[..]].concat());
    let shown = home.fine(&[&["events", "show", &id, "--json", "--payload"], &url[..]].concat());
    let shown = json(&shown);
    assert_eq!((&shown["status"], &shown["payload"]), (&"NEW".into(), &"x".into()));
    home.fine(&[&["doctor"], &url[..]].concat());
}

#[test]
fn exit_codes_tell_wrong_from_misused() {
    let home = Home::migrated();
    home.fine(&["config", "check"]);
    home.fine(&["doctor"]);
    home.fine(&["explain"]);
    home.fine(&["explain", "sink-down"]);
    home.fine(&["completions", "bash"]);
    assert!(home.ends(1, &["explain", "sink-dwon"]).contains("did you mean `sink-down`?"));
    home.ends(1, &["events", "show", "0198c0de-0000-7000-8000-000000000001"]);
    home.ends(2, &["events", "show", "seven"]);
    home.ends(2, &["dance"]);
    home.ends(2, &["status", "-c", "nowhere.toml"]);
    home.ends(2, &["status", "--outbox", "order"]);
    home.ends(2, &["put", "", "T", "x"]);
    std::fs::write(home.path().join("postbox.toml"), CONFIG.replace("idle", "idel")).unwrap();
    let said = home.ends(2, &["config", "check"]);
    let expected = "postbox.toml:4: unknown key `idel` in [outbox.orders]; did you mean `idle`?";
    assert_eq!(said.trim(), expected);
    home.ends(2, &["run"]);
    home.ends(1, &["doctor"]);
}

#[test]
fn what_check_refuses_run_refuses_too_with_the_same_words_and_code() {
    let http = CONFIG.replace("\"stdout\"", "\"http\"\nurl = \"https://stock.example.com\"");
    for (config, line) in [
        (CONFIG.replace("sqlite:orders.sqlite3", "oracle://h/orders"), 3),
        (CONFIG.replace("idle", "table = \"a b\"\nidle"), 4),
        (http.replace("https://", "https://me:canary@"), 8),
        (http.replace("[[route]]", "secrets = \"canary\"\n[[route]]"), 10),
        (http.replace("[[route]]", "headers = { Host = \"x\" }\n[[route]]"), 10),
        (format!("{CONFIG}[log]\nfilter = \"a=b=c\"\n"), 16),
    ] {
        let home = Home::new(&config);
        let said = home.ends(2, &["config", "check"]);
        assert!(said.starts_with(&format!("postbox.toml:{line}: ")), "{said}");
        assert!(said.lines().count() == 1 && !said.contains("canary"), "{said}");
        assert_eq!(home.ends(2, &["run"]), said);
        let output = home.run(&["config", "check", "--json"]);
        assert_eq!((output.status.code(), output.stderr.as_slice()), (Some(2), &b""[..]));
        let answer = json(&String::from_utf8(output.stdout).unwrap());
        assert_eq!(answer["problems"][0]["place"], format!("postbox.toml:{line}"));
    }
    let home = Home::new(CONFIG);
    let said = home.ends(2, &["run", "-c", "."]);
    assert_eq!(said.trim(), ".: is a folder; name the file: ./postbox.toml");
    assert!(!home.ends(2, &["run", "-c", "nowhere.toml"]).contains("--url"));
    assert!(home.ends(2, &["status", "-c", "nowhere.toml"]).contains("--url"));
    home.ends(2, &["status", "--url", "oracle://h/orders"]);
    let cut = home.ends(2, &["status", "--url", "postgres://me:p@canary/1@127.0.0.1:1/orders"]);
    assert!(cut.contains("percent-encoded") && !cut.contains("canary"), "{cut}");
}

#[test]
fn a_folder_that_is_not_there_is_told_as_such_by_every_command() {
    let home = Home::new(&CONFIG.replace("sqlite:orders", "sqlite:data/orders"));
    let folder = home.path().canonicalize().unwrap().join("data");
    let mkdir = format!("mkdir -p {}", folder.display());
    for args in [&["status"][..], &["migrate"], &["run"], &["put", "a.b", "C", "x"]] {
        let said = home.ends(1, args);
        assert!(said.contains("does not exist") && said.contains(&mkdir), "{args:?}: {said}");
    }
    let doctor = String::from_utf8(home.run(&["doctor"]).stdout).unwrap();
    assert!(doctor.contains(&mkdir), "{doctor}");
    std::fs::create_dir(folder).unwrap();
    home.fine(&["migrate"]);
    home.fine(&["status"]);
}

#[test]
fn statements_can_be_printed_without_a_config_or_a_file() {
    let home = Home(tempfile::tempdir().unwrap());
    let usual = home.fine(&["migrate", "--print"]);
    assert!(usual.contains("CREATE TABLE outbox "), "{usual}");
    home.ends(2, &["migrate"]);
    let named = ["migrate", "--print", "--url", "sqlite:far/away.sqlite3", "--table", "post"];
    assert!(home.fine(&named).contains("CREATE TABLE post "));
    assert_eq!(std::fs::read_dir(home.path()).unwrap().count(), 0, "nothing was made");
}

#[test]
fn rights_are_printed_for_the_accounts_named_without_asking_the_server() {
    let home = Home::new("");
    let url = ["--url", "postgres://nobody@127.0.0.1:1/orders"];
    let named = ["migrate", "--grants", "--relay", "mail man", "--service", "shop"];
    let rights = home.fine(&[&named[..], &url].concat());
    assert!(rights.contains("TO \"mail man\";") && rights.contains("TO \"shop\";"), "{rights}");
    assert!(home.fine(&["migrate", "--grants", "--url", "sqlite:a.db"]).contains("no accounts"));
    home.ends(2, &["migrate", "--service", "shop"]);
}

#[test]
fn an_id_is_put_down_once_and_every_row_of_it_is_shown() {
    let home = Home::migrated();
    let id = "0198c0de-0000-7000-8000-000000000001";
    let put = ["put", "a.b", "C", "x", "--id", id];
    home.fine(&put);
    let said = home.ends(1, &put);
    assert!(said.contains("is there already, NEW: nothing was put down"), "{said}");
    assert_eq!(home.counts()["new"], 1);
    home.insert(&format!(
        "(event_id, topic, event_type, payload) VALUES ('{id}', 'a.b', 'D', 'y')"
    ));
    let shown = home.list(&["events", "show", id]);
    let types: Vec<&str> = shown.iter().map(|event| event["type"].as_str().unwrap()).collect();
    assert_eq!(types.len(), 2, "{shown:?}");
    assert!(types.contains(&"C") && types.contains(&"D"), "{types:?}");
    let output = home.run(&["events", "show", id]);
    assert!(String::from_utf8(output.stderr).unwrap().contains("2 rows have this id"));
}

#[test]
fn an_empty_payload_is_put_down_only_if_it_is_meant() {
    let home = Home::migrated();
    for empty in [&["put", "a.b", "C"][..], &["put", "a.b", "C", ""]] {
        assert!(home.ends(2, empty).contains("--empty"));
    }
    assert_eq!(home.counts()["committed"], 0);
    for meant in [&["a.b", "C", "--empty"][..], &["a.b", "C", "", "--empty"]] {
        let id = home.put(meant);
        assert_eq!(home.list(&["events", "show", &id, "--payload"])[0]["payload"], "");
    }
    let said = home.ends(2, &["put", "a.b", "C", "x", "--empty"]);
    assert!(said.contains("there is one; leave one out"), "{said}");
    assert_eq!(home.counts()["committed"], 2);
}

#[test]
fn a_script_pages_through_a_list_by_its_last_line() {
    let home = Home::migrated();
    for _ in 0..5 {
        home.put(&["a.b", "C", "x"]);
    }
    let (mut seen, mut after) = (std::collections::BTreeSet::new(), Vec::new());
    for page in 1.. {
        let args = [&["events", "list", "--limit", "2"][..], &after].concat();
        let mut lines = home.list(&args);
        let more = lines.pop_if(|line| line.get("id").is_none());
        seen.extend(lines.iter().map(|line| line["id"].to_string()));
        let Some(more) = more else {
            assert_eq!(page, 3);
            break;
        };
        assert!(lines.len() == 2 && more["searched_to"].is_null(), "{more}");
        let next: &str = more["next"].as_str().unwrap().to_owned().leak();
        after = vec!["--after", next];
    }
    assert_eq!(seen.len(), 5);
    let said = home.ends(2, &["events", "list", "--after", "zzz"]);
    assert!(said.starts_with("postbox: --after: \"zzz\" is no place in a listing"), "{said}");
    assert!(!said.contains("config-invalid"), "{said}");
}

#[test]
fn a_list_shows_when_a_delayed_event_is_due() {
    let home = Home::migrated();
    home.put(&["a.b", "C", "x", "--due", "2h"]);
    home.put(&["a.b", "C", "x"]);
    let table = home.fine(&["events", "list"]);
    let lines: Vec<&str> = table.lines().collect();
    assert!(lines[1].contains(" NEW     ") && lines[2].contains(" NEW in 2h "), "{table}");
    let listed = home.list(&["events", "list"]);
    assert!(listed[1]["next_attempt"].as_str() > listed[1]["created"].as_str(), "{listed:?}");
}

#[test]
fn a_file_that_is_not_there_is_named_with_its_folder_by_every_command() {
    let (home, elsewhere) = (Home::migrated(), tempfile::tempdir().unwrap());
    let config = home.path().join("postbox.toml").display().to_string();
    let file = elsewhere.path().canonicalize().unwrap().join("orders.sqlite3");
    let expected = format!("the file {} does not exist", file.display());
    for command in [&["status"][..], &["events", "list"], &["run"], &["put", "a.b", "C", "x"]] {
        let mut command = home.command(&[command, &["-c", &config]].concat());
        let output = command.current_dir(elsewhere.path()).output().unwrap();
        let said = String::from_utf8(output.stderr).unwrap();
        assert!(said.contains(&expected), "{said}");
        assert!(said.contains("follows the folder in which the command runs"), "{said}");
        assert_eq!(output.status.code(), Some(1), "{said}");
    }
    assert!(!file.exists());
}

#[test]
fn shells_complete_the_codes() {
    let home = Home(tempfile::tempdir().unwrap());
    for shell in ["bash", "zsh", "fish"] {
        let script = home.fine(&["completions", shell]);
        assert!(script.contains("crash-loop"), "{shell}");
    }
}

#[test]
fn the_demo_on_a_taken_port_says_how_to_take_a_free_one() {
    let home = Home(tempfile::tempdir().unwrap());
    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let listen = taken.local_addr().unwrap().to_string();
    let mut command = home.command(&["demo", "--for", "1s", "--listen", &listen]);
    let output = command.env("TMPDIR", home.path()).output().unwrap();
    let said = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(1), "{said}");
    assert!(said.contains(&listen) && said.contains("--listen 127.0.0.1:0"), "{said}");
    assert!(!said.contains("[admin]") && !said.contains("POSTBOX__"), "{said}");
}

#[test]
fn the_relay_refuses_a_database_without_tables_and_says_what_to_do() {
    let home = Home::new(CONFIG);
    let said = home.ends(1, &["run"]);
    assert!(said.contains("schema-missing") && said.contains("postbox migrate"), "{said}");
}

#[test]
fn the_environment_reaches_the_config_and_secrets_do_not_print() {
    let home = Home::new(CONFIG);
    let mut command = home.command(&["config", "print"]);
    command.env("POSTBOX__OUTBOX__ORDERS__BATCH", "7");
    command.env("POSTBOX__ADMIN__TOKEN", "a-canary-as-token");
    let output = command.output().unwrap();
    let said = String::from_utf8(output.stdout).unwrap();
    assert!(said.contains("batch = 7") && said.contains("***"), "{said}");
    assert!(!said.contains("canary"), "{said}");
}

#[test]
fn a_payload_cannot_speak_to_the_terminal() {
    let home = Home::migrated();
    let id = home.put(&["a.b", "C", "\u{1b}]0;owned\u{7}\u{9b}2J"]);
    for args in [&["events", "show", &id, "--payload"][..], &["events", "list"]] {
        for json in [&[][..], &["--json"]] {
            let said = home.fine(&[args, json].concat());
            let control = |c: char| c.is_control() && c != '\n';
            assert!(!said.contains(control), "{said:?}");
        }
    }
}

#[test]
fn a_reader_that_goes_away_is_no_error() {
    let home = Home::migrated();
    home.put(&["a.b", "C", "x"]);
    let mut child = home.command(&["events", "list"]).stdout(Stdio::piped()).spawn().unwrap();
    drop(child.stdout.take());
    assert_eq!(child.wait().unwrap().code(), Some(0));
}

#[test]
fn a_payload_is_read_from_a_file_or_a_pipe() {
    let home = Home::migrated();
    std::fs::write(home.path().join("payload"), [0xff, 0x00]).unwrap();
    let binary = home.put(&["a.b", "C", "@payload"]);
    let shown = home.list(&["events", "show", &binary, "--payload"]);
    assert_eq!(shown[0]["payload_base64"], "/wA=");
    let mut command = home.command(&["put", "a.b", "C"]);
    let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    child.stdin.take().unwrap().write_all(b"{\"piped\": true}").unwrap();
    let output = child.wait_with_output().unwrap();
    let piped = String::from_utf8(output.stdout).unwrap();
    let shown = home.list(&["events", "show", piped.trim(), "--payload"]);
    assert_eq!(shown[0]["payload"], "{\"piped\": true}");
}

#[test]
fn the_demo_keeps_its_promises_and_leaves_nothing_behind() {
    let home = Home(tempfile::tempdir().unwrap());
    let mut command = home.command(&["demo", "--for", "3s", "--json"]);
    let output = command.env("TMPDIR", home.path()).output().unwrap();
    assert!(output.status.success(), "{output:?}");
    let said = String::from_utf8(output.stdout).unwrap();
    assert_eq!(said.lines().count(), 1, "{said}");
    let summary = json(&said);
    let number = |name: &str| summary[name].as_u64().expect(name);
    let settled = number("sent") + number("dead") + number("pending");
    assert_eq!(number("committed"), settled, "{summary}");
    assert!(number("sent") > 0 && number("dead") > 0 && number("duplicates") > 0, "{summary}");
    assert!(number("effects") >= number("sent"), "{summary}");
    assert_eq!(std::fs::read_dir(home.path()).unwrap().count(), 0, "nothing is left");
}

/// Returns the config with a demand, and another sink if there is one.
fn demanding(class: &str, sink: Option<&str>) -> String {
    let config = CONFIG
        .replace("sink = \"screen\"", &format!("sink = \"screen\"\ndurability = \"{class}\""));
    match sink {
        Some(sink) => config.replace("kind = \"stdout\"", sink),
        None => config,
    }
}

#[test]
fn a_destination_that_is_worth_less_than_demanded_is_refused_at_the_start() {
    let home = Home::new(&demanding("durable", None));
    home.fine(&["migrate"]);
    home.put(&["order.paid", "OrderPaid", "{}"]);
    let said = home.ends(2, &["run"]);
    assert!(said.contains("[sink.screen]: durability-too-low: a route demands durable"), "{said}");
    assert!(said.contains("postbox explain durability-too-low"), "{said}");
    assert_eq!(home.counts()["new"], 1, "nothing was published");
    assert!(home.fine(&["explain", "durability-too-low"]).contains("replicated"));
    let doctor = home.run(&["doctor"]);
    assert_eq!(doctor.status.code(), Some(1));
    let doctor = String::from_utf8(doctor.stdout).unwrap();
    assert!(doctor.contains("best-effort, and a route demands durable"), "{doctor}");

    // Of HTTP nobody can be asked: the operator's word counts.
    let http = "kind = \"http\"\nurl = \"http://127.0.0.1:9/\"\nallow_private = true\n\
                durability = \"durable\"";
    std::fs::write(home.path().join("postbox.toml"), demanding("durable", Some(http))).unwrap();
    let relay = Relay::start(&home);
    until(|| home.counts()["new"] == 1);
    assert_eq!(relay.stop(), Some(0));
}

#[test]
fn a_broker_that_is_down_is_told_by_every_command_and_gets_nothing_unasked() {
    let port = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    for (kind, scheme) in [
        ("nats", "nats"),
        ("redis", "redis"),
        ("rabbitmq", "amqp"),
        ("kafka", "kafka"),
        ("rocketmq", "rocketmq"),
    ] {
        let sink =
            format!("kind = \"{kind}\"\nurl = \"{scheme}://127.0.0.1:{port}\"\ntimeout = \"2s\"");
        let home = Home::new(&demanding("durable", Some(&sink)));
        home.fine(&["migrate"]);
        home.fine(&["config", "check"]);
        home.put(&["order.paid", "OrderPaid", "{}"]);
        let doctor = home.run(&["doctor"]);
        let said = String::from_utf8(doctor.stdout).unwrap();
        assert!(
            doctor.status.code() == Some(1) && said.contains("✗ sink screen"),
            "{kind}: {said}"
        );
        let status = home.run(&["status"]);
        assert!(status.status.success(), "{kind}: its outbox answers: {status:?}");
        let aside = String::from_utf8(status.stderr).unwrap();
        assert!(aside.contains("! screen: sink-down"), "{kind}: {aside}");
        let all = json(&home.fine(&["status", "--json"]));
        assert_eq!(all["sinks"][0]["kind"], kind);
        assert_eq!(all["sinks"][0]["problem"]["code"], "sink-down", "{kind}: {all}");
        let mut relay = home.command(&["run"]).stderr(Stdio::piped()).spawn().unwrap();
        let lines = BufReader::new(relay.stderr.take().unwrap()).lines().map_while(Result::ok);
        let mut lines = lines.skip_while(|line| !line.contains("cannot be asked yet"));
        assert!(lines.next().is_some(), "{kind}");
        let rests = lines.find(|line| line.contains("lane rests")).expect("the lane rests");
        assert!(rests.contains("sink-down"), "{kind}: {rests}");
        relay.kill().unwrap();
        relay.wait().unwrap();
    }
}

#[test]
fn the_status_of_a_destination_stands_below_that_of_the_outboxes() {
    let home = Home::migrated();
    let said = home.fine(&["status"]);
    let lines: Vec<&str> = said.lines().collect();
    assert_eq!(lines.len(), 5, "{said}");
    assert!(lines[0].starts_with("OUTBOX ") && lines[2].is_empty(), "{said}");
    assert!(lines[3].starts_with("SINK "), "{said}");
    let words: Vec<&str> = lines[4].split_whitespace().collect();
    assert_eq!(words, ["screen", "stdout", "best-effort", "-", "-", "-", "-"], "{said}");
    let all = json(&home.fine(&["status", "--json"]));
    assert_eq!(all["sinks"][0]["durability"], "best-effort");
}
