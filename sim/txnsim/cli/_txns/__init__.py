"""``txnsim txns``: its commands, the KIPs' forms of them, and the rights that they need."""
