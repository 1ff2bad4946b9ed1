package txnsim.junit;

/** A refusal, or a simulator that did not start or end; the message says what to do. */
public final class TxnsimException extends RuntimeException {
    private static final long serialVersionUID = 1L;
    private final int status;

    TxnsimException(int status, String message) {
        super(message);
        this.status = status;
    }

    /** The HTTP status, 0 where nothing was answered. */
    public int status() {
        return status;
    }
}
