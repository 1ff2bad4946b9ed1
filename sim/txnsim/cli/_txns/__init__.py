"""``txnsim txns``: its commands, the words of the KIPs, the rights that they need."""
