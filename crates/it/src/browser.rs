//! A real headless Chromium, driven through its driver. What it waits for is a fact on the page,
//! until a deadline that says which fact was missing.

mod extra;

use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use fantoccini::actions::{InputSource, KeyAction, KeyActions};
use fantoccini::elements::Element;
use fantoccini::key::Key;
use fantoccini::{Client, ClientBuilder, Locator};
use hyper_util::client::legacy::connect::HttpConnector;
use serde_json::{Value, json};

use crate::raw;
use crate::world::{Address, need};
use extra::Extra;

const PATIENCE: Duration = Duration::from_secs(20);
const LOOK: Duration = Duration::from_millis(20);

/// The width of a phone.
pub const PHONE: u32 = 390;
/// The width of a tablet, held upright.
pub const TABLET: u32 = 820;
/// The width of a desk.
pub const DESK: u32 = 1280;

/// One browser with nothing in its memory. Dropping it ends it.
pub struct Browser {
    client: Client,
    session: String,
    driver: Address,
    home: String,
}

impl Browser {
    /// Opens a browser; `home` is what paths are added to.
    pub async fn open(home: &str) -> Result<Browser> {
        let driver = need("chromium");
        let args: Vec<_> = driver.detail("args").split(' ').collect();
        let wanted = json!({
            "goog:chromeOptions": { "binary": driver.detail("browser"), "args": args },
            "goog:loggingPrefs": { "browser": "ALL", "performance": "ALL" },
        });
        let wanted = wanted.as_object().cloned().context("an object")?;
        let url = driver.detail("url");
        let mut builder = ClientBuilder::new(HttpConnector::new());
        let client = builder.capabilities(wanted).connect(url).await?;
        let session = client.session_id().await?.context("a session has an id")?;
        let browser = Browser { client, session, driver, home: home.to_owned() };
        browser.devtools("Emulation.setScrollbarsHidden", json!({ "hidden": true })).await?;
        browser.width(DESK).await?;
        Ok(browser)
    }

    /// Opens a page and waits until it is loaded.
    pub async fn go(&self, path: &str) -> Result<()> {
        let url = if path.starts_with('/') { format!("{}{path}", self.home) } else { path.into() };
        self.client.goto(&url).await.with_context(|| url)
    }

    /// Goes back as its button does.
    pub async fn back(&self) -> Result<()> {
        Ok(self.client.back().await?)
    }

    /// Loads the page again.
    pub async fn reload(&self) -> Result<()> {
        Ok(self.client.refresh().await?)
    }

    /// Returns the path and query of the page.
    pub async fn path(&self) -> Result<String> {
        let url = self.client.current_url().await?;
        let query = url.query().map(|query| format!("?{query}")).unwrap_or_default();
        Ok(format!("{}{query}", url.path()))
    }

    /// Waits until the page with this path and query is loaded.
    pub async fn arrives(&self, path: &str) -> Result<()> {
        let here = format!("location.pathname + location.search === {}", json!(path));
        self.until(&format!("document.readyState === 'complete' && {here}")).await
    }

    /// Clicks a link and waits until its page is loaded.
    pub async fn follow(&self, css: &str) -> Result<()> {
        let link = format!("document.querySelector({})", json!(css));
        let path = self.ask(&format!("{link}.pathname + {link}.search")).await?;
        self.click(css).await?;
        self.arrives(path.as_str().context("a link has a path")?).await
    }

    /// Returns the value of an expression.
    pub async fn ask(&self, expression: &str) -> Result<Value> {
        let script = format!("return ({expression})");
        self.client.execute(&script, vec![]).await.with_context(|| expression.to_owned())
    }

    /// Waits until an expression is true.
    pub async fn until(&self, fact: &str) -> Result<()> {
        let until = Instant::now() + PATIENCE;
        loop {
            // A page on its way out has nobody to answer.
            let seen = self.ask(&format!("Boolean({fact})")).await;
            if matches!(seen, Ok(Value::Bool(true))) {
                return Ok(());
            }
            if Instant::now() > until {
                let page = self.ask("document.body.innerText").await;
                bail!(
                    "after {PATIENCE:?}: not {fact} ({seen:?}) on {:?}\n{page:?}",
                    self.path().await
                );
            }
            tokio::time::sleep(LOOK).await;
        }
    }

    /// Waits until an element says exactly this.
    pub async fn says(&self, css: &str, text: &str) -> Result<()> {
        let (css, text) = (json!(css), json!(text));
        self.until(&format!("document.querySelector({css})?.innerText.trim() === {text}")).await
    }

