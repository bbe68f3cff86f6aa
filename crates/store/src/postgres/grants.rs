//! What each account needs, and not more.

use crate::Accounts;

const RELAY: &str = include_str!("../../sql/postgres/accounts/relay.sql");
const SERVICE: &str = include_str!("../../sql/postgres/accounts/service.sql");

/// Returns the statements that give each account its rights.
pub(super) fn grants(table: &str, accounts: &Accounts) -> String {
    let to = |file: &str, account: &str| {
        file.replace("{outbox}", table).replace("{account}", &quoted(account))
    };
    format!("{}\n{}", to(RELAY, &accounts.relay), to(SERVICE, &accounts.service))
}

/// Writes a name as the server reads it, whatever is in it.
fn quoted(name: &str) -> String {
    format!("\"{}\"", name.replace('"', "\"\""))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_can_never_carry_sql() {
        assert_eq!(quoted("postbox"), r#""postbox""#);
        assert_eq!(quoted(r#"a"; DROP TABLE b; --"#), r#""a""; DROP TABLE b; --""#);
    }
}
