//! A consumer's standing with one proxy. It keeps what a consumer wants in memory only, so after
//! every new connection it is told again.

use std::future;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use event::{Cause, Code, Refusal};
use futures_util::{StreamExt, stream};
use tokio::sync::Mutex;
use tokio::time::timeout;
use tokio_util::task::AbortOnDropHandle;
use tonic::Streaming;

use super::super::refusal::{self, Absence};
use super::super::wire::{Call, Line, lasting, resource, v2};
use crate::manner::Subscription;

/// One standing, at the most, at a time.
#[derive(Debug, Default)]
pub(super) struct Session(Mutex<Option<Standing>>);

#[derive(Debug)]
struct Standing {
    turn: usize,
    fifo: bool,
    alive: Arc<AtomicBool>,
    _listens: AbortOnDropHandle<()>,
}

impl Session {
    /// Returns a call to a proxy that knows this consumer, and whether its group is FIFO.
    pub(super) async fn call(
        &self,
        line: &Line,
        wants: &Subscription,
    ) -> Result<(Call, bool), Refusal> {
        let mut standing = self.0.lock().await;
        let call = line.call();
        if let Some(known) = &*standing
            && known.turn == call.turn
            && known.alive.load(Ordering::Acquire)
        {
            return Ok((call, known.fifo));
        }
        *standing = None;
        match introduce(line, call.clone(), wants).await {
            Ok(made) => {
                let fifo = made.fifo;
                *standing = Some(made);
                Ok((call, fifo))
            }
            Err(refusal) => {
                line.leave(call.turn);
                Err(refusal)
            }
        }
    }

    /// The proxy does not know this consumer any more.
    pub(super) async fn forget(&self) {
        *self.0.lock().await = None;
    }
}

async fn introduce(line: &Line, mut call: Call, wants: &Subscription) -> Result<Standing, Refusal> {
    let host = line.host(call.turn);
    let first = v2::TelemetryCommand {
        status: None,
        command: Some(v2::telemetry_command::Command::Settings(settings(line, wants))),
    };
    // The stream stays open: its end would be the end of the standing.
    let said = stream::once(future::ready(first)).chain(stream::pending());
    let opened = async {
        let mut heard = call.client.telemetry(said).await?.into_inner();
        let answer = heard.message().await?;
        Ok::<_, tonic::Status>((answer, heard))
    };
    let (answer, heard) = match timeout(wants.timeout, opened).await {
        Ok(Ok(opened)) => opened,
        Ok(Err(status)) => return Err(unknown_group(&status, host, wants)),
        Err(_) => return Err(refusal::silent(host, wants.timeout)),
    };
    let Some(v2::TelemetryCommand { status, command }) = answer else {
        let ended = format!("{host}: the proxy ended the stream of settings");
        return Err(Refusal::Down(Cause::new(Code::SinkBroken, ended)));
    };
    if let Some(bad) = status.filter(|status| status.code != refusal::OK) {
        return Err(refusal::of(&bad, "", Absence::Missing));
    }
    let fifo = match command {
        Some(v2::telemetry_command::Command::Settings(v2::Settings {
            pub_sub: Some(v2::settings::PubSub::Subscription(told)),
            ..
        })) => told.fifo(),
        _ => false,
    };
    let alive = Arc::new(AtomicBool::new(true));
    let listens = AbortOnDropHandle::new(tokio::spawn(listen(heard, alive.clone())));
    Ok(Standing { turn: call.turn, fifo, alive, _listens: listens })
}

async fn listen(mut heard: Streaming<v2::TelemetryCommand>, alive: Arc<AtomicBool>) {
    while let Ok(Some(_)) = heard.message().await {}
    alive.store(false, Ordering::Release);
}

fn settings(line: &Line, wants: &Subscription) -> v2::Settings {
    let entry = |topic: &String| v2::SubscriptionEntry {
        topic: resource(topic),
        expression: Some(everything()),
    };
    let subscription = v2::Subscription {
        group: resource(&wants.group),
        subscriptions: wants.topics.iter().map(entry).collect(),
        fifo: None,
    };
    let user_agent = v2::Ua {
        language: v2::Language::Rust.into(),
        version: env!("CARGO_PKG_VERSION").to_owned(),
        platform: std::env::consts::OS.to_owned(),
        hostname: "postbox".to_owned(),
    };
    v2::Settings {
        client_type: Some(v2::ClientType::SimpleConsumer.into()),
        access_point: Some(line.endpoints()),
        request_timeout: Some(lasting(wants.timeout.max(Duration::from_secs(1)))),
        pub_sub: Some(v2::settings::PubSub::Subscription(subscription)),
        user_agent: Some(user_agent),
    }
}

/// The filter that lets all through.
pub(super) fn everything() -> v2::FilterExpression {
    v2::FilterExpression { r#type: v2::FilterType::Tag.into(), expression: "*".to_owned() }
}

fn unknown_group(status: &tonic::Status, host: &str, wants: &Subscription) -> Refusal {
    if status.code() != tonic::Code::InvalidArgument {
        return refusal::without(status, host);
    }
    let (group, said) = (&wants.group, status.message());
    Refusal::Down(Cause::new(
        Code::TopicMissing,
        format_args!(
            "{host}: {said}: make the group, for example with mqadmin updateSubGroup -g {group} -o \
             true"
        ),
    ))
}
