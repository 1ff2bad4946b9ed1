"""The transaction coordinator of one broker, around the decisions of ``txnsim.txn``."""
