//! The dead board: what a person requeues is exactly what they were told, and arrives.

use anyhow::Result;
use event::{Event, Status};
use it::browser::Browser;
use it::console::Console;
use serde_json::json;

use super::paid;

#[tokio::test]
async fn picked_events_are_requeued_and_no_other() -> Result<()> {
    let (console, events) = morgue().await?;
    let browser = Browser::open(&console.url("")).await?;
    console.relent();

    browser.go("/dead").await?;
    assert!(browser.ask("document.querySelector('#requeue-picked').disabled").await? == true);
    pick(&browser, &events[..1]).await?;
    browser.says("#picked", "1 event picked").await?;
    browser.click("#requeue-picked").await?;
    browser.says("#ask-text", "1 event will be due again.").await?;
    browser.click("#ask-no").await?;
    assert_eq!(browser.ask("document.querySelector('#ask').open").await?, false);
    assert_eq!(console.row(&events[0]).await?.status, Status::Dead, "it was cancelled");
    browser.click("#requeue-picked").await?;
    confirm(&browser, "1 event").await?;
    console.settled(5).await?;

    pick(&browser, &events[1..3]).await?;
    browser.says("#picked", "2 events picked").await?;
    browser.click("#requeue-picked").await?;
    browser.says("#ask-text", "2 events will be due again.").await?;
    confirm(&browser, "2 events").await?;
    console.settled(3).await?;

    for (at, event) in events.iter().enumerate() {
        let wanted = if at < 3 { Status::Sent } else { Status::Dead };
        assert_eq!(console.row(event).await?.status, wanted, "{at}");
    }
    browser.reload().await?;
    assert_eq!(browser.texts("#board tr[data-event]").await?.len(), 3);
    assert_eq!(browser.text("#dead-badge").await?, "3");
    Ok(())
}

#[tokio::test]
async fn all_that_a_filter_finds_is_requeued_up_to_the_limit_and_no_other() -> Result<()> {
    let (console, events) = morgue().await?;
    let browser = Browser::open(&console.url("")).await?;
    console.relent();

    browser.go("/dead").await?;
    browser.follow("#groups tr[data-code=sink-refused] a").await?;
    assert_eq!(browser.path().await?, "/dead?topic=order.paid&code=sink-refused");
    assert_eq!(browser.texts("#board tr[data-event]").await?.len(), 4);
    assert_eq!(browser.text("#requeue-all").await?, "Requeue all that match");
    browser.click("#requeue-all").await?;
    browser.says("#ask-text", "4 events will be due again.").await?;
    browser.fill("#ask-limit", "3").await?;
    browser
        .says("#ask-text", "3 events will be due again. The filter finds more than that.")
        .await?;
    let before = console.site.counts().await?;
    assert_eq!((before.dead, before.sent), (6, 0), "a dry run changed something");
    browser.click("#ask-yes").await?;
    browser
        .says("#flash", "3 events requeued. The filter still finds more dead events.\n×")
        .await?;
    console.settled(3).await?;

    browser.click("#requeue-all").await?;
    browser.says("#ask-text", "1 event will be due again.").await?;
    confirm(&browser, "1 event").await?;
    console.settled(2).await?;
    for event in &events {
        let refused = event.key.as_deref().is_some_and(|key| key.starts_with("bad"));
        let wanted = if refused { Status::Sent } else { Status::Dead };
        assert_eq!(console.row(event).await?.status, wanted, "{event:?}");
    }
    assert!(browser.text("#empty").await?.contains("No dead event matches"));
    Ok(())
}

#[tokio::test]
async fn without_scripts_the_board_asks_first_and_then_requeues() -> Result<()> {
    let (console, events) = morgue().await?;
    let browser = Browser::open(&console.url("")).await?;
    browser.devtools("Emulation.setScriptExecutionDisabled", json!({ "value": true })).await?;
    console.relent();

    browser.go("/dead").await?;
    pick(&browser, &events[..2]).await?;
    browser.click("#requeue-picked").await?;
    browser.says("#would h2", "2 events will be due again").await?;
    assert_eq!(console.site.counts().await?.dead, 6, "a GET changed something");
    browser.click("#confirm").await?;
    browser.says("#did h2", "2 events requeued").await?;
    console.settled(4).await?;
    browser.follow("#back").await?;
    assert_eq!(browser.texts("#board tr[data-event]").await?.len(), 4);

    browser.click("#requeue-all").await?;
    browser.says("#would h2", "4 events will be due again").await?;
    let most = "document.querySelector('input[name=count]').value";
    assert_eq!(browser.ask(most).await?, "4", "as many as there are");
    browser.click("#confirm").await?;
    browser.says("#did h2", "4 events requeued").await?;
    // One of them has no route, whoever relents.
    console.settled(1).await
}

/// A console with six dead events: four rejected, one out of attempts, one without a route.
async fn morgue() -> Result<(Console, Vec<Event>)> {
    let console = Console::start().await?;
    let mut events: Vec<Event> = (0..4).map(|n| paid(&format!("bad-{n}"))).collect();
    events.push(paid("busy-1"));
    events.push(Event::new("mail.wanted", "MailWanted", "{}"));
    console.put(&events).await?;
    console.settled(6).await?;
    Ok((console, events))
}

async fn pick(browser: &Browser, events: &[Event]) -> Result<()> {
    for event in events {
        browser.click(&format!("#board input[value='{}']", event.id)).await?;
    }
    Ok(())
}

/// Says yes, and waits until the page says what was done.
async fn confirm(browser: &Browser, what: &str) -> Result<()> {
    browser.says("#ask-yes", &format!("Requeue {what}")).await?;
    browser.click("#ask-yes").await?;
    browser.says("#flash", &format!("{what} requeued.\n×")).await
}
