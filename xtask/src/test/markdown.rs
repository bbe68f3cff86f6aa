//! The things that are checked in a page: where its links lead, which sections of the default
//! config it names, and what it tells to run.

use std::collections::BTreeSet;

/// Where a link leads: to a file beside the page, or into the page itself.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Link {
    /// The file; empty for the page itself.
    pub(super) file: String,
    /// The heading in it.
    pub(super) part: Option<String>,
}

/// Returns the lines of a page that are prose, with what stands in backticks left out.
fn prose(page: &str) -> impl Iterator<Item = String> {
    unfenced(page).map(|line| line.split('`').step_by(2).collect::<Vec<_>>().join("`"))
}

fn unfenced(page: &str) -> impl Iterator<Item = &str> {
    let mut fenced = false;
    page.lines().filter(move |line| {
        let fence = line.trim_start().starts_with("```");
        fenced ^= fence;
        !fence && !fenced
    })
}

/// Returns where the links and images of a page lead, as far as that is not elsewhere.
pub(super) fn links(page: &str) -> Vec<Link> {
    let mut links = Vec::new();
    for line in prose(page) {
        let inline = line.split("](").skip(1).filter_map(|rest| rest.split([')', ' ']).next());
        links.extend(inline.map(str::to_owned));
        if let Some(("[", target)) = line.split_once("]: ").map(|(name, to)| (&name[..1], to)) {
            links.push(target.trim().to_owned());
        }
    }
    links.iter().filter_map(|link| read(link)).collect()
}

fn read(link: &str) -> Option<Link> {
    let link = link.trim_matches(['<', '>']);
    if link.contains("://") || link.starts_with("mailto:") {
        return None;
    }
    let (file, part) = match link.split_once('#') {
        Some((file, part)) => (file, Some(part.to_owned())),
        None => (link, None),
    };
    Some(Link { file: file.to_owned(), part })
}

/// Returns the names by which links lead to the headings of a page.
pub(super) fn parts(page: &str) -> BTreeSet<String> {
    let mut parts = BTreeSet::new();
    for line in unfenced(page) {
        let Some(heading) = line.trim_start_matches('#').strip_prefix(' ') else { continue };
        if !line.starts_with('#') {
            continue;
        }
        let name = anchor(heading);
        let again = (1..).map(|more| format!("{name}-{more}"));
        let free = std::iter::once(name.clone()).chain(again).find(|name| !parts.contains(name));
        parts.extend(free);
    }
    parts
}

/// Names a heading as it is shown: a link in it shows its text only.
fn anchor(heading: &str) -> String {
    let mut shown = String::new();
    let mut rest = heading;
    while let Some((text, (_, behind))) =
        rest.split_once("](").and_then(|(text, target)| Some((text, target.split_once(')')?)))
    {
        shown += text;
        rest = behind;
    }
    shown += rest;
    let kept =
        shown.trim().chars().flat_map(char::to_lowercase).filter_map(|letter| match letter {
            ' ' => Some('-'),
            '-' | '_' => Some(letter),
            _ => letter.is_alphanumeric().then_some(letter),
        });
    kept.collect()
}

/// Returns the sections of the default config to which a page sends its reader.
pub(super) fn sections(page: &str) -> Vec<String> {
    let named = page.split("` in [`postbox.default.toml`]").collect::<Vec<_>>();
    let before = named.split_last().map_or(&[][..], |(_, before)| before);
    before.iter().filter_map(|text| text.rsplit('`').next()).map(str::to_owned).collect()
}

/// Returns the scripts of a page that are marked to be run: blocks marked `sh run`, and what
/// follows `$ ` in blocks marked `console run`.
pub(super) fn scripts(page: &str) -> Vec<String> {
    let mut scripts = Vec::new();
    let mut open: Option<(bool, String)> = None;
    for line in page.lines() {
        match (&mut open, line.trim().strip_prefix("```").map(str::trim)) {
            (None, Some(info)) => {
                let mut words = info.split_whitespace();
                let console = words.next() == Some("console");
                let run = words.any(|word| word == "run");
                open = Some((console, if run { String::from("\n") } else { String::new() }));
            }
            (Some(_), Some("")) => {
                scripts.extend(open.take().map(|(_, script)| script));
            }
            (Some((console, script)), None) if !script.is_empty() => {
                let command = if *console { line.trim().strip_prefix("$ ") } else { Some(line) };
                script.extend(command.map(|command| format!("{command}\n")));
            }
            _ => {}
        }
    }
    scripts.retain(|script| !script.is_empty());
    scripts
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_links_to_files_and_headings_are_followed() {
        let page = "[a](docs/a.md#part) ![b](<b.png>) [c](https://c) [d](#d) `[e](e.md)`\n\
                    ```\n[f](f.md)\n```\n[g]: g.md\n";
        let all = [("docs/a.md", Some("part")), ("b.png", None), ("", Some("d")), ("g.md", None)];
        let link = |(file, part): (&str, Option<&str>)| {
            let (file, part) = (file.to_owned(), part.map(str::to_owned));
            Link { file, part }
        };
        assert_eq!(links(page), all.map(link));
    }

    #[test]
    fn a_heading_is_named_as_it_is_shown() {
        let page = "# Quick start: SQLite, five minutes\n## `url`, or [a *link*](a.md)\n\
                    ```sh\n# no heading\n```\n#none\n## Same\n### Same\n## 中文 한국어\n";
        let names =
            ["quick-start-sqlite-five-minutes", "same", "same-1", "url-or-a-link", "中文-한국어"];
        assert_eq!(parts(page), names.map(str::to_owned).into());
    }

    #[test]
    fn a_page_says_to_which_section_of_the_defaults_it_sends() {
        let page = "Every key: `[sink.a]` in [`postbox.default.toml`](x). `b` in `c`, and `[d]` in\
                    [`postbox.default.toml`](x); `[e]` in [`postbox.default.toml`](x).\n";
        assert_eq!(sections(page), ["[sink.a]", "[e]"]);
    }

    #[test]
    fn only_marked_blocks_are_scripts() {
        let page = "```sh\nrm x\n```\n```sh run\necho 1\necho 2\n```\n\
                    ```console run\n$ echo 3\n3\n```\n```console\n$ echo 4\n```\n";
        assert_eq!(scripts(page), ["\necho 1\necho 2\n", "\necho 3\n"]);
    }
}
