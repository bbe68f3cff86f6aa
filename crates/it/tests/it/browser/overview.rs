//! The overview tells what the database counts, and goes on telling it.

use std::time::Duration;

use anyhow::Result;
use event::{Counts, Millis};
use it::browser::Browser;
use it::console::Console;
use serde_json::json;

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
    let all = |counts: &Counts| counts.sent == 40 && counts.dead == 3 && counts.new == 2;
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

#[tokio::test]
async fn the_ticks_of_a_chart_are_whole_numbers_evenly_apart() -> Result<()> {
    let console = Console::start().await?;
    let browser = Browser::open(&console.url("")).await?;
    browser.go("/").await?;
    let script = "document.querySelector('script[src$=\"/overview.js\"]').src";
    let load =
        format!("import({script}.replace('overview', 'chart')).then((it) => window.it = it)");
    browser.ask(&format!("void {load}")).await?;
    browser.until("window.it?.Chart").await?;
    for peak in [0, 1, 4, 5, 9, 10, 13, 25, 38, 41, 50, 75, 99, 101, 333, 501, 9_999, 1_234_567] {
        let ticks = browser.ask(&TICKS.replace("PEAK", &peak.to_string())).await?;
        let ticks: Vec<String> = serde_json::from_value(ticks)?;
        let values: Vec<f64> = ticks.iter().map(|tick| value(tick)).collect();
        assert_eq!(values.len(), 5, "{ticks:?}");
        let step = values[4] / 4.0;
        assert_eq!(values, [0.0, step, 2.0 * step, 3.0 * step, values[4]], "{ticks:?}");
        assert_eq!(step, step.round(), "{ticks:?}");
        let snug = f64::from(peak).mul_add(2.5, 4.0);
        assert!((f64::from(peak)..=snug).contains(&values[4]), "{ticks:?} for a peak of {peak}");
    }
    Ok(())
}

/// Draws a chart whose highest value is PEAK and reads its vertical axis.
const TICKS: &str = "(() => {
    const host = document.querySelector('main').appendChild(document.createElement('div'));
    host.className = 'chart';
    const series = [{ key: 'sent', name: 'Sent', tone: 'accent', area: true }];
    const chart = new window.it.Chart(host, { series, label: 'x', nothing: 'x' });
    chart.show([{ second: 1, sent: 0 }, { second: 2, sent: PEAK }], 60);
    const left = (it) => Number(it.getAttribute('x')) < 40;
    const texts = [...host.querySelectorAll('text')].filter(left);
    host.remove();
    return texts.map((it) => it.textContent);
  })()";

fn value(tick: &str) -> f64 {
    let (figure, unit) = match tick.split_once(' ') {
        Some((figure, "k")) => (figure, 1e3),
        Some((figure, _)) => (figure, 1e6),
        None => (tick, 1.0),
    };
    figure.replace(',', "").parse::<f64>().expect("a tick is a number") * unit
}

#[tokio::test]
async fn just_after_the_start_the_charts_say_so_and_show_a_minute() -> Result<()> {
    let console = Console::start().await?;
    let browser = Browser::open(&console.url("")).await?;
    let quiet = json!({ "urls": ["*/live"] });
    browser.devtools("Network.enable", json!({})).await?;
    browser.devtools("Network.setBlockedURLs", quiet).await?;
    browser.go("/").await?;
    let gathering = "Gathering the first seconds …";
    assert_eq!(browser.texts(".chart .nothing").await?, [gathering, gathering]);
    browser.devtools("Network.setBlockedURLs", json!({ "urls": [] })).await?;
    browser.reload().await?;
    browser
        .until("document.querySelector('#chart-rate .nothing').innerText.includes('window')")
        .await?;
    assert_eq!(browser.text("#chart-backlog .nothing").await?, "Nothing waits");
    let pressed = "[data-window][aria-pressed=true]";
    assert_eq!(browser.texts(pressed).await?, ["1 min"]);
    let over = browser.text("[data-live=over]").await?;
    let seconds = over.strip_prefix("sent, mean of ").and_then(|rest| rest.strip_suffix(" s"));
    assert!(
        seconds.is_some_and(|it| it.parse::<u32>().is_ok_and(|n| (1..=10).contains(&n))),
        "{over}"
    );
    browser.click("[data-window='900']").await?;
    browser.until("document.querySelector('#chart-rate').textContent.includes('15 min')").await?;
    assert_eq!(browser.texts(pressed).await?, ["15 min"]);
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
