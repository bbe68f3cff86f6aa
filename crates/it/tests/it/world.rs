//! The world itself: each server that it names answers.

use std::process::Command;
use std::time::Duration;

use fantoccini::ClientBuilder;
use hyper_util::client::legacy::connect::HttpConnector;
use it::world::need;
use serde_json::json;

#[test]
fn postgres_answers() {
    let postgres = need("postgres");
    let asked = Command::new(postgres.detail("psql"))
        .args(["--no-psqlrc", "--tuples-only", "--no-align", "--dbname", postgres.detail("url")])
        .args(["--command", "SHOW server_version", "--command", "SHOW wal_level"])
        .output()
        .unwrap();
    let answer = String::from_utf8(asked.stdout).unwrap();
    let mut lines = answer.lines();
    let version = lines.next().and_then(|line| line.split(' ').next());
    assert_eq!(version, Some(postgres.version.as_str()), "{:?}", asked.stderr);
    assert_eq!(lines.next(), Some("logical"), "later tests decode its log");
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
