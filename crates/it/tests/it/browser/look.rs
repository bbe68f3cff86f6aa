//! How pages look: on a desk and on a phone, in the light and in the dark. Pictures of them are
//! left in `target/screenshots/`.

use anyhow::{Result, bail};
use event::Event;
use it::browser::{Browser, DESK, PHONE};
use it::console::Console;
use serde_json::json;

use super::Busy;

const BACKGROUND: &str = "getComputedStyle(document.body).backgroundColor";

#[tokio::test]
async fn pages_fit_a_desk_and_a_phone_in_the_light_and_in_the_dark() -> Result<()> {
    let busy = Busy::start().await?;
    let browser = Browser::open(&busy.console.url("")).await?;
    for (device, width) in [("desk", DESK), ("phone", PHONE)] {
        browser.width(width).await?;
        for scheme in ["light", "dark"] {
            prefer(&browser, scheme).await?;
            for (name, path) in busy.pages() {
                browser.go(&path).await?;
                fits(&browser, width, &path).await?;
                if name == "overview" {
                    browser.until("document.querySelector('#chart-rate path.line')").await?;
                }
                browser.picture(&format!("{name}-{scheme}-{device}")).await?;
            }
        }
    }
    Ok(())
}

#[tokio::test]
async fn the_longest_names_do_not_widen_a_phone() -> Result<()> {
    let console = Console::start().await?;
    let long = "W".repeat(240);
    let event = Event::new(format!("order.{long}"), long.clone(), format!("{{\"x\": \"{long}\"}}"))
        .key(format!("bad-{long}"))
        .header("x", long.clone());
    console.put(std::slice::from_ref(&event)).await?;
    console.settled(1).await?;
    let browser = Browser::open(&console.url("")).await?;
    browser.width(PHONE).await?;
    for path in ["/", "/events", "/dead", "/dead?key=x"] {
        browser.go(path).await?;
        fits(&browser, PHONE, path).await?;
    }
    browser.go(&format!("/events/{}", event.id)).await?;
    fits(&browser, PHONE, "its page").await?;
    browser.click("#payload-show").await?;
    browser.until("!document.querySelector('#payload-text').hidden").await?;
    fits(&browser, PHONE, "its payload").await?;
    browser.click("#requeue-one").await?;
    browser.until("!document.querySelector('#ask-yes').disabled").await?;
    fits(&browser, PHONE, "its dialog").await?;
    browser.picture("dialog-light-phone").await
}

#[tokio::test]
async fn the_theme_follows_the_system_until_it_is_chosen_and_then_stays() -> Result<()> {
    let console = Console::start().await?;
    let browser = Browser::open(&console.url("")).await?;
    prefer(&browser, "light").await?;
    browser.go("/").await?;
    let light = browser.ask(BACKGROUND).await?;
    prefer(&browser, "dark").await?;
    let dark = browser.ask(BACKGROUND).await?;
    assert_ne!(light, dark, "the system's choice does not hold");

    browser.click("#theme").await?;
    browser.until(&format!("{BACKGROUND} === {light}")).await?;
    browser.reload().await?;
    assert_eq!(browser.ask(BACKGROUND).await?, light, "the choice is lost on a reload");
    browser.go("/events").await?;
    assert_eq!(browser.ask(BACKGROUND).await?, light, "the choice is lost on another page");
    browser.click("#theme").await?;
    browser.until(&format!("{BACKGROUND} === {dark}")).await?;
    prefer(&browser, "light").await?;
    browser.reload().await?;
    assert_eq!(browser.ask(BACKGROUND).await?, dark);
    Ok(())
}

async fn prefer(browser: &Browser, scheme: &str) -> Result<()> {
    let feature = json!({ "name": "prefers-color-scheme", "value": scheme });
    let media = json!({ "features": [feature] });
    browser.devtools("Emulation.setEmulatedMedia", media).await.map(drop)
}

async fn fits(browser: &Browser, width: u32, page: &str) -> Result<()> {
    let wide = browser.ask("document.scrollingElement.scrollWidth").await?;
    if wide.as_u64() > Some(width.into()) {
        let beyond = format!("(it) => it.getBoundingClientRect().right > {width}");
        let widest = format!("[...document.querySelectorAll('main *')].filter({beyond})");
        let names =
            browser.ask(&format!("{widest}.map((it) => it.outerHTML.slice(0, 99))")).await?;
        bail!("{page} is {wide} wide on a screen of {width}: {names:#}");
    }
    Ok(())
}
