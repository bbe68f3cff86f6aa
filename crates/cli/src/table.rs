//! Tables for people: aligned columns, no borders.

use crate::escape::escape;

/// How a column stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Align {
    /// Text.
    Left,
    /// Numbers.
    Right,
}

/// What colour a cell has, where colours are shown.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Tone {
    /// As it is.
    #[default]
    Plain,
    /// A heading.
    Bold,
    /// Of less weight.
    Dim,
    /// As it should be.
    Good,
    /// Worth a look.
    Warn,
    /// Wrong.
    Bad,
}

impl Tone {
    /// Paints text.
    pub(crate) fn paint(self, text: &str, colour: bool) -> String {
        let code = match self {
            Tone::Plain => "",
            Tone::Bold => "1",
            Tone::Dim => "2",
            Tone::Good => "32",
            Tone::Warn => "33",
            Tone::Bad => "31",
        };
        if !colour || code.is_empty() || text.is_empty() {
            return text.to_owned();
        }
        format!("\u{1b}[{code}m{text}\u{1b}[0m")
    }
}

/// One cell.
#[derive(Clone, Debug, Default)]
pub(crate) struct Cell {
    text: String,
    tone: Tone,
}

impl Cell {
    /// Makes a cell. Whatever the text holds, it is safe to print and on one line.
    pub(crate) fn new(text: impl AsRef<str>) -> Cell {
        Cell { text: cut(&escape(text.as_ref()), Cell::WIDEST), tone: Tone::Plain }
    }

    /// Makes a cell of any width, for text of our own at the end of a row.
    pub(crate) fn whole(text: &str) -> Cell {
        Cell { text: escape(text), tone: Tone::Plain }
    }

    /// The widest a cell may be.
    const WIDEST: usize = 48;

    /// Gives the cell a tone.
    pub(crate) fn tone(mut self, tone: Tone) -> Cell {
        self.tone = tone;
        self
    }
}

impl<T: AsRef<str>> From<T> for Cell {
    fn from(text: T) -> Cell {
        Cell::new(text)
    }
}

/// A table.
#[derive(Debug)]
pub(crate) struct Table {
    columns: Vec<(&'static str, Align)>,
    rows: Vec<Vec<Cell>>,
}

impl Table {
    /// Makes an empty table.
    pub(crate) fn new(columns: &[(&'static str, Align)]) -> Table {
        Table { columns: columns.to_vec(), rows: Vec::new() }
    }

    /// Adds a row.
    pub(crate) fn row(&mut self, cells: Vec<Cell>) {
        debug_assert_eq!(cells.len(), self.columns.len());
        self.rows.push(cells);
    }

    /// Writes the table, a line a row, without spaces at the ends of lines.
    pub(crate) fn lines(&self, colour: bool) -> Vec<String> {
        let heads: Vec<Cell> =
            self.columns.iter().map(|(name, _)| Cell::new(name).tone(Tone::Bold)).collect();
        let all = || std::iter::once(&heads).chain(&self.rows);
        let widths: Vec<usize> = (0..self.columns.len())
            .map(|at| all().map(|row| width(&row[at].text)).max().unwrap_or(0))
            .collect();
        let line = |row: &Vec<Cell>| {
            let mut line = String::new();
            let last = row.iter().rposition(|cell| !cell.text.is_empty()).unwrap_or(0);
            for (at, cell) in row.iter().enumerate().take(last + 1) {
                let space = " ".repeat(widths[at] - width(&cell.text));
                let text = cell.tone.paint(&cell.text, colour);
                match self.columns[at].1 {
                    Align::Right => line += &(space + &text),
                    Align::Left if at == last => line += &text,
                    Align::Left => line += &(text + &space),
                }
                if at < last {
                    line += "  ";
                }
            }
            line
        };
        all().map(line).collect()
    }
}

/// Cuts text to a width, and shows that something is missing.
pub(crate) fn cut(text: &str, most: usize) -> String {
    if width(text) <= most {
        return text.to_owned();
    }
    let mut out = String::new();
    for c in text.chars() {
        if width(&out) + cells(c) + 1 > most {
            break;
        }
        out.push(c);
    }
    out + "…"
}

fn width(text: &str) -> usize {
    text.chars().map(cells).sum()
}

/// Counts the cells a character takes on a terminal: two for letters of East Asia and emoji.
fn cells(c: char) -> usize {
    match u32::from(c) {
        0x0300..=0x036f => 0,
        0x1100..=0x115f
        | 0x2e80..=0xa4cf
        | 0xac00..=0xd7a3
        | 0xf900..=0xfaff
        | 0xfe30..=0xfe6f
        | 0xff00..=0xff60
        | 0xffe0..=0xffe6
        | 0x1f300..=0x1faff
        | 0x20000..=0x3fffd => 2,
        _ => 1,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn table() -> Table {
        let mut table = Table::new(&[("NAME", Align::Left), ("COUNT", Align::Right)]);
        table.row(vec!["orders".into(), "7".into()]);
        table.row(vec!["订单".into(), Cell::new("1234567").tone(Tone::Bad)]);
        table
    }

    #[test]
    fn columns_are_aligned_and_nothing_trails() {
        assert_eq!(table().lines(false), ["NAME      COUNT", "orders        7", "订单    1234567"]);
    }

    #[test]
    fn colours_do_not_move_columns() {
        let lines = table().lines(true);
        assert_eq!(lines[2], "订单    \u{1b}[31m1234567\u{1b}[0m");
    }

    #[test]
    fn a_cell_is_one_safe_line_of_bounded_width() {
        let cell = Cell::new(format!("a\n\u{1b}[2J{}", "x".repeat(100)));
        assert!(cell.text.starts_with("a\\n\\u{1b}[2J") && cell.text.ends_with('…'));
        assert_eq!(width(&cell.text), Cell::WIDEST);
    }
}
