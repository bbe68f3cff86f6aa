// Reads events with RocketMQ's official Java client of version 4, and prints each on one line: what
// RocketMQ knows it by, its body, and its properties.

import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.TreeMap;
import java.util.stream.Collectors;
import java.util.stream.Stream;
import org.apache.rocketmq.client.consumer.DefaultLitePullConsumer;
import org.apache.rocketmq.common.consumer.ConsumeFromWhere;
import org.apache.rocketmq.common.message.MessageExt;

public class Reader {
    public static void main(String[] args) throws Exception {
        String names = args[0], topic = args[1], group = args[2];
        int count = Integer.parseInt(args[3]);
        long until = System.nanoTime() + Duration.ofSeconds(90).toNanos();
        DefaultLitePullConsumer consumer = new DefaultLitePullConsumer(group);
        consumer.setNamesrvAddr(names);
        consumer.setConsumeFromWhere(ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET);
        consumer.start();
        consumer.assign(consumer.fetchMessageQueues(topic));
        while (count > 0 && System.nanoTime() < until) {
            for (MessageExt message : consumer.poll(1000)) {
                System.out.println(line(message));
                count--;
            }
        }
        System.exit(count == 0 ? 0 : 1);
    }

    private static String line(MessageExt message) {
        Stream<String> known = Stream.of(
            message.getMsgId(),
            message.getTopic(),
            message.getTags(),
            message.getKeys(),
            new String(message.getBody(), StandardCharsets.UTF_8));
        Stream<String> properties = new TreeMap<>(message.getProperties()).entrySet().stream()
            .map(it -> it.getKey() + "=" + it.getValue());
        return Stream.concat(known, properties).collect(Collectors.joining("\t"));
    }
}
