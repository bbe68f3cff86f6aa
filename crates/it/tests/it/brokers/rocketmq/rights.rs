//! A broker that knows who asks, and gives no right to the topic.

use broker::rocketmq::Shape;
use event::{Code, Event, Refusal};
use it::answer::publish;
use it::quay::rocketmq_rights::{RIGHTLESS, own};

use super::{cause_of, manner, topic};

#[tokio::test]
async fn who_has_no_right_to_a_topic_is_told_and_no_event_is_dead_for_it() {
    let quay = own().await;
    let topic = topic(&quay.whole, "FIFO").await;
    let event = Event::new(&*topic, "T", "{}").key("k");
    for (options, said) in [
        (quay.whole.options(manner(), Shape::Fifo), "40100"),
        (quay.options(manner(), Shape::Fifo), "16"),
    ] {
        let mut without = options.clone();
        let right = broker::rocketmq::sink(options).expect("the options are right");
        let answer = publish(&*right, &event).await;
        assert!(answer.is_ok(), "{answer:?}");
        let secret = without.access.keys.take().expect("it has keys").1;
        without.access.keys = Some((RIGHTLESS.to_owned(), secret));
        let wrong = broker::rocketmq::sink(without).expect("the options are right");
        let answer = publish(&*wrong, &event).await;
        assert_eq!(cause_of(&answer), Some(("retry", Code::AuthRefused)), "{answer:?}");
        let Err(Refusal::Retry(cause, _)) = answer else { panic!("{answer:?}") };
        assert!(cause.detail.starts_with(said) && cause.detail.contains(RIGHTLESS), "{cause}");
        // Others may be let in all the same.
        assert_eq!(wrong.probe().await, Ok(()));
    }
}
