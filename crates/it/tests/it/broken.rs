//! An outbox whose database is broken costs no other outbox of its relay, is told, and comes back
//! by itself once somebody has mended it.

use std::net::SocketAddr;
use std::time::{Duration, Instant};

use it::process::Process;
use it::raw;
use it::receiver::{Arrival, Receiver, willing};
use it::session::Session;
use it::site::Site;
use it::world::need;
use tempfile::TempDir;

const PATIENCE: Duration = Duration::from_secs(60);
/// What the relay says of an outbox that is broken.
const TOLD: &str = "outbox is broken";

#[tokio::test]
async fn a_postgres_that_loses_its_table_stops_no_other_and_comes_back_by_itself() {
    a_database_that_loses_its_table_stops_no_other("postgres").await;
}

#[tokio::test]
async fn a_mysql_that_loses_its_table_stops_no_other_and_comes_back_by_itself() {
    a_database_that_loses_its_table_stops_no_other("mysql").await;
}

async fn a_database_that_loses_its_table_stops_no_other(server: &str) {
    let shards = Shards::make(server).await;
    shards.migrate("orders").await;
    let [first, ill, last] = shards.sites().await;
    let mut relay = Process::start(shards.folder.path(), "relay", &["run"]).unwrap();
    let console = relay.console(PATIENCE).await.unwrap();
    for site in [&first, &ill, &last] {
        shards.flows(site).await;
    }
    until_ready(console, 200, "ready").await;

    let mut session = Session::open(&shards.url(1)).await.unwrap();
    session.run("ALTER TABLE outbox RENAME TO gone").await.unwrap();
    relay.says(TOLD, PATIENCE).await.unwrap();
    for _ in 0..3 {
        shards.flows(&first).await;
        shards.flows(&last).await;
    }
    until_ready(console, 503, "not ready: orders_1: schema-missing\n").await;
    let pulse = raw::get(console, "/api/v1/pulse", "").unwrap().body;
    let lane = r#"{"outbox":"orders_1","sink":"stock","state":"broken","cause":{"code":"schema-"#;
    assert!(pulse.contains(lane), "{pulse}");
    assert_eq!(pulse.matches(r#""state":"broken""#).count(), 1, "{pulse}");
    let page = raw::get(console, "/metrics", "").unwrap().body;
    assert!(page.contains("postbox_lane_up{outbox=\"orders_1\",sink=\"stock\"} 0"), "{page}");

    session.run("ALTER TABLE gone RENAME TO outbox").await.unwrap();
    relay.says("its database was mended", PATIENCE).await.unwrap();
    for site in [&ill, &first, &last] {
        shards.flows(site).await;
    }
    until_ready(console, 200, "ready").await;
    let log = relay.log();
    assert_eq!(log.matches(TOLD).count(), 1, "it is told once:\n{log}");
    let told = log.lines().find(|line| line.contains(TOLD)).unwrap();
    for part in ["ERROR", "orders_1", "schema-missing", "postbox explain schema-missing"] {
        assert!(told.contains(part), "{part} is not in {told}");
    }
}

#[tokio::test]
async fn an_outbox_without_tables_joins_its_running_relay_once_it_is_migrated() {
    let shards = Shards::make("postgres").await;
    let mut none = Process::start(shards.folder.path(), "none", &["run"]).unwrap();
    assert_eq!(none.ends(PATIENCE).await.unwrap().code(), Some(1), "nothing works");
    assert!(none.log().contains("postbox explain schema-missing"), "{}", none.log());

    for name in ["orders_0", "orders_2"] {
        shards.migrate(name).await;
    }
    let mut relay = Process::start(shards.folder.path(), "relay", &["run"]).unwrap();
    let console = relay.console(PATIENCE).await.unwrap();
    relay.says(TOLD, PATIENCE).await.unwrap();
    for shard in [0, 2] {
        shards.flows(&Site::on(&shards.url(shard), PATIENCE).await.unwrap()).await;
    }
    until_ready(console, 503, "not ready: orders_1: schema-missing\n").await;

    shards.migrate("orders_1").await;
    shards.flows(&Site::on(&shards.url(1), PATIENCE).await.unwrap()).await;
    until_ready(console, 200, "ready").await;
    assert_eq!(relay.log().matches(TOLD).count(), 1, "{}", relay.log());
}

#[tokio::test]
async fn tables_of_postgres_that_are_made_anew_are_taken_up() {
    tables_that_are_made_anew_are_taken_up("postgres").await;
}

#[tokio::test]
async fn tables_of_mysql_that_are_made_anew_are_taken_up() {
    tables_that_are_made_anew_are_taken_up("mysql").await;
}

async fn tables_that_are_made_anew_are_taken_up(server: &str) {
    const PARTS: [&str; 8] =
        ["", "_later", "_dead", "_sent", "_lease", "_tally", "_relay", "_inbox"];
    let shards = Shards::make(server).await;
    shards.migrate("orders").await;
    let [first, ill, _] = shards.sites().await;
    let mut relay = Process::start(shards.folder.path(), "relay", &["run"]).unwrap();
    for _ in 0..3 {
        shards.flows(&ill).await;
    }
    let mut session = Session::open(&shards.url(1)).await.unwrap();
    session.run("DROP VIEW outbox_events").await.unwrap();
    let tables = PARTS.map(|part| format!("outbox{part}")).join(", ");
    session.run(format!("DROP TABLE {tables}, outbox_schema")).await.unwrap();
    relay.says(TOLD, PATIENCE).await.unwrap();
    shards.migrate("orders_1").await;
    shards.flows(&Site::on(&shards.url(1), PATIENCE).await.unwrap()).await;
    shards.flows(&first).await;
}

/// Three databases of one server, and one relay's config for them.
struct Shards {
    address: String,
    base: String,
    receiver: Receiver,
    folder: TempDir,
}

impl Shards {
    async fn make(server: &str) -> Shards {
        let server = need(server);
        let (address, _) = server.detail("url").rsplit_once('/').unwrap();
        let base = format!("n{:08x}", fastrand::u32(..));
        let mut session = Session::open(server.detail("url")).await.unwrap();
        for shard in 0..3 {
            session.run(format!("CREATE DATABASE {base}_{shard}")).await.unwrap();
        }
        let receiver = Receiver::start(willing()).await.unwrap();
        let folder = tempfile::tempdir().unwrap();
        let text = format!(
            "[outbox.orders]\nurl = \"{address}/{base}_{{0..2}}\"\nidle = \"100ms\"\n\
             [sink.stock]\nkind = \"http\"\nurl = \"{}\"\nallow_private = true\n\
             [[route]]\ntopic = \"*\"\nsink = \"stock\"\n\
             [admin]\nlisten = \"127.0.0.1:0\"\nsample = \"200ms\"\n",
            receiver.url("a")
        );
        std::fs::write(folder.path().join("postbox.toml"), text).unwrap();
        Shards { address: address.to_owned(), base, receiver, folder }
    }

    fn url(&self, shard: usize) -> String {
        format!("{}/{}_{shard}", self.address, self.base)
    }

    /// Makes the tables of one outbox, or of all.
    async fn migrate(&self, outbox: &str) {
        let one = ["migrate", "--outbox", outbox];
        let args = if outbox == "orders" { &one[..1] } else { &one[..] };
        let mut migrates = Process::start(self.folder.path(), "migrate", args).unwrap();
        assert!(migrates.ends(PATIENCE).await.unwrap().success(), "{}", migrates.log());
    }

    async fn sites(&self) -> [Site; 3] {
        let mut sites = Vec::new();
        for shard in 0..3 {
            sites.push(Site::on(&self.url(shard), PATIENCE).await.unwrap());
        }
        sites.try_into().ok().unwrap()
    }

    /// Puts an event, and waits until it was published.
    async fn flows(&self, site: &Site) {
        let id = site.put(1, 1).await.unwrap()[0].id.to_string();
        let came = |all: &[Arrival]| all.iter().any(|it| it.id == id).then_some(());
        self.receiver.until("an outbox's event", PATIENCE, came).await.unwrap();
    }
}

/// Waits until the relay says that it is ready, or why it is not.
async fn until_ready(console: SocketAddr, status: u16, text: &str) {
    let until = Instant::now() + PATIENCE;
    loop {
        let answer = raw::get(console, "/readyz", "").unwrap();
        if answer.status == status && answer.body.starts_with(text) {
            return;
        }
        assert!(Instant::now() < until, "{text} is not said: {answer:?}");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}
