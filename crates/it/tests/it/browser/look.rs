//! How pages look: on a desk, a tablet and a phone, in the light and in the dark. Pictures of them
//! are left in `target/screenshots/`.

use anyhow::{Result, bail};
use event::Event;
use it::browser::{Browser, DESK, PHONE, TABLET};
use it::console::Console;
use serde_json::json;

use super::Busy;

/// The ids of listed events that do not stand on one line.
const BROKEN: &str = "[...document.querySelectorAll('tr[data-event] .id code')]
    .filter((it) => it.getClientRects().length > 1 || it.offsetHeight > 24)
    .map((it) => it.textContent)";

const BACKGROUND: &str = "getComputedStyle(document.body).backgroundColor";

#[tokio::test]
async fn pages_fit_a_desk_a_tablet_and_a_phone_in_the_light_and_in_the_dark() -> Result<()> {
    let busy = Busy::start().await?;
    let browser = Browser::open(&busy.console.url("")).await?;
    let mut pages = busy.pages();
    pages.push(("nowhere", "/nowhere".to_owned()));
    for (device, width) in [("desk", DESK), ("tablet", TABLET), ("phone", PHONE)] {
        browser.width(width).await?;
        for scheme in ["light", "dark"] {
            prefer(&browser, scheme).await?;
            for (name, path) in &pages {
                browser.go(path).await?;
                if *name == "overview" {
                    browser.until("document.querySelector('#chart-rate path.line')").await?;
                    browser.ask("document.querySelector('.beats').open = true").await?;
                }
                fits(&browser, width, path).await?;
                let broken = browser.ask(BROKEN).await?;
                assert_eq!(broken, json!([]), "ids are broken on {path} at {width}");
                browser.picture(&format!("{name}-{scheme}-{device}")).await?;
            }
        }
    }
    Ok(())
}

#[tokio::test]
async fn the_longest_names_widen_no_page() -> Result<()> {
    let console = Console::start().await?;
    let long = "W".repeat(240);
    let event = Event::new(format!("order.{long}"), long.clone(), format!("{{\"x\": \"{long}\"}}"))
        .key(format!("bad-{long}"))
        .header(long.clone(), long.clone());
    console.put(std::slice::from_ref(&event)).await?;
    console.settled(1).await?;
    let browser = Browser::open(&console.url("")).await?;
    let its_page = format!("/events/{}", event.id);
    for width in [DESK, 1000, TABLET, PHONE] {
        browser.width(width).await?;
        for path in ["/", "/events", "/dead", "/dead?key=x", &its_page] {
            browser.go(path).await?;
            fits(&browser, width, path).await?;
        }
        let tall = browser.ask("document.querySelector('h1').offsetHeight").await?;
        assert!(tall.as_u64() < Some(100), "its title is {tall} high on a screen of {width}");
        let name = "document.querySelector('#headers td').offsetWidth";
        let share = format!("{name} / document.querySelector('#headers').offsetWidth");
        let share = browser.ask(&share).await?;
        let above_its_value = width == PHONE;
        let right = above_its_value || share.as_f64() < Some(0.31);
        assert!(right, "a header's name takes {share} of its table");
    }
    browser.click("#payload-show").await?;
    browser.until("!document.querySelector('#payload-text').hidden").await?;
    fits(&browser, PHONE, "its payload").await?;
    browser.click("#requeue-one").await?;
    browser.until("!document.querySelector('#ask-yes').disabled").await?;
    fits(&browser, PHONE, "its dialog").await?;
    browser.picture("dialog-light-phone").await
}

#[tokio::test]
async fn a_phone_shows_no_empty_cell_and_nothing_scrolls_sideways() -> Result<()> {
    let busy = Busy::start().await?;
    let browser = Browser::open(&busy.console.url("")).await?;
    browser.width(PHONE).await?;
    let empty = "[...document.querySelectorAll('td')].filter((it) => !it.textContent.trim() \
                 && !it.querySelector('input, svg') && it.offsetHeight).length";
    for path in ["/", "/events", "/dead"] {
        browser.go(path).await?;
        assert_eq!(browser.ask(empty).await?, 0, "{path} shows cells that say nothing");
    }
    browser.go("/events").await?;
    for css in [".nav", "#statuses"] {
        let it = format!("document.querySelector('{css}')");
        let over =
            format!("[{it}.scrollWidth - {it}.clientWidth, {it}.scrollHeight - {it}.clientHeight]");
        assert_eq!(browser.ask(&over).await?, json!([0, 0]), "{css} scrolls");
    }
    let edges = "['.event-cell', 'td.end', 'td.clip'].map((css) => \
                 document.querySelector('#events ' + css).getBoundingClientRect().top)";
    let tops: Vec<f64> = serde_json::from_value(browser.ask(edges).await?)?;
    assert!(tops.is_sorted(), "the time is not under the title: {tops:?}");
    let right = "['#f-code', '#filter button'].map((css) => \
                 document.querySelector(css).getBoundingClientRect().right)";
    let right: Vec<f64> = serde_json::from_value(browser.ask(right).await?)?;
    assert_eq!(right[0], right[1], "the button is not in line with the fields");
    Ok(())
}

#[tokio::test]
async fn what_is_scrolled_to_is_not_under_the_header() -> Result<()> {
    let busy = Busy::start().await?;
    let browser = Browser::open(&busy.console.url("")).await?;
    for width in [DESK, TABLET, PHONE] {
        browser.width(width).await?;
        browser.go("/events").await?;
        browser.ask("document.querySelector('tr[data-event] + tr').scrollIntoView()").await?;
        let tops = "['.top', 'tr[data-event] + tr'].map((css) => \
                    document.querySelector(css).getBoundingClientRect())";
        let gap = browser.ask(&format!("(([a, b]) => b.top - a.bottom)({tops})")).await?;
        let gap = gap.as_f64().unwrap_or(f64::NAN);
        assert!((0.0..60.0).contains(&gap), "{gap} px below the header of {width}");
    }
    Ok(())
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

/// Checks that nothing reaches beyond the screen, but what can be scrolled on its own.
async fn fits(browser: &Browser, width: u32, page: &str) -> Result<()> {
    let own = "it.closest('pre, .scroll, svg, .hidden-text')";
    let beyond = format!("(it) => it.getBoundingClientRect().right > {width} && !{own}");
    let widest = format!("[...document.querySelectorAll('body *')].filter({beyond})");
    let names = browser.ask(&format!("{widest}.map((it) => it.outerHTML.slice(0, 99))")).await?;
    let wide = browser.ask("document.scrollingElement.scrollWidth").await?;
    if wide.as_u64() > Some(width.into()) || names != json!([]) {
        bail!("{page} is {wide} wide on a screen of {width}: {names:#}");
    }
    Ok(())
}
