//! Everything can be reached, seen and done without a mouse.

use anyhow::{Result, ensure};
use fantoccini::key::Key;
use it::browser::Browser;

use super::Busy;

/// Names what has the focus, and tells whether that can be seen.
const FOCUS: &str = "((it) => {
    const [style, box] = [getComputedStyle(it), it.getBoundingClientRect()];
    const ring = style.outlineStyle !== 'none' && parseFloat(style.outlineWidth) >= 1;
    const name = it.id || it.getAttribute('href') || it.className || it.tagName;
    return [name, ring && box.right > 0 && box.bottom > 0];
  })(document.activeElement)";

#[tokio::test]
async fn the_keyboard_reaches_everything_in_order_and_shows_where_it_is() -> Result<()> {
    let busy = Busy::start().await?;
    let browser = Browser::open(&busy.console.url("")).await?;
    browser.go("/dead").await?;
    let reached = tour(&browser).await?;
    assert_eq!(reached[0], "#main", "the way past the navigation comes first");
    let path = format!("/events/{}?outbox=orders", busy.dead.id);
    let wanted = ["nav-events", "theme", "f-key", "requeue-all", "pick-all", &path];
    let places = wanted.map(|name| reached.iter().position(|it| it == name));
    assert!(places.is_sorted() && places[0].is_some(), "{wanted:?} {places:?} in {reached:#?}");

    for (_, page) in busy.pages() {
        browser.go(&page).await?;
        assert_eq!(tour(&browser).await?[0], "#main", "{page}");
    }
    browser.go("/events").await?;
    browser.press(Key::Tab).await?;
    browser.press(Key::Enter).await?;
    browser.until("document.activeElement.id === 'main'").await?;
    browser.press(Key::Tab).await?;
    assert_eq!(browser.ask("document.activeElement.id").await?, "f-id");
    Ok(())
}

#[tokio::test]
async fn a_requeue_can_be_called_off_and_done_by_keyboard() -> Result<()> {
    let busy = Busy::start().await?;
    let browser = Browser::open(&busy.console.url("")).await?;
    let open = "document.querySelector('#ask').open";
    browser.go(&format!("/events/{}", busy.dead.id)).await?;
    browser.ask("document.querySelector('#requeue-one').focus()").await?;
    browser.press(Key::Enter).await?;
    browser.until(open).await?;
    browser.until("document.querySelector('#ask').contains(document.activeElement)").await?;
    browser.until("!document.querySelector('#ask-yes').disabled").await?;
    browser.press(Key::Escape).await?;
    browser.until(&format!("!{open}")).await?;
    assert_eq!(browser.ask("document.activeElement.id").await?, "requeue-one");
    assert_eq!(busy.console.site.counts().await?.dead, 9, "it was called off");

    busy.console.relent();
    browser.press(Key::Enter).await?;
    browser.until("!document.querySelector('#ask-yes').disabled").await?;
    for _ in 0..5 {
        if browser.ask("document.activeElement.id").await? == "ask-yes" {
            break;
        }
        browser.press(Key::Tab).await?;
    }
    assert_eq!(browser.ask("document.activeElement.id").await?, "ask-yes");
    browser.press(Key::Enter).await?;
    browser.says("#flash", "1 event requeued.\n×").await
}

/// Goes through the page with the tab key, and returns what had the focus.
async fn tour(browser: &Browser) -> Result<Vec<String>> {
    let mut reached: Vec<String> = Vec::new();
    loop {
        browser.press(Key::Tab).await?;
        let focus = browser.ask(FOCUS).await?;
        let name = focus[0].as_str().unwrap_or_default().to_owned();
        if name == "BODY" || (name == "#main" && !reached.is_empty()) {
            return Ok(reached);
        }
        ensure!(focus[1] == true, "the focus on {name} cannot be seen, after {reached:?}");
        ensure!(reached.len() < 500, "there is no way out of {reached:?}");
        reached.push(name);
    }
}
