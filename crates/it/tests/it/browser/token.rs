//! A console that a token opens.

use anyhow::Result;
use it::browser::Browser;
use it::console::Console;
use it::raw;

use super::paid;

const TOKEN: &str = "a-long-enough-token";

#[tokio::test]
async fn only_the_right_token_opens_the_console() -> Result<()> {
    let console = Console::with_token(TOKEN).await?;
    console.put(&[paid("k1")]).await?;
    console.settled(0).await?;
    let browser = Browser::open(&console.url("")).await?;
    for page in ["/", "/events?key=k1", "/dead", "/explain"] {
        browser.go(page).await?;
        assert!(browser.path().await?.starts_with("/login?next="), "{page} is open");
    }
    browser.go("/events?key=k1").await?;
    enter(&browser, "a-wrong-token").await?;
    browser.says("#login-error", "That is not the token.").await?;
    assert_eq!(browser.path().await?, "/login");
    enter(&browser, TOKEN).await?;
    browser.arrives("/events?key=k1").await?;
    assert_eq!(browser.texts("#events tr[data-event]").await?.len(), 1);
    assert_eq!(browser.ask("document.cookie").await?, "", "a script can read the session");

    browser.click("#logout").await?;
    browser.arrives("/login").await?;
    browser.go("/events").await?;
    assert!(browser.path().await?.starts_with("/login"), "the session outlives its end");
    Ok(())
}

#[tokio::test]
async fn programs_carry_the_token_themselves_and_health_needs_none() -> Result<()> {
    let console = Console::with_token(TOKEN).await?;
    let (right, wrong) = (bearer(TOKEN), bearer("a-wrong-token"));
    for path in ["/metrics", "/api/v1/events", "/live", "/api/v1/openapi.json"] {
        assert_eq!(raw::get(console.address, path, "")?.status, 401, "{path}");
        assert_eq!(raw::get(console.address, path, &wrong)?.status, 401, "{path}");
    }
    let metrics = raw::get(console.address, "/metrics", &right)?;
    assert_eq!(metrics.status, 200);
    assert!(metrics.body.contains("# TYPE postbox_"), "{}", metrics.body);
    assert_eq!(raw::get(console.address, "/livez", "")?.body, "ok\n");
    assert_eq!(raw::get(console.address, "/readyz", "")?.status, 200);
    Ok(())
}

async fn enter(browser: &Browser, token: &str) -> Result<()> {
    browser.fill("#token", token).await?;
    browser.click("#login button").await
}

fn bearer(token: &str) -> String {
    format!("authorization: Bearer {token}\r\n")
}
