// Publishes FIFO events with RocketMQ's official Java client, so many at once, the key as message
// group. It warms up, says `ready`, waits for a line, and says `done` when every event is
// acknowledged. `java -cp 'JARS/*' Producer.java ENDPOINT TOPIC WARM-TOPIC COUNT KEYS AT-ONCE`

import java.nio.charset.StandardCharsets;
import java.time.Instant;
import java.util.UUID;
import java.util.concurrent.Semaphore;
import java.util.concurrent.atomic.AtomicReference;
import org.apache.rocketmq.client.apis.ClientConfiguration;
import org.apache.rocketmq.client.apis.ClientServiceProvider;
import org.apache.rocketmq.client.apis.message.Message;

class Producer {
    static final ClientServiceProvider CLIENT = ClientServiceProvider.loadService();
    static final byte[] PAYLOAD =
        ("{\"x\":\"" + "y".repeat(292) + "\"}").getBytes(StandardCharsets.UTF_8);

    public static void main(String[] args) throws Exception {
        String topic = args[1], warm = args[2];
        int count = Integer.parseInt(args[3]), keys = Integer.parseInt(args[4]);
        int atOnce = Integer.parseInt(args[5]);
        ClientConfiguration configuration =
            ClientConfiguration.newBuilder().setEndpoints(args[0]).enableSsl(false).build();
        try (var producer = CLIENT.newProducerBuilder()
                .setClientConfiguration(configuration)
                .setTopics(topic, warm)
                .build()) {
            publish(producer, warm, count, keys, atOnce);
            System.out.println("ready");
            System.in.read();
            publish(producer, topic, count, keys, atOnce);
            System.out.println("done");
        }
        System.exit(0);
    }

    static void publish(
            org.apache.rocketmq.client.apis.producer.Producer producer,
            String topic, int count, int keys, int atOnce) throws Exception {
        var places = new Semaphore(atOnce);
        var failed = new AtomicReference<Throwable>();
        for (int n = 0; n < count; n++) {
            places.acquire();
            producer.sendAsync(message(topic, "k" + n % keys)).whenComplete((put, error) -> {
                if (error != null) failed.set(error);
                places.release();
            });
        }
        places.acquire(atOnce);
        if (failed.get() != null) throw new IllegalStateException(failed.get());
    }

    /** Writes an event with the attributes that our own have. */
    static Message message(String topic, String key) {
        String id = UUID.randomUUID().toString();
        return CLIENT.newMessageBuilder()
            .setTopic(topic)
            .setMessageGroup(key)
            .setTag("OrderPaid")
            .setKeys(id, key)
            .setBody(PAYLOAD)
            .addProperty("CE_specversion", "1.0")
            .addProperty("CE_id", id)
            .addProperty("CE_source", "bench")
            .addProperty("CE_type", "OrderPaid")
            .addProperty("CE_time", Instant.now().toString())
            .addProperty("CE_topic", topic)
            .addProperty("CE_messagekey", id)
            .addProperty("CE_subject", key)
            .addProperty("CE_partitionkey", key)
            .addProperty("CE_bizkey", key)
            .addProperty("CE_contenttype", "application/json")
            .build();
    }
}
