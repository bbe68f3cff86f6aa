//! Plain tables for a terminal.

/// Prints rows in columns as wide as their widest cell.
pub(crate) fn print<const N: usize>(head: [&str; N], rows: &[[String; N]]) {
    let mut wide = head.map(|cell| cell.chars().count());
    for row in rows {
        for (at, cell) in row.iter().enumerate() {
            wide[at] = wide[at].max(cell.chars().count());
        }
    }
    let line = |cells: [&str; N]| {
        let mut line = String::new();
        for (cell, wide) in cells.into_iter().zip(wide) {
            line.push_str(&format!("{cell:wide$}  "));
        }
        println!("{}", line.trim_end());
    };
    line(head);
    for row in rows {
        line(row.each_ref().map(String::as_str));
    }
}
