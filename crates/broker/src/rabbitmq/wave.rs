//! Events that are out together on one channel, and what the broker tells of each.
//!
//! The client library hands a returned message to whichever confirmation comes next on its channel.
//! So a confirmation says that somebody came back, and the message says who it was: what it means
//! for one event is read only where nothing can be missing of the others.

use std::collections::HashMap;
use std::future::Future;

use event::{Answer, Refusal};
use futures_util::FutureExt;
use lapin::message::BasicReturnMessage;
use lapin::{Confirmation, Error};
use tokio::time::{Instant, timeout_at};

use super::refusal::{self, Where};

/// What the broker told of one event, or what ended its channel or its connection before that.
pub(super) type Told = Result<Answer, Error>;

type Said = Option<lapin::Result<Confirmation>>;

/// Publishes on a channel that nobody else uses, in this order, and waits for what the broker tells
/// of each. `wave` has the id of each event, and what publishes it as soon as it is polled.
/// `silence` is what it means that nothing was told. Returns also whether nothing is out any more.
pub(super) async fn publish<F>(
    wave: Vec<(String, F)>,
    until: Instant,
    at: Where<'_>,
    silence: impl Fn() -> Refusal,
) -> (Vec<Told>, bool)
where
    F: Future<Output = lapin::Result<Confirmation>>,
{
    let (ids, out): (Vec<_>, Vec<_>) = wave.into_iter().unzip();
    let mut out: Vec<_> = out.into_iter().map(Box::pin).collect();
    let mut said: Vec<Said> = out.iter_mut().map(FutureExt::now_or_never).collect();
    let waiting = async {
        for (out, said) in out.iter_mut().zip(&mut said).filter(|(_, said)| said.is_none()) {
            *said = Some(out.await);
        }
    };
    let mut missed = Vec::new();
    if timeout_at(until, waiting).await.is_err() {
        let mut silent: Vec<_> =
            out.iter_mut().zip(&mut said).filter(|(_, said)| said.is_none()).collect();
        for (out, said) in &mut silent {
            **said = out.now_or_never();
        }
        // One that was silent when it was asked may since carry what belongs to one asked after it.
        let silent = silent.into_iter().filter(|(_, said)| said.is_none());
        missed = silent.filter_map(|(out, _)| out.now_or_never()?.ok()).collect();
    }
    let complete = said.iter().all(|said| matches!(said, Some(Ok(_))));
    (read(&ids, said, &missed, at, silence), complete)
}

/// Finds out whose each returned message is. What was said too late to be an answer is `missed`.
fn read(
    ids: &[String],
    said: Vec<Said>,
    missed: &[Confirmation],
    at: Where<'_>,
    silence: impl Fn() -> Refusal,
) -> Vec<Told> {
    let complete = said.iter().all(|said| matches!(said, Some(Ok(_))));
    let carried = said.iter().filter_map(|said| said.as_ref()?.as_ref().ok()).chain(missed);
    let back = carried.filter_map(|confirmation| match confirmation {
        Confirmation::Ack(Some(back)) | Confirmation::Nack(Some(back)) => {
            Some((id(back)?, refusal::unroutable(back, at)))
        }
        _ => None,
    });
    let back: HashMap<String, Refusal> = back.collect();
    let told = |(id, said): (&String, Said)| match (back.get(id), said) {
        (Some(refusal), _) => Ok(Err(refusal.clone())),
        // It may be one more that came back, while the confirmation that would carry it is missing.
        (None, Some(Ok(Confirmation::Ack(Some(_))))) if !complete => Ok(Err(silence())),
        (None, Some(Ok(confirmation))) => Ok(refusal::confirmed(&confirmation)),
        (None, Some(Err(error))) => Err(error),
        (None, None) => Ok(Err(silence())),
    };
    ids.iter().zip(said).map(told).collect()
}

fn id(back: &BasicReturnMessage) -> Option<String> {
    Some(back.delivery.properties.message_id().as_ref()?.as_str().to_owned())
}

