//! From a database by each broker to a consumer's effects, exactly once each and in order per key,
//! while relay, consumer and broker are killed.

use it::journey::Journey;
use it::quay::{http, kafka, nats, rabbitmq, redis, rocketmq, rocketmq_4, rocketmq_remoting};

const FROM_POSTGRES: Journey = Journey { database: "postgres", events: 20_000, keys: 500 };
const FROM_MYSQL: Journey = Journey { database: "mysql", ..FROM_POSTGRES };

#[tokio::test]
async fn by_rocketmq_from_mysql() {
    FROM_MYSQL.go(&rocketmq::own().await).await.unwrap();
}

#[tokio::test]
async fn by_rocketmq_without_a_proxy_from_postgres() {
    FROM_POSTGRES.go(&rocketmq_remoting::own().await).await.unwrap();
}

#[tokio::test]
async fn by_rocketmq_4_from_mysql() {
    FROM_MYSQL.go(&rocketmq_4::own().await).await.unwrap();
}

#[tokio::test]
async fn by_kafka_from_postgres() {
    FROM_POSTGRES.go(&kafka::own().await).await.unwrap();
}

#[tokio::test]
async fn by_rabbitmq_from_mysql() {
    FROM_MYSQL.go(&rabbitmq::own().await).await.unwrap();
}

#[tokio::test]
async fn by_nats_from_postgres() {
    FROM_POSTGRES.go(&nats::own().await).await.unwrap();
}

#[tokio::test]
async fn by_redis_from_postgres() {
    FROM_POSTGRES.go(&redis::own().await).await.unwrap();
}

#[tokio::test]
async fn by_http_from_mysql() {
    FROM_MYSQL.go(&http::binary().await).await.unwrap();
}
