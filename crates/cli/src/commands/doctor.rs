//! `postbox doctor`: looks at everything, and says what to do.

use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::time::Duration;

use clap::Args;
use event::Refusal;
use serde_json::json;
use store::{Finding, Grade};

use crate::args::{Global, Which};
use crate::config::{self, Config, Kind};
use crate::failure::End;
use crate::out::Out;
use crate::outboxes::{self, Chosen};
use crate::table::Tone;
use crate::wire;

/// Check the config, secrets, databases, sinks and the console, and say what to do.
#[derive(Args, Debug)]
#[command(after_help = "\
✓ is as it should be, ! works but look at it, ✗ does not work.
Exit codes: 0 nothing is bad, 1 something is.")]
pub(crate) struct Doctor {
    #[command(flatten)]
    which: Which,
}

impl Doctor {
    /// Looks at everything that can be reached.
    pub(crate) async fn answer(&self, global: &Global, out: Out) -> anyhow::Result<End> {
        let version = concat!("postbox ", env!("CARGO_PKG_VERSION"));
        let mut findings = vec![found(Grade::Good, "version", version)];
        if self.which.url.is_some() {
            for chosen in outboxes::choose(global, &self.which)? {
                findings.extend(examine(&chosen).await);
            }
        } else {
            findings.extend(examine_all(global, &self.which).await?);
        }
        say(&findings, out)
    }
}

fn found(grade: Grade, what: impl Into<String>, detail: impl Into<String>) -> Finding {
    Finding { grade, what: what.into(), detail: detail.into() }
}

async fn examine_all(global: &Global, which: &Which) -> anyhow::Result<Vec<Finding>> {
    let config = match config::load(&global.config) {
        Ok(config) => config,
        Err(problems) => {
            let bad = |problem: &config::Problem| {
                found(Grade::Bad, problem.place.to_string(), problem.text.clone())
            };
            return Ok(problems.0.iter().map(bad).collect());
        }
    };
    let mut findings =
        vec![found(Grade::Good, "config", format!("{} is right", global.config.display()))];
    findings.extend(secret_files(&config, &global.config));
    for chosen in outboxes::choose(global, which)? {
        findings.extend(examine(&chosen).await);
    }
    for sink in &config.sinks {
        findings.push(reach(&config, sink).await);
    }
    findings.push(console(&config).await);
    Ok(findings)
}

/// Looks at the files that hold secrets; the config is one of them if it holds any inline.
fn secret_files(config: &Config, file: &Path) -> Vec<Finding> {
    let mut secrets: Vec<&config::Sealed> = config.admin.token.iter().collect();
    for sink in &config.sinks {
        if let Kind::Http(http) = &sink.kind {
            secrets.extend(http.secrets.iter().chain(http.headers.iter().map(|(_, s)| s)));
        }
    }
    let mut files: Vec<&Path> = secrets.iter().filter_map(|s| s.file(file)).collect();
    files.sort_unstable();
    files.dedup();
    files.into_iter().map(secret_file).collect()
}

fn secret_file(file: &Path) -> Finding {
    let what = format!("secret {}", file.display());
    match std::fs::metadata(file).map(|data| data.permissions().mode()) {
        Ok(mode) if mode & 0o077 == 0 => found(Grade::Good, what, "only its owner can read it"),
        Ok(mode) => {
            let text = format!("others can read it (mode {:03o}); chmod 600", mode & 0o777);
            found(Grade::Warn, what, text)
        }
        Err(error) => found(Grade::Bad, what, format!("cannot be looked at: {error}")),
    }
}

async fn examine(chosen: &Chosen) -> Vec<Finding> {
    let what = format!("outbox {}", chosen.name);
    let opened = match chosen.open_ready().await {
        Ok(opened) => opened,
        Err(error) => return vec![found(Grade::Bad, what, error.to_string())],
    };
    let mut findings = vec![found(Grade::Good, what.clone(), "opens, and its schema fits")];
    match opened.outbox.examine().await {
        Ok(all) => findings.extend(
            all.into_iter()
                .map(|finding| Finding { what: format!("{what}: {}", finding.what), ..finding }),
        ),
        Err(error) => findings.push(found(Grade::Bad, what, error.to_string())),
    }
    opened.outbox.close().await;
    findings
}

async fn reach(config: &Config, configured: &config::Sink) -> Finding {
    const PATIENCE: Duration = Duration::from_secs(10);
    let what = format!("sink {}", configured.name);
    if !config.routes.iter().any(|route| route.sink == configured.name) {
        return found(Grade::Warn, what, "no route leads to it; add a [[route]], or remove it");
    }
    let sink = match wire::sink(configured, "doctor") {
        Ok(sink) => sink,
        Err(cause) => return found(Grade::Bad, what, cause.to_string()),
    };
    let probed = tokio::time::timeout(PATIENCE, sink.probe()).await;
    sink.close().await;
    match probed {
        Ok(Ok(())) => found(Grade::Good, what, "can be reached"),
        Ok(Err(refusal)) => {
            let cause = match refusal {
                Refusal::Down(cause)
                | Refusal::Retry(cause, _)
                | Refusal::Reject(cause)
                | Refusal::Unknown(cause) => cause.to_string(),
                Refusal::Held => "it answers nothing".to_owned(),
            };
            found(Grade::Bad, what, format!("{cause}; until it answers, its lane rests"))
        }
        Err(_) => found(Grade::Warn, what, "was silent for 10s; look at its load"),
    }
}

async fn console(config: &Config) -> Finding {
    let admin = &config.admin;
    if admin.off {
        return found(Grade::Warn, "console", "switched off: no metrics, no /readyz");
    }
    match tokio::net::TcpListener::bind(admin.listen).await {
        Ok(_) => found(Grade::Good, "console", format!("{} is free", admin.listen)),
        Err(error) => {
            let text = format!(
                "{}: {error}; perhaps a relay runs already. A second one needs another `listen` \
                 in [admin] (POSTBOX__ADMIN__LISTEN=127.0.0.1:0 takes a free port), or `off`",
                admin.listen
            );
            found(Grade::Warn, "console", text)
        }
    }
}

fn say(findings: &[Finding], out: Out) -> anyhow::Result<End> {
    let bad = findings.iter().any(|finding| finding.grade == Grade::Bad);
    let (mut list, mut lines) = (Vec::new(), Vec::new());
    let width = findings.iter().map(|f| f.what.chars().count()).max().unwrap_or(0).min(40);
    for Finding { grade, what, detail } in findings {
        let (mark, tone, name) = match grade {
            Grade::Good => ("✓", Tone::Good, "good"),
            Grade::Warn => ("!", Tone::Warn, "warn"),
            Grade::Bad => ("✗", Tone::Bad, "bad"),
        };
        list.push(json!({ "grade": name, "what": what, "detail": detail }));
        let what = format!("{:<width$}", crate::escape::escape(what));
        lines.push(format!("{} {what}  {}", out.paint(tone, mark), crate::escape::escape(detail)));
    }
    if out.json {
        out.value(&json!({ "ok": !bad, "findings": list }))?;
    } else {
        out.line(lines.join("\n"))?;
    }
    Ok(if bad { End::Wrong } else { End::Fine })
}
