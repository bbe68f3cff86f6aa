//! Whom a machine trusts: its CAs, or those of the file that SSL_CERT_FILE names.

use event::{Cause, Code};
use rustls_native_certs::load_native_certs;
use tokio_rustls::rustls::RootCertStore;
use tokio_rustls::rustls::pki_types::CertificateDer;

/// Returns the CAs that can be read. There is at least one.
pub(crate) fn machine() -> Result<Vec<CertificateDer<'static>>, Cause> {
    let is_read = |ca: &CertificateDer<'static>| RootCertStore::empty().add(ca.clone()).is_ok();
    let known: Vec<_> = load_native_certs().certs.into_iter().filter(is_read).collect();
    if known.is_empty() {
        let detail = "TLS: No CA certificates are on this machine: install its package of them, \
                      or name a file in SSL_CERT_FILE";
        return Err(Cause::new(Code::ConfigInvalid, detail));
    }
    Ok(known)
}
