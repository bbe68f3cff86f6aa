//! The world itself: each server that it names answers.

use std::process::Command;
use std::time::Duration;

use fantoccini::ClientBuilder;
use hyper_util::client::legacy::connect::HttpConnector;
use it::world::need;
use serde_json::json;
use sqlx::{Connection, Executor, MySqlConnection};

#[test]
fn postgres_answers() {
    for (name, major) in [("postgres-13", "13."), ("postgres", "15."), ("postgres-18", "18.")] {
        let postgres = need(name);
        assert!(postgres.version.starts_with(major), "{name}: {}", postgres.version);
        let url = postgres.detail("url");
        let asked = Command::new(postgres.detail("psql"))
            .args(["--no-psqlrc", "--tuples-only", "--no-align", "--dbname", url])
            .args(["--command", "SHOW server_version", "--command", "SHOW wal_level"])
            .output()
            .unwrap();
        let answer = String::from_utf8(asked.stdout).unwrap();
        let mut lines = answer.lines();
        let version = lines.next().and_then(|line| line.split(' ').next());
        assert_eq!(version, Some(postgres.version.as_str()), "{:?}", asked.stderr);
        assert_eq!(lines.next(), Some("logical"), "later tests decode its log");
    }
}

#[tokio::test]
async fn mysql_and_both_mariadbs_answer() {
    let servers = [("mysql", "9."), ("mariadb", "10.11."), ("mariadb-10.5", "10.5.")];
    for (name, release) in servers {
        let server = need(name);
        assert!(server.version.starts_with(release), "{name}: {}", server.version);
        let mut session = MySqlConnection::connect(server.detail("url")).await.unwrap();
        let ask = "SELECT CONCAT_WS(' ', VERSION(), @@binlog_format, IF(@@log_bin, 'on', 'off'))";
        let answer: String = sqlx::query_scalar(ask).fetch_one(&mut session).await.unwrap();
        assert!(answer.starts_with(release), "{name}: {answer}");
        assert!(answer.ends_with(" ROW on"), "later tests read its log: {answer}");
        session.execute("CREATE DATABASE its_own").await.unwrap();
        session.execute("DROP DATABASE its_own").await.unwrap();
    }
}

#[tokio::test]
async fn a_browser_opens_a_page() {
    let chromium = need("chromium");
    let args: Vec<_> = chromium.detail("args").split(' ').collect();
    let options = json!({ "binary": chromium.detail("browser"), "args": args });
    let wanted = json!({ "goog:chromeOptions": options });
    let browser = ClientBuilder::new(HttpConnector::new())
        .capabilities(wanted.as_object().cloned().unwrap())
        .connect(chromium.detail("url"))
        .await
        .unwrap();
    let page = "data:text/html,<title>closed</title><script>document.title='open'</script>";
    browser.goto(page).await.unwrap();
    let title = tokio::time::timeout(Duration::from_secs(30), browser.title()).await;
    assert_eq!(title.unwrap().unwrap(), "open");
    browser.close().await.unwrap();
}
