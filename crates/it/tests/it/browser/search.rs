//! A search is an address: it can be kept, shared, gone back to.

use std::collections::BTreeSet;

use anyhow::Result;
use event::Event;
use it::browser::Browser;
use it::console::Console;

use super::paid;

const SEARCH: &str = "#filter button[type=submit]";

#[tokio::test]
async fn a_search_is_in_the_address_and_survives_a_reload_and_the_way_back() -> Result<()> {
    let console = Console::start().await?;
    let mut events: Vec<Event> = (0..8).map(|n| paid(&format!("k{n}"))).collect();
    let shipped = Event::new("order.shipped", "Order shipped", "{}").key("k7 & more");
    events.push(shipped.clone());
    events.push(paid("bad-1"));
    console.put(&events).await?;
    console.settled(1).await?;
    let browser = Browser::open(&console.url("")).await?;
    browser.go("/events").await?;
    assert_eq!(ids(&browser).await?.len(), 10);

    search(&browser, "#f-key", "k7").await?;
    browser.arrives("/events?key=k7").await?;
    assert_eq!(ids(&browser).await?, [events[7].id.to_string()]);
    browser.reload().await?;
    assert_eq!(ids(&browser).await?, [events[7].id.to_string()]);

    browser.follow("#clear").await?;
    search(&browser, "#f-type", "Order shipped").await?;
    browser.arrives("/events?type=Order+shipped").await?;
    assert_eq!(ids(&browser).await?, [shipped.id.to_string()]);
    search(&browser, "#f-key", "k7 & more").await?;
    browser.arrives("/events?key=k7+%26+more&type=Order+shipped").await?;
    assert_eq!(ids(&browser).await?, [shipped.id.to_string()]);

    browser.back().await?;
    browser.arrives("/events?type=Order+shipped").await?;
    browser.back().await?;
    browser.arrives("/events").await?;
    browser.back().await?;
    browser.arrives("/events?key=k7").await?;
    assert_eq!(browser.ask("document.querySelector('#f-key').value").await?, "k7");
    assert_eq!(ids(&browser).await?, [events[7].id.to_string()]);

    browser.go("/events").await?;
    let id = events[3].id.to_string();
    search(&browser, "#f-id", &id).await?;
    browser.arrives(&format!("/events?id={id}")).await?;
    assert_eq!(ids(&browser).await?, [id]);
    browser.follow("#events tbody a").await?;
    assert_eq!(browser.text("#event code").await?, events[3].id.to_string());
    Ok(())
}

#[tokio::test]
async fn a_search_says_what_is_wrong_and_when_nothing_is_found() -> Result<()> {
    let console = Console::start().await?;
    console.put(&[paid("k1"), paid("bad-1")]).await?;
    console.settled(1).await?;
    let browser = Browser::open(&console.url("")).await?;
    browser.go("/events").await?;
    search(&browser, "#f-id", "k1").await?;
    browser.arrives("/events?id=k1").await?;
    assert!(browser.text("#field-error").await?.starts_with("id: "));
    assert!(ids(&browser).await?.is_empty());
    browser.follow("#clear").await?;
    search(&browser, "#f-key", "nobody").await?;
    browser.arrives("/events?key=nobody").await?;
    assert!(browser.text("#empty").await?.contains("No event matches"));

    browser.go("/events").await?;
    browser.follow("#statuses a[href='/events?status=DEAD']").await?;
    assert_eq!(browser.texts("#events td[data-label=Status]").await?, ["DEAD"]);
    search(&browser, "#f-key", "k1").await?;
    browser.arrives("/events?key=k1&status=DEAD").await?;
    assert!(ids(&browser).await?.is_empty());
    Ok(())
}

#[tokio::test]
async fn pages_of_a_list_are_whole_and_lead_on() -> Result<()> {
    let console = Console::start().await?;
    let events: Vec<Event> = (0..120).map(|n| paid(&format!("k{n}"))).collect();
    console.put(&events).await?;
    console.settled(0).await?;
    let browser = Browser::open(&console.url("")).await?;
    browser.go("/events?topic=order.paid").await?;
    let mut seen = BTreeSet::new();
    for page in [50, 50, 20] {
        let ids = ids(&browser).await?;
        assert_eq!(ids.len(), page);
        seen.extend(ids);
        if page == 50 {
            browser.follow("#page-next").await?;
            assert!(browser.path().await?.starts_with("/events?topic=order.paid&after="));
        }
    }
    assert_eq!(seen, events.iter().map(|event| event.id.to_string()).collect());
    assert!(browser.texts("#page-next").await?.is_empty());
    browser.follow("#page-first").await?;
    assert_eq!(browser.path().await?, "/events?topic=order.paid");

    let without_scripts = it::raw::get(console.address, "/events?limit=500", "")?.body;
    assert_eq!(without_scripts.matches("<tr data-event=").count(), 120);
    assert!(events.iter().all(|event| without_scripts.contains(&event.id.to_string())));
    Ok(())
}

async fn search(browser: &Browser, field: &str, text: &str) -> Result<()> {
    browser.fill(field, text).await?;
    browser.click(SEARCH).await
}

async fn ids(browser: &Browser) -> Result<Vec<String>> {
    browser.texts("#events tr[data-event] .id code").await
}
