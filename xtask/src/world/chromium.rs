//! Chromium with its driver: the machine's own when it has both, else Debian's packages.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};

use super::cache::Cache;
use super::command::version;
use super::debian::{Packages, libraries};
use super::place::Place;
use super::{Installed, Running, Server};

const DRIVER: &str = "usr/bin/chromedriver";

/// The program of the package; `usr/bin/chromium` is a script that looks for it in `/`.
const BROWSER: &str = "usr/lib/chromium/chromium";

const PACKAGES: Packages = Packages {
    suite: "bookworm",
    names: &["chromium", "chromium-driver", "fonts-dejavu-core", "fonts-droid-fallback"],
    programs: &[DRIVER, BROWSER, "usr/lib/chromium/chrome_crashpad_handler"],
};

/// What every browser session of a test starts with: no window, no sandbox (it needs rights that
/// containers do not give), nothing asked of the network.
const ARGS: &str = "--headless=new --no-sandbox --disable-dev-shm-usage --disable-gpu \
     --disable-background-networking --disable-component-update --no-first-run";

/// The browser that tests drive. What is started is its driver.
pub(super) struct Chromium;

impl Server for Chromium {
    fn name(&self) -> &'static str {
        "chromium"
    }

    fn get(&self, cache: &Cache<'_>) -> Result<Installed> {
        let machine = Path::new("/");
        let complete = [DRIVER, BROWSER].iter().all(|program| machine.join(program).exists());
        let prefix =
            if complete { machine.to_owned() } else { PACKAGES.unpacked(cache, "chromium")? };
        let version = version(&mut cache.command(prefix.join(DRIVER)))?;
        Ok(Installed { version, prefix })
    }

    fn start(&self, installed: &Installed, place: &Place<'_>) -> Result<Running> {
        let prefix = &installed.prefix;
        let mut driver = place.command(prefix.join(DRIVER))?;
        driver.arg(format!("--port={}", place.address.port()));
        if prefix != Path::new("/") {
            // Some libraries carry an absolute path of their own to look in, which beats RPATH.
            driver.env("LD_LIBRARY_PATH", library_path(prefix)?);
            driver.env("FONTCONFIG_FILE", fonts(prefix, &place.folder)?);
        }
        let details = BTreeMap::from([
            ("url", format!("http://{}", place.address)),
            ("browser", prefix.join(BROWSER).display().to_string()),
            ("args", ARGS.to_owned()),
        ]);
        Ok(Running { child: driver.spawn().context("chromedriver does not start")?, details })
    }

    fn ready(&self, place: &Place<'_>) -> bool {
        place.answers("/status", "\"ready\":true")
    }
}

fn library_path(prefix: &Path) -> Result<String> {
    let [own, usr] = libraries(prefix)?;
    let sound = usr.join("pulseaudio");
    Ok([own, usr, sound].map(|path| path.display().to_string()).join(":"))
}

fn fonts(prefix: &Path, folder: &Path) -> Result<PathBuf> {
    let file = folder.join("fonts.conf");
    let fonts = prefix.join("usr/share/fonts");
    let config = format!(
        "<?xml version=\"1.0\"?>\n<fontconfig><dir>{}</dir><cachedir>{}</cachedir></fontconfig>\n",
        fonts.display(),
        folder.join("fonts").display(),
    );
    fs::write(&file, config)?;
    Ok(file)
}
