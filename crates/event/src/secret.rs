//! Secrets, and keeping them out of everything that a person or a log can read.

use std::fmt;

/// A value that never prints.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct Secret(String);

impl Secret {
    /// Wraps a value.
    pub fn new(value: impl Into<String>) -> Secret {
        Secret(value.into())
    }

    /// Returns the value, for the one call that needs it.
    pub fn reveal(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Secret(***)")
    }
}

impl fmt::Display for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("***")
    }
}

/// Masks what looks like a secret in text that came from elsewhere: the password of a URL, and the
/// value after words like `authorization`, `token=`, `password:`.
pub fn scrub(text: &str) -> String {
    mask_words(&mask_userinfo(text))
}

fn mask_userinfo(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.find("://") {
        let (before, after) = rest.split_at(at + 3);
        out.push_str(before);
        let end = after
            .find(|c: char| c.is_whitespace() || matches!(c, '/' | '?' | '#' | '"' | '\'' | ')'))
            .unwrap_or(after.len());
        match after[..end].rfind('@') {
            Some(host) => {
                out.push_str("***");
                rest = &after[host..];
            }
            None => rest = after,
        }
    }
    out.push_str(rest);
    out
}

const WORDS: [&str; 10] = [
    "authorization",
    "password",
    "passwd",
    "secret",
    "token",
    "api_key",
    "api-key",
    "apikey",
    "access_key",
    "cookie",
];

fn mask_words(text: &str) -> String {
    let lower = text.to_ascii_lowercase();
    let mut out = String::with_capacity(text.len());
    let mut from = 0;
    while let Some((start, word)) = next_word(&lower, from) {
        let mut value = start + word.len();
        value += skip(&lower[value..], |c| c == '"' || c == '\'' || c == ' ');
        if !lower[value..].starts_with([':', '=']) {
            out.push_str(&text[from..start + word.len()]);
            from = start + word.len();
            continue;
        }
        value += 1;
        value += skip(&lower[value..], |c| c == '"' || c == '\'' || c == ' ');
        for scheme in ["bearer ", "basic "] {
            if lower[value..].starts_with(scheme) {
                value += scheme.len();
            }
        }
        let end = value
            + skip(&lower[value..], |c| {
                !c.is_whitespace() && !matches!(c, '"' | '\'' | '&' | ',' | ';' | '}')
            });
        let end = value + own(&text[value..end]);
        out.push_str(&text[from..value]);
        // MySQL tells only whether there was one.
        let told = text[..start].ends_with("using ") && text[end..].starts_with(')');
        if told && matches!(&text[value..end], "YES" | "NO") {
            out.push_str(&text[value..end]);
        } else if end > value {
            out.push_str("***");
        }
        from = end;
    }
    out.push_str(&text[from..]);
    out
}

/// Returns how much of a value is its own: a bracket at its end that it does not open is the
/// sentence's. One further in may be the secret's.
fn own(value: &str) -> usize {
    let tail = value.trim_end_matches([')', ']', '.', ':']).len();
    let (mut round, mut square) = (0_u32, 0_u32);
    for (at, c) in value.char_indices() {
        let open = match c {
            '(' | ')' => &mut round,
            '[' | ']' => &mut square,
            _ => continue,
        };
        match c {
            '(' | '[' => *open += 1,
            _ if *open == 0 && at >= tail => return at,
            _ => *open = open.saturating_sub(1),
        }
    }
    value.len()
}

fn next_word(lower: &str, from: usize) -> Option<(usize, &'static str)> {
    WORDS
        .iter()
        .filter_map(|word| lower[from..].find(word).map(|at| (from + at, *word)))
        .min_by_key(|(at, word)| (*at, usize::MAX - word.len()))
}

fn skip(text: &str, over: impl Fn(char) -> bool) -> usize {
    text.find(|c| !over(c)).unwrap_or(text.len())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_secret_never_prints() {
        let secret = Secret::new("canary");
        assert!(!format!("{secret} {secret:?}").contains("canary"));
    }

    #[test]
    fn passwords_of_urls_and_values_of_telling_words_are_masked() {
        let cases = [
            "mysql://root:canary@127.0.0.1/orders refused",
            "got Authorization: Bearer canary, sent 401",
            r#"{"password": "canary", "user": "me"}"#,
            "https://h/x?token=canary&y=1",
            "api_key=canary; secret = canary",
        ];
        for case in cases {
            let clean = scrub(case);
            assert!(!clean.contains("canary"), "{clean}");
            assert!(clean.contains("***"), "{clean}");
        }
        for (text, clean) in [
            ("denied (using password: YES) (1045)", "denied (using password: YES) (1045)"),
            ("denied (using password: NO)", "denied (using password: NO)"),
            ("denied (using password: YESx)", "denied (using password: ***)"),
            ("denied (password: YES)", "denied (password: ***)"),
            ("using password: YES and more", "using password: *** and more"),
            ("(token=canary): [secret: canary].", "(token=***): [secret: ***]."),
            ("password=can(ary) password=can)ary x", "password=*** password=*** x"),
            ("(password: can)ary)", "(password: ***)"),
        ] {
            assert_eq!(scrub(text), clean);
        }
        let untouched = "order 12 was refused: no token left in the bucket (https://h/p)";
        assert_eq!(scrub(untouched), untouched);
    }
}
