//! The documentation: it builds, its links lead to files and headings, the sections of the config
//! that it names are there, and the commands that it marks run.
//!
//! The marked blocks of a page run one after the other, each in a new shell in the page's own fresh
//! folder, with `postbox` on the path.

use std::ffi::OsStr;
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, ensure};

use super::markdown::{Link, links, parts, scripts, sections};
use super::{build, finish, finish_soon, run_cargo};
use crate::root;
use crate::world::Run;

pub(super) fn check(run: &Run) -> Result<()> {
    let mut doc = run_cargo(run);
    doc.args(["doc", "--quiet", "--workspace", "--no-deps", "--lib"]);
    finish(doc.env("RUSTDOCFLAGS", "-D warnings"))?;
    let pages = pages()?;
    let lost = lost(&pages)?;
    ensure!(lost.is_empty(), "{}", lost.join("\n"));
    build(run)?;
    let mut ran = 0;
    for (at, page) in pages.iter().enumerate() {
        let folder = run.folder().join(format!("page-{at}"));
        for script in scripts(&fs::read_to_string(page)?) {
            fs::create_dir_all(&folder)?;
            let mut shell = run.script("bash");
            shell.args(["-euo", "pipefail", "-c", &script]).current_dir(&folder);
            // A free port, so that the consoles of two runs do not meet.
            shell.env("POSTBOX__ADMIN__LISTEN", "127.0.0.1:0");
            let told = || format!("{}:{script}", page.display());
            finish_soon(run, &mut shell).with_context(told)?;
            ran += 1;
        }
    }
    println!("{} pages, {ran} of their blocks ran", pages.len());
    Ok(())
}

/// Says which links lead nowhere, and which sections of the default config are none.
fn lost(pages: &[PathBuf]) -> Result<Vec<String>> {
    let defaults = fs::read_to_string(root().join("postbox.default.toml"))?;
    let mut lost = Vec::new();
    for page in pages {
        let text = fs::read_to_string(page)?;
        let mut tell = |what: String| lost.push(format!("{}: {what}", page.display()));
        for Link { file, part } in links(&text) {
            let target = match file.as_str() {
                "" => page.clone(),
                file => page.parent().unwrap_or(page).join(file),
            };
            if !target.exists() {
                tell(format!("{file} does not exist"));
            } else if let Some(part) = part.filter(|_| target.extension().is_some_and(is_page))
                && !parts(&fs::read_to_string(&target)?).contains(&part)
            {
                tell(format!("{file}#{part} is no heading"));
            }
        }
        for section in sections(&text) {
            if !defaults.lines().any(|line| line == section) {
                tell(format!("{section} is no section of postbox.default.toml"));
            }
        }
    }
    Ok(lost)
}

fn is_page(extension: &OsStr) -> bool {
    extension == "md"
}

/// Returns every page that a reader is led to.
fn pages() -> Result<Vec<PathBuf>> {
    let root = root();
    let mut pages = Vec::new();
    for entry in fs::read_dir(&root)? {
        pages.push(entry?.path());
    }
    for folder in ["docs", "examples"] {
        collect(&root.join(folder), &mut pages)?;
    }
    pages.retain(|page| page.is_file() && page.extension().is_some_and(is_page));
    pages.sort();
    Ok(pages)
}

fn collect(folder: &Path, pages: &mut Vec<PathBuf>) -> Result<()> {
    let Ok(entries) = fs::read_dir(folder) else { return Ok(()) };
    for entry in entries {
        let path = entry?.path();
        if path.is_dir() { collect(&path, pages)? } else { pages.push(path) }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_link_and_every_section_that_a_page_names_is_there() {
        let pages = pages().unwrap();
        assert!(pages.len() > 50, "{pages:?}");
        assert_eq!(lost(&pages).unwrap(), [""; 0]);
    }
}
