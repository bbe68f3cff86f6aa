//! The two things that are checked in a page: where its links lead and what it tells to run.

/// Returns the targets of the links and images of a page that lead to files beside it.
pub(super) fn file_links(page: &str) -> Vec<String> {
    let mut links = Vec::new();
    let mut fenced = false;
    for line in page.lines() {
        if line.trim_start().starts_with("```") {
            fenced = !fenced;
        }
        if fenced {
            continue;
        }
        let prose: String = line.split('`').step_by(2).collect::<Vec<_>>().join("`");
        let inline = prose.split("](").skip(1).filter_map(|rest| rest.split([')', ' ']).next());
        links.extend(inline.map(str::to_owned));
        if let Some(("[", target)) = prose.split_once("]: ").map(|(name, to)| (&name[..1], to)) {
            links.push(target.trim().to_owned());
        }
    }
    links.iter().filter_map(|link| file_of(link)).collect()
}

fn file_of(link: &str) -> Option<String> {
    let file = link.trim_matches(['<', '>']).split('#').next()?;
    let elsewhere = file.contains("://") || file.starts_with("mailto:");
    (!elsewhere && !file.is_empty()).then(|| file.to_owned())
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
    fn only_links_to_files_are_followed() {
        let page = "[a](docs/a.md#part) ![b](<b.png>) [c](https://c) [d](#d) `[e](e.md)`\n\
                    ```\n[f](f.md)\n```\n[g]: g.md\n";
        assert_eq!(file_links(page), ["docs/a.md", "b.png", "g.md"]);
    }

    #[test]
    fn only_marked_blocks_are_scripts() {
        let page = "```sh\nrm x\n```\n```sh run\necho 1\necho 2\n```\n\
                    ```console run\n$ echo 3\n3\n```\n```console\n$ echo 4\n```\n";
        assert_eq!(scripts(page), ["\necho 1\necho 2\n", "\necho 3\n"]);
    }
}
