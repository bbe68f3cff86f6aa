//! Pages that ask nobody else for anything and give the browser nothing to complain of.

use anyhow::Result;
use it::browser::Browser;
use it::console::Console;
use it::raw;
use url::Url;

use super::Busy;

const TOKEN: &str = "a-long-enough-token";

#[tokio::test]
async fn no_page_asks_another_host_or_makes_the_browser_complain() -> Result<()> {
    let busy = Busy::start().await?;
    let browser = Browser::open(&busy.console.url("")).await?;
    for (_, path) in busy.pages() {
        browser.go(&path).await?;
        browser.until("document.readyState === 'complete'").await?;
    }
    browser.go("/").await?;
    browser.says("#live", "Live").await?;
    browser.go(&format!("/events/{}", busy.dead.id)).await?;
    browser.click("#payload-show").await?;
    browser.until("!document.querySelector('#payload-text').hidden").await?;
    browser.click("#requeue-one").await?;
    browser.until("!document.querySelector('#ask-yes').disabled").await?;
    silence(&busy.console, &browser).await?;

    let stranger = "<img src='http://localhost:9/canary.png'>";
    browser.ask(&format!("document.body.insertAdjacentHTML('beforeend', `{stranger}`)")).await?;
    let complaints = browser.complaints().await?;
    let seen = complaints.iter().any(|it| it.contains("Content Security Policy"));
    assert!(seen, "a violation would go unseen: {complaints:?}");
    Ok(())
}

#[tokio::test]
async fn signing_in_is_as_quiet() -> Result<()> {
    let console = Console::with_token(TOKEN).await?;
    let browser = Browser::open(&console.url("")).await?;
    browser.go("/").await?;
    browser.picture("login-light-desk").await?;
    browser.fill("#token", TOKEN).await?;
    browser.click("#login button").await?;
    browser.says("#live", "Live").await?;
    silence(&console, &browser).await
}

#[tokio::test]
async fn every_answer_forbids_what_a_page_does_not_need() -> Result<()> {
    let busy = Busy::start().await?;
    let mut paths: Vec<String> = busy.pages().into_iter().map(|(_, path)| path).collect();
    paths.extend(["/nowhere", "/api/v1/events", "/metrics", "/livez"].map(str::to_owned));
    for path in paths {
        let answer = raw::get(busy.console.address, &path, "")?;
        let policy = answer.header("content-security-policy").unwrap_or_default();
        assert!(policy.contains("default-src 'none'"), "{path}: {policy}");
        assert!(policy.contains("frame-ancestors 'none'"), "{path}: {policy}");
        assert!(!policy.contains("unsafe"), "{path}: {policy}");
        assert_eq!(answer.header("x-content-type-options"), Some("nosniff"), "{path}");
        assert_eq!(answer.header("cache-control"), Some("no-store"), "{path}");
    }
    Ok(())
}

/// Checks that until now only the console was asked, and nothing was complained of.
async fn silence(console: &Console, browser: &Browser) -> Result<()> {
    let mut asked = 0;
    for request in browser.traffic("Network.requestWillBeSent").await? {
        let url = Url::parse(request["params"]["request"]["url"].as_str().unwrap_or_default())?;
        if url.scheme() != "data" {
            let at = (url.host_str(), url.port());
            let home = (Some("127.0.0.1"), Some(console.address.port()));
            assert_eq!(at, home, "a page asked for {url}");
            asked += 1;
        }
    }
    assert!(asked > 5, "the browser does not tell what it asks for");
    assert_eq!(browser.complaints().await?, [""; 0]);
    Ok(())
}
