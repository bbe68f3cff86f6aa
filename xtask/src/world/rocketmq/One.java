// RocketMQ in one process: name server, broker, and from 5 on the proxy that speaks gRPC. Or a
// further broker, if the name server is another's.
//
// It is told a folder and six ports: of gRPC, of the name server, of the proxy's old protocol, one
// that the broker takes because it is two below its own, one for copies of the broker, and the
// broker's own. Further arguments, `broker.KEY=VALUE` and `proxy.KEY=VALUE`, outdo what stands
// here; `property.KEY=VALUE` is for Java; `file.NAME=TEXT` is a file beside the settings.

import java.io.IOException;
import java.io.InputStream;
import java.net.Socket;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.Arrays;
import java.util.LinkedHashMap;
import java.util.Map;
import java.util.stream.Collectors;

public class One {
    public static void main(String[] args) throws Exception {
        Path home = Path.of(args[0]);
        int grpc = Integer.parseInt(args[1]);
        for (String folder : new String[] {"conf", "tmp", "store"})
            Files.createDirectories(home.resolve(folder));
        String names = "127.0.0.1:" + args[2];
        Path conf = home.resolve("conf");
        // RocketMQ 4 looks for them here and nowhere else.
        for (String part : new String[] {"namesrv", "broker"})
            write(conf.resolve("logback_" + part + ".xml"), own("/logback.xml"));
        Path namesConf = write(conf.resolve("namesrv.conf"), lines(Map.of(
            "listenPort", args[2], "bindAddress", "127.0.0.1")));
        Map<String, String> broker = broker(home, names, args[6], args[5]);
        Map<String, String> proxy = proxy(names, grpc, args[3]);
        for (String more : Arrays.copyOfRange(args, 7, args.length)) {
            String[] pair = more.split("=", 2);
            if (pair[0].startsWith("broker.")) broker.put(pair[0].substring(7), pair[1]);
            if (pair[0].startsWith("proxy.")) proxy.put(pair[0].substring(6), quoted(pair[1]));
            if (pair[0].startsWith("property.")) System.setProperty(pair[0].substring(9), pair[1]);
            if (pair[0].startsWith("file.")) write(conf.resolve(pair[0].substring(5)), pair[1]);
        }
        String brokerConf = write(conf.resolve("broker.conf"), lines(broker)).toString();
        proxy.put("brokerConfigPath", quoted(brokerConf));
        Path proxyConf = write(conf.resolve("rmq-proxy.json"), json(proxy));
        boolean joins = !names.equals(broker.get("namesrvAddr"));
        boolean cluster = quoted("cluster").equals(proxy.get("proxyMode"));
        if (joins)
            await(broker.get("namesrvAddr"));
        else
            run("namesrv.NamesrvStartup", "-c", namesConf.toString());
        // A proxy is the broker's own and knows no other, unless it is that of a cluster.
        if (joins || cluster || !there("proxy.ProxyStartup"))
            run("broker.BrokerStartup", "-c", brokerConf);
        if (!joins && there("proxy.ProxyStartup"))
            run("proxy.ProxyStartup", "-pm", cluster ? "cluster" : "local",
                "-pc", proxyConf.toString());
    }

    // A broker that finds nobody to tell of itself tries again only after ten seconds.
    private static void await(String address) throws InterruptedException {
        int port = Integer.parseInt(address.substring(address.lastIndexOf(':') + 1));
        while (true) {
            try (Socket there = new Socket("127.0.0.1", port)) {
                return;
            } catch (IOException nobody) {
                Thread.sleep(20);
            }
        }
    }

    private static String own(String name) throws IOException {
        try (InputStream in = One.class.getResourceAsStream(name)) {
            return new String(in.readAllBytes(), StandardCharsets.UTF_8);
        }
    }

    private static boolean there(String name) {
        return One.class.getResource("/org/apache/rocketmq/" + name.replace('.', '/') + ".class")
            != null;
    }

    // By name, for one that is not there could not be compiled.
    private static void run(String name, String... args) throws Exception {
        Class.forName("org.apache.rocketmq." + name).getMethod("main", String[].class)
            .invoke(null, (Object) args);
    }

    private static Map<String, String> broker(
            Path home, String names, String port, String copies) {
        Map<String, String> of = new LinkedHashMap<>();
        of.put("brokerClusterName", "DefaultCluster");
        of.put("brokerName", "broker-a");
        of.put("brokerId", "0");
        of.put("brokerIP1", "127.0.0.1");
        of.put("bindAddress", "127.0.0.1");
        of.put("listenPort", port);
        of.put("haListenPort", copies);
        of.put("namesrvAddr", names);
        of.put("storePathRootDir", home.resolve("store").toString());
        of.put("storePathCommitLog", home.resolve("store/commitlog").toString());
        // Small files: a fresh folder costs little.
        of.put("mappedFileSizeCommitLog", "16777216");
        of.put("mappedFileSizeConsumeQueue", "120000");
        of.put("maxHashSlotNum", "20000");
        of.put("maxIndexNum", "80000");
        of.put("mappedFileSizeTimerLog", "1048576");
        of.put("flushDiskType", "ASYNC_FLUSH");
        of.put("diskMaxUsedSpaceRatio", "95");
        of.put("autoCreateTopicEnable", "true");
        of.put("autoCreateSubscriptionGroup", "true");
        of.put("defaultTopicQueueNums", "4");
        // By default it refuses what has waited for 200 ms, as all does on a busy machine.
        of.put("waitTimeMillsInSendQueue", "60000");
        // By default the timer is compared byte by byte each second.
        of.put("timerFlushIntervalMs", "30000");
        of.put("reviveQueueNum", "1");
        return of;
    }

    private static Map<String, String> proxy(String names, int grpc, String remoting) {
        Map<String, String> of = new LinkedHashMap<>();
        of.put("rocketMQClusterName", quoted("DefaultCluster"));
        of.put("namesrvAddr", quoted(names));
        of.put("localServeAddr", quoted("127.0.0.1"));
        of.put("grpcServerPort", Integer.toString(grpc));
        of.put("remotingListenPort", remoting);
        // What is missing is asked for again soon.
        of.put("topicRouteServiceCacheRefreshSeconds", "1");
        of.put("topicConfigCacheRefreshSeconds", "1");
        // Leases of seconds, so that tests need not wait for minutes.
        of.put("minInvisibleTimeMillsForRecv", "1000");
        return of;
    }

    private static Path write(Path file, String text) throws IOException {
        return Files.writeString(file, text);
    }

    private static String lines(Map<String, String> of) {
        return of.entrySet().stream().map(it -> it.getKey() + "=" + it.getValue() + "\n")
            .collect(Collectors.joining());
    }

    private static String json(Map<String, String> of) {
        return of.entrySet().stream().map(it -> quoted(it.getKey()) + ":" + it.getValue())
            .collect(Collectors.joining(",", "{", "}"));
    }

    private static String quoted(String text) {
        if (text.equals("true") || text.equals("false") || text.matches("[0-9]+")) return text;
        return '"' + text.replace("\\", "\\\\").replace("\"", "\\\"") + '"';
    }
}
