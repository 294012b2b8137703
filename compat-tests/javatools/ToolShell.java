import java.io.BufferedReader;
import java.io.ByteArrayInputStream;
import java.io.ByteArrayOutputStream;
import java.io.InputStreamReader;
import java.io.OutputStream;
import java.io.PrintStream;
import java.lang.reflect.InvocationTargetException;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Base64;
import java.util.List;
import org.apache.kafka.common.utils.internals.Exit;

/**
 * Runs Kafka's command-line tools one after the other in this process, which spares each of
 * them the start of a JVM. A line asks for one: the main class, its standard input in
 * base64, and the arguments, with tabs between them. The answer is the line
 * "EXITCODE LENGTH" and as many bytes of what the tool has printed.
 */
public final class ToolShell {

    /** Unwinds a tool that wants to end the process. Some catch it, and end once more. */
    private static final class Ended extends Error {
        Ended() {
            super(null, null, false, false);
        }
    }

    /** The code with which the running tool has ended first, or null. */
    private static Integer ended;

    /** What the running tool wants to do when its process ends. */
    private static final List<Runnable> HOOKS = new ArrayList<>();

    public static void main(String[] args) throws Exception {
        PrintStream answers = System.out;
        BufferedReader lines = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        Exit.setExitProcedure((code, message) -> end(code));
        Exit.setHaltProcedure((code, message) -> end(code));
        Exit.setShutdownHookAdder((name, hook) -> HOOKS.add(hook));
        for (String line = lines.readLine(); line != null; line = lines.readLine()) {
            String[] words = line.split("\t", -1);
            ByteArrayOutputStream printed = new ByteArrayOutputStream();
            System.setIn(new ByteArrayInputStream(Base64.getDecoder().decode(words[1])));
            int code = run(words[0], Arrays.copyOfRange(words, 2, words.length), new PrintStream(printed, true, StandardCharsets.UTF_8));
            answers.println(code + " " + printed.size());
            printed.writeTo(answers);
            answers.flush();
        }
    }

    private static int run(String tool, String[] args, PrintStream out) throws Exception {
        ended = null;
        print(out);
        try {
            Class.forName(tool).getMethod("main", String[].class).invoke(null, (Object) args);
        } catch (InvocationTargetException e) {
            if (ended == null) {
                e.getCause().printStackTrace(out);
                ended = 1;
            }
        }
        print(out);
        HOOKS.forEach(Runnable::run);
        HOOKS.clear();
        return ended == null ? 0 : ended;
    }

    /** Where a process would be gone, nothing more is printed until its hooks run. */
    private static void end(int code) {
        if (ended == null) {
            ended = code;
            print(new PrintStream(OutputStream.nullOutputStream()));
        }
        throw new Ended();
    }

    private static void print(PrintStream out) {
        System.setOut(out);
        System.setErr(out);
    }
}
