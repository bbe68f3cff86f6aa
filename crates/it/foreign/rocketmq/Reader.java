// Reads events with RocketMQ's official Java client and the CloudEvents SDK for Java, and prints
// each as a line of JSON: what the envelope says, and what RocketMQ knows it by.
//
// The SDK's own binding for RocketMQ was never published; what is left of it is `Letter` below.

import io.cloudevents.CloudEvent;
import io.cloudevents.SpecVersion;
import io.cloudevents.core.data.BytesCloudEventData;
import io.cloudevents.core.message.impl.BaseGenericBinaryMessageReaderImpl;
import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.Map;
import java.util.TreeMap;
import java.util.function.BiConsumer;
import java.util.stream.Collectors;
import org.apache.rocketmq.client.apis.ClientConfiguration;
import org.apache.rocketmq.client.apis.ClientServiceProvider;
import org.apache.rocketmq.client.apis.consumer.FilterExpression;
import org.apache.rocketmq.client.apis.consumer.SimpleConsumer;
import org.apache.rocketmq.client.apis.message.MessageView;

public class Reader {
    public static void main(String[] args) throws Exception {
        String endpoint = args[0], topic = args[1], group = args[2];
        int count = Integer.parseInt(args[3]);
        long until = System.nanoTime() + Duration.ofSeconds(90).toNanos();
        ClientConfiguration configuration =
            ClientConfiguration.newBuilder().setEndpoints(endpoint).enableSsl(false).build();
        try (SimpleConsumer consumer = ClientServiceProvider.loadService()
                .newSimpleConsumerBuilder()
                .setClientConfiguration(configuration)
                .setConsumerGroup(group)
                .setAwaitDuration(Duration.ofSeconds(5))
                .setSubscriptionExpressions(Map.of(topic, FilterExpression.SUB_ALL))
                .build()) {
            while (count > 0 && System.nanoTime() < until) {
                for (MessageView message : consumer.receive(1, Duration.ofSeconds(20))) {
                    System.out.println(line(message));
                    consumer.ack(message);
                    count--;
                }
            }
        }
        System.exit(count == 0 ? 0 : 1);
    }

    private static String line(MessageView message) {
        CloudEvent event = new Letter(message).toEvent();
        Map<String, String> fields = new TreeMap<>();
        fields.put("id", event.getId());
        fields.put("type", event.getType());
        fields.put("source", event.getSource().toString());
        fields.put("subject", event.getSubject());
        fields.put("time", event.getTime().toInstant().toString());
        fields.put("datacontenttype", event.getDataContentType());
        if (event.getData() != null)
            fields.put("data", new String(event.getData().toBytes(), StandardCharsets.UTF_8));
        for (String name : event.getExtensionNames())
            fields.put(name, String.valueOf(event.getExtension(name)));
        fields.put("message-id", message.getMessageId().toString());
        fields.put("message-group", message.getMessageGroup().orElse(null));
        fields.put("tag", message.getTag().orElse(null));
        fields.put("keys", message.getKeys().stream().sorted().collect(Collectors.joining(",")));
        fields.put("property-traceparent", message.getProperties().get("traceparent"));
        return fields.entrySet().stream()
            .filter(it -> it.getValue() != null)
            .map(it -> quoted(it.getKey()) + ":" + quoted(it.getValue()))
            .collect(Collectors.joining(",", "{", "}"));
    }

    private static String quoted(String text) {
        var out = new StringBuilder("\"");
        for (char letter : text.toCharArray()) {
            boolean plain = letter >= ' ' && letter <= '~' && letter != '"' && letter != '\\';
            out.append(plain ? String.valueOf(letter) : String.format("\\u%04x", (int) letter));
        }
        return out.append('"').toString();
    }

    /** A message as the SDK reads it. */
    private static final class Letter extends BaseGenericBinaryMessageReaderImpl<String, String> {
        private static final String PREFIX = "CE_";
        private static final String CONTENT_TYPE = "CE_contenttype";
        private final Map<String, String> properties;

        Letter(MessageView message) {
            super(SpecVersion.parse(message.getProperties().get("CE_specversion")), data(message));
            properties = message.getProperties();
        }

        private static BytesCloudEventData data(MessageView message) {
            ByteBuffer body = message.getBody();
            byte[] bytes = new byte[body.remaining()];
            body.get(bytes);
            boolean nothing = bytes.length == 0 || bytes.length == 1 && bytes[0] == 0;
            return nothing ? null : BytesCloudEventData.wrap(bytes);
        }

        @Override
        protected boolean isContentTypeHeader(String name) {
            return name.equals(CONTENT_TYPE);
        }

        @Override
        protected boolean isCloudEventsHeader(String name) {
            return name.startsWith(PREFIX);
        }

        @Override
        protected String toCloudEventsKey(String name) {
            return name.substring(PREFIX.length());
        }

        @Override
        protected void forEachHeader(BiConsumer<String, String> each) {
            properties.forEach(each);
        }

        @Override
        protected String toCloudEventsValue(String value) {
            return value;
        }
    }
}
