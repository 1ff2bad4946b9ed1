"""``logs report``: what log directories tell of transactions, as one HTML file."""
