// Reads events with RocketMQ's official Java client and the CloudEvents SDK for Java, and prints
// each on one line: what the envelope says, what RocketMQ knows it by, and its data as base64.
//
// The SDK's own binding for RocketMQ was never published; what is left of it is `Letter` below.

import io.cloudevents.CloudEvent;
import io.cloudevents.SpecVersion;
import io.cloudevents.core.data.BytesCloudEventData;
import io.cloudevents.core.message.impl.BaseGenericBinaryMessageReaderImpl;
import java.nio.ByteBuffer;
import java.time.Duration;
import java.util.Base64;
import java.util.Map;
import java.util.function.BiConsumer;
import java.util.stream.Collectors;
import java.util.stream.Stream;
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
        byte[] data = event.getData() == null ? new byte[0] : event.getData().toBytes();
        Object key = event.getExtension("bizkey");
        return Stream.of(
                event.getId(),
                event.getType(),
                event.getSource(),
                event.getTime().toInstant(),
                event.getDataContentType(),
                key,
                message.getMessageId(),
                message.getMessageGroup().orElse(""),
                message.getTag().orElse(""),
                message.getKeys().stream().sorted().collect(Collectors.joining(",")),
                message.getProperties().get("traceparent"),
                event.getExtension("sequence"),
                Base64.getEncoder().encodeToString(data))
            .map(String::valueOf)
            .collect(Collectors.joining("\t"));
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
