// Publishes events with Kafka's own client: idempotent, acknowledged by all replicas in sync, as
// many on the way as the client takes. It warms up, says `ready`, waits for a line, and says `done`
// when every event is acknowledged.
// `java -cp 'JARS/*' Producer.java BOOTSTRAP TOPIC WARM-TOPIC COUNT KEYS`

import java.nio.charset.StandardCharsets;
import java.time.Instant;
import java.util.Map;
import java.util.UUID;
import java.util.concurrent.atomic.AtomicReference;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.header.Headers;
import org.apache.kafka.common.serialization.StringSerializer;

class Producer {
    static final String PAYLOAD = "{\"x\":\"" + "y".repeat(292) + "\"}";

    public static void main(String[] args) throws Exception {
        int count = Integer.parseInt(args[3]), keys = Integer.parseInt(args[4]);
        Map<String, Object> config = Map.of(
            "bootstrap.servers", args[0],
            "acks", "all",
            "enable.idempotence", true,
            "linger.ms", 5,
            "batch.size", 524288,
            "key.serializer", StringSerializer.class,
            "value.serializer", StringSerializer.class);
        try (var producer = new KafkaProducer<String, String>(config)) {
            publish(producer, args[2], count, keys);
            producer.partitionsFor(args[1]);
            System.out.println("ready");
            System.in.read();
            publish(producer, args[1], count, keys);
            System.out.println("done");
        }
    }

    static void publish(KafkaProducer<String, String> producer, String topic, int count, int keys)
            throws Exception {
        var failed = new AtomicReference<Exception>();
        for (int n = 0; n < count; n++) {
            var one = new ProducerRecord<>(topic, "k" + n % keys, PAYLOAD);
            describe(one.headers(), topic, one.key());
            producer.send(one, (put, error) -> {
                if (error != null) failed.set(error);
            });
        }
        producer.flush();
        if (failed.get() != null) throw failed.get();
    }

    /** Writes the attributes that our own events have. */
    static void describe(Headers headers, String topic, String key) {
        String id = UUID.randomUUID().toString();
        put(headers, "ce_specversion", "1.0");
        put(headers, "ce_id", id);
        put(headers, "ce_source", "bench");
        put(headers, "ce_type", "OrderPaid");
        put(headers, "ce_time", Instant.now().toString());
        put(headers, "ce_topic", topic);
        put(headers, "ce_messagekey", id);
        put(headers, "ce_subject", key);
        put(headers, "ce_partitionkey", key);
        put(headers, "ce_bizkey", key);
        put(headers, "content-type", "application/json");
    }

    static void put(Headers headers, String name, String value) {
        headers.add(name, value.getBytes(StandardCharsets.UTF_8));
    }
}
