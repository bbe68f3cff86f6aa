//! The quick start of the README in a database that one already has: its own config, its own
//! commands, its own INSERT.

use std::path::Path;
use std::time::Duration;

use it::process::Process;
use it::receiver::{Receiver, willing};
use it::session::Session;
use it::world::need;

const PATIENCE: Duration = Duration::from_secs(60);
const LOOK: Duration = Duration::from_millis(20);

/// What the README tells one to write and to run.
struct Told {
    /// The file `postbox.toml`, for SQLite.
    config: String,
    /// The section that takes the outbox elsewhere.
    section: String,
    /// The arguments of `postbox`, one command after the other.
    commands: Vec<Vec<String>>,
    insert: String,
}

impl Told {
    /// Reads the quick start for a database whose addresses begin so.
    fn read(scheme: &str) -> Told {
        let readme = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../README.md");
        let readme = std::fs::read_to_string(readme).unwrap();
        let mut parts = readme.split("\n## ");
        let part = parts.find(|part| part.starts_with("Quick start\n")).unwrap();
        let config = |scheme: &str| {
            let url = format!("url = \"{scheme}:");
            let mut configs = blocks(part, "toml").filter(|block| block.contains(&url));
            configs.next().unwrap_or_else(|| panic!("there is no config for {scheme}"))
        };
        let scripts = blocks(part, "sh").collect::<String>();
        let words = |line: &str| line.split(' ').map(str::to_owned).collect();
        let commands = scripts.lines().filter_map(|line| line.strip_prefix("postbox "));
        Told {
            config: config("sqlite"),
            section: config(scheme),
            commands: commands.map(words).collect(),
            insert: blocks(part, "sql").next().unwrap(),
        }
    }

    /// Returns the config with the section in the place of the one that has its head.
    fn whole(&self) -> String {
        let head = self.section.lines().next().unwrap();
        let is_it = |part: &&str| part.lines().next() == Some(head);
        assert_eq!(self.config.split("\n\n").filter(is_it).count(), 1, "{head} once");
        let section = self.section.trim_end();
        let parts = self.config.split("\n\n").map(|part| if is_it(&part) { section } else { part });
        parts.collect::<Vec<_>>().join("\n\n")
    }
}

/// Returns what stands in a page between the fences of a language.
fn blocks(page: &str, language: &str) -> impl Iterator<Item = String> {
    let fence = format!("\n```{language}\n");
    let block = |rest: &str| Some(format!("{}\n", rest.split_once("\n```")?.0));
    page.split(&fence).skip(1).filter_map(block).collect::<Vec<_>>().into_iter()
}

/// Puts an address of one's own in the place of the one that begins so.
fn fill(config: &str, begin: &str, own: &str) -> String {
    let (before, rest) = config.split_once(&format!("url = \"{begin}")).unwrap();
    let (_, after) = rest.split_once('"').unwrap();
    format!("{before}url = \"{own}\"{after}")
}

/// Makes a database, as one that is there already, and returns its address.
async fn database(server: &str) -> String {
    let name = format!("orders_{:08x}", fastrand::u32(..));
    let mut url = url::Url::parse(need(server).detail("url")).unwrap();
    let mut session = Session::open(url.as_str()).await.unwrap();
    session.run(format!("CREATE DATABASE {name}")).await.unwrap();
    session.close().await.unwrap();
    url.set_path(&name);
    url.into()
}

async fn a_new_user_sees_an_event_arrive(server: &str, scheme: &str) {
    let (told, url) = (Told::read(scheme), database(server).await);
    let receiver = Receiver::start(willing()).await.unwrap();
    let config = fill(&told.whole(), &format!("{scheme}:"), &url);
    let config = fill(&config, "http://127.0.0.1:8081/events", &receiver.url("events"));
    // Several relays at once cannot all have the console's port.
    let config = format!("{config}\n[admin]\noff = true\n");
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("postbox.toml"), config).unwrap();

    let [migrate, run] = &told.commands[..] else { panic!("{:?}", told.commands) };
    let start = |args: &[String]| {
        let args: Vec<&str> = args.iter().map(String::as_str).collect();
        Process::start(folder.path(), args[0], &args).unwrap()
    };
    let mut migrate = start(migrate);
    assert!(migrate.ends(PATIENCE).await.unwrap().success(), "{}", migrate.log());
    let relay = start(run);
    let mut session = Session::open(&url).await.unwrap();
    session.run(&*told.insert).await.unwrap();

    let first = receiver.until("the event", PATIENCE, |all| all.first().cloned());
    let came = first.await.unwrap_or_else(|error| panic!("{error}\n{}", relay.log()));
    assert_eq!((&*came.by, came.key.as_deref()), ("events", Some("123")));
    assert_eq!(came.body, r#"{"total": 42}"#);
    let ask = "SELECT status FROM outbox_events";
    let sent = async {
        while session.texts(ask, 0).await.unwrap() != ["SENT"] {
            tokio::time::sleep(LOOK).await;
        }
    };
    tokio::time::timeout(PATIENCE, sent).await.expect("the row is sent");
}

#[tokio::test]
async fn the_quick_start_works_in_postgres() {
    a_new_user_sees_an_event_arrive("postgres", "postgres").await;
}

#[tokio::test]
async fn the_quick_start_works_in_mysql() {
    a_new_user_sees_an_event_arrive("mysql", "mysql").await;
}

#[tokio::test]
async fn the_quick_start_works_in_mariadb() {
    a_new_user_sees_an_event_arrive("mariadb", "mysql").await;
}
