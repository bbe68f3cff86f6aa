//! From a database by each broker to a consumer's effects, exactly once each and in order per key,
//! while relay, consumer and broker are killed.

use broker::manner::Manner;
use broker::rocketmq::Shape;
use it::journey::Journey;
use it::quay::{Quay, http, kafka, nats, rabbitmq, redis, rocketmq, rocketmq_remoting};

const FROM_POSTGRES: Journey = Journey { database: "postgres", events: 20_000, keys: 500 };
const FROM_MYSQL: Journey = Journey { database: "mysql", ..FROM_POSTGRES };

#[tokio::test]
async fn by_rocketmq_from_mysql() {
    let quay = rocketmq::own().await;
    let url = quay.options(Manner::new("it"), Shape::Fifo).access.url;
    go(FROM_MYSQL, &quay, &format!("kind = \"rocketmq\"\nurl = \"{url}\"")).await;
}

#[tokio::test]
async fn by_rocketmq_without_a_proxy_from_postgres() {
    let quay = rocketmq_remoting::own().await;
    go(FROM_POSTGRES, &quay, &format!("kind = \"rocketmq\"\nurl = \"{}\"", quay.url())).await;
}

#[tokio::test]
async fn by_kafka_from_postgres() {
    let quay = kafka::own().await;
    go(FROM_POSTGRES, &quay, &format!("kind = \"kafka\"\nurl = \"{}\"", quay.url)).await;
}

#[tokio::test]
async fn by_rabbitmq_from_mysql() {
    let quay = rabbitmq::own().await;
    let (url, exchange) = (&quay.url, &quay.exchange);
    let sink = format!("kind = \"rabbitmq\"\nurl = \"{url}\"\nexchange = \"{exchange}\"");
    go(FROM_MYSQL, &quay, &sink).await;
}

#[tokio::test]
async fn by_nats_from_postgres() {
    let quay = nats::own().await;
    go(FROM_POSTGRES, &quay, &format!("kind = \"nats\"\nurl = \"{}\"", quay.url)).await;
}

#[tokio::test]
async fn by_redis_from_postgres() {
    let quay = redis::own().await;
    go(FROM_POSTGRES, &quay, &format!("kind = \"redis\"\nurl = \"{}\"", quay.url)).await;
}

#[tokio::test]
async fn by_http_from_mysql() {
    let quay = http::binary().await;
    go(FROM_MYSQL, &quay, &quay.lines()).await;
}

async fn go(journey: Journey, quay: &dyn Quay, sink: &str) {
    journey.go(quay, sink).await.unwrap();
}
