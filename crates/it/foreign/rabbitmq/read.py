"""Reads a queue as a consumer in Python does: RabbitMQ's own client, and the CloudEvents SDK.

    python read.py URL QUEUE COUNT

Takes COUNT events, acknowledges each, and prints each as one line of JSON. It knows nothing of
Postbox: whatever it prints, any reader of CloudEvents sees.
"""

import base64
import json
import sys

import pika
from cloudevents.core.bindings.amqp import AMQPMessage, from_amqp_event

SECONDS = 60


def event_of(properties, body):
    """Hands the SDK what came, in the parts that its binding names."""
    # AMQP 0.9.1 has one table where AMQP 1.0 has application properties.
    return from_amqp_event(
        AMQPMessage(
            properties={"content-type": properties.content_type},
            application_properties=properties.headers or {},
            application_data=body,
        )
    )


def shown(event, properties, body):
    attributes = {name: str(value) for name, value in event.get_attributes().items()}
    attributes["time"] = event.get_time().isoformat()
    return {
        "attributes": attributes,
        "data": event.get_data() if isinstance(event.get_data(), (dict, list)) else None,
        "body": base64.b64encode(body).decode(),
        "message_id": properties.message_id,
        "type": properties.type,
        "timestamp": properties.timestamp,
        "delivery_mode": properties.delivery_mode,
        "traceparent": (properties.headers or {}).get("traceparent"),
    }


def main(url, queue, count):
    connection = pika.BlockingConnection(pika.URLParameters(url))
    channel = connection.channel()
    channel.basic_qos(prefetch_count=10)
    taken = 0
    for method, properties, body in channel.consume(queue, inactivity_timeout=SECONDS):
        if method is None:
            sys.exit(f"{taken} of {count} came within {SECONDS} s")
        print(json.dumps(shown(event_of(properties, body), properties, body)), flush=True)
        channel.basic_ack(method.delivery_tag)
        taken += 1
        if taken == count:
            break
    channel.cancel()
    connection.close()


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], int(sys.argv[3]))
