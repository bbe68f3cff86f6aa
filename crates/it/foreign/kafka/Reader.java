// Reads events with Kafka's own client and the CloudEvents SDK, as a consumer in Java would, and
// prints each as a line of JSON. `java -cp 'JARS/*' Reader.java BOOTSTRAP TOPIC COUNT`

import io.cloudevents.CloudEvent;
import io.cloudevents.kafka.CloudEventDeserializer;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.producer.internals.BuiltInPartitioner;
import org.apache.kafka.common.header.Header;
import org.apache.kafka.common.serialization.StringDeserializer;

class Reader {
    static final Duration PATIENCE = Duration.ofSeconds(60);

    public static void main(String[] args) {
        String topic = args[1];
        int count = Integer.parseInt(args[2]);
        Map<String, Object> config = Map.of(
            "bootstrap.servers", args[0],
            "group.id", "reader-" + System.nanoTime(),
            "auto.offset.reset", "earliest",
            "key.deserializer", StringDeserializer.class,
            "value.deserializer", CloudEventDeserializer.class);
        try (var consumer = new KafkaConsumer<String, CloudEvent>(config)) {
            consumer.subscribe(List.of(topic));
            int partitions = consumer.partitionsFor(topic).size();
            long until = System.nanoTime() + PATIENCE.toNanos();
            for (int seen = 0; seen < count; ) {
                if (System.nanoTime() > until)
                    throw new IllegalStateException(seen + " of " + count + " came");
                for (var one : consumer.poll(Duration.ofMillis(200))) {
                    System.out.println(line(one, partitions));
                    seen++;
                }
            }
        }
    }

    static String line(ConsumerRecord<String, CloudEvent> one, int partitions) {
        CloudEvent event = one.value();
        Map<String, String> fields = new TreeMap<>();
        fields.put("id", event.getId());
        fields.put("type", event.getType());
        fields.put("source", event.getSource().toString());
        fields.put("subject", event.getSubject());
        fields.put("time", event.getTime().toInstant().toString());
        fields.put("datacontenttype", event.getDataContentType());
        fields.put("data", new String(event.getData().toBytes(), StandardCharsets.UTF_8));
        for (String name : event.getExtensionNames())
            fields.put(name, String.valueOf(event.getExtension(name)));
        fields.put("key", one.key());
        fields.put("partition", String.valueOf(one.partition()));
        if (one.key() != null) {
            byte[] key = one.key().getBytes(StandardCharsets.UTF_8);
            int own = BuiltInPartitioner.partitionForKey(key, partitions);
            fields.put("partition-of-java", String.valueOf(own));
        }
        Header trace = one.headers().lastHeader("traceparent");
        if (trace != null)
            fields.put("header-traceparent", new String(trace.value(), StandardCharsets.UTF_8));
        var text = new StringBuilder("{");
        fields.forEach((name, value) -> {
            if (value == null) return;
            if (text.length() > 1) text.append(',');
            text.append(quoted(name)).append(':').append(quoted(value));
        });
        return text.append('}').toString();
    }

    static String quoted(String text) {
        var out = new StringBuilder("\"");
        for (char letter : text.toCharArray()) {
            boolean plain = letter >= ' ' && letter <= '~' && letter != '"' && letter != '\\';
            out.append(plain ? String.valueOf(letter) : String.format("\\u%04x", (int) letter));
        }
        return out.append('"').toString();
    }
}
