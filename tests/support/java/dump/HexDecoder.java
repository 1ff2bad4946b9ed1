import java.util.HexFormat;
import org.apache.kafka.tools.api.Decoder;

/** Lets kafka-dump-log print keys and values as they are: in hexadecimal digits, on one line. */
public class HexDecoder implements Decoder<String> {
    @Override
    public String fromBytes(byte[] bytes) {
        return HexFormat.of().formatHex(bytes);
    }
}
