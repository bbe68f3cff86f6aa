//! Text from rows, made safe for a terminal.
//!
//! A payload or a key may hold escape sequences that move the cursor, set the title or turn text
//! around. None of them reaches the terminal: each such character is written as its number.

use std::fmt::Write;

fn is_unsafe(c: char) -> bool {
    c.is_control()
        || matches!(c, '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{2069}')
        || matches!(c, '\u{feff}' | '\u{fff9}'..='\u{fffb}' | '\u{e0000}'..='\u{e007f}')
}

/// Escapes everything that is not plain text.
pub(crate) fn escape(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '\n' => out.push_str("\\n"),
            '\r' => out.push_str("\\r"),
            '\t' => out.push_str("\\t"),
            c if is_unsafe(c) => {
                write!(out, "\\u{{{:x}}}", u32::from(c)).expect("a String takes everything");
            }
            c => out.push(c),
        }
    }
    out
}

/// Writes JSON on one line. What JSON leaves as it is but a terminal would obey becomes `\uXXXX`,
/// which means the same.
pub(crate) fn json(value: &serde_json::Value) -> String {
    let text = value.to_string();
    if !text.chars().any(is_unsafe) {
        return text;
    }
    let mut out = String::with_capacity(text.len() + 16);
    for c in text.chars() {
        if is_unsafe(c) {
            for unit in c.encode_utf16(&mut [0; 2]) {
                write!(out, "\\u{unit:04x}").expect("a String takes everything");
            }
        } else {
            out.push(c);
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_that_a_terminal_obeys_gets_through() {
        let evil = "\u{1b}]0;owned\u{7}\u{9b}31m\u{202e}abc\r\n\t\u{7f}";
        let safe = escape(evil);
        assert_eq!(safe, "\\u{1b}]0;owned\\u{7}\\u{9b}31m\\u{202e}abc\\r\\n\\t\\u{7f}");
        assert_eq!(escape("Füße 订单 주문 €"), "Füße 订单 주문 €");
    }

    #[test]
    fn json_stays_the_same_value_and_is_safe() {
        let value = serde_json::json!({ "k\u{9b}": "\u{1b}[2J\u{202e}x\u{e0001}" });
        let text = json(&value);
        assert!(!text.chars().any(is_unsafe), "{text}");
        assert_eq!(serde_json::from_str::<serde_json::Value>(&text).unwrap(), value);
    }
}
