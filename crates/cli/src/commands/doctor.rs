//! `postbox doctor`: looks at everything, and says what to do.

mod load;

use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::time::Duration;

use clap::Args;
use event::{Durability, Inspection, Refusal};
use serde_json::json;
use store::{Finding, Grade};

use crate::args::{Global, Which};
use crate::config::{self, Config};
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
        findings.extend(reach(&config, sink).await);
    }
    findings.push(console(&config).await);
    Ok(findings)
}

/// Looks at the files that hold secrets; the config is one of them if it holds any inline.
fn secret_files(config: &Config, file: &Path) -> Vec<Finding> {
    let token = config.admin.token.iter().filter_map(|token| token.file(file));
    let outboxes = config.outboxes.iter().flat_map(|outbox| outbox.url.files(file));
    let sinks = config.sinks.iter().flat_map(|sink| sink.kind.secret_files(file));
    let mut files: Vec<&Path> = token.chain(outboxes).chain(sinks).collect();
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

async fn reach(config: &Config, configured: &config::Sink) -> Vec<Finding> {
    const PATIENCE: Duration = Duration::from_secs(10);
    let what = format!("sink {}", configured.name);
    let one = |grade, detail: String| vec![found(grade, what.clone(), detail)];
    if !config.routes.iter().any(|route| route.sink == configured.name) {
        return one(Grade::Warn, "no route leads to it; add a [[route]], or remove it".to_owned());
    }
    let sink = match wire::lone(config, configured, None) {
        Ok(sink) => sink,
        Err(cause) => return one(Grade::Bad, cause.to_string()),
    };
    let findings = match tokio::time::timeout(PATIENCE, sink.probe()).await {
        Ok(Ok(())) => {
            let mut findings = one(Grade::Good, "can be reached".to_owned());
            let seen = telemetry::inspect(&*sink).await;
            let demand = wire::demand(config, &configured.name, None);
            findings.extend(judge(&what, configured.kind.name(), seen, demand));
            findings
        }
        Ok(Err(refusal)) => one(Grade::Bad, advised(&refusal)),
        Err(_) => {
            let detail = "was silent for 10s; look at its load, and whether its address is right";
            one(Grade::Warn, detail.to_owned())
        }
    };
    sink.close().await;
    findings
}

/// Says what a sink's receipts are worth, whether that is enough, and what it hangs on.
fn judge(
    what: &str,
    kind: &str,
    seen: Result<Inspection, Refusal>,
    demand: Option<Durability>,
) -> Vec<Finding> {
    let title = format!("{what}: durability");
    let seen = match seen {
        Ok(seen) => seen,
        Err(refusal) => {
            let grade = if demand.is_some() { Grade::Bad } else { Grade::Warn };
            return vec![found(grade, title, format!("cannot be asked: {}", why(&refusal)))];
        }
    };
    let class = seen.durability;
    let first = match demand {
        None => found(Grade::Good, title, class.to_string()),
        Some(demand) if class >= demand => {
            found(Grade::Good, title, format!("{class}; a route demands {demand}"))
        }
        Some(demand) => {
            let text = format!(
                "{class}, and a route demands {demand}: nothing is published there; `postbox \
                 explain durability-too-low`"
            );
            found(Grade::Bad, title, text)
        }
    };
    let load = load::findings(what, kind, &seen);
    let more = seen.findings.into_iter();
    let more = more.map(|it| Finding { what: format!("{what}: {}", it.what), ..it });
    std::iter::once(first).chain(more).chain(load).collect()
}

/// Says why a sink cannot be reached, and what to do.
fn advised(refusal: &Refusal) -> String {
    let text = format!("{}; meanwhile its lane rests", why(refusal));
    match refusal.cause() {
        Some(cause) => format!("{text}; `postbox explain {}`", cause.code),
        None => text,
    }
}

fn why(refusal: &Refusal) -> String {
    refusal.cause().map_or_else(|| "it answers nothing".to_owned(), ToString::to_string)
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
        let (mark, tone) = match grade {
            Grade::Good => ("✓", Tone::Good),
            Grade::Warn => ("!", Tone::Warn),
            Grade::Bad => ("✗", Tone::Bad),
        };
        list.push(json!({ "grade": grade.as_str(), "what": what, "detail": detail }));
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

#[cfg(test)]
mod tests {
    use event::{Cause, Code};

    use super::*;

    fn said(class: Durability, demand: Option<Durability>) -> (Grade, String) {
        let mut seen = Inspection::of(class);
        seen.findings.push(found(Grade::Warn, "appendfsync", "is everysec; set it to always"));
        let findings = judge("sink cache", "redis", Ok(seen), demand);
        assert_eq!(findings.len(), 2);
        assert_eq!(findings[1].what, "sink cache: appendfsync");
        (findings[0].grade, findings[0].detail.clone())
    }

    #[test]
    fn a_sink_that_is_worth_less_than_a_route_demands_is_bad() {
        use Durability::{BestEffort, Durable, Replicated};
        assert_eq!(said(BestEffort, None), (Grade::Good, "best-effort".to_owned()));
        let (grade, text) = said(Replicated, Some(Durable));
        assert_eq!((grade, text.as_str()), (Grade::Good, "replicated; a route demands durable"));
        let (grade, text) = said(BestEffort, Some(Durable));
        assert_eq!(grade, Grade::Bad);
        assert!(text.starts_with("best-effort, and a route demands durable: nothing is"), "{text}");
    }

    #[test]
    fn a_sink_that_cannot_be_asked_is_bad_only_if_something_is_demanded() {
        let silent = || Err(Refusal::Unknown(Cause::new(Code::SinkTimeout, "as the test says")));
        let grade = |demand| judge("sink cache", "redis", silent(), demand)[0].grade;
        assert_eq!(grade(None), Grade::Warn);
        assert_eq!(grade(Some(Durability::Durable)), Grade::Bad);
    }
}
