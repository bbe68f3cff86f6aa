//! `kind = "http"`: CloudEvents over HTTP.

use std::sync::Arc;

use broker::http::{Mode, Options};
use event::{Cause, Durability, Sink};
use toml::{Table, Value};

use super::super::print::sealed;
use super::super::sealed::{Sealed, SecretOrigin, Url};
use super::super::section::Section;
use super::common::Pace;
use super::{CLASSES, Destination, Wiring, posting};

/// A destination over HTTP.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Http {
    pub(crate) url: Url,
    pub(crate) structured: bool,
    pub(crate) pace: Pace,
    pub(crate) secrets: Vec<Sealed>,
    pub(crate) headers: Vec<(String, Sealed)>,
    pub(crate) allow_private: bool,
    /// What a receipt of this destination is worth: the operator's word, for nobody can be asked.
    pub(crate) durability: Durability,
}

impl Destination for Http {
    fn read(section: &mut Section<'_>) -> Option<Http> {
        let allow_private = section.flag("allow_private");
        let allow_private = section.need("allow_private", allow_private);
        let url = section.text("url");
        let url = section.mean("url", url, |text| {
            let url = Url::read(text)?;
            posting::check_url(url.reveal(), allow_private != Some(false))?;
            Ok(url)
        });
        let mode = section.word("mode", &["binary", "structured"]);
        let mode = section.need("mode", mode);
        let pace = Pace::read(section);
        let secrets = section.secrets("secrets");
        let secrets = section.mean("secrets", secrets, |origins| {
            let secrets = origins.iter().map(Sealed::read).collect::<Result<Vec<_>, _>>()?;
            posting::check_secrets(&secrets)?;
            Ok(secrets)
        });
        let headers = section.named_secrets("headers");
        let headers = section.mean("headers", headers, |origins| {
            let read = |(name, origin): &(String, SecretOrigin)| {
                Ok::<_, String>((name.clone(), Sealed::read(origin)?))
            };
            let headers = origins.iter().map(read).collect::<Result<Vec<_>, _>>()?;
            posting::check_headers(&headers)?;
            Ok(headers)
        });
        let durability = section.word("durability", CLASSES);
        let durability = section.mean("durability", durability, |class| class.parse());
        Some(Http {
            url: url?,
            structured: mode? == "structured",
            pace: pace?,
            secrets: secrets?,
            headers: headers?,
            allow_private: allow_private?,
            durability: durability?,
        })
    }

    fn print(&self, table: &mut Table) {
        let mode = if self.structured { "structured" } else { "binary" };
        let headers = self.headers.iter().map(|(name, value)| (name.clone(), sealed(value)));
        table.extend([
            ("url".to_owned(), Value::from(self.url.to_string())),
            ("mode".to_owned(), Value::from(mode)),
            ("secrets".to_owned(), Value::Array(self.secrets.iter().map(sealed).collect())),
            ("headers".to_owned(), Value::Table(headers.collect())),
            ("allow_private".to_owned(), Value::from(self.allow_private)),
            ("durability".to_owned(), Value::from(self.durability.as_str())),
        ]);
        self.pace.print(table);
    }

    fn secrets(&self) -> Vec<&Sealed> {
        self.secrets.iter().chain(self.headers.iter().map(|(_, secret)| secret)).collect()
    }

    fn urls(&self) -> Vec<&Url> {
        vec![&self.url]
    }

    fn sink(&self, wiring: &Wiring<'_>) -> Result<Arc<dyn Sink>, Cause> {
        let headers = self.headers.iter();
        let headers = headers.map(|(name, sealed)| (name.clone(), sealed.value.clone()));
        let options = Options {
            mode: if self.structured { Mode::Structured } else { Mode::Binary },
            timeout: self.pace.timeout,
            stop: wiring.stop.clone(),
            secrets: self.secrets.iter().map(|sealed| sealed.value.clone()).collect(),
            headers: headers.collect(),
            allow_private: self.allow_private,
            concurrency: self.pace.concurrency,
            durability: self.durability,
            gates: wiring.gates.clone(),
            ..Options::new(self.url.reveal(), wiring.outbox)
        };
        Ok(Arc::new(broker::http::Http::new(options)?))
    }
}