    /// Returns the visible text of every element that a selector finds.
    pub async fn texts(&self, css: &str) -> Result<Vec<String>> {
        let found = format!("[...document.querySelectorAll({})]", json!(css));
        let texts = self.ask(&format!("{found}.map((node) => node.innerText.trim())")).await?;
        Ok(serde_json::from_value(texts)?)
    }

    /// Returns the visible text of the only element that a selector finds.
    pub async fn text(&self, css: &str) -> Result<String> {
        let mut texts = self.texts(css).await?;
        ensure!(texts.len() == 1, "{} elements are {css}", texts.len());
        Ok(texts.remove(0))
    }

    /// Scrolls to an element and clicks it; it must be visible and not covered.
    pub async fn click(&self, css: &str) -> Result<()> {
        let element = format!("document.querySelector({})", json!(css));
        self.ask(&format!("{element}?.scrollIntoView({{ block: 'center' }})")).await?;
        self.find(css).await?.click().await.with_context(|| format!("click {css}"))
    }

    /// Writes into a field, in place of what it holds.
    pub async fn fill(&self, css: &str, text: &str) -> Result<()> {
        let field = self.find(css).await?;
        field.clear().await.with_context(|| format!("clear {css}"))?;
        field.send_keys(text).await.with_context(|| format!("fill {css}"))
    }

    /// Presses and lets go of a key.
    pub async fn press(&self, key: Key) -> Result<()> {
        let value = char::from(key);
        let keys = KeyActions::new("keyboard".into());
        let keys = keys.then(KeyAction::Down { value }).then(KeyAction::Up { value });
        Ok(self.client.perform_actions(keys).await?)
    }

    /// Makes the page so wide: a phone's screen up to a phone's width.
    pub async fn width(&self, width: u32) -> Result<()> {
        self.size(width, if width <= PHONE { 844 } else { 900 }).await
    }

    async fn size(&self, width: u32, height: u64) -> Result<()> {
        let screen = json!({
            "width": width, "height": height, "deviceScaleFactor": 1, "mobile": width <= PHONE,
        });
        self.devtools("Emulation.setDeviceMetricsOverride", screen).await.map(drop)
    }

    /// Saves a picture of the whole page as `target/screenshots/NAME.png`.
    pub async fn picture(&self, name: &str) -> Result<()> {
        let size = self.ask("[innerWidth, document.scrollingElement.scrollHeight]").await?;
        let (width, height) = (size[0].as_u64(), size[1].as_u64());
        let width = u32::try_from(width.context("a width")?)?;
        self.size(width, height.context("a height")?).await?;
        let png = self.client.screenshot().await?;
        self.width(width).await?;
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../target/screenshots");
        std::fs::create_dir_all(&folder)?;
        Ok(std::fs::write(folder.join(format!("{name}.png")), png)?)
    }

    /// Commands the browser in the words of its developer tools.
    pub async fn devtools(&self, command: &str, params: Value) -> Result<Value> {
        let body = json!({ "cmd": command, "params": params });
        let said = self.client.issue_cmd(Extra { path: "goog/cdp/execute", body }).await;
        said.with_context(|| command.to_owned())
    }

    /// Returns what the browser has warned of since it was last asked.
    pub async fn complaints(&self) -> Result<Vec<String>> {
        let grave = |entry: &&Value| matches!(entry["level"].as_str(), Some("WARNING" | "SEVERE"));
        let said = self.log("browser").await?;
        let text = |entry: &Value| entry["message"].as_str().map(str::to_owned);
        Ok(said.iter().filter(grave).filter_map(text).collect())
    }

    /// Returns what the developer tools call by this name since they were last asked for anything.
    pub async fn traffic(&self, method: &str) -> Result<Vec<Value>> {
        let parse = |entry: &Value| serde_json::from_str::<Value>(entry["message"].as_str()?).ok();
        let entries = self.log("performance").await?;
        let events = entries.iter().filter_map(parse).map(|mut entry| entry["message"].take());
        Ok(events.filter(|event| event["method"] == method).collect())
    }

    async fn log(&self, kind: &str) -> Result<Vec<Value>> {
        let asked = Extra { path: "se/log", body: json!({ "type": kind }) };
        let said = self.client.issue_cmd(asked).await.with_context(|| format!("log {kind}"))?;
        said.as_array().cloned().context("a log is a list")
    }

    async fn find(&self, css: &str) -> Result<Element> {
        self.client.find(Locator::Css(css)).await.with_context(|| format!("find {css}"))
    }
}

impl Drop for Browser {
    fn drop(&mut self) {
        // A failed test has no time for a farewell, and without one Chromium runs on.
        let path = format!("/session/{}", self.session);
        let host = format!("host: {}\r\n", self.driver.socket);
        let _ = raw::ask(self.driver.socket, "DELETE", &path, &host);
    }
}
