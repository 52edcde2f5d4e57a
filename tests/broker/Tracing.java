import io.opentelemetry.api.trace.Span;
import io.opentelemetry.api.trace.Tracer;
import io.opentelemetry.api.trace.propagation.W3CTraceContextPropagator;
import io.opentelemetry.context.Context;
import io.opentelemetry.context.Scope;
import io.opentelemetry.context.propagation.ContextPropagators;
import io.opentelemetry.sdk.OpenTelemetrySdk;
import io.opentelemetry.sdk.trace.SdkTracerProvider;
import java.util.concurrent.TimeUnit;
import org.apache.pulsar.client.api.Consumer;
import org.apache.pulsar.client.api.Message;
import org.apache.pulsar.client.api.Producer;
import org.apache.pulsar.client.api.PulsarClient;
import org.apache.pulsar.client.api.Schema;
import org.apache.pulsar.client.api.SubscriptionInitialPosition;
import org.apache.pulsar.client.api.TypedMessageBuilder;
import org.apache.pulsar.client.impl.tracing.TracingContext;

/** A client that traces: {@code Tracing SERVICE_URL TOPIC COUNT BATCHED} prints the trace of each message that it sends. */
public class Tracing {
    public static void main(String[] arguments) throws Exception {
        String topic = arguments[1];
        int count = Integer.parseInt(arguments[2]);
        OpenTelemetrySdk telemetry = OpenTelemetrySdk.builder()
                .setTracerProvider(SdkTracerProvider.builder().build())
                .setPropagators(ContextPropagators.create(W3CTraceContextPropagator.getInstance()))
                .buildAndRegisterGlobal();
        Tracer tracer = telemetry.getTracer("tests");
        try (PulsarClient client =
                PulsarClient.builder().serviceUrl(arguments[0]).openTelemetry(telemetry).enableTracing(true).build()) {
            Consumer<String> consumer = client.newConsumer(Schema.STRING).topic(topic).subscriptionName("traced")
                    .subscriptionInitialPosition(SubscriptionInitialPosition.Earliest).subscribe();
            Producer<String> producer = client.newProducer(Schema.STRING).topic(topic)
                    .enableBatching(Boolean.parseBoolean(arguments[3])).create();
            for (int number = 0; number < count; number++) {
                Span order = tracer.spanBuilder("order").startSpan();
                try (Scope scope = order.makeCurrent()) {
                    TypedMessageBuilder<String> message = producer.newMessage().property("number", "" + number);
                    TracingContext.injectContext(message, Context.current(), W3CTraceContextPropagator.getInstance());
                    message.value("order " + number).sendAsync();
                } finally {
                    order.end();
                }
                System.out.println("{\"number\": \"" + number + "\", \"trace_id\": \"" + order.getSpanContext().getTraceId() + "\"}");
            }
            producer.flush();
            for (int number = 0; number < count; number++) {
                Message<String> message = consumer.receive(30, TimeUnit.SECONDS);
                consumer.acknowledge(message);
            }
            Thread.sleep(1000); // for acknowledgments, which are sent together
        }
    }
}
