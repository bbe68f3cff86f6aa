//! Other sites: what a visitor's browser carries over from them changes nothing.

use std::net::SocketAddr;

use anyhow::{Context, Result};
use axum::Router;
use axum::response::Html;
use event::Event;
use it::browser::Browser;
use it::console::Console;
use it::raw;
use serde_json::Value;
use tokio::net::TcpListener;

use super::paid;

const TOKEN: &str = "a-long-enough-token";

#[tokio::test]
async fn a_page_of_another_origin_changes_nothing() -> Result<()> {
    let console = Console::start().await?;
    attack(&console, &Browser::open(&console.url("")).await?).await
}

#[tokio::test]
async fn a_page_of_another_origin_changes_nothing_for_who_is_signed_in() -> Result<()> {
    let console = Console::with_token(TOKEN).await?;
    let browser = Browser::open(&console.url("")).await?;
    browser.go("/").await?;
    browser.fill("#token", TOKEN).await?;
    browser.click("#login button").await?;
    browser.says("h1", "Overview").await?;
    attack(&console, &browser).await
}

/// Lets pages of the same site and of another one try everything that a page can.
async fn attack(console: &Console, browser: &Browser) -> Result<()> {
    let dead = paid("bad-1");
    console.put(std::slice::from_ref(&dead)).await?;
    console.settled(1).await?;
    let evil = stranger(console.address, &dead).await?;
    console.relent();
    for host in ["127.0.0.1", "localhost"] {
        browser.traffic("").await?;
        browser.go(&format!("http://{host}:{}/", evil.port())).await?;
        browser.until("window.done").await?;
        let answers = browser.traffic("Network.responseReceivedExtraInfo").await?;
        let refused = answers.iter().filter(|it| it["params"]["statusCode"] == 403).count();
        assert_eq!(refused, 4, "three requests and one preflight: {}", statuses(&answers));
        browser.click("button").await?;
        browser.until("document.querySelector('#problem')?.dataset.code").await?;
        assert!(browser.text("#problem").await?.contains("not another site"), "from {host}");
        let counts = console.site.counts().await?;
        assert_eq!((counts.dead, counts.sent), (1, 0), "a page of {host} requeued");
    }
    Ok(())
}

fn statuses(answers: &[Value]) -> Value {
    answers.iter().map(|answer| answer["params"]["statusCode"].clone()).collect()
}

/// Serves a page that requeues wherever it is let.
async fn stranger(console: SocketAddr, dead: &Event) -> Result<SocketAddr> {
    let listener = TcpListener::bind("127.0.0.1:0").await?;
    let address = listener.local_addr()?;
    let id = dead.id;
    let page = format!(
        r#"<!doctype html><title>A stranger</title>
        <form method="post" action="http://{console}/dead/requeue">
          <input name="outbox" value="orders"><input name="pick" value="{id}"><button>Win</button>
        </form>
        <script>
          const to = "http://{console}/api/v1/requeue";
          const body = JSON.stringify({{ ids: ["{id}"] }});
          const send = (more) => fetch(to, {{ method: "POST", body, ...more }}).catch(() => 0);
          const form = new URLSearchParams({{ outbox: "orders", pick: "{id}", form: "" }});
          Promise.all([
            send({{ mode: "no-cors" }}),
            send({{ mode: "no-cors", credentials: "include" }}),
            send({{ headers: {{ "x-postbox": "1" }}, credentials: "include" }}),
            fetch("http://{console}/dead/requeue",
              {{ method: "POST", mode: "no-cors", credentials: "include", body: form }})
              .catch(() => 0),
          ]).then(() => (window.done = true));
        </script>"#
    );
    let app = Router::new().fallback(move || async move { Html(page) });
    tokio::spawn(async move { axum::serve(listener, app).await });
    Ok(address)
}

#[tokio::test]
async fn a_host_name_that_is_not_its_own_is_refused() -> Result<()> {
    let console = Console::start().await?;
    let port = console.address.port();
    for host in ["rebound.example", "127.0.0.1.rebound.example", "user@127.0.0.1", ""] {
        for path in ["/", "/api/v1/events", "/metrics", "/login"] {
            let lines = format!("host: {host}:{port}\r\n");
            let answer = raw::ask(console.address, "GET", path, &lines).context(host)?;
            assert!(matches!(answer.status, 400 | 421), "{host}{path}: {answer:?}");
            assert!(!answer.body.contains("Overview"), "{host}{path}: {}", answer.body);
        }
    }
    let none = raw::ask(console.address, "GET", "/", "")?;
    assert!(matches!(none.status, 400 | 421), "{none:?}");
    let lines = format!("host: localhost:{port}\r\n");
    assert_eq!(raw::ask(console.address, "GET", "/", &lines)?.status, 200);
    Ok(())
}
