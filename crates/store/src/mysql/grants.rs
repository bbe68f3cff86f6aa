//! What each account needs, and not more.

use crate::Accounts;

const RELAY: &str = include_str!("../../sql/mysql/accounts/relay.sql");
const SERVICE: &str = include_str!("../../sql/mysql/accounts/service.sql");

/// Returns the statements that give each account its rights.
pub(super) fn grants(table: &str, accounts: &Accounts) -> String {
    let to = |file: &str, account: &str| {
        file.replace("{outbox}", table).replace("{account}", &quoted(account))
    };
    format!("{}\n{}", to(RELAY, &accounts.relay), to(SERVICE, &accounts.service))
}

/// Writes an account as the server reads it, whatever is in it: a name, from any host unless one
/// stands behind its last @. No mode of a session changes what stands between these quotes.
fn quoted(account: &str) -> String {
    let quoted = |name: &str| format!("`{}`", name.replace('`', "``"));
    let (name, host) = account.rsplit_once('@').unwrap_or((account, "%"));
    format!("{}@{}", quoted(name), quoted(host))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_can_never_carry_sql_and_may_say_from_where() {
        assert_eq!(quoted("postbox"), "`postbox`@`%`");
        assert_eq!(quoted("postbox@10.0.0.%"), "`postbox`@`10.0.0.%`");
        assert_eq!(quoted("a`; DROP TABLE b; -- \\"), "`a``; DROP TABLE b; -- \\`@`%`");
        assert_eq!(quoted("a'b@c`d@e"), "`a'b@c``d`@`e`");
    }
}
