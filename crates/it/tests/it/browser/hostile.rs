//! Events, destinations and addresses that try to be a script. The page's own policy is switched
//! off here, so that nothing but the way pages are written stands between them and the visitor.

use anyhow::{Result, ensure};
use axum::Router;
use axum::http::{HeaderMap, StatusCode};
use axum::response::{IntoResponse, Response};
use event::Event;
use it::browser::Browser;
use it::console::serve;
use it::site::Site;
use serde_json::json;
use tokio::net::TcpListener;

const EVIL: [&str; 3] = [
    "<script>window.pwned=1</script>",
    "\"><img src=x onerror=window.pwned=1>",
    "'</textarea></title><svg onload=window.pwned=1>",
];

/// What no page of the console has.
const STRAY: &str = "document.querySelector('script:not([src]), img, [onload], [onerror]')";

#[tokio::test]
async fn nothing_that_tries_to_be_a_script_becomes_one() -> Result<()> {
    let site = Site::new().await?;
    let (address, _relay) = serve(&site, &destination().await?, "").await?;
    let events: Vec<Event> = EVIL.iter().flat_map(|evil| hostile(evil)).collect();
    site.outbox.put(&events, None).await?;
    let all = |counts: &event::Counts| counts.dead == 6 && counts.sent == 3;
    site.until("all settled", std::time::Duration::from_secs(30), all).await?;
    let browser = Browser::open(&format!("http://{address}")).await?;
    browser.devtools("Page.enable", json!({})).await?;
    browser.devtools("Page.setBypassCSP", json!({ "enabled": true })).await?;

    for event in &events {
        visit(&browser, &format!("/events/{}", event.id)).await?;
        page_is_literal(&browser, event).await?;
    }
    for evil in EVIL {
        let coded: String = url::form_urlencoded::byte_serialize(evil.as_bytes()).collect();
        let lists = ["/events", "/dead"].map(|list| format!("{list}?key={coded}&type={coded}"));
        for path in lists {
            visit(&browser, &path).await?;
            let typed = "[...document.querySelectorAll('#f-key, #f-type')].map((it) => it.value)";
            assert_eq!(browser.ask(typed).await?, json!([evil, evil]), "{path}");
            let shown = browser.text("tr[data-event] td[data-label=Event] a").await;
            assert_eq!(shown.unwrap_or_default(), evil, "{path}");
        }
        let others = [
            format!("/events?id={coded}"),
            format!("/events?status={coded}"),
            format!("/events?{coded}=1"),
            format!("/events?outbox={coded}"),
            format!("/events/{coded}"),
            format!("/dead?topic=order.{coded}"),
            format!("/dead?code={coded}"),
            format!("/dead/requeue?outbox=orders&all=true&key={coded}"),
            format!("/explain/{coded}"),
            format!("/{coded}"),
        ];
        for path in others {
            visit(&browser, &path).await?;
        }
    }
    for path in ["/", "/events", "/dead"] {
        visit(&browser, path).await?;
    }
    browser.ask(&format!("document.body.insertAdjacentHTML('beforeend', `{}`)", EVIL[1])).await?;
    browser.until("window.pwned === 1").await
}

#[tokio::test]
async fn a_script_that_got_into_a_page_would_still_not_run() -> Result<()> {
    let site = Site::new().await?;
    let (address, _relay) = serve(&site, &destination().await?, "").await?;
    let browser = Browser::open(&format!("http://{address}")).await?;
    browser.go("/").await?;
    browser
        .ask(
            "document.addEventListener('securitypolicyviolation', (e) => \
                 (window.refused ??= []).push(e.effectiveDirective))",
        )
        .await?;
    browser.ask(&format!("document.body.insertAdjacentHTML('beforeend', `{}`)", EVIL[1])).await?;
    let script = "Object.assign(document.createElement('script'), { text: 'window.pwned = 1' })";
    browser.ask(&format!("document.body.append({script})")).await?;
    browser.until("window.refused?.includes('script-src-elem')").await?;
    browser.until("window.refused?.includes('script-src-attr')").await?;
    assert_eq!(browser.ask("typeof window.pwned").await?, "undefined");
    Ok(())
}

/// Three events that try everything: one without a route, one that is rejected, one that is taken.
fn hostile(evil: &str) -> [Event; 3] {
    let event = |topic: String| {
        let event = Event::new(topic, evil, evil).header(evil, evil);
        event.header("x", format!("{evil}!"))
    };
    [
        event(evil.to_owned()).key(format!("{evil}?")),
        event(format!("order.{evil}")).key(evil),
        event("order.taken".to_owned()).key(format!("taken {evil}")),
    ]
}

/// Starts a destination whose answers try it as well.
async fn destination() -> Result<String> {
    let listener = TcpListener::bind("127.0.0.1:0").await?;
    let address = listener.local_addr()?;
    let app = Router::new().fallback(|headers: HeaderMap| async move { answer(&headers) });
    tokio::spawn(async move { axum::serve(listener, app).await });
    Ok(format!("http://{address}/"))
}

fn answer(headers: &HeaderMap) -> Response {
    let key = headers.get("ce-subject").and_then(|key| key.to_str().ok()).unwrap_or_default();
    if key.starts_with("taken") {
        let evil = EVIL.into_iter().find(|evil| key.contains(&evil[evil.len() - 20..]));
        return (StatusCode::OK, [("x-request-id", evil.unwrap_or(EVIL[1]))]).into_response();
    }
    (StatusCode::UNPROCESSABLE_ENTITY, EVIL.join(" ")).into_response()
}

async fn visit(browser: &Browser, path: &str) -> Result<()> {
    browser.go(path).await?;
    let stray = browser.ask(&format!("{STRAY}?.outerHTML ?? null")).await?;
    ensure!(stray.is_null(), "{path} holds {stray}");
    let pwned = browser.ask("typeof window.pwned").await?;
    ensure!(pwned == "undefined", "a script ran on {path}");
    Ok(())
}

/// Checks that an event's page says everything letter by letter.
async fn page_is_literal(browser: &Browser, event: &Event) -> Result<()> {
    let title = browser.text("h1").await?;
    assert!(title.starts_with(&event.kind), "{title}");
    let facts = browser.text(".facts").await?;
    assert!(facts.contains(&event.topic), "{facts}");
    assert!(facts.contains(event.key.as_deref().unwrap_or_default()), "{facts}");
    let headers = browser.text("#headers").await?;
    assert!(headers.contains(&format!("{}!", event.kind)), "{headers}");
    assert_eq!(headers.matches(&event.kind).count(), 3, "{headers}");
    let timeline = browser.text("#timeline").await?;
    if event.topic.starts_with("order.") {
        assert!(EVIL.iter().any(|evil| timeline.contains(evil)), "{timeline}");
    }
    browser.click("#payload-show").await?;
    browser.says("#payload-text", &event.kind).await
}
