//! One event's page: what became of it, and nothing of what it carries until that is asked for.

use anyhow::Result;
use event::Event;
use it::browser::Browser;
use it::console::{ATTEMPTS, Console};

use super::paid;

#[tokio::test]
async fn an_events_page_tells_its_way_from_the_commit_to_the_end() -> Result<()> {
    let console = Console::start().await?;
    let (sent, dead, busy) = (paid("k1"), paid("bad-1"), paid("busy-1"));
    console.put(&[sent.clone(), dead.clone(), busy.clone()]).await?;
    console.settled(2).await?;
    let browser = Browser::open(&console.url("")).await?;

    open(&browser, &sent).await?;
    assert_eq!(steps(&browser).await?, [("Committed", ""), ("Sent", "")].map(owned));
    assert!(browser.texts("#requeue-one").await?.is_empty(), "what is sent cannot be requeued");
    open(&browser, &dead).await?;
    let one = [("Committed", ""), ("Attempt 1 failed", "sink-refused"), ("Dead", "")];
    assert_eq!(steps(&browser).await?, one.map(owned));
    assert!(browser.text("#timeline").await?.contains("422 Unprocessable Entity"));
    open(&browser, &busy).await?;
    let mut all = vec![owned(("Committed", ""))];
    all.extend((1..ATTEMPTS).map(|n| (format!("Attempt {n} failed"), "sink-busy".to_owned())));
    all.push((format!("Attempt {ATTEMPTS} failed"), "attempts-spent".to_owned()));
    all.push(owned(("Dead", "")));
    assert_eq!(steps(&browser).await?, all);

    console.relent();
    browser.click("#requeue-one").await?;
    browser.until("!document.querySelector('#ask-yes').disabled").await?;
    browser.click("#ask-yes").await?;
    browser.says("#flash", "1 event requeued.\n×").await?;
    console.settled(1).await?;
    browser.reload().await?;
    assert_eq!(browser.text("#event .pill").await?, "SENT");
    browser.follow("#timeline a.code").await?;
    assert_eq!(browser.path().await?, "/explain/sink-busy");
    Ok(())
}

#[tokio::test]
async fn an_id_that_was_put_twice_is_shown_with_the_state_of_each_row() -> Result<()> {
    let console = Console::start().await?;
    let event = paid("bad-1");
    console.put(std::slice::from_ref(&event)).await?;
    console.settled(1).await?;
    let browser = Browser::open(&console.url("")).await?;
    open(&browser, &event).await?;
    assert!(browser.texts("#rows").await?.is_empty(), "one row is the rule");

    console.relent();
    console.put(std::slice::from_ref(&event)).await?;
    console.settled(1).await?;
    open(&browser, &event).await?;
    assert!(browser.text("#rows-title").await?.starts_with("This id stands in 2 rows"));
    let mut states = browser.texts("#rows tbody .pill").await?;
    states.sort();
    assert_eq!(states, ["DEAD", "SENT"]);
    browser.click("#requeue-one").await?;
    browser.says("#ask-text", "1 event will be due again.").await?;
    Ok(())
}

#[tokio::test]
async fn a_payload_is_hidden_until_it_is_asked_for() -> Result<()> {
    let console = Console::start().await?;
    let json = r#"{"card":"4111-canary","n":12345678901234567890,"of":[]}"#;
    let event = Event::new("order.paid", "OrderPaid", json).key("k1");
    console.put(std::slice::from_ref(&event)).await?;
    console.settled(0).await?;
    let browser = Browser::open(&console.url("")).await?;

    open(&browser, &event).await?;
    let source = "document.documentElement.outerHTML.includes('canary')";
    assert_eq!(browser.ask(source).await?, false, "the page holds what it hides");
    assert_eq!(browser.ask("document.querySelector('#payload-text').hidden").await?, true);
    assert!(browser.text("#payload").await?.contains("Masked"));

    browser.click("#payload-show").await?;
    let wanted = "{\n  \"card\": \"4111-canary\",\n  \"n\": 12345678901234567890,\n  \"of\": []\n}";
    browser.says("#payload-text", wanted).await?;
    assert_eq!(browser.text("#payload-show").await?, "Hide payload");
    browser.click("#payload-show").await?;
    browser.until("document.querySelector('#payload-text').hidden").await?;
    assert_eq!(browser.text("#payload-show").await?, "Show payload");
    Ok(())
}

async fn open(browser: &Browser, event: &Event) -> Result<()> {
    browser.go(&format!("/events/{}", event.id)).await
}

/// Returns each step of the timeline with its cause code.
async fn steps(browser: &Browser) -> Result<Vec<(String, String)>> {
    let steps = browser
        .ask(
            "[...document.querySelectorAll('#timeline li')].map((li) => \
             [li.querySelector('strong').innerText, li.dataset.code ?? ''])",
        )
        .await?;
    Ok(serde_json::from_value(steps)?)
}

fn owned((step, code): (&str, &str)) -> (String, String) {
    (step.to_owned(), code.to_owned())
}
