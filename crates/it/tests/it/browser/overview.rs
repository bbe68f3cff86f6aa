//! The overview tells what the database counts, and goes on telling it.

use std::time::Duration;

use anyhow::Result;
use event::{Counts, Millis};
use it::browser::Browser;
use it::console::Console;

use super::paid;

const PATIENCE: Duration = Duration::from_secs(30);
const PATH: &str = "document.querySelector('#chart-rate path.line')";

#[tokio::test]
async fn the_overview_counts_as_the_database_does_and_goes_on_without_a_reload() -> Result<()> {
    let console = Console::start().await?;
    let browser = Browser::open(&console.url("")).await?;
    browser.go("/").await?;
    assert!(browser.text("#first-steps").await?.contains("INSERT INTO outbox"));
    browser.says("#live", "Live").await?;
    browser.ask("window.stayed = true").await?;

    let good: Vec<_> = (0..40).map(|n| paid(&format!("k{n}"))).collect();
    console.put(&good).await?;
    console.put(&[paid("bad-1"), paid("bad-2"), paid("busy-1")]).await?;
    let due = Some(Millis(Millis::now().0 + 3_600_000));
    console.site.outbox.put(&[paid("later-1"), paid("later-2")], due).await?;
    let all = |counts: &Counts| counts.sent == 40 && counts.dead == 3 && counts.retry == 2;
    let counts = console.site.until("all settled", PATIENCE, all).await?;

    figures(&browser, &counts).await?;
    browser.until("document.querySelector('#first-steps') === null").await?;
    browser.until(&format!("{PATH}?.getTotalLength() > 10")).await?;
    browser.until(&format!("{PATH}.getBBox().height > 10")).await?;
    browser.says("#lanes tbody td[data-label=State]", "running").await?;

    console.put(&[paid("k41"), paid("bad-3")]).await?;
    let more = |counts: &Counts| counts.sent == 41 && counts.dead == 4;
    let counts = console.site.until("two more", PATIENCE, more).await?;
    figures(&browser, &counts).await?;
    assert_eq!(browser.ask("window.stayed").await?, true, "it was loaded again");

    let without_scripts = it::raw::get(console.address, "/", "")?.body;
    assert!(without_scripts.contains(r#"data-live="sent">41</p>"#), "{without_scripts}");
    Ok(())
}

/// Waits until the cards, the badge and the table all say what was counted.
async fn figures(browser: &Browser, counts: &Counts) -> Result<()> {
    let Counts { new, dispatching, retry, sent, dead, .. } = *counts;
    let named = [("new", new), ("dispatching", dispatching), ("retry", retry)];
    for (name, number) in named.into_iter().chain([("sent", sent), ("dead", dead)]) {
        let number = number.to_string();
        browser.says(&format!("[data-live={name}]"), &number).await?;
        let cell = format!("#outboxes tr[data-outbox=orders] [data-cell={name}]");
        browser.says(&cell, &number).await?;
    }
    browser.says("[data-live=pending]", &counts.pending().to_string()).await?;
    browser.says("#dead-badge", &dead.to_string()).await
}
