import com.google.re2j.Pattern;
import com.google.re2j.PatternSyntaxException;
import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import java.util.HexFormat;

/** Answers an expression and names, in hexadecimal, as Kafka's brokers would: one line each. */
public final class Re2jJudge {
  public static void main(String[] arguments) throws Exception {
    BufferedReader in = new BufferedReader(new InputStreamReader(System.in));
    PrintStream out = new PrintStream(System.out, false, StandardCharsets.UTF_8);
    for (String line; (line = in.readLine()) != null; ) {
      String[] texts = line.split("\t", -1);
      try {
        Pattern pattern = Pattern.compile(text(texts[0]));
        StringBuilder said = new StringBuilder("+");
        for (int i = 1; i < texts.length; i++) {
          said.append(pattern.matcher(text(texts[i])).matches() ? '1' : '0');
        }
        out.println(said);
      } catch (PatternSyntaxException refusal) {
        out.println("-" + refusal.getDescription());
      }
    }
    out.flush();
  }

  private static String text(String hex) {
    return new String(HexFormat.of().parseHex(hex), StandardCharsets.UTF_8);
  }
}