#[cfg(test)]
mod tests {
    use std::future::{pending, ready};
    use std::time::Duration;

    use event::Code;
    use futures_util::future::BoxFuture;
    use lapin::message::Delivery;
    use lapin::{BasicProperties, ErrorKind};

    use super::*;

    const AT: Where<'_> = Where { host: "h:5672", exchange: "orders" };

    fn back(id: &str) -> Option<BasicReturnMessage> {
        let mut delivery = Delivery::mock(0, "orders".into(), "t".into(), false, Vec::new());
        delivery.properties = BasicProperties::default().with_message_id(id.into());
        Some(BasicReturnMessage { delivery, reply_code: 312, reply_text: "NO_ROUTE".into() })
    }

    fn ack(back: Option<BasicReturnMessage>) -> Said {
        Some(Ok(Confirmation::Ack(back)))
    }

    fn end() -> Said {
        Some(Err(ErrorKind::MissingHeartbeatError.into()))
    }

    /// Reads what was said of the events a, b, c …
    fn told(said: Vec<Said>, missed: &[Confirmation]) -> Vec<&'static str> {
        let ids: Vec<String> = ('a'..).take(said.len()).map(String::from).collect();
        read(&ids, said, missed, AT, silence).iter().map(word).collect()
    }

    fn silence() -> Refusal {
        refusal::late("h:5672", None)
    }

    fn word(told: &Told) -> &'static str {
        match told {
            Ok(Ok(_)) => "taken",
            Ok(Err(Refusal::Retry(cause, None))) if cause.code == Code::TopicMissing => "back",
            Ok(Err(Refusal::Unknown(cause))) if cause.code == Code::NotKept => "nack",
            Ok(Err(Refusal::Unknown(cause))) if cause.code == Code::SinkTimeout => "silence",
            Ok(Err(other)) => panic!("{other:?}"),
            Err(_) => "end",
        }
    }

    #[test]
    fn whoever_carries_it_the_message_says_who_came_back() {
        assert_eq!(told(vec![ack(back("b")), ack(None)], &[]), ["taken", "back"]);
        let crossed = vec![ack(back("c")), ack(None), ack(back("a"))];
        assert_eq!(told(crossed, &[]), ["back", "taken", "back"]);
        let nack = Some(Ok(Confirmation::Nack(back("b"))));
        assert_eq!(told(vec![nack, ack(None)], &[]), ["nack", "back"]);
    }

    #[test]
    fn who_carries_anothers_message_is_sure_of_nothing_while_one_is_missing() {
        assert_eq!(told(vec![ack(back("b")), None], &[]), ["silence", "back"]);
        assert_eq!(
            told(vec![ack(back("c")), None, ack(None)], &[]),
            ["silence", "silence", "back"]
        );
        assert_eq!(told(vec![ack(back("c")), end(), ack(None)], &[]), ["silence", "end", "back"]);
    }

    #[test]
    fn what_a_late_one_carries_counts() {
        let late = [Confirmation::Ack(back("b"))];
        assert_eq!(told(vec![None, ack(None)], &late), ["silence", "back"]);
    }

    #[tokio::test(start_paused = true)]
    async fn one_that_is_silent_hides_nothing_that_the_others_say() {
        let said = |said: Said| -> BoxFuture<'static, lapin::Result<Confirmation>> {
            match said {
                Some(said) => Box::pin(ready(said)),
                None => Box::pin(pending()),
            }
        };
        let wave = [ack(None), None, ack(None), end()].map(said);
        let wave = ('a'..).map(String::from).zip(wave).collect();
        let until = Instant::now() + Duration::from_secs(5);
        let told: Vec<_> = publish(wave, until, AT, silence).await.0.iter().map(word).collect();
        assert_eq!(told, ["taken", "silence", "taken", "end"]);
        assert!(Instant::now() >= until);
    }
}
