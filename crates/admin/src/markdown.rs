//! The little Markdown that the pages under `docs/errors/` use, read into blocks. Templates write
//! the blocks out and escape every text, so no page can bring its own HTML.

/// A piece of a line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Span {
    /// As it is.
    Text(String),
    /// Between backticks.
    Code(String),
    /// Between two asterisks.
    Strong(String),
    /// A link: its text, and where it leads.
    Link(String, String),
}

/// A block.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Block {
    /// A heading below the title.
    Heading(Vec<Span>),
    /// A paragraph.
    Paragraph(Vec<Span>),
    /// A list.
    List(Vec<Vec<Span>>),
    /// A numbered list.
    Steps(Vec<Vec<Span>>),
    /// Code, letter by letter.
    Code(String),
}

/// Reads a page. Its title, the first `#` line, is left out.
pub(crate) fn read(page: &str) -> Vec<Block> {
    let mut blocks = Vec::new();
    let mut lines = page.lines().skip_while(|line| !line.starts_with("# ")).skip(1).peekable();
    while let Some(line) = lines.next() {
        let text = line.trim();
        if text.starts_with("```") {
            let code: Vec<&str> = lines.by_ref().take_while(|l| !l.starts_with("```")).collect();
            blocks.push(Block::Code(code.join("\n")));
        } else if text.starts_with('#') {
            blocks.push(Block::Heading(spans(text.trim_start_matches('#').trim())));
        } else if item(text).is_some() {
            let mut items = vec![text.to_string()];
            while let Some(more) = lines.next_if(|l| !l.trim().is_empty() && !starts(l)) {
                match item(more.trim()) {
                    Some(_) => items.push(more.trim().to_string()),
                    None => join(items.last_mut(), more),
                }
            }
            let read = items.iter().filter_map(|text| item(text)).map(spans).collect();
            let numbered = text.starts_with(|c: char| c.is_ascii_digit());
            blocks.push(if numbered { Block::Steps(read) } else { Block::List(read) });
        } else if !text.is_empty() {
            let mut whole = text.to_string();
            while let Some(more) =
                lines.next_if(|l| !l.trim().is_empty() && !starts(l) && item(l.trim()).is_none())
            {
                join(Some(&mut whole), more);
            }
            blocks.push(Block::Paragraph(spans(&whole)));
        }
    }
    blocks
}

fn starts(line: &str) -> bool {
    line.starts_with('#') || line.starts_with("```")
}

fn join(text: Option<&mut String>, more: &str) {
    if let Some(text) = text {
        text.push(' ');
        text.push_str(more.trim());
    }
}

fn item(text: &str) -> Option<&str> {
    let digits = text.len() - text.trim_start_matches(|c: char| c.is_ascii_digit()).len();
    let marked = text.strip_prefix("- ").or_else(|| text.strip_prefix("* "));
    marked.or_else(|| text[digits..].strip_prefix(". ").filter(|_| digits > 0))
}

fn spans(text: &str) -> Vec<Span> {
    let mut spans = Vec::new();
    let mut plain = String::new();
    let mut rest = text;
    while let Some(first) = rest.chars().next() {
        match special(rest) {
            Some((span, after)) => {
                if !plain.is_empty() {
                    spans.push(Span::Text(std::mem::take(&mut plain)));
                }
                spans.push(span);
                rest = after;
            }
            None => {
                plain.push(first);
                rest = &rest[first.len_utf8()..];
            }
        }
    }
    if !plain.is_empty() {
        spans.push(Span::Text(plain));
    }
    spans
}

fn special(rest: &str) -> Option<(Span, &str)> {
    if let Some(inner) = rest.strip_prefix('`') {
        return inner.split_once('`').map(|(code, after)| (Span::Code(code.into()), after));
    }
    if let Some(inner) = rest.strip_prefix("**") {
        return inner.split_once("**").map(|(text, after)| (Span::Strong(text.into()), after));
    }
    let (text, after) = rest.strip_prefix('[')?.split_once("](")?;
    let (target, after) = after.split_once(')')?;
    let target = href(target)?;
    Some((Span::Link(text.into(), target), after))
}

/// Keeps links to other codes (`sink-down.md`) and to the web; nothing else is a link.
fn href(target: &str) -> Option<String> {
    let code = target.trim_start_matches("./").strip_suffix(".md");
    match code.and_then(event::explain) {
        Some(explanation) => Some(format!("/explain/{}", explanation.code)),
        None => target.starts_with("https://").then(|| target.to_string()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_page_becomes_blocks_without_its_title() {
        let page = "# sink-down\n\nThe **sink** is\nout of `reach`.\n\n## Do\n- look at\n  it\n- \
                    wait\n1. one\n\n```sh\npostbox <doctor>\n```\n";
        let text = |text: &str| Span::Text(text.into());
        assert_eq!(
            read(page),
            vec![
                Block::Paragraph(vec![
                    text("The "),
                    Span::Strong("sink".into()),
                    text(" is out of "),
                    Span::Code("reach".into()),
                    text("."),
                ]),
                Block::Heading(vec![text("Do")]),
                Block::List(vec![vec![text("look at it")], vec![text("wait")], vec![text("one")],]),
                Block::Code("postbox <doctor>".into()),
            ]
        );
    }

    #[test]
    fn only_codes_and_the_web_are_links() {
        let link = |text: &str, to: &str| vec![Span::Link(text.into(), to.into())];
        assert_eq!(spans("[down](sink-down.md)"), link("down", "/explain/sink-down"));
        assert_eq!(spans("[w](https://example.org/)"), link("w", "https://example.org/"));
        for evil in ["[x](javascript:alert(1))", "[x](//evil)", "[x](../../etc)"] {
            assert!(!matches!(spans(evil)[0], Span::Link(..)), "{evil}");
        }
    }
}
